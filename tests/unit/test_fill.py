"""Batches that are filled up to a shape: the same loss and the same gradients as of the batch itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.core.models.architectures import Transformer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.core.training.graphed import Shape, fill, filled_batch, row_step
from docnmt.functional.loss import chunked_cross_entropy
from docnmt.layout import DocumentLayout

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


def test_shapes_hold_their_batches() -> None:
    random = np.random.default_rng(0)
    for seed in range(300):
        sizes = random.integers(1, random.integers(2, 90), (2, random.integers(1, 80)))
        batch = drawn_batch(sizes[0].tolist(), sizes[1].tolist(), seed)
        shape = Shape.of(batch, 256)
        arrays = fill(batch, shape)
        assert [len(arrays[0]), len(arrays[3]), len(arrays[1]) - 1] == [shape.source, shape.target, shape.sentences]
        for text, rows, (tokens, offsets, positions) in (
            (batch.source, shape.source, arrays[:3]),
            (batch.target, shape.target, arrays[3:6]),
        ):
            assert 0 <= rows - len(text.tokens) < 256
            assert offsets[0] == 0
            assert offsets[-1] == rows == len(positions)
            assert 0 <= offsets.diff().min() <= offsets.diff().max() <= shape.longest
            assert torch.equal(tokens[: len(text.tokens)], text.tokens)
            assert torch.equal(offsets[: len(text.layout.sentence_offsets)], text.layout.sentence_offsets)
            assert positions.max() <= shape.reach
        assert len(arrays[6]) == shape.documents + 1
        assert arrays[6][-1] == shape.sentences
        assert 0 <= arrays[6].diff().min() <= arrays[6].diff().max() <= shape.most
        assert (arrays[7] != IGNORE).sum() == arrays[8] == batch.num_tokens
    assert [row_step(tokens) for tokens in (1, 1024, 4096, 25000)] == [64, 64, 256, 1600]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_labels_whose_number_only_the_device_knows(bias: bool, smoothing: float) -> None:
    """Also where what is ignored holds NaN, several chunks, and a label that is ignored and in range."""
    torch.manual_seed(0)
    features, weight = torch.randn(37, 8, dtype=torch.float64), torch.randn(VOCABULARY, 8, dtype=torch.float64)
    biases, labels = torch.randn(VOCABULARY, dtype=torch.float64), torch.randint(VOCABULARY, (37,))
    labels[torch.rand(37) < 0.3] = 2
    counted = labels != 2
    features[~counted] = torch.nan

    def passes(count: int | Tensor | None) -> list[Tensor]:
        inputs = [x.clone().requires_grad_() for x in (features, weight, biases)]
        loss, nll = chunked_cross_entropy(
            inputs[0], inputs[1], labels, bias=inputs[2] if bias else None, label_smoothing=smoothing,
            ignore_index=2, chunk_tokens=10, count=count,
        )  # fmt: skip
        return [loss.detach(), nll, *torch.autograd.grad(loss, inputs[: 2 + bias])]

    for ours, theirs in zip(passes(counted.sum()), passes(None), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_pointer_needs_the_number_of_labels() -> None:
    from docnmt.functional.loss import Copied

    copied = Copied(torch.zeros(2), torch.zeros(2))
    with pytest.raises(ValueError, match="pointer"):
        chunked_cross_entropy(
            torch.zeros(2, 3), torch.zeros(5, 3), torch.tensor([1, 2]), copied=copied, count=torch.tensor(2)
        )
