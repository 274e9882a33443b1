"""`--unit-sentences`: a few sentences whose documents are read around them, and single ones in whole documents."""

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

from docnmt.core.batch import IGNORE, HiddenWords, plan_batches
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.tokenizer import MASK
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.translation_task import DocumentTranslation, TranslationDataset
from docnmt.core.units import Units, context_units, document_units

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("hier_transformer", {}),
    ("cond_transformer", {"top_t": 2, "always_own_sentence": True}),
    ("cond_transformer", {"target_context": "conditional", "attention": "linear"}),
    ("hier_cond_transformer", {"summary_input": "embeddings", "position": "relative"}),
    ("hier_transformer", {"target_context": "summaries", "context_sides": "encoder"}),
]


def corpus() -> ParallelCorpus:
    """Documents that are their own translations."""
    source = small_system.corpus(small_system.text(4, 7, seed=3))
    return replace(source, target=source.source)


def dataset(model: Any, size: int, window: int | None = None) -> TranslationDataset:
    of = corpus()
    return TranslationDataset(of, context_units(document_units(of.document_offsets), window, size), model.reading, "")


def gradient(model: Any, data: TranslationDataset, chosen: list[int]) -> tuple[float, torch.Tensor]:
    """The summed loss of some units, and its gradient in one vector."""
    model.zero_grad()
    loss, _, _ = CrossEntropy(label_smoothing=0.0)(model, data.batch(np.array(chosen)))
    loss.backward()
    return float(loss.detach()), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 5), st.none() | st.integers(0, 4))
def test_units_tile_documents_and_read_inside_them(lengths: list[int], size: int, window: int | None) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    expected = []
    for document, (begin, length) in enumerate(zip(offsets.tolist(), lengths, strict=False)):
        end = begin + length
        for first in range(begin, end, size or length or 1):
            last = end if size == 0 else min(first + size, end)
            before, after = (begin, end) if window is None else (max(begin, first - window), min(end, last + window))
            expected.append((before, first, last, after, document, first))
    units = context_units(document_units(offsets), window, size)
    names = ("source_first", "first", "last", "source_last", "document", "kept")
    assert list(zip(*(getattr(units, name).tolist() for name in names), strict=True)) == expected


@pytest.mark.parametrize(("name", "settings"), MODELS)
@pytest.mark.parametrize("size", [1, 3])
def test_units_read_in_their_documents_are_parts_of_the_whole(name: str, settings: dict[str, Any], size: int) -> None:
    """Loss and gradient of all units, in one batch and one by one, are those of one pass over the documents."""
    model = build(name, **settings).double()
    whole, units = dataset(model, 0), dataset(model, size)
    loss, slope = gradient(model, whole, list(range(len(whole.sizes))))
    assert len(units.sizes) > len(whole.sizes)
    together = gradient(model, units, list(range(len(units.sizes))))
    each = [gradient(model, units, [unit]) for unit in range(len(units.sizes))]
    for found, slopes in (together, (sum(one for one, _ in each), torch.stack([g for _, g in each]).sum(0))):
        assert found == pytest.approx(loss, rel=1e-12)
        assert torch.allclose(slopes, slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "settings"), MODELS)
def test_a_window_is_the_document_cut_out_by_hand(name: str, settings: dict[str, Any]) -> None:
    """What a unit with one sentence around it loses: a unit of all three, scored where the first one writes."""
    model = build(name, **{**settings, "position": "none"}).double()
    units = dataset(model, 2, window=1)
    of = units.corpus
    for number in range(len(units.sizes)):
        unit = units.units
        cut = Units.of(unit.source_first, unit.source_last, unit.document)
        hand = TranslationDataset(of, cut, model.reading, "").batch(np.array([number]))
        inside = np.arange(unit.source_first[number], unit.source_last[number])
        written = (unit.first[number] <= inside) & (inside < unit.last[number])
        labels = hand.labels.masked_fill(~torch.from_numpy(written)[hand.target.layout.sentence_of_token], IGNORE)
        with torch.no_grad():
            expected, size, _ = CrossEntropy(label_smoothing=0.0)(model, replace(hand, labels=labels))
            found, own_size, _ = CrossEntropy(label_smoothing=0.0)(model, units.batch(np.array([number])))
        assert (float(found), own_size) == (pytest.approx(float(expected), rel=1e-12), size)


def test_units_cost_what_goes_through_the_model() -> None:
    for settings in ({}, {"target_context": "summaries"}):
        units = dataset(build("hier_transformer", **settings), 1)
        for number, size in enumerate(units.sizes):
            batch = units.batch(np.array([number]))
            assert size == max(len(batch.source.tokens), len(batch.target.tokens))


def test_only_words_that_are_translated_are_masked() -> None:
    units = dataset(build("hier_transformer"), 1)
    hidden = replace(units, hidden=HiddenWords(0.9, 0.0, (1, 1)))
    for number in range(len(units.sizes)):
        batch = hidden.batch(np.array([number]))
        sentence = batch.source.layout.sentence_of_token[batch.source.tokens == MASK].unique().tolist()
        assert sentence in ([], [int(units.units.first[number] - units.units.source_first[number])])


def test_sentences_in_the_batches_of_a_document_model(data: Path) -> None:
    """The same sentences an update, and the same tensors, with and without --max-doc-tokens."""
    for limit in (None, 20):
        parts = []
        for name, size in (("transformer", 0), ("hier_transformer", None)):
            config = DocumentTranslationConfig(unit_sentences=size, max_doc_tokens=limit, source_mask=0.2)
            task = DocumentTranslation.load(config, data)
            model = small_system.model(f"{name}_tiny", of=task)
            parts.append(task.dataset("train", model, seed=1, epoch=1, training=True))
        plans = [plan_batches(part.sizes, 120, seed=1, epoch=1) for part in parts]
        assert [len(units) for units in plans[0]] == [len(units) for units in plans[1]]
        for one, other in zip(*plans, strict=True):
            batches = [parts[0].batch(one), parts[1].batch(other)]
            assert torch.equal(batches[0].source.tokens, batches[1].source.tokens)
            assert torch.equal(batches[0].labels, batches[1].labels)
