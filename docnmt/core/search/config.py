"""The options of generation, with fairseq's names. This file imports no torch: the command line reads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docnmt.options import Open, option
from docnmt.registry import GENERATORS

#: Upper bound of hypotheses per sentence and of tokens per sentence; more can only be a typing error.
_MOST_ROWS, _MOST_TOKENS = 10_000, 1 << 20


@dataclass(frozen=True)
class SearchConfig:
    """Options that every generator has."""

    lenpen: float = option(
        1.0, "length penalty: a score is the sum of log-probabilities / length ** lenpen", between=(0, 10)
    )
    unkpen: float = option(0.0, "subtracted from the log-probability of <unk>")
    max_len_a: float = option(
        1.5, "a sentence has at most a * (source tokens) + b tokens: a", between=(0, _MOST_TOKENS)
    )
    max_len_b: int = option(10, "b of the same", between=(0, _MOST_TOKENS))
    min_len: int = option(1, "a sentence has at least this many tokens, </s> not counted", between=(0, _MOST_TOKENS))
    no_repeat_ngram_size: int = option(
        0,
        "no sequence of N tokens occurs twice in the translation of a sentence, given words and glossary terms aside; "
        "0: any may",
        metavar="N",
        between=(0, _MOST_TOKENS),
    )
    repetition_penalty: float = option(
        1.0,
        "the log-probability of a token that the translation of a sentence has already is multiplied by this; "
        "1: no penalty",
        between=(1, 100),
    )

    def problems(self) -> list[str]:
        if self.max_len_a or self.max_len_b >= max(self.min_len, 1):
            return []
        return [f"--max-len-b {self.max_len_b} leaves no room for a sentence of --min-len {self.min_len}; raise it"]

    def limit(self, source_length: int) -> int:
        """Return the most tokens of a translation for a source of `source_length` tokens, both counted with their ends.

        A source without a subword, such as a zero-width space alone, gets an empty translation, whatever `min_len`
        says.
        """
        if source_length == 1:
            return 1
        return max(int(self.max_len_a * source_length + self.max_len_b), self.min_len, 1) + 1


@dataclass(frozen=True)
class BeamSearchConfig(SearchConfig):
    """Options of beam search."""

    beam: int = option(5, "hypotheses that live at every step", basic=True, between=(1, _MOST_ROWS))
    nbest: int = option(1, "hypotheses that docnmt-generate gives for a sentence, at most --beam", between=(1, None))

    def problems(self) -> list[str]:
        most = f"--nbest: must be at most --beam ({self.beam}), got {self.nbest}"
        return super().problems() + [most] * (self.nbest > self.beam)


@dataclass(frozen=True)
class GreedyConfig(SearchConfig):
    """Options of greedy search, which takes the most probable token at every step."""


@dataclass(frozen=True)
class SamplingConfig(SearchConfig):
    """Options of sampling. A sentence's draws depend on the seed and its number, never on its neighbours."""

    nbest: int = option(
        1,
        "independent samples that docnmt-generate draws for a sentence; with --mbr, how many of them it gives",
        between=(1, _MOST_ROWS),
    )
    mbr: Literal["chrf"] | None = option(
        None,
        "draw --mbr-samples and give the one that is most like the others, by sentence chrF (minimum Bayes risk)",
        basic=True,
    )
    mbr_samples: int = option(
        50,
        "samples of a sentence that --mbr compares, each with all others",
        metavar="N",
        between=(2, 500),
        needs="mbr",
    )
    temperature: float = option(
        1.0, "above 1 flattens the distribution, below 1 sharpens it", basic=True, between=(1e-6, 1e6)
    )
    top_k: int = option(
        0, "draw from the k most probable tokens; 0: from all", aliases=("--sampling-topk",), between=(0, None)
    )
    top_p: float = option(
        1.0,
        "draw from the fewest most probable tokens that hold this much probability",
        aliases=("--sampling-topp",),
        between=(Open(0), 1),
    )
    seed: int = option(1, "of the random streams", between=(0, None))

    def problems(self) -> list[str]:
        most = f"--nbest: must be at most --mbr-samples ({self.mbr_samples}), got {self.nbest}"
        return super().problems() + [most] * (self.nbest > self.samples)

    @property
    def samples(self) -> int:
        """The number of samples drawn for a sentence."""
        return self.nbest if self.mbr is None else self.mbr_samples


@dataclass(frozen=True)
class GenerationConfig:
    """The generator's name, and options that limit how much is decoded at once, which changes no result."""

    generator: str = option("beam_search", "how target text is searched", choices=GENERATORS.names, basic=True)
    max_tokens: int = option(
        8000, "source subwords encoded at once; a larger document is encoded by itself", between=(1, None)
    )
    glossary: str | None = option(
        None,
        "terms that translations keep to: lines SOURCE tab TARGET; where a sentence has the source term, its "
        "translation has the target term",
        metavar="TERMS.tsv",
        basic=True,
    )
    formality: Literal["formal", "informal", "given"] | None = option(
        None,
        "write every sentence in this form of address (vous or tu, Sie or du), or in that of the last translation "
        "before it that is given; for models trained with docnmt-train --formality-share [as the model chooses]",
        basic=True,
    )
    batch_size: int = option(64, "sentences decoded at once", aliases=("--max-sentences",), between=(1, None))
