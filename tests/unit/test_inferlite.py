"""InferLite's encoder against independent routes, and the properties that its vectors and codes must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attention_reference import assert_same_passes
from attention_reference import spans as spans_of
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.layout import Spans
from docnmt.other_tasks.options import BagOfWordsConfig, BiLstmMaxConfig, InferLiteConfig
from docnmt.other_tasks.sentence_vectors.encoders import (
    BagOfWords,
    BiLstmMax,
    InferLiteEncoder,
    PackedConvolution,
    RowLinear,
    SemanticHash,
    span_max,
    span_mean,
)
from docnmt.runtime.device import tune

DIMS = (5, 3)
LENGTHS = [4, 1, 7, 2, 3]


def tables(vocabulary: int = 30) -> list[Tensor]:
    return [torch.randn(vocabulary, d, generator=torch.Generator().manual_seed(d)).double() for d in DIMS]


def tokens_of(lengths: list[int], seed: int = 0) -> Tensor:
    return torch.randint(30, (sum(lengths),), generator=torch.Generator().manual_seed(seed))


def task(dims: Sequence[int] = DIMS, probability: Tensor | None = None) -> Any:
    return SimpleNamespace(embeddings=SimpleNamespace(dims=list(dims)), probability=probability)


def encoder(width: int = 3, **options: object) -> InferLiteEncoder:
    torch.manual_seed(1)
    settings = {"hidden_dim": 6, "output_dim": 8, "conv_layers": 2, "conv_width": width, **options}
    return InferLiteEncoder(InferLiteConfig(**settings), task()).double()  # type: ignore[arg-type]


def padded(rows: Tensor, spans: Spans) -> tuple[Tensor, Tensor]:
    """(T, d) → (S, d, L) with zeros behind each sentence, and which places are words (S, 1, L)."""
    parts = rows.split(spans.lengths.tolist())
    mask = nn.utils.rnn.pad_sequence([torch.ones(len(part), 1).to(rows) for part in parts], batch_first=True)
    return nn.utils.rnn.pad_sequence(parts, batch_first=True).transpose(1, 2), mask.transpose(1, 2)


def padded_convolution(layer: PackedConvolution, x: Tensor) -> Tensor:
    """The same convolution by `conv1d`: the filter's columns are neighbour by neighbour, (out, width, in)."""
    out, columns = layer.linear.weight.shape
    width = 2 * layer.reach + 1
    weight = layer.linear.weight.view(out, width, columns // width).transpose(1, 2)
    return F.conv1d(x, weight, layer.linear.bias, padding=layer.reach)


def padded_vectors(model: InferLiteEncoder, tokens: Tensor, spans: Spans) -> Tensor:
    """Equations 1 to 7 on padded sentences, masked behind every layer and before the maximum."""
    types = [table[tokens] for table in tables()]

    def stack(layers: nn.Module, x: Tensor, mask: Tensor, last: object) -> Tensor:
        for i, layer in enumerate(layers.layers):  # type: ignore[arg-type]
            x = padded_convolution(layer, x)
            x = (torch.relu(x) if i < len(layers.layers) - 1 else last(x)) * mask  # type: ignore[arg-type,operator]
        return x

    dense = F.linear(torch.cat(types, 1), model.shared.weight, model.shared.bias).relu()
    shared, mask = padded(dense, spans)
    fused = shared.clone()
    for x, first, encode, control in zip(types, model.inputs, model.encoders, model.controllers, strict=True):
        h = padded(F.linear(x, first.weight, first.bias).relu(), spans)[0]
        fused = fused + stack(encode, h, mask, torch.tanh) * stack(control, shared, mask, torch.sigmoid)
    out = F.linear(fused.transpose(1, 2), model.output.weight, model.output.bias).relu()  # (S, L, d)
    return out.masked_fill(mask.transpose(1, 2) == 0, -torch.inf).amax(1)


@pytest.mark.parametrize("width", [1, 3, 5])
def test_packed_equals_padded_with_gradients(width: int) -> None:
    model, spans, tokens = encoder(width), spans_of(LENGTHS), tokens_of(LENGTHS)
    packed, padded = model(tokens, tables(), spans), padded_vectors(model, tokens, spans)
    assert_same_passes(packed, padded, [*model.parameters()], 1e-12)


def encoders() -> dict[str, nn.Module]:
    torch.manual_seed(2)
    return {
        "inferlite 1": encoder(1),
        "inferlite 3": encoder(3),
        "bag of words": BagOfWords(BagOfWordsConfig(), task(probability=torch.rand(30))),
        "bag of words max": BagOfWords(BagOfWordsConfig(bag_pooling="max"), task(probability=torch.rand(30))),
        "bag of words sif": BagOfWords(BagOfWordsConfig(bag_pooling="sif"), task(probability=torch.rand(30))),
        "bilstm": BiLstmMax(BiLstmMaxConfig(output_dim=8), task()),
    }


@pytest.mark.parametrize("name", list(encoders()))
def test_batch_mates_change_nothing(name: str) -> None:
    model = encoders()[name].double().eval()
    tokens, spans = tokens_of(LENGTHS), spans_of(LENGTHS)
    together = model(tokens, tables(), spans)
    alone = [model(part, tables(), spans_of([len(part)])) for part in tokens.split(LENGTHS)]
    assert together.shape == (len(LENGTHS), model.d_output)
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-12)


@pytest.mark.parametrize("pool", [span_max, span_mean])
def test_pooling_equals_padding_with_gradients(pool: Callable[..., Tensor]) -> None:
    lengths = [3, 0, 4, 1]
    spans, rows = spans_of(lengths), tokens_of(lengths)
    values = torch.randn(30, 5).double().requires_grad_()
    parts = [values[own] for own in rows.split(lengths)]
    reduce = (lambda part: part.amax(0)) if pool is span_max else (lambda part: part.mean(0))
    expected = torch.stack([reduce(part) if len(part) else torch.zeros(5).double() for part in parts])
    for pooled in (pool(values, spans, rows), pool(values[rows], spans)):
        assert_same_passes(pooled, expected, [values])
    with torch.no_grad():
        torch.testing.assert_close(pool(values, spans, rows), expected)


def test_single_precision_vectors_are_the_same_to_the_last_bit_in_every_batch() -> None:
    lengths = torch.randint(1, 20, (200,), generator=torch.Generator().manual_seed(3)).tolist()
    tokens = tokens_of(lengths)
    model = encoder(3, hidden_dim=64, output_dim=256).float().eval()
    hash = SemanticHash(d_input=256, bits=128, steps=1, minimum=0.1).eval()
    words = [table.float() for table in tables()]
    with torch.no_grad():
        together = model(tokens, words, spans_of(lengths))
        codes = hash.scores(together)
        for size in (1, 7, 64):
            first = sum(lengths[:size])
            some = model(tokens[:first], words, spans_of(lengths[:size]))
            assert torch.equal(some, together[:size])
            assert torch.equal(hash.scores(some), codes[:size])


def hashing(steps: int = 10, minimum: float = 0.01) -> SemanticHash:
    torch.manual_seed(4)
    return SemanticHash(d_input=6, bits=16, steps=steps, minimum=minimum)


def test_codes_are_the_soft_codes_thresholded_and_do_not_depend_on_the_temperature() -> None:
    hash, sentences = hashing(), torch.randn(50, 6)
    hash.eval()
    codes = hash(sentences)
    assert set(codes.unique().tolist()) == {0.0, 1.0}
    for seen in (0, 5, 10**6):
        hash.seen.fill_(seen)
        assert torch.equal(hash.soft(sentences) > 0.5, codes > 0)
    assert int(hash.seen) == 10**6  # nothing is counted outside training


def test_hashing_is_equation_8_with_its_mean_in_the_bias() -> None:
    hash, sentences = hashing().double(), torch.rand(50, 6, dtype=torch.float64)
    soft = hash(sentences)  # τ = 1
    weight, bias = hash.linear.weight, hash.linear.bias - hash.linear.weight @ sentences.mean(0)
    assert torch.allclose(soft, torch.sigmoid(F.layer_norm(sentences @ weight.T + bias, (16,))), atol=1e-12)
    for _ in range(300):
        hash(sentences + 3)
    assert torch.allclose(hash.mean, sentences.mean(0) + 3, atol=0.2)  # it follows


@pytest.mark.parametrize(("d_input", "d_output"), [(6, 8), (8, 8), (5, 13), (24, 8), (300, 64)])
def test_a_row_is_the_same_beside_any_number_of_rows(d_input: int, d_output: int) -> None:
    """Bit for bit; libraries take other ways for small products."""
    tune()
    layer, x = RowLinear(d_input, d_output), torch.randn(1024, d_input)
    together = layer(x)
    for count in (1, 20, 64, 100, 640):
        assert torch.equal(layer(x[:count]), together[:count])
