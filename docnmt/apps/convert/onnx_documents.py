"""Export of a `cond_transformer` as ONNX graphs: the encoder, one step of the decoder, and what was written before.

A document is S sentences of up to L subwords, and B rows translate some of them. `docs/reference/conversion.md` lists
the graphs' values. They are the plain equation over all words of the document, of which the sentences that are not
among a word's top t are hidden (Trankova and Rykunov, eq. 7), and have nothing of the arrays by which docnmt itself
reads the kept sentences alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from docnmt.apps.convert.ctranslate import POSITIONS, projection
from docnmt.apps.convert.onnx_parts import (
    ENCODER,
    STEP,
    across,
    cross_attention,
    export,
    heads_of,
    next_word,
    self_attention,
    through,
    whole,
)
from docnmt.apps.convert.sentence_model import SentenceModel
from docnmt.core.models.context_config import CondTransformerConfig
from docnmt.core.models.encoder_decoder import Stack
from docnmt.modules.context_attention import ConditionalAttention, SummaryEncoder
from docnmt.modules.context_sublayers import ContextSublayer, EncoderContext
from docnmt.modules.layers import Layer
from docnmt.runtime.errors import UserError

#: The places up to which the graphs' tables of positions reach, of each level.
_HIGHEST = (POSITIONS - 1,) * 4


def write_document_graphs(document: SentenceModel, folder: Path) -> None:
    """Write encoder.onnx and step.onnx, and written.onnx if the model reads its own translations.

    Raises:
        UserError: the graphs cannot express how the model reads its own translations.
    """
    config = cast(CondTransformerConfig, document.config)
    if config.target_context == "summaries":
        raise UserError(
            f"{document.path}: cannot be an ONNX model: --target-context summaries: only none and conditional are "
            "exported"
        )
    for stack in (document.model.encoder, document.model.decoder):
        embed(stack, torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int64))  # makes the tables
    encoder = EncoderGraph(document)
    text = _text("source", "mask", "places", 3, 5)
    export(encoder, folder / ENCODER, text, encoder.outputs)
    size, layers = config.embed_dim // config.heads, config.decoder_layers
    step: dict[str, tuple[Tensor, Sequence[int]]]
    step = {name: (torch.ones(2, dtype=torch.int64), (0,)) for name in ("token", "sentence")}
    step["cache"] = torch.zeros(layers, 2, 2, config.heads, 8, size), (2, 4)
    step |= {name: text[name] for name in ("mask", "places")}
    for name, heads in encoder.reads.items():
        step[name] = torch.zeros(layers, 2, 3, heads, 5, size), (2, 4)
    if "context" in encoder.reads:
        step["context_relevance"] = torch.zeros(layers, 3, encoder.reads["context"], size), (1,)
    if document.model.reading.own_text:
        given = _text("target", "written_mask", "written_places", 4, 6)
        export(WrittenGraph(document), folder / "written.onnx", given, ("written", "written_relevance"))
        step["written"] = torch.zeros(layers, 2, 4, config.heads, 6, size), (2, 4)
        step["written_relevance"] = torch.zeros(layers, 4, config.heads, size), (1,)
        step["written_mask"] = given["written_mask"]
    export(StepGraph(document), folder / STEP, step, ("scores", "new_cache"))


def _text(tokens: str, mask: str, places: str, sentences: int, words: int) -> dict[str, tuple[Tensor, Sequence[int]]]:
    """An example of a text. Those of one graph differ in both sizes: torch takes equal ones for the same size."""
    shape = sentences, words
    return {
        tokens: (torch.ones(shape, dtype=torch.int64), (0, 1)),
        mask: (torch.ones(shape, dtype=torch.bool), (0, 1)),
        places: (torch.zeros(sentences, 4, dtype=torch.int64), (0,)),
    }


def embed(stack: Stack, tokens: Tensor, places: Tensor, before: int = 0) -> Tensor:
    """Embed tokens (S, L), `before` words behind the beginning of sentences at places (S, 4) → (S, L, d)."""
    word = torch.arange(tokens.shape[1])[None, :, None] + places[:, None, :1] + before  # (S, L, 1)
    positions = torch.cat([word, places[:, None, 1:].expand(-1, tokens.shape[1], -1)], dim=-1)
    x: Tensor = stack.embedding(tokens.flatten(), positions.flatten(0, 1), None, _HIGHEST)
    return x.view(*tokens.shape, -1)


def project(attention: ConditionalAttention, words: Tensor, summaries: Tensor) -> tuple[Tensor, Tensor]:
    """Words (S, L, d) and summaries (S, d) → keys and values (2, S, h, L, d_h), relevance keys (S, h, d_h)."""
    relevance: Tensor = attention.relevance_key(summaries)
    return heads_of(attention.key_value(words), 2, attention.heads), relevance.unflatten(-1, (attention.heads, -1))


def read_chosen(
    attention: ConditionalAttention, x: Tensor, keys: Tensor, relevance: Tensor, mask: Tensor,
    own: Tensor, visible: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Attend from x (B, d) to the words of the sentences that each row and head chooses → (B, d).

    Args:
        keys, relevance: as `project` returns them. mask: (S, L), which words are no padding.
        own: (B,) each row's own sentence. visible: (B, S), which sentences a row may choose; None: all.
    """
    policy, scale = attention.policy, attention.d_head**-0.5
    q, sentence_q = attention.query(x).view(x.shape[0], 2, attention.heads, -1).unbind(1)  # (B, h, d_h) each
    found = torch.einsum("bhd,shd->bhs", sentence_q, relevance) * scale
    if visible is not None:
        found = found.masked_fill(~visible[:, None], -torch.inf)
    rank = found
    if policy.always_own:
        is_own = torch.arange(mask.shape[0]) == own[:, None]  # (B, S)
        rank = found.masked_fill(is_own[:, None], torch.inf)
    rank = functional.pad(rank, (0, policy.top_t), value=-torch.inf)  # there may be fewer sentences than t
    keep = torch.zeros_like(rank).scatter(-1, rank.topk(policy.top_t).indices, 1.0)[..., : mask.shape[0]] > 0
    scores = torch.einsum("bhd,shld->bhsl", q, keys[0]) * scale + found.masked_fill(~keep, -torch.inf)[..., None]
    weights = scores.masked_fill(~mask[None, None], -torch.inf).flatten(2).softmax(-1)  # (B, h, S·L)
    if visible is not None:  # with nothing to read, softmax has no value
        weights = weights.masked_fill(~visible.any(-1)[:, None, None], 0)
    read = torch.einsum("bhsl,shld->bhd", weights.view_as(scores), keys[1])
    out: Tensor = attention.output(read.flatten(1))
    return out


class EncoderGraph(nn.Module):
    """The encoder, and the decoder's projections of what it returns.

    Attributes:
        reads: the heads of what a step reads of the source, words of its sentence and of the document.
        outputs: the names of the graph's outputs.
    """

    def __init__(self, document: SentenceModel) -> None:
        super().__init__()
        self.encoder, self.decoder = document.model.encoder, document.model.decoder
        first = self.decoder.stack[0]
        self.reads = {"memory": cross_attention(first).heads} if "cross" in first.names else {}
        if "context" in first.names:
            self.reads["context"] = context_attention(first).heads
        self.outputs = (*self.reads, *(["context_relevance"] if "context" in self.reads else []))

    def forward(self, source: Tensor, mask: Tensor, places: Tensor) -> list[Tensor]:
        """source, mask (S, L), places (S, 4) → memory, context (D, 2, S, h, L, d_h), relevance (D, S, h, d_h)."""
        x = embed(self.encoder, source, places)
        once = None if self.encoder.summarise is None else summarise(self.encoder.summarise, x, mask)
        for layer in self.encoder.stack:
            attend = {}
            if "attention" in layer.names:
                attend["attention"] = whole(self_attention(layer), mask)
            if "context" in layer.names:
                attend["context"] = self._context(layer, mask, once)
            x = through(layer, x, attend)
        x, layers = self.encoder.norm(x), self.decoder.stack
        found = []
        if "memory" in self.reads:
            own = [cross_attention(layer) for layer in layers]
            found.append(torch.stack([heads_of(each.key_value(x), 2, each.heads) for each in own]))
        if "context" in self.reads:
            summaries = summarise(self.decoder.summarise, x, mask)
            projected = [project(context_attention(layer), x, summaries) for layer in layers]
            found += [torch.stack(each) for each in zip(*projected, strict=True)]
        return found

    def _context(self, layer: Layer, mask: Tensor, once: Tensor | None) -> Callable[[Tensor], Tensor]:
        """Return a layer's context attention; `once` (S, d) are the summaries if all layers share them."""
        context = cast(EncoderContext, layer.sublayer("context"))

        def attend(read: Tensor) -> Tensor:
            summaries = once if context.summarise is None else summarise(context.summarise, read, mask)
            assert summaries is not None
            attention = context_attention(layer)
            own = torch.arange(mask.shape[0])[:, None].expand_as(mask).flatten()
            out = read_chosen(attention, read.flatten(0, 1), *project(attention, read, summaries), mask, own)
            return out.view_as(read)

        return attend


class WrittenGraph(nn.Module):
    """What later sentences read of translations."""

    def __init__(self, document: SentenceModel) -> None:
        super().__init__()
        self.decoder = document.model.decoder

    def forward(self, target: Tensor, written_mask: Tensor, written_places: Tensor) -> tuple[Tensor, Tensor]:
        """As the encoder, of N sentences that begin with `<s>` → written, its relevance."""
        x = embed(self.decoder, target, written_places)
        summaries = summarise(self.decoder.summarise_target, x, written_mask)
        projected = [project(context_attention(layer, "target"), x, summaries) for layer in self.decoder.stack]
        written, relevance = (torch.stack(each) for each in zip(*projected, strict=True))
        return written, relevance


class StepGraph(nn.Module):
    """One step of the decoder."""

    bias: Tensor

    def __init__(self, document: SentenceModel) -> None:
        super().__init__()
        self.decoder, self.output = document.model.decoder, document.model.output
        self.register_buffer("bias", projection(document)[1])

    def forward(
        self, token: Tensor, sentence: Tensor, cache: Tensor, mask: Tensor, places: Tensor,
        memory: Tensor | None = None, context: Tensor | None = None, context_relevance: Tensor | None = None,
        written: Tensor | None = None, written_relevance: Tensor | None = None, written_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """token, sentence (B,), cache (D, 2, B, h, T, d_h) → scores (B, V), new_cache (D, 2, B, h, T + 1, d_h).

        What the model lacks is None.
        """
        x = embed(self.decoder, token[:, None], places[sentence], cache.shape[4])  # (B, 1, d)
        own: list[Tensor] = []
        for n, layer in enumerate(self.decoder.stack):
            attend = {"attention": next_word(self_attention(layer), cache[n], own)}
            if memory is not None:
                attend["cross"] = across(cross_attention(layer), memory[n][:, sentence], mask[sentence])
            if context is not None and context_relevance is not None:
                given = context[n], context_relevance[n], mask, sentence
                attend["context"] = partial(_read_word, context_attention(layer), given, None)
            if written is not None and written_relevance is not None and written_mask is not None:
                given = written[n], written_relevance[n], written_mask, sentence
                earlier = torch.arange(written_mask.shape[0]) < sentence[:, None]  # (B, N)
                attend["target"] = partial(_read_word, context_attention(layer, "target"), given, earlier)
            x = through(layer, x, attend)
        features = self.decoder.norm(x)[:, 0]
        return functional.linear(features, self.output.weight, self.bias), torch.stack(own)


def _read_word(
    attention: ConditionalAttention, given: tuple[Tensor, Tensor, Tensor, Tensor], visible: Tensor | None, read: Tensor
) -> Tensor:
    """`read_chosen` of one word a row, (B, 1, d)."""
    return read_chosen(attention, read[:, 0], *given, visible)[:, None]


def summarise(summaries: nn.Module | None, words: Tensor, mask: Tensor) -> Tensor:
    """Words (S, L, d), mask (S, L) → summaries of the sentences (S, d)."""
    return cast(SummaryEncoder, summaries).summarise.of_padded(words, mask)


def context_attention(layer: Layer, name: str = "context") -> ConditionalAttention:
    """The context attention of a layer; "target": that to earlier translations."""
    return cast(ConditionalAttention, cast(ContextSublayer, layer.sublayer(name)).attention)
