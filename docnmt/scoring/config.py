"""What `docnmt-score` can be told. No torch and no sacreBLEU here: these dataclasses are also the command line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.config import below, option
from docnmt.formats.columns import parse_columns

#: Of the bootstrap, where nobody says.
SAMPLES, SEED = 1000, 12345
#: Of contexts shuffled or foreign, where nobody says.
CONTEXT_SEED = 1


@dataclass(frozen=True)
class ReportConfig:
    """What is said of a translation besides its scores."""

    paired: str | None = option(
        None, "another system's translation to compare with, by document bootstrap", metavar="FILE", basic=True
    )
    per_document: bool = option(False, "also every document's own scores")
    comet: str | None = option(
        None, "also COMET by this model (Unbabel/wmt22-comet-da); needs the extra docnmt[comet]", metavar="MODEL"
    )


@dataclass(frozen=True)
class ScoreConfig:
    """A translation against references."""

    ref: tuple[str, ...] = option(
        dataclasses.MISSING, "reference, a sentence a line, empty lines between documents; or several; like --sys and "
        "--src also a table (.tsv, .jsonl or .parquet)", metavar="FILE",
    )  # fmt: skip
    sys: str = option(dataclasses.MISSING, "the translation: the reference's lines, line by line", metavar="FILE")
    src: str | None = option(None, "the source, for lexical consistency and COMET", metavar="FILE", basic=True)
    columns: tuple[str, ...] = option(
        (), "what the columns of tables are called: document=NAME source=NAME (--src) target=NAME (--ref) "
        "hypothesis=NAME (--sys) [the names that known tables have]", metavar="ROLE=NAME",
    )  # fmt: skip
    samples: int | None = option(None, f"bootstrap samples [{SAMPLES}]")
    seed: int | None = option(None, f"of the bootstrap [{SEED}]")
    sacrebleu_tokenize: str = option("13a", "sacreBLEU's tokenizer for BLEU: 13a, intl, zh, char …", metavar="NAME")
    json: bool = option(False, "print JSON instead of text")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        return [*below(self, 1, "samples"), *parse_columns(self.columns)[1]]


@dataclass(frozen=True)
class ContrastiveConfig:
    """A model's choices among right and wrong translations."""

    contrastive: str = option(
        dataclasses.MISSING,
        "test set: TSV with the columns group, correct, src_context, src, tgt_context, tgt and any labels, or the JSON "
        "of ContraPro or DiscEvalMT",
        metavar="FILE",
    )
    context: Literal["true", "shuffled", "foreign", "none"] = option(
        "true", "give the model the true context, its sentences in another order, another group's, or none", basic=True
    )
    contrapro_documents: str | None = option(
        None, "folder of OpenSubtitles documents, the context for ContraPro's JSON", metavar="DIR"
    )
    context_seed: int | None = option(None, f"of the contexts shuffled or foreign [{CONTEXT_SEED}]")
    json: bool = option(False, "print JSON instead of text: also which groups were solved")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = []
        if self.contrapro_documents is not None and not self.contrastive.endswith(".json"):
            found.append(f"--contrapro-documents has no effect with {self.contrastive}; it belongs to ContraPro's JSON")
        if self.context_seed is not None and self.context not in ("shuffled", "foreign"):
            found.append(f"--context-seed has no effect with --context {self.context}; it belongs to shuffled, foreign")
        return found
