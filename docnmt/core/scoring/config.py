"""The options of `docnmt-score`. This file imports neither torch nor sacreBLEU: the command line reads it, too."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.core.data_options import parse_columns
from docnmt.options import Needs, option
from docnmt.registry import METRICS
from docnmt.runtime.system import UserError

#: The bootstrap's default number of samples and seed.
SAMPLES, SEED = 1000, 12345
#: The default seed of shuffled or foreign contexts.
CONTEXT_SEED = 1
#: The metrics that are always printed; others if they are asked for.
DEFAULT = ("s-BLEU", "d-BLEU", "chrF")
#: COMET's model, if COMET is asked for without one.
COMET = "Unbabel/wmt22-comet-da"
REF_HELP = (
    "reference, a sentence a line, empty lines between documents; or several; like --sys and --src also a table (.tsv, "
    ".jsonl or .parquet)"
)
COLUMNS_HELP = (
    "what the columns of tables are called: document=NAME source=NAME (--src) target=NAME (--ref) "
    "hypothesis=NAME (--sys) [the names that known tables have]"
)


@dataclass(frozen=True)
class ReportConfig:
    """Options for what is reported on a translation besides its scores."""

    paired: tuple[str, ...] = option(
        (),
        "another system's translation to compare with, by document bootstrap; several: of its seeds",
        metavar="FILE",
        basic=True,
    )
    foreign: tuple[str, ...] = option(
        (),
        "the same system's translation with another document's context: also how much is lost by it (true - foreign)",
        metavar="FILE",
    )
    metrics: tuple[str, ...] = option(
        (),
        f"also these metrics, besides {', '.join(DEFAULT)}; COMET is that of --comet [{COMET}]",
        choices=lambda: [*METRICS.names(), "COMET"],
    )
    by: Literal["position", "document-length", "sentence-length"] | None = option(
        None,
        "also scores of parts of the text: by the sentence's position in its document, by the document's length in "
        "sentences, by the sentence's length in tokens",
    )
    plot: str | None = option(None, "draw what --by says into this picture", metavar="FILE.png", needs="by")
    per_document: bool = option(False, "also every document's own scores")
    per_sentence: bool = option(False, "also every sentence's own scores, but for BLEU")
    address: str | None = option(
        None,
        "also the forms of address (tu or vous, du or Sie): whether they are the reference's, and whether documents "
        "keep to one; of a translation from English into this language, or as de-fr",
        metavar="LANG",
    )
    comet: str | None = option(
        None, f"also COMET by this model, such as {COMET}; needs the extra docnmt[comet]", metavar="MODEL"
    )
    comet_window: int | None = option(
        None, "COMET reads N sentences of a document at once [1]", metavar="N", between=(1, None), needs="comet"
    )
    comet_stride: int | None = option(
        None, "sentences from one such window to the next, at most N [1]", metavar="N", between=(1, None), needs="comet"
    )
    comet_qe: bool = option(
        False, "COMET gets no reference: for models such as Unbabel/wmt22-cometkiwi-da", needs="comet"
    )

    @property
    def asked_metrics(self) -> list[str]:
        """The names of the registered metrics to compute, each once."""
        return [name for name in dict.fromkeys((*DEFAULT, *self.metrics)) if name != "COMET"]

    @property
    def comet_model(self) -> str | None:
        """COMET's model; None if COMET is not asked for."""
        return self.comet or (COMET if "COMET" in self.metrics else None)

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        problems = []
        if self.address is not None:
            from docnmt.core.formality import language_pair  # not at the top: --help needs no NumPy

            try:
                language_pair(self.address)
            except UserError as error:
                problems.append(f"--address: {error}")
        if (self.comet_stride or 1) > (self.comet_window or 1):
            problems.append(
                f"--comet-stride {self.comet_stride} leaves out sentences between windows; give --comet-window"
            )
        return problems


@dataclass(frozen=True)
class ScoreConfig:
    """Options for scoring a translation against references."""

    ref: tuple[str, ...] = option(dataclasses.MISSING, REF_HELP, metavar="FILE")
    sys: tuple[str, ...] = option(
        dataclasses.MISSING,
        "the translation: the reference's lines, line by line; several: of a system's seeds, of which mean, least and "
        "most are given",
        metavar="FILE",
    )
    src: str | None = option(
        None, "the source, for lexical consistency, --address and --comet", metavar="FILE", basic=True
    )
    resegment: bool = option(
        False,
        "--sys (and --paired, --foreign) has each document in as many or few lines as it likes, an empty line between "
        "documents unless each is one line: find the reference's sentences in it; needs the extra docnmt[evaluation]",
        basic=True,
    )
    resegmented: str | None = option(
        None,
        "with --resegment: also write --sys with the reference's lines into this file",
        metavar="FILE",
        needs="resegment",
    )
    overwrite: bool = option(False, "replace what stands at --resegmented and --plot")
    columns: tuple[str, ...] = option((), COLUMNS_HELP, metavar="ROLE=NAME")
    samples: int | None = option(None, f"bootstrap samples [{SAMPLES}]", between=(1, 100_000))
    seed: int | None = option(None, f"of the bootstrap [{SEED}]", between=(0, None))
    sacrebleu_tokenize: str = option("13a", "sacreBLEU's tokenizer for BLEU: 13a, intl, zh, char …", metavar="NAME")
    json: bool = option(False, "print JSON instead of text")

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        several = len(self.sys) > 1 and self.resegmented is not None
        return parse_columns(self.columns)[1] + ["--resegmented has no effect with several --sys"] * several


@dataclass(frozen=True)
class ContrastiveConfig:
    """Options for testing which of right and wrong translations a model prefers."""

    contrastive: str = option(
        dataclasses.MISSING,
        "test set: TSV with the columns group, correct, src_context, src, tgt_context, tgt and any labels, or the JSON "
        "of ContraPro or DiscEvalMT",
        metavar="FILE",
    )


@dataclass(frozen=True)
class GenerativeConfig:
    """Options for testing whether translations have word forms that depend on context."""

    generative: str = option(
        dataclasses.MISSING,
        "test set: TSV with the column expected (or pronoun), with --path also src_context and src, and any labels; a "
        "contrastive test set with the column pronoun; or the JSON of ctxpro or ContraPro",
        metavar="FILE",
    )


@dataclass(frozen=True)
class AnswersConfig:
    """Options for evaluating existing translations instead of a model."""

    sys: str = option(dataclasses.MISSING, "translations, a line for each question", metavar="FILE")
    last_sentence: str | None = option(
        None,
        "the lines have the context's translation first: search only their last sentences, by ctxpro's rules for this "
        "language; needs the extra docnmt[evaluation]",
        metavar="LANG",
        basic=True,
    )
    json: bool = option(False, "print JSON instead of text: also which questions were answered")


@dataclass(frozen=True)
class GivenContextConfig:
    """Options for a model that answers questions."""

    given_context: bool = option(
        False,
        "models that read translations read those of the context in the file (column tgt_context), where it has any, "
        "instead of their own",
    )


@dataclass(frozen=True)
class QuestionsConfig:
    """Options for the contexts of discourse test sets."""

    context: Literal["true", "shuffled", "foreign", "none"] = option(
        "true", "give the model the true context, its sentences in another order, another group's, or none", basic=True
    )
    contrapro_documents: str | None = option(
        None, "folder of OpenSubtitles documents, the context for ContraPro's JSON", metavar="DIR"
    )
    context_seed: int | None = option(
        None,
        f"of the contexts shuffled or foreign [{CONTEXT_SEED}]",
        between=(0, None),
        needs=Needs("context", ("shuffled", "foreign")),
    )
    json: bool = option(False, "print JSON instead of text: also which questions were solved")
