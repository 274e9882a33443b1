"""The options of docnmt-align. This file imports no torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.registry.options import option


@dataclass(frozen=True)
class AlignConfig:
    """Options for the files to align and the output."""

    source: str = option(
        dataclasses.MISSING,
        "a document, by its ending .txt .md .html .docx …; with any other ending a corpus: a "
        "sentence a line, an empty line between documents",
        positional=True,
        metavar="SOURCE",
    )
    target: str = option(dataclasses.MISSING, "its translation", positional=True, metavar="TARGET")
    output: str = option(
        dataclasses.MISSING,
        "OUT.tmx, a translation memory; any other name: a corpus, OUT.SRC and OUT.TGT",
        metavar="OUT",
        aliases=("-o",),
    )
    source_lang: str | None = option(
        None,
        "language of SOURCE [as its name says, in letter.en.docx or corpus.en; else that of the model, or what "
        "py3langid finds]",
        metavar="SRC",
        aliases=("-s",),
        basic=True,
    )
    target_lang: str | None = option(None, "language of TARGET likewise", metavar="TGT", aliases=("-t",), basic=True)
    path: str | None = option(
        None,
        "a translation model from SRC to TGT (checkpoint or --save-dir) that also judges which sentences belong "
        "together",
        metavar="CKPT",
        basic=True,
    )
    device: str = option(
        "auto", "cpu, cuda, cuda:1 …; auto takes cuda where there is one", metavar="NAME", needs="path"
    )
    splitter: Literal["auto", "rules", "sentencex"] = option(
        "auto", "what splits paragraphs of documents into sentences, as in docnmt-translate"
    )
    overwrite: bool = option(False, "replace what stands at --output", basic=True)

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        return [f"SOURCE and TARGET are both {self.source}"] if self.source == self.target else []
