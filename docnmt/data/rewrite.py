"""Changing some sentences of a split that is already on disk, on all sides alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from docnmt.data.split_folder import SplitFolder
from docnmt.errors import UserError
from docnmt.formats.structure import Structure, renumber
from docnmt.units import document_units


@dataclass
class Edits:
    """What becomes of some sentences: no row (left out), one (cut off) or several (split).

    Attributes:
        tokens: for each side that is cut into subwords, the new rows of the sentences that change; every side has the
            same sentences, with equally many rows.
        texts: the raw text of these rows for each side. A side without an entry keeps what it has.
        max_document_tokens: cut documents at sentence ends to this length.
    """

    tokens: dict[str, dict[int, list[list[int]]]]
    texts: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    max_document_tokens: int | None = None

    def leave_out(self, sentence: int) -> None:
        """The sentence is in no array any more."""
        for rows in self.tokens.values():
            rows[sentence] = []
        for lines in self.texts.values():
            lines[sentence] = []

    @property
    def counts(self) -> dict[int, int]:
        """How many rows each sentence that changes becomes."""
        return {sentence: len(rows) for sentence, rows in next(iter(self.tokens.values())).items()}


def rewrite(files: SplitFolder, references: Sequence[str], edits: Edits) -> None:
    """Carry out the edits in the files of a split.

    Raises:
        UserError: no sentence would be left.
    """
    structure = files.structure()
    copies = np.ones(structure.num_sentences, dtype=np.int64)
    for sentence, count in edits.counts.items():
        copies[sentence] = count
    if not copies.any():
        raise UserError(f"{files.split}: nothing is left when all that is too long is left out; raise the limits")
    for side, rows in edits.tokens.items():
        arrays = {i: [np.array(row, dtype=np.int64) for row in new] for i, new in rows.items()}
        _rewrite_rows(files, f"{side}.tokens", arrays)
    source = next(iter(edits.tokens))
    for side in (source, *references, *(["labels"] if files.has_text("labels") else [])):
        text = files.text(side)
        lines = edits.texts.get(side) or {i: [text[i]] * count for i, count in edits.counts.items()}
        encoded = {i: [np.frombuffer(line.encode(), dtype=np.uint8) for line in new] for i, new in lines.items()}
        _rewrite_rows(files, f"{side}.text", encoded)
    offsets = np.concatenate([[0], np.cumsum(copies)])[structure.document_offsets]
    changed, documents = _divide(Structure(offsets, structure.blank_lines, structure.levels.repeat(copies, axis=0)))
    if edits.max_document_tokens is not None:
        costs = np.maximum.reduce([files.tokens(side).lengths() for side in edits.tokens])
        changed, pieces = _cut(changed, costs, edits.max_document_tokens)
        documents = documents[pieces]
    files.write_structure(changed)
    if files.has_text("names"):
        names = files.text("names")
        writer = files.writer("names.text", "u1", replace=True)
        writer.append_lines([names[int(document)] for document in documents])
        files.close(writer)


def _divide(structure: Structure) -> tuple[Structure, np.ndarray]:
    """Without documents that lost all sentences; also which documents are left."""
    left = np.flatnonzero(np.diff(structure.document_offsets) > 0)
    offsets = structure.document_offsets[np.concatenate([left, [structure.num_documents]])]
    blank = np.add.reduceat(structure.blank_lines, np.concatenate([[0], left + 1]))
    return Structure(offsets, blank, renumber(structure.levels, offsets)), left


def _cut(structure: Structure, costs: np.ndarray, limit: int) -> tuple[Structure, np.ndarray]:
    """With long documents cut at sentence ends; also of which document each is a piece."""
    pieces = document_units(structure.document_offsets, costs, limit)
    offsets = np.concatenate([pieces.first, [structure.num_sentences]])
    begins = np.isin(pieces.first, structure.document_offsets)
    blank = np.where(begins, structure.blank_lines[pieces.document], 0)
    blank = np.concatenate([blank, structure.blank_lines[-1:]])
    return Structure(offsets, blank, renumber(structure.levels, offsets)), pieces.document


def _rewrite_rows(files: SplitFolder, name: str, edits: Mapping[int, Sequence[np.ndarray]]) -> None:
    """The array `name` with new rows in place of some; the runs of rows between them are copied whole."""
    values, offsets = files.rows(name)
    writer = files.writer(name, values.dtype, replace=True)
    begin = 0
    for sentence in [*sorted(edits), len(offsets) - 1]:
        writer.append(values[offsets[begin] : offsets[sentence]], np.diff(offsets[begin : sentence + 1]))
        for row in edits.get(sentence, ()):
            writer.append(row, np.array([len(row)]))
        begin = sentence + 1
    files.close(writer)
