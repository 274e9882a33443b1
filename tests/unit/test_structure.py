"""Structure above the sentence: labels to indices, documents from empty lines."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.core.corpus import Structure, StructureBuilder, renumber


def test_a_unit_begins_where_its_own_or_an_outer_label_changes() -> None:
    builder = StructureBuilder()
    for section, paragraph in [(7, 3), (7, 3), (7, 9), (8, 9), (8, 1), (7, 1)]:
        builder.sentence((str(section), str(paragraph)))
    builder.blank()
    builder.sentence(("7", "1"))
    structure = builder.build()
    assert structure.levels.tolist() == [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [0, 0]]
    assert structure.document_offsets.tolist() == [0, 6, 7]


def test_several_empty_lines_are_one_break_and_all_are_kept() -> None:
    builder = StructureBuilder()
    builder.blank()
    for _ in range(2):
        builder.sentence()
    for _ in range(3):
        builder.blank()
    builder.sentence()
    builder.blank()
    structure = builder.build()
    assert structure.document_offsets.tolist() == [0, 2, 3]
    assert structure.blank_lines.tolist() == [1, 3, 1]
    assert structure.levels.shape == (3, 0)


def test_marks_become_one_empty_line_between_documents() -> None:
    builder = StructureBuilder()
    for _ in range(2):
        builder.mark()
        builder.mark()
        builder.sentence()
    structure = builder.build()
    assert structure.document_offsets.tolist() == [0, 1, 2]
    assert structure.blank_lines.tolist() == [0, 1, 0]


def test_a_structure_without_sentences() -> None:
    structure = StructureBuilder().build()
    assert (structure.num_documents, structure.num_sentences) == (0, 0)
    assert structure.levels.shape == (0, 0)


def build(documents: list[list[tuple[int, int]]]) -> Structure:
    builder = StructureBuilder()
    for document in documents:
        for labels in document:
            builder.sentence(tuple(map(str, labels)))
        builder.blank()
    return builder.build()


@settings(deadline=None, max_examples=50)  # a busy machine is no fault
@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8), min_size=1))
def test_renumbering_is_the_builder_over_again(documents: list[list[tuple[int, int]]]) -> None:
    structure = build(documents)
    assert renumber(structure.levels, structure.document_offsets).tolist() == structure.levels.tolist()


@settings(deadline=None, max_examples=50)  # a busy machine is no fault
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
