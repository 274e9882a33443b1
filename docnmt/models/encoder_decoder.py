"""The spine of every translation architecture: packed encoder, packed decoder, and the decoder one token at a time.

An architecture is a file beside this one that says which unit of text it reads and which context attention it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from docnmt.batch import PackedText, TranslationBatch
from docnmt.data.tokenizer import BOS, BRK
from docnmt.layout import DocumentLayout
from docnmt.modules.context import ConditionalAttention, ContextAttention, ContextKeys, DocumentStore
from docnmt.modules.embedding import Embedding
from docnmt.modules.layers import DecoderLayer, LayerState, Sources
from docnmt.modules.source2token import Source2Token
from docnmt.modules.target_context import Earlier


class Stack(nn.Module):
    """What encoder and decoder are made of: an embedding, layers, a final norm.

    Args:
        summarise: makes summaries once for all layers, or None.
        hide: what is done to words before they are context, or None.
        checkpoint_activations: compute the layers' activations again in the backward pass.
    """

    summarise: nn.Module | None

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        summarise: nn.Module | None = None,
        hide: nn.Module | None = None,
        checkpoint_activations: bool = False,
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.summarise, self.hide = summarise, hide or nn.Identity()
        self.checkpoint_activations = checkpoint_activations


class Encoder(Stack):
    """Layers of `EncoderLayer`; `summarise` reads the embeddings (002, figure 1)."""

    def forward(self, source: PackedText) -> Tensor:
        """(T, d) encoder states of the packed source."""
        x = self.embedding(source.tokens, source.positions, source.layout.sentence_offsets)
        shared = None if self.summarise is None else self.summarise(self.hide(x), source.layout)
        for layer in self.layers:
            x = _run(layer, self.checkpoint_activations and self.training, x, source.layout, shared)
        states: Tensor = self.norm(x)
        return states


class Decoder(Stack):
    """Layers of `DecoderLayer`; `summarise` makes one document store of the encoder's output.

    Args:
        summarise_target: makes one of the decoder's own input, for layers that read earlier target sentences, or None.
    """

    summarise_target: nn.Module | None

    def __init__(self, *, summarise_target: nn.Module | None = None, **parts: Any) -> None:
        super().__init__(**parts)
        self.summarise_target = summarise_target

    @property
    def stack(self) -> list[DecoderLayer]:
        """The layers, by their type."""
        return [cast(DecoderLayer, layer) for layer in self.layers]

    def forward(self, target: PackedText, states: Tensor, source_layout: DocumentLayout) -> Tensor:
        """(Tq, d) features of the packed target, given the encoder's states (Tk, d)."""
        store: DocumentStore | None = None
        if self.summarise is not None:
            store = self.summarise(self.hide(states), source_layout)
        x = self.embedding(target.tokens, target.positions, target.layout.sentence_offsets)
        written = () if self.summarise_target is None else (self.summarise_target(self.hide(x), target.layout),)
        for layer in self.layers:
            save = self.checkpoint_activations and self.training
            x = _run(layer, save, x, target.layout, states, source_layout, store, *written)
        features: Tensor = self.norm(x)
        return features


def _run(layer: nn.Module, save_memory: bool, *inputs: Any) -> Tensor:
    """The layer's output; with `save_memory` its inner activations are computed again in the backward pass."""
    output: Tensor = checkpoint(layer, *inputs, use_reentrant=False) if save_memory else layer(*inputs)
    return output


@dataclass(frozen=True, eq=False)
class Memory:
    """Everything that belongs to source documents and not to hypotheses; made once, never reordered.

    Attributes:
        source: the packed source. cross: per decoder layer, what its cross-attention reads of it.
        context: per decoder layer, the context attention's keys, or None without one.
        begins: (S, n, 4) positions of the first token of each target sentence that a sentence of the source becomes:
            one, but as many as the unit has where units are joined.
    """

    source: PackedText
    cross: list[Sources]
    context: list[ContextKeys | None]
    begins: Tensor


#: For each decoder layer, one translated sentence as its attention to earlier sentences reads it.
Written = list[ContextKeys]


@dataclass
class DecoderState:
    """Live hypotheses. Rows stand slot by slot, `beam` of them each; a slot writes one sentence of the memory.

    Attributes:
        sentences: (N,) which sentence of the memory each slot writes.
        lengths: (R,) tokens that each row has read so far.
        breaks: (R,) how many of them were `<brk>`. since: (R,) how many stand before the last of those.
    """

    memory: Memory
    beam: int
    sentences: Tensor
    lengths: Tensor
    breaks: Tensor
    since: Tensor
    layers: list[LayerState]

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows`, in that order: still slot by slot, `beam` each; a slot may vanish with all its rows."""
        slots = rows[:: self.beam] // self.beam
        all_stay = len(slots) == len(self.sentences) and bool((slots.diff() == 1).all())
        for layer in self.layers:
            layer.select(rows, None if all_stay else slots)
        self.sentences, self.lengths = self.sentences[slots], self.lengths[rows]
        self.breaks, self.since = self.breaks[rows], self.since[rows]

    def append(self, other: DecoderState) -> None:
        """Add the slots of another state over the same memory behind this one's."""
        if other.memory is not self.memory or other.beam != self.beam:
            raise ValueError("states can be joined only when they share one memory and one beam size")
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine.append(theirs)
        self.sentences = torch.cat([self.sentences, other.sentences])
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.breaks = torch.cat([self.breaks, other.breaks])
        self.since = torch.cat([self.since, other.since])

    def positions(self, tokens: Tensor, *, running: bool) -> Tensor:
        """(R, 4) where the tokens (R,) stand that the rows read next; `<brk>` opens the next sentence of a unit.

        Args:
            running: the word index counts along the whole unit.
        """
        is_break = tokens == BRK
        self.breaks = self.breaks + is_break
        self.since = torch.where(is_break, self.lengths, self.since)
        begins = self.memory.begins[self.sentences.repeat_interleave(self.beam)]  # (R, n, 4)
        place = self.breaks.clamp(max=begins.shape[1] - 1)  # a dead row may read anything
        begin = begins[torch.arange(len(place), device=place.device), place]
        word = self.lengths if running else begin[:, 0] + self.lengths - self.since
        return torch.cat([word[:, None], begin[:, 1:]], dim=1)


def initialise(part: nn.Module) -> None:
    """Xavier's uniform distribution for every projection, zero biases; then what single modules ask for themselves."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in part.modules():
        if isinstance(module, (ConditionalAttention, Source2Token)):
            module.reset_parameters()


class EncoderDecoder(nn.Module):
    """A translation model: `forward` for training, `encode`, `begin` and `step` for search.

    Class attributes say how the data plan cuts text for it:
        unit: what is read at once, `sentence`, `window` or `document`.
        joined: a unit is one sequence with `<brk>` between its sentences.
        predicts: what a criterion must judge.
    """

    predicts: ClassVar[str] = "tokens"

    unit: ClassVar[str] = "sentence"
    joined: ClassVar[bool] = False

    def __init__(self, *, encoder: Encoder, decoder: Decoder, output: nn.Linear, position_count: str = "unit") -> None:
        super().__init__()
        self.encoder, self.decoder, self.output = encoder, decoder, output
        self.position_count = position_count
        initialise(encoder)
        initialise(decoder)  # the output layer keeps the embeddings' distribution: it may be the same matrix

    def forward(self, batch: TranslationBatch) -> Tensor:
        """Features (T, d) of the packed target tokens; `output` turns them into scores of the vocabulary."""
        states = self.encoder(batch.source)
        features: Tensor = self.decoder(batch.target, states, batch.source.layout)
        return features

    def encode(self, source: PackedText) -> Memory:
        """Encode packed documents and project what the decoder's layers will read of them."""
        states = self.encoder(source)
        store = None if self.decoder.summarise is None else self.decoder.summarise(states, source.layout)
        cross = [layer.cross.remember(states, source.layout.sentences) for layer in self.decoder.stack]
        context = [
            None if layer.context is None or store is None else layer.context.project(store).stored()
            for layer in self.decoder.stack
        ]
        begins = source.begins
        if begins is None:
            begins = source.positions.index_select(0, source.layout.sentence_offsets[:-1])[:, None]
        return Memory(source, cross, context, begins)

    def begin(
        self, memory: Memory, sentences: Tensor, beam: int, earlier: Sequence[Sequence[Written]] = ()
    ) -> DecoderState:
        """A state with one slot of `beam` empty rows for each of `sentences` (N,) of the memory.

        Args:
            earlier: with target context, for each slot what `remember` gave for the sentences before its own.
        """
        rows, like = len(sentences) * beam, self.decoder.embedding.tokens.weight
        parts = zip(self.decoder.stack, memory.cross, memory.context, strict=True)
        layers = [
            LayerState(layer.attention.begin(rows, like), cross.of(sentences), context)
            for layer, cross, context in parts
        ]
        if self.reads_own_text:
            for number, state in enumerate(layers):
                state.earlier = Earlier(
                    [[written[number] for written in slot] for slot in earlier or [()] * len(sentences)]
                )
        none_read = sentences.new_zeros(rows)
        return DecoderState(memory, beam, sentences, none_read, none_read, none_read, layers)

    @property
    def reads_own_text(self) -> bool:
        """Whether a sentence's scores depend on the translations before it, so that they must be written first."""
        return self.decoder.summarise_target is not None

    def remember(self, memory: Memory, sentence: int, tokens: Sequence[int]) -> Written:
        """What later sentences read of the translation `tokens` (without `</s>`) of a sentence of the memory."""
        device, begin = memory.begins.device, memory.begins[sentence, 0]
        read = torch.tensor([BOS, *tokens], device=device)
        positions = begin.repeat(len(read), 1)
        positions[:, 0] += torch.arange(len(read), device=device)
        layout = DocumentLayout.from_lengths([[len(read)]]).to(device)
        assert self.decoder.summarise_target is not None
        store = self.decoder.summarise_target(self.decoder.embedding(read, positions, layout.sentence_offsets), layout)
        return [cast(ContextAttention, layer.target).project(store) for layer in self.decoder.stack]

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Every row reads one token (R,) → scores of the next one (R, V)."""
        sentences, longest = state.sentences.repeat_interleave(state.beam), int(state.lengths.max())
        x = self.decoder.embedding(tokens, state.positions(tokens, running=self.position_count == "sequence"))
        for layer, layer_state in zip(self.decoder.stack, state.layers, strict=True):
            x = layer.step(x, layer_state, state.lengths, longest, sentences)
        state.lengths = state.lengths + 1
        logits: Tensor = self.output(self.decoder.norm(x))
        return logits
