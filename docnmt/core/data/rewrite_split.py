"""Editing of a split that is already on disk: replace, cut or remove sentences on all sides alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from docnmt.core.corpus import SplitFolder, Structure, renumber
from docnmt.core.units import cut_units, document_units
from docnmt.runtime.errors import UserError

#: A row that replaces a sentence, by the array's name (`en.tokens`, `en.text`); arrays that are not named keep
#: the sentence's values.
SplitArrays = dict[str, np.ndarray]


def rewrite(files: SplitFolder, edits: Mapping[int, Sequence[SplitArrays]], max_document_tokens: int | None) -> None:
    """Apply edits to the files of a split.

    Args:
        edits: the rows that replace each edited sentence: none (left out), one (cut off) or several (split).
        max_document_tokens: cut documents at sentence ends to this length.

    Raises:
        UserError: no sentence would be left.
    """
    structure = files.structure()
    copies = np.ones(structure.num_sentences, dtype=np.int64)
    for sentence, rows in edits.items():
        copies[sentence] = len(rows)
    if not copies.any():
        raise UserError(f"{files.split}: nothing is left when all that is too long is left out; raise the limits")
    names = files.sentence_rows()
    for name in names:
        _rewrite_rows(files, name, edits)
    offsets = np.concatenate([[0], np.cumsum(copies)])[structure.document_offsets]
    changed, documents = _divide(Structure(offsets, structure.blank_lines, structure.levels.repeat(copies, axis=0)))
    if max_document_tokens is not None:
        costs = np.maximum.reduce([np.diff(files.rows(name)[1]) for name in names if name.endswith(".tokens")])
        changed, pieces = _cut(changed, costs, max_document_tokens)
        documents = documents[pieces]
    files.write_structure(changed)
    if (document_names := files.text_if_known("names")) is not None:
        files.write_lines("names", [document_names[int(document)] for document in documents])


def _divide(structure: Structure) -> tuple[Structure, np.ndarray]:
    """Remove documents that lost all sentences; return also the numbers of those left."""
    left = np.flatnonzero(np.diff(structure.document_offsets) > 0)
    offsets = structure.document_offsets[np.concatenate([left, [structure.num_documents]])]
    blank = np.add.reduceat(structure.blank_lines, np.concatenate([[0], left + 1]))
    return Structure(offsets, blank, renumber(structure.levels, offsets)), left


def _cut(structure: Structure, costs: np.ndarray, limit: int) -> tuple[Structure, np.ndarray]:
    """Cut long documents at sentence ends; return also the document that each piece belongs to."""
    pieces = cut_units(document_units(structure.document_offsets), costs, limit)
    offsets = np.append(pieces.first, structure.num_sentences)
    begins = np.isin(pieces.first, structure.document_offsets)
    blank = np.append(np.where(begins, structure.blank_lines[pieces.document], 0), structure.blank_lines[-1])
    return Structure(offsets, blank, renumber(structure.levels, offsets)), pieces.document


def _rewrite_rows(files: SplitFolder, name: str, edits: Mapping[int, Sequence[SplitArrays]]) -> None:
    """Write the array `name` with new rows in place of some; runs of unchanged rows are copied whole."""
    values, offsets = files.rows(name)
    with files.writer(name, values.dtype) as writer:
        begin = 0
        for sentence in [*sorted(edits), len(offsets) - 1]:
            writer.append_rows(values, offsets[begin : sentence + 1])
            for row in edits.get(sentence, ()):
                new = row.get(name, values[offsets[sentence] : offsets[sentence + 1]])
                writer.append(new, np.array([len(new)]))
            begin = sentence + 1
