"""The texts of a report, read and aligned sentence by sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docnmt.apps.options import PageConfig
from docnmt.apps.report.system_names import names_of
from docnmt.core.formats.columns import parse_columns
from docnmt.core.scoring.align_lines import read_layout, with_partners


@dataclass(frozen=True)
class ReportTexts:
    """The S sentences of each text; an empty sentence of a system is a missing translation.

    Attributes:
        document_offsets: (D+1) the sentence where each document begins, and S.
        source: None if not given. systems: by name, in the order of `--sys`.
        unscored: number of sentences left out because the source or a reference lacks them.
    """

    document_offsets: Sequence[int]
    source: Sequence[str] | None
    references: Sequence[Sequence[str]]
    systems: Mapping[str, Sequence[str]]
    unscored: int


def read_texts(config: PageConfig) -> ReportTexts:
    """Read the files.

    Raises:
        UsageError: two systems have one name.
        UserError: a file cannot be read or is not a translation of the others, line by line.
    """
    names = names_of(config.sys, "--sys", config.names)
    columns, _ = parse_columns(config.columns)
    layout = read_layout(Path(config.src or config.ref[0]), columns, "source" if config.src else "target")
    kept, scored, references, systems = with_partners(
        layout,
        [layout.align(Path(path), columns, "target") for path in config.ref],
        [layout.align(Path(path), columns) for path in config.sys],
    )
    unscored = len(layout.sentences) - len(kept)
    source = scored.sentences if config.src else None
    return ReportTexts(scored.document_offsets, source, references, dict(zip(names, systems, strict=True)), unscored)
