"""Structure above the sentence: labels to indices, documents from empty lines."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.core.corpus import Structure, StructureBuilder, renumber, unit_numbers
from docnmt.core.read_corpus import Facts, TextLines, read_text


def test_a_unit_begins_where_its_own_or_an_outer_label_changes() -> None:
    labels = [(str(section), str(paragraph)) for section, paragraph in [(7, 3), (7, 3), (7, 9), (8, 9), (8, 1), (7, 1)]]
    assert unit_numbers(labels).tolist() == [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [2, 0]]


def test_structure_of_documents() -> None:
    builder = StructureBuilder()
    assert builder.build().levels.shape == (0, 0)
    for before, labels in ((1, [("7",), ("8",)]), (3, [("7",)])):
        builder.before += before
        builder.add(unit_numbers(labels))
    builder.forget_levels(2)
    builder.before += 2
    structure = builder.build()
    assert structure.document_offsets.tolist() == [0, 2, 3]
    assert structure.blank_lines.tolist() == [1, 3, 2]
    assert structure.levels.tolist() == [[0], [1], [-1]]
    assert builder.build(known=False).levels.shape == (3, 0)


def read(text: str) -> list[tuple[int, int]]:
    """Empty lines before each document, and its sentences."""
    documents = read_text([TextLines(io.BytesIO(text.encode()), name="a")], Facts())
    return [(document.blank, len(document.rows)) for document in documents]


def test_several_empty_lines_are_one_break_and_all_are_kept() -> None:
    assert read("\na\nb\n\n\n\nc\n\n") == [(1, 2), (3, 1), (1, 0)]


def test_marks_become_one_empty_line_between_documents() -> None:
    assert read("<d>\n<d>\na\n<d>\n<d>\nb\n") == [(0, 1), (1, 1)]


def build(documents: list[list[tuple[int, int]]]) -> Structure:
    builder = StructureBuilder()
    for document in documents:
        builder.add(unit_numbers([tuple(map(str, labels)) for labels in document]))
    return builder.build()


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8), min_size=1))
def test_renumbering_is_the_builder_over_again(documents: list[list[tuple[int, int]]]) -> None:
    structure = build(documents)
    assert renumber(structure.levels, structure.document_offsets).tolist() == structure.levels.tolist()


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=8), min_size=1), st.data()
)
def test_renumbering_a_selection_is_reading_the_selection(
    documents: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    structure = build(documents)
    indices = structure.levels.tolist()
    kept = [sorted(data.draw(st.sets(st.integers(0, len(d) - 1), min_size=1))) for d in documents]
    begins = structure.document_offsets[:-1]
    rows = [begin + i for begin, chosen in zip(begins, kept, strict=True) for i in chosen]
    offsets = np.concatenate([[0], np.cumsum([len(chosen) for chosen in kept])])
    expected = build([[tuple(indices[b + i]) for i in chosen] for b, chosen in zip(begins, kept, strict=True)])
    assert renumber(structure.levels[rows], offsets).tolist() == expected.levels.tolist()
