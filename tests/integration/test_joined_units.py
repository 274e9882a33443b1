"""Architectures that write several sentences as one sequence: what they read, and as many sentences out as in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
from small_models import DOCUMENTS, batch, build, collated, corpus, translate

from docnmt.core.batch import planned_units, structure_positions
from docnmt.core.tokenizer import BOS, BRK, EOS
from docnmt.core.units import window_units
from docnmt.options import from_dict
from docnmt.registry import MODELS
from docnmt.runtime.system import UsageError, UserError


def test_what_a_joined_document_looks_like() -> None:
    model, data = build("doc_transformer"), corpus()
    units = planned_units(model.reading, data)
    number = next(n for n in range(len(units)) if units.last[n] - units.first[n] > 1)
    one = collated(model, data, units, np.array([number]))
    assert data.target is not None
    sides = [
        [side[s].tolist() for s in range(units.first[number], units.last[number])]
        for side in (data.source, data.target)
    ]
    source, target = ([token for sentence in side for token in [BRK, *sentence]][1:] for side in sides)
    assert one.source.tokens.tolist() == [*source, EOS]
    assert one.target.tokens.tolist() == [BOS, *target]
    assert one.labels.tolist() == [*target, EOS]
    for text, side in ((one.source, sides[0]), (one.target, sides[1])):
        assert text.layout.sentences.lengths.tolist() == [sum(map(len, side)) + len(side)]
        assert text.positions[:, 0].tolist() == [word for sentence in side for word in range(len(sentence) + 1)]
        assert text.positions[:, 1].tolist() == [n for n, sentence in enumerate(side) for _ in range(len(sentence) + 1)]


@pytest.mark.parametrize("position", ["multi_level", "sinusoidal"])
def test_without_breaks_the_source_lacks_them_and_nothing_else(position: str) -> None:
    with_breaks = batch(build("doc_transformer", position=position))
    without = batch(build("doc_transformer", position=position, source_breaks=False))
    kept = with_breaks.source.tokens != BRK
    assert without.source.tokens.equal(with_breaks.source.tokens[kept])
    assert without.target.tokens.equal(with_breaks.target.tokens)
    lengths = without.source.layout.sentences.lengths.tolist()
    assert lengths == [int(part.sum()) for part in kept.split(with_breaks.source.layout.sentences.lengths.tolist())]
    if position == "multi_level":
        assert without.source.positions.equal(with_breaks.source.positions[kept])
    else:
        assert without.source.positions[:, 0].tolist() == [word for n in lengths for word in range(n)]


def test_positions_count_inside_units_from_the_start_or_words_from_there_and_units_inside() -> None:
    """One document, two sections: a paragraph of two sentences; two paragraphs of one and two sentences."""
    one = [["the dog sleeps."] * 5]
    levels = np.array([[0, 0], [0, 0], [1, 0], [1, 1], [1, 1]])
    data = replace(small_system.corpus(one), levels=levels)
    length = int(data.source.offsets[1]) + 1
    for count, words, sentences, paragraphs, sections in (
        ("unit", [0] * 5, [0, 1, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]),
        ("document", [n * length for n in range(5)], [0, 1, 2, 3, 4], [0, 0, 1, 2, 2], [0, 0, 1, 1, 1]),
        ("mixed", [n * length for n in range(5)], [0, 1, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]),
    ):
        positions = structure_positions(data, np.arange(5), count=count)
        assert positions.T.tolist() == [words, sentences, paragraphs, sections]


def test_windows_tile_documents_and_read_what_stands_before() -> None:
    units = window_units(np.array([0, 5, 5, 6, 8]), 2, 1)
    rows = np.stack([units.source_first, units.first, units.last, units.document], axis=1).tolist()
    assert rows == [[0, 0, 2, 0], [1, 2, 4, 0], [3, 4, 5, 0], [5, 5, 6, 2], [6, 6, 8, 3]]


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (3, 1), (3, 2), (5, 3), (4, 4)])
def test_sliding_windows_keep_every_sentence_once(size: int, stride: int) -> None:
    lengths = [0, 1, 2, 3, 4, 5, 6, 7, 12]
    units = window_units(np.cumsum([0, *lengths]), size, 1, stride)
    kept = [n for a, b in zip(units.kept, units.last, strict=True) for n in range(a, b)]
    assert kept == list(range(sum(lengths)))
    for number, length in enumerate(lengths):
        begin, here = sum(lengths[:number]), units.document == number
        firsts = list(range(begin, begin + max(1, length - size + stride), stride)) if length else []
        assert units.first[here].tolist() == firsts
        assert units.last[here].tolist() == [min(first + size, begin + length) for first in firsts]
        assert units.source_first[here].tolist() == [max(first - 1, begin) for first in firsts]


@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_sliding_window_gives_its_last_sentence(batch_size: int) -> None:
    """2-to-2 by one: every sentence but the first as if the document were it and the one before it."""
    model = build("concat_transformer", target_window=2, window_stride=1)
    for document in DOCUMENTS:
        pairs = [document[max(0, n - 1) : n + 1] for n in range(len(document))]
        expected = [translate(model, [pair])[-1] for pair in pairs]
        if len(document) > 1:
            expected[0] = translate(model, [document[:2]])[0]
        found = translate(model, [document], batch_size=batch_size)
        assert [each.text for each in found] == [each.text for each in expected]
        scores = [each.nbest[0].score for each in expected]
        assert [each.nbest[0].score for each in found] == pytest.approx(scores, rel=1e-5, abs=1e-5)
    assert [r.number for r in translate(model, DOCUMENTS)] == list(range(sum(map(len, DOCUMENTS))))


def test_models_that_write_different_units_are_refused() -> None:
    with pytest.raises(UserError):
        translate([build("doc_transformer"), build("transformer")])


def test_a_scaleformer_has_linear_attention() -> None:
    with pytest.raises(UsageError, match="--attention"):
        from_dict(MODELS.config("scaleformer"), {"attention": "softmax"}, where="model")
