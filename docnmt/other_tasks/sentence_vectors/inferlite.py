"""InferLite's sentence encoder on packed sentences (Kiros and Chan, "InferLite: Simple Universal Sentence
Representations from Natural Language Inference Data", 2018, section 3; equation numbers are the paper's).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.functional.pooling import span_max, span_mean
from docnmt.layout import Spans
from docnmt.modules.layers import check_at_least, check_one_of
from docnmt.other_tasks.options import InferLiteConfig
from docnmt.other_tasks.sentence_vectors.hashing import RowLinear
from docnmt.other_tasks.sentence_vectors.pair_classifier import SentenceTask, WordEncoder, look_up


class PackedConvolution(nn.Module):
    """Convolution over the words of each sentence, of the same length, with zeros beyond its borders (eq. 2 and 4).

    A word's row also has its neighbours, so that the convolution is one matrix product without padding.

    Args:
        width: words that a filter covers, odd; 1 covers the word alone.
    """

    def __init__(self, *, d_in: int, d_out: int, width: int) -> None:
        super().__init__()
        if width < 1 or width % 2 == 0:
            raise ValueError(f"width: expected an odd number of words, got {width}")
        self.reach = width // 2
        self.linear = RowLinear(width * d_in, d_out)

    def forward(self, x: Tensor, spans: Spans) -> Tensor:
        """Map x (T, d_in) to (T, d_out)."""
        if self.reach == 0:
            return self.linear(x)  # type: ignore[no-any-return]
        place = torch.arange(len(x), device=x.device)
        begin, end = (bound[spans.span_of_token] for bound in (spans.offsets[:-1], spans.offsets[1:]))
        columns = []
        for shift in range(-self.reach, self.reach + 1):
            inside = (place + shift >= begin) & (place + shift < end)  # (T,)
            columns.append(x.roll(-shift, 0) * inside[:, None] if shift else x)
        return self.linear(torch.cat(columns, dim=1))  # type: ignore[no-any-return]


def sigmoid(x: Tensor) -> Tensor:
    """Compute σ(x) by tanh: torch's own function rounds the last elements of a tensor differently from the rest."""
    return 0.5 + 0.5 * torch.tanh(0.5 * x)


class ConvolutionStack(nn.Module):
    """A stack of M convolutions, with ReLU between them and another function after the last."""

    def __init__(self, *, d_model: int, layers: int, width: int, last: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PackedConvolution(d_in=d_model, d_out=d_model, width=width) for _ in range(layers))
        self.last = last

    def forward(self, x: Tensor, spans: Spans) -> Tensor:
        """Map (T, d) to (T, d)."""
        for layer in self.layers[:-1]:
            x = F.relu(layer(x, spans))
        return self.last(self.layers[-1](x, spans))


class InferLiteEncoder(WordEncoder[InferLiteConfig]):
    """Sentence vectors from K types of word vectors: encoder, controller, fusion and reduction (eq. 1-7).

    Args:
        dims: width d_k of each embedding type.
        d_model: hidden width of encoder and controller.
        d_output: width of the sentence vector.
        layers: M, convolutions after the dense layer.
        width: words that each convolution covers; 1 makes a deep bag of words.
        gate: multiply each type by the controller's gate; without it all types count alike (ablation).
        skip: add the controller's first layer to the fused types; the paper calls it crucial (ablation).
        pooling: over the words of a sentence; the paper's is `max`.
    """

    Config = InferLiteConfig

    def __init__(
        self, *, dims: Sequence[int], d_model: int, d_output: int, layers: int, width: int,
        gate: bool = True, skip: bool = True, pooling: Literal["max", "mean"] = "max",
    ) -> None:  # fmt: skip
        check_at_least(1, d_model=d_model, d_output=d_output, layers=layers)
        check_one_of(("max", "mean"), pooling=pooling)
        super().__init__()

        def _stacks(last: Callable[[Tensor], Tensor]) -> nn.ModuleList:
            return nn.ModuleList(ConvolutionStack(d_model=d_model, layers=layers, width=width, last=last) for _ in dims)

        self.width, self.skip, self.pooling = width, skip, pooling
        self.inputs = nn.ModuleList(RowLinear(d, d_model) for d in dims)
        self.encoders = _stacks(torch.tanh)
        self.shared = RowLinear(sum(dims), d_model) if gate or skip else None
        self.controllers = _stacks(sigmoid) if gate else None
        self.output = RowLinear(d_model, d_output)
        self.d_output = d_output

    @classmethod
    def of(cls, config: InferLiteConfig, task: SentenceTask) -> InferLiteEncoder:
        """Build the encoder that `config` describes."""
        return cls(
            dims=task.embeddings.dims,
            d_model=config.hidden_dim,
            d_output=config.output_dim,
            layers=config.conv_layers,
            width=config.conv_width,
            gate=config.gate,
            skip=config.skip,
            pooling=config.pooling,
        )

    def gates(self, types: Sequence[Tensor], spans: Spans) -> Tensor:
        """Return the gates G_M^k of each word for types K × (T, d_k): (K, T, d_model).

        Raises:
            ValueError: the encoder has no gates.
        """
        shared = self._shared(types)
        if self.controllers is None or shared is None:
            raise ValueError("this encoder was made without gates")
        return torch.stack([controller(shared, spans) for controller in self.controllers])

    def _shared(self, types: Sequence[Tensor]) -> Tensor | None:
        """Compute G_0, the controllers' first layer, from K × (T, d_k): (T, d_model)."""
        return None if self.shared is None else F.relu(self.shared(torch.cat(list(types), dim=1)))

    def words(self, types: Sequence[Tensor], spans: Spans) -> Tensor:
        """Compute F of eq. 6, one row per word, from types K × (T, d_k): (T, d_output)."""
        encoded = [
            encoder(F.relu(dense(x)), spans)
            for x, dense, encoder in zip(types, self.inputs, self.encoders, strict=True)
        ]
        shared = self._shared(types)
        if self.controllers is not None:
            encoded = [h * g(shared, spans) for h, g in zip(encoded, self.controllers, strict=True)]
        fused = torch.stack(encoded).sum(0) if len(encoded) > 1 else encoded[0]
        if self.skip and shared is not None:
            fused = fused + shared
        return F.relu(self.output(fused))

    def pool(self, words: Tensor, spans: Spans, rows: Tensor | None = None) -> Tensor:
        """Pool words (R, d) to (S, d) by eq. 7; `rows` (T,) gives each token's row if tokens share rows."""
        return (span_max if self.pooling == "max" else span_mean)(words, spans, rows)

    def forward(self, tokens: Tensor, tables: Sequence[Tensor], spans: Spans) -> Tensor:
        """Encode tokens (T,) with tables K × (V, d_k) as sentence vectors (S, d_output)."""
        dtype = self.output.weight.dtype
        if self.width > 1:
            return self.pool(self.words(look_up(tables, tokens, dtype), spans), spans)
        # Without context a word's row is the same everywhere: compute each once.
        kinds, place = torch.unique(tokens, return_inverse=True)
        alone = Spans(torch.arange(len(kinds) + 1, device=tokens.device))
        return self.pool(self.words(look_up(tables, kinds, dtype), alone), spans, place)
