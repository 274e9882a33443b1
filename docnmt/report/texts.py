"""The files of a report, read and aligned: which sentence translates which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docnmt.report.config import PageConfig
from docnmt.report.names import names_of
from docnmt.scoring.aligned import read_layout


@dataclass(frozen=True)
class Texts:
    """S sentences of each; an empty sentence of a system is a translation that is missing.

    Attributes:
        document_offsets: (D+1) the sentence where each document begins, and S.
        source: None where it was not given. systems: by name, in the order of `--sys`.
    """

    document_offsets: Sequence[int]
    source: Sequence[str] | None
    references: Sequence[Sequence[str]]
    systems: Mapping[str, Sequence[str]]


def read_texts(config: PageConfig) -> Texts:
    """Read the files.

    Raises:
        UsageError: two systems have one name.
        UserError: a file cannot be read or is not a translation of the others, line by line.
    """
    names = names_of(config.sys, "--sys", config.names)
    layout = read_layout(Path(config.src or config.ref[0]))
    references = [layout.align(Path(path)) for path in config.ref]
    systems = {name: layout.align(Path(path)) for name, path in zip(names, config.sys, strict=True)}
    return Texts(layout.document_offsets, layout.sentences if config.src else None, references, systems)
