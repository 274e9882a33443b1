"""The base of every translation architecture: packed encoder, packed decoder, and the decoder one token at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypedDict, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import NotRequired, Unpack

from docnmt.core.batch import PackedText, TranslationBatch
from docnmt.core.data.tokenizer import BOS
from docnmt.core.models.decoder_state import DecoderState, Memory, WrittenSentence
from docnmt.core.reading import ReadingPlan
from docnmt.layout import DocumentLayout
from docnmt.modules.context_sublayers import EarlierContext
from docnmt.modules.document_store import DocumentStore
from docnmt.modules.embedding import Embedding
from docnmt.modules.layers import Layer
from docnmt.modules.sublayer import Cache, OwnStart, Reads, Slots, Step


class StackParts(TypedDict):
    """The arguments of a `Stack`."""

    embedding: Embedding
    layers: Sequence[Layer]
    norm: nn.Module
    summarise: NotRequired[nn.Module | None]
    hide: NotRequired[nn.Module | None]
    checkpoint_activations: NotRequired[bool]


class Stack(nn.Module):
    """The base of encoder and decoder: an embedding, layers, a final norm.

    Args:
        summarise: computes summaries once for all layers; None for none.
        hide: is applied to words before they are context; None for nothing.
        checkpoint_activations: recompute the layers' activations in the backward pass.
    """

    summarise: nn.Module | None

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Sequence[Layer],
        norm: nn.Module,
        summarise: nn.Module | None = None,
        hide: nn.Module | None = None,
        checkpoint_activations: bool = False,
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.summarise, self.hide = summarise, hide or nn.Identity()
        self.checkpoint_activations = checkpoint_activations

    @property
    def stack(self) -> list[Layer]:
        """The layers, with their type."""
        return [cast(Layer, layer) for layer in self.layers]

    def embed(self, text: PackedText) -> Tensor:
        """Return the first layer's input (T, d)."""
        x: Tensor = self.embedding(text.tokens, text.positions, text.layout.sentence_offsets, text.highest)
        return x

    def run(self, x: Tensor, reads: Reads) -> Tensor:
        """Apply all layers and the final norm to x (T, d); return (T, d)."""
        for layer in self.layers:
            if self.checkpoint_activations and self.training:
                x = cast(Tensor, checkpoint(layer, x, reads, use_reentrant=False))
            else:
                x = layer(x, reads)
        normed: Tensor = self.norm(x)
        return normed


class Encoder(Stack):
    """The encoder; `summarise` reads the embeddings (Trankova and Rykunov, figure 1), unless the layers have."""

    def forward(self, source: PackedText) -> Tensor:
        """Return the encoder states (T, d) of the packed source."""
        x = self.embed(source)
        store = None if self.summarise is None else self.summarise(self.hide(x), source.layout)
        return self.run(x, Reads(source.layout, store=store))


class Decoder(Stack):
    """The decoder; `summarise` computes one document store of the encoder's output, for all layers.

    Args:
        summarise_target: computes one of the decoder's own input, for layers that read earlier target sentences, or
            None.
    """

    summarise_target: nn.Module | None

    def __init__(self, *, summarise_target: nn.Module | None = None, **stack: Unpack[StackParts]) -> None:
        super().__init__(**stack)
        self.summarise_target = summarise_target

    def store(self, states: Tensor, layout: DocumentLayout) -> DocumentStore | None:
        """Return the source document's store for the layers' context attention, from encoder states (Tk, d)."""
        return None if self.summarise is None else cast(DocumentStore, self.summarise(self.hide(states), layout))

    def forward(self, target: PackedText, states: Tensor, source_layout: DocumentLayout) -> Tensor:
        """Return features (Tq, d) of the packed target, given the encoder's states (Tk, d)."""
        store = self.store(states, source_layout)
        x = self.embed(target)
        written = None if self.summarise_target is None else self.summarise_target(self.hide(x), target.layout)
        return self.run(x, Reads(target.layout, states, source_layout, store, written))

    def remember(self, source: PackedText, states: Tensor) -> list[dict[str, object]]:
        """Return, for each layer, what its sublayers read of source documents in decoding."""
        reads = Reads(source.layout, states, source.layout, self.store(states, source.layout))
        return [layer.remember(reads) for layer in self.stack]


def initialise(part: nn.Module) -> None:
    """Initialise projections by Xavier's uniform distribution and biases with 0, then modules with their own rule."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in part.modules():
        if isinstance(module, OwnStart):
            module.reset_parameters()


class EncoderDecoder(nn.Module):
    """A translation model: `forward` for training, `encode`, `begin` and `step` for search.

    Args:
        output: maps features to scores of the vocabulary.
        reading: the plan of what the model reads and writes at once.

    Raises:
        ValueError: the plan reads the model's own text and the decoder does not, or vice versa.
    """

    #: The kind of output that a criterion must handle.
    predicts: ClassVar[str] = "tokens"

    def __init__(self, *, encoder: Encoder, decoder: Decoder, output: nn.Linear, reading: ReadingPlan) -> None:
        super().__init__()
        if reading.own_text != (decoder.summarise_target is not None):
            raise ValueError(
                "reading.own_text and decoder.summarise_target: expected both or neither; a decoder that reads its own "
                "text has sublayers named target"
            )
        self.encoder, self.decoder, self.output = encoder, decoder, output
        self.reading = reading
        initialise(encoder)
        initialise(decoder)  # the output layer keeps the embeddings' distribution: it may be the same matrix

    def forward(self, batch: TranslationBatch) -> Tensor:
        """Return features (T, d) of the packed target tokens; `output` maps them to scores of the vocabulary."""
        states = self.encoder(batch.source)
        features: Tensor = self.decoder(batch.target, states, batch.source.layout)
        return features

    def encode(self, source: PackedText) -> Memory:
        """Encode packed documents and project them to what the decoder's layers read."""
        return Memory.of(source, self.decoder.remember(source, self.encoder(source)))

    def begin(
        self,
        memory: Memory,
        sentences: Tensor,
        beam: int,
        earlier: Sequence[Sequence[WrittenSentence]] = (),
    ) -> DecoderState:
        """Return a state with one slot of `beam` empty rows for each of `sentences` (N,) of the memory.

        Args:
            earlier: with `reading.own_text`, for each slot what `remember` returned for the sentences before its own.
        """
        slots = Slots(sentences, beam, (), self.decoder.embedding.tokens.weight)
        layers = []
        for number, (layer, remembered) in enumerate(zip(self.decoder.stack, memory.layers, strict=True)):
            own = [[sentence[number] for sentence in slot] for slot in earlier]
            layers.append(layer.begin(remembered, replace(slots, earlier=own)))
        return DecoderState.begin(memory, slots, layers)

    def remember(self, memory: Memory, sentence: int, tokens: Sequence[int]) -> WrittenSentence:
        """Return what later sentences read of the translation `tokens` (without `</s>`) of a sentence of the memory."""
        device = memory.begins.device
        read = torch.tensor([BOS, *tokens], device=device)
        positions = memory.positions(sentence, len(read))
        layout = DocumentLayout.from_lengths([[len(read)]]).to(device)
        summarise, targets = self.decoder.summarise_target, [layer.sublayer("target") for layer in self.decoder.stack]
        assert summarise is not None
        store = summarise(self.decoder.embedding(read, positions, layout.sentence_offsets), layout)
        return [cast(EarlierContext, target).attention.project(store) for target in targets]

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one token (R,) in every row; return scores of the next one (R, V)."""
        logits: Tensor = self.output(self.advance(tokens, state))
        return logits

    def advance(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one token (R,) in every row; return features (R, d), which `output` maps to scores."""
        positions = state.positions(tokens, running=self.reading.positions == "sequence")
        features = self.read(tokens, positions, state.layers, state.next_step())
        state.lengths = state.lengths + 1
        return features

    def read(
        self,
        tokens: Tensor,
        positions: Tensor,
        layers: Sequence[Mapping[str, Cache]],
        at: Step,
        highest: Sequence[int] | None = None,
    ) -> Tensor:
        """Return features (R, d) of tokens (R,) at positions (R, 4), by the caches of the decoder's layers.

        Args:
            highest: no index of a column of the positions is larger, where the host knows that.
        """
        x = self.decoder.embedding(tokens, positions, None, highest)
        for layer, caches in zip(self.decoder.stack, layers, strict=False):  # a pointer has caches of its own
            x = layer.step(x, caches, at)
        features: Tensor = self.decoder.norm(x)
        return features
