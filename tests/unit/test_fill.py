"""Batches that are filled up to a shape: the same loss and the same gradients as of the batch itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.core.models.architectures import Transformer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.core.training.graphed import Shape, fill, filled_batch
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
