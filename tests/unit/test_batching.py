"""`plan_batches`: every unit once, no batch too large, the same for the same (seed, epoch)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch, plan_batches
from docnmt.core.models.architectures import Transformer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.core.training.graphed import Shape, fill, filled_batch
from docnmt.layout import DocumentLayout

sizes_strategy = st.lists(st.integers(0, 300), max_size=80).map(lambda x: np.array(x, dtype=np.int64))


@given(sizes_strategy, st.integers(1, 200), st.integers(0, 5), st.booleans(), st.none() | st.integers(1, 7))
def test_every_unit_once_and_no_batch_too_large(
    sizes: np.ndarray, max_tokens: int, seed: int, shuffle: bool, max_units: int | None
) -> None:
    plan = plan_batches(sizes, max_tokens, seed=seed, epoch=1, shuffle=shuffle, max_units=max_units)
    units = np.concatenate([*plan, np.zeros(0, dtype=np.int64)])
    assert sorted(units.tolist()) == list(range(len(sizes)))
    for batch in plan:
        assert batch.dtype == np.int64
        assert len(batch) == 1 or (sizes[batch].sum() <= max_tokens and (max_units is None or len(batch) <= max_units))
    again = plan_batches(sizes, max_tokens, seed=seed, epoch=1, shuffle=shuffle, max_units=max_units)
    assert len(plan) == len(again)
    assert all(np.array_equal(a, b) for a, b in zip(plan, again, strict=True))


@given(sizes_strategy, st.integers(1, 200))
def test_without_shuffling_batches_are_filled_greedily_in_order(sizes: np.ndarray, max_tokens: int) -> None:
    """The second route: one unit after the other."""
    expected: list[list[int]] = []
    for unit, size in enumerate(sizes.tolist()):
        if not expected or sum(sizes[expected[-1]]) + size > max_tokens:
            expected.append([])
        expected[-1].append(unit)
    plan = plan_batches(sizes, max_tokens, seed=0, epoch=0, shuffle=False)
    assert [batch.tolist() for batch in plan] == expected


def test_order_depends_on_seed_and_epoch() -> None:
    sizes = np.full(1000, 7)
    plans = {
        (seed, epoch): np.concatenate(plan_batches(sizes, 70, seed=seed, epoch=epoch)).tobytes()
        for seed in (1, 2)
        for epoch in (1, 2)
    }
    assert len(set(plans.values())) == 4


# Batches that are filled up to a shape: the same loss and the same gradients as of the batch itself.


VOCABULARY = 23


def drawn_batch(source: list[int], target: list[int], seed: int) -> TranslationBatch:
    """Sentences of so many words, each a unit of its own; the first has no translation, so no labels."""
    random = torch.Generator().manual_seed(seed)

    def text(lengths: list[int]) -> PackedText:
        layout = DocumentLayout.from_lengths([[length] for length in lengths])
        positions = torch.full((layout.num_tokens, 4), -1)
        positions[:, 0] = torch.cat([torch.arange(length) for length in lengths])
        return PackedText(torch.randint(VOCABULARY, (layout.num_tokens,), generator=random), layout, positions)

    texts = text(source), text(target)
    labels = torch.randint(VOCABULARY, (sum(target),), generator=random)
    labels[: target[0]] = IGNORE
    return TranslationBatch(*texts, labels, torch.arange(len(source)))


def with_lengths(batch: TranslationBatch, shape: Shape) -> SimpleNamespace:
    """The batch filled up, of whose sentences the host knows the lengths, as attention on a CPU needs it."""
    filled = filled_batch(fill(batch, shape), shape)

    def text(of: PackedText) -> PackedText:
        return PackedText(
            of.tokens, DocumentLayout(of.layout.sentence_offsets, of.layout.document_offsets), of.positions
        )

    source, target = text(filled.source), text(filled.target)
    return SimpleNamespace(source=source, target=target, labels=filled.labels, num_tokens=filled.num_tokens)


@pytest.mark.parametrize("options", [{}, {"norm": "post", "position": "learned", "output_bias": True}])
@pytest.mark.parametrize(
    ("source", "target"), [([3, 5, 1, 7], [4, 6, 2, 5]), ([60] * 3, [61, 2, 2]), ([1], [1]), ([9] * 70, [3] * 70)]
)
def test_a_filled_batch_has_the_same_loss_and_gradients(
    options: dict[str, object], source: list[int], target: list[int]
) -> None:
    torch.manual_seed(0)
    sizes = {"embed_dim": 16, "ffn_dim": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    task = SimpleNamespace(source_vocabulary_size=VOCABULARY, target_vocabulary_size=VOCABULARY, joined=True)
    model = Transformer.build(TransformerConfig(**sizes, **options), task).double()
    criterion = LabelSmoothedCrossEntropy(label_smoothing=0.1)
    batch = drawn_batch(source, target, seed=1)
    shape = Shape.of(batch, 64)

    def passes(given: object) -> list[Tensor]:
        loss, _, logs = criterion(model, given)
        return [loss.detach(), logs["nll"], *torch.autograd.grad(loss, list(model.parameters()))]

    for ours, theirs in zip(passes(with_lengths(batch, shape)), passes(batch), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
