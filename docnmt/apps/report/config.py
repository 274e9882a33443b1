"""The options of `docnmt-report`. No NumPy and no sacreBLEU here: the command line reads this file, too."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from docnmt.core.formats.columns import parse_columns
from docnmt.core.scoring.config import COLUMNS_HELP, SAMPLES, SEED
from docnmt.registry.options import option


@dataclass(frozen=True)
class PageConfig:
    """Options for the systems, the references and the page."""

    ref: tuple[str, ...] = option(
        dataclasses.MISSING,
        "reference, a sentence a line, empty lines between documents; or several; like --sys and "
        "--src also a table (.tsv, .jsonl or .parquet)",
        metavar="FILE",
    )
    sys: tuple[str, ...] = option(
        dataclasses.MISSING, "translations, a file a system: the reference's lines, line by line", metavar="FILE"
    )
    out: str = option(
        dataclasses.MISSING, "the page; an earlier report is replaced, no other file", metavar="PAGE.html"
    )
    src: str | None = option(None, "the source; adds lexical consistency", metavar="FILE", basic=True)
    names: tuple[str, ...] = option(
        (), "names of the systems, in the order of --sys [what differs in their paths]", metavar="NAME", basic=True
    )
    discourse: tuple[str, ...] = option(
        (),
        "what docnmt-score --contrastive (or --generative) … --json printed, a file a system and test",
        metavar="FILE",
        basic=True,
    )
    title: str = option("Translation report", "heading of the page", basic=True)
    ter: bool = option(False, "also TER", basic=True)
    source_lang: str | None = option(
        None, "code of the source's language, for fonts and screen readers", metavar="CODE", needs="src"
    )
    target_lang: str | None = option(None, "code of the target's language", metavar="CODE")
    columns: tuple[str, ...] = option((), COLUMNS_HELP, metavar="ROLE=NAME")
    sacrebleu_tokenize: str = option("13a", "sacreBLEU's tokenizer for BLEU: 13a, intl, zh, char …", metavar="NAME")
    samples: int = option(SAMPLES, "bootstrap samples", between=(1, None))
    seed: int = option(SEED, "of the bootstrap", between=(0, None))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = parse_columns(self.columns)[1]
        if self.names and len(self.names) != len(self.sys):
            found.append(f"--names: expected {len(self.sys)}, one for each file of --sys, got {len(self.names)}")
        return found
