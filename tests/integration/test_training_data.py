"""What training makes of corpora: pieces of several sizes, and several corpora with weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import build

from docnmt.core.batch import planned_units
from docnmt.core.corpus import offsets_of
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.translate import token_log_probs
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.translation_task import DocumentTranslation, Mixture, TranslationDataset
from docnmt.core.units import cut_units, resolution_units


def rows(units: Any) -> list[tuple[int, ...]]:
    return list(
        zip(
            units.source_first.tolist(), units.first.tolist(), units.last.tolist(), units.document.tolist(), strict=True
        )
    )


@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True))
def test_every_resolution_tiles_every_document(lengths: list[int], resolutions: list[int]) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    expected = set()
    for size in resolutions:
        for document, (begin, length) in enumerate(zip(offsets.tolist(), lengths, strict=False)):
            for first in range(begin, begin + length, size or length or 1):
                last = begin + length if size == 0 else min(first + size, begin + length)
                expected.add((first, first, last, document))
    assert rows(resolution_units(offsets, resolutions)) == sorted(expected)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 25))
def test_cut_pieces_are_full_and_fit(costs: list[int], limit: int) -> None:
    offsets = np.array([0, len(costs) // 2, len(costs)])
    whole = resolution_units(offsets, [0, 3])
    found = rows(cut_units(whole, np.array(costs), limit))
    for _, first, last, _ in found:
        assert sum(costs[first:last]) <= limit or last == first + 1
    assert sum(last - first for _, first, last, _ in found) == sum(last - first for _, first, last, _ in rows(whole))


def dataset(model: Any, documents: list[list[str]], name: str) -> TranslationDataset:
    corpus = small_system.corpus(documents)
    corpus = replace(corpus, target=corpus.source)
    units = planned_units(model.reading, corpus)
    return TranslationDataset(corpus, units, model.reading, name)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("transformer", {}),
        ("hier_cond_transformer", {}),
        ("doc_transformer", {}),
        ("concat_transformer", {"target_window": 2}),
    ],
)
def test_a_batch_of_two_corpora_is_both_of_their_batches(name: str, settings: dict[str, Any]) -> None:
    """Loss, features and search's memory of a mixed batch are those of its parts."""
    model = build(name, **settings).double()
    parts = [dataset(model, small_system.text(3, 4, seed=seed), f"corpus {seed}") for seed in (1, 2)]
    mixture = Mixture.draw(parts, [1.0, 2.0], seed=1, epoch=1)
    counts = [len(part.sizes) for part in parts]
    assert mixture.sizes.tolist() == [*parts[0].sizes, *parts[1].sizes, *parts[1].sizes]
    chosen = np.array([counts[0] + 1, 0, counts[0]])  # of the second, of the first, of the second
    mixed = mixture.batch(chosen)
    apart = [parts[0].batch(np.array([0])), parts[1].batch(np.array([1, 0]))]
    with torch.no_grad():
        assert torch.allclose(model(mixed), torch.cat([model(batch) for batch in apart]), atol=1e-12)
        begins = [model.encode(batch.source).begins for batch in (mixed, *apart)]
    last = torch.cat([each[:, -1:] for each in begins[1:]])
    assert torch.equal(begins[0][:, :1], torch.cat([each[:, :1] for each in begins[1:]]))
    assert torch.equal(begins[0][:, -1:], last)
    assert mixed.labels.tolist() == [token for batch in apart for token in batch.labels.tolist()]
    assert mixture.describe(chosen).startswith("corpus 1: sentences 1-")
    assert "; corpus 2: sentences" in mixture.describe(chosen)


def test_weights_say_how_often_a_unit_is_seen() -> None:
    model = small_system.model()
    parts = [dataset(model, small_system.text(20, 4, seed=seed), str(seed)) for seed in (1, 2, 3)]
    drawn = [Mixture.draw(parts, [1.0, 2.5, 0.25], seed=3, epoch=epoch) for epoch in (1, 1, 2)]
    for number, weight in enumerate([1.0, 2.5, 0.25]):
        count = len(parts[number].sizes)
        seen = [np.bincount(each.unit[each.part == number], minlength=count) for each in drawn]
        for one in seen:
            assert one.sum() == round(weight * count)
            assert one.min() == int(weight)
            assert one.max() <= int(np.ceil(weight))
        assert (seen[0] == seen[1]).all()
        assert (seen[0] == seen[2]).all() == (weight == 1.0)  # another epoch draws other units
    least = Mixture.draw(parts, [1.0, 1.0, 0.001], seed=3, epoch=1)
    assert (least.part == 2).sum() == 1


def test_pieces_that_become_equal_by_cutting_come_once() -> None:
    offsets, costs = np.array([0, 4, 5]), np.full(5, 10)
    pieces = resolution_units(offsets, [2, 0, 1], costs, 20)
    assert list(zip(pieces.first.tolist(), pieces.last.tolist(), strict=True)) == [
        (0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4), (4, 5),
    ]  # fmt: skip


def test_validation_sees_whole_documents_of_the_main_corpus(data: Path, other: Path) -> None:
    task = DocumentTranslation.load(DocumentTranslationConfig(resolutions=(1, 0), mix_data=(f"{other}=2",)), data)
    model = small_system.model("hier_transformer_tiny", of=task)
    assert len(task.dataset("valid", model).sizes) == 2
    assert len(task.dataset("train", model, seed=1, epoch=1, training=True).sizes) == 12 * 6 + 12 + 2 * 12


def test_overlapping_windows_count_a_sentence_once_but_in_training(data: Path) -> None:
    """Validation's loss by two routes: the batches', and the log-probabilities that search's windows give."""
    task = DocumentTranslation.load(DocumentTranslationConfig(), data)
    model = small_system.model("concat_transformer_tiny", of=task, source_context=3, target_window=3, window_stride=1)
    corpus = task.corpus("valid")
    parts, labels = task.dataset("valid", model), int(corpus.target.lengths().sum()) + corpus.num_sentences
    batch = parts.batch(np.arange(len(parts.sizes)))
    assert batch.num_tokens == labels
    with torch.no_grad():
        loss, _, _ = CrossEntropy(label_smoothing=0.0)(model, batch)
        forced = token_log_probs([model], task, corpus, max_tokens=200)
    assert float(loss) == pytest.approx(-sum(each.sum() for each in forced), rel=1e-5)
    learning = task.dataset("train", model, training=True)
    units = planned_units(model.reading, task.corpus("train"))
    seen = learning.batch(np.arange(len(learning.sizes))).labels
    assert (units.kept > units.first).any()
    lengths = offsets_of(task.corpus("train").target.lengths() + 1)
    assert (seen >= 0).sum() == (lengths[units.last] - lengths[units.first]).sum()
