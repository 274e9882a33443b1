"""The model: encoder and decoder, training in one pass, decoding step by step.
The two ways give the same numbers. Search asks for `encode`, `begin`, `step` (`core/search`).

    forward: source → Encoder → states (Tk, d) ─┬→ Decoder(target) → features (Tq, d) → output
    search:  source → encode: Memory → begin: DecoderState ⇄ step(tokens (R,)) → scores (R, V)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import TypeIs

from docnmt.core.batch import PackedText, TranslationBatch, join_begins
from docnmt.core.tokenizer import BOS, BRK, Tokenizer
from docnmt.core.units import ReadingPlan
from docnmt.functional.decoding import PackedKeys, TokenTable
from docnmt.functional.loss import CopiedFeatures
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import EarlierContext
from docnmt.modules.layers import Cache, DocumentStore, Layer, OwnStart, Reads, Slots, Step
from docnmt.modules.positions import Embedding

# The state of decoding.

#: For each decoder layer, one translated sentence's keys and values for the attention to earlier sentences.
WrittenSentence = list[PackedKeys]


@dataclass(frozen=True, eq=False)
class Memory:
    """What belongs to source documents and not to hypotheses; computed once, never reordered.

    `begins` (S, n, 4) are positions of the first token of each target sentence that a source sentence is translated to:
    n = 1, or the unit's number of sentences if units are joined.
    """

    source: PackedText
    layers: Sequence[Mapping[str, Any]]  # of each decoder layer and sublayer, its data of the source
    begins: Tensor
    states: Tensor | None = None  # (T, d) of the encoder, for models that read finished translations once more

    @classmethod
    def of(cls, source: PackedText, layers: Sequence[Mapping[str, Any]], states: Tensor | None = None) -> Memory:
        """The memory; the positions at which target sentences begin follow from the source."""
        begins = source.begins
        if begins is None:
            begins = source.positions.index_select(0, source.layout.sentence_offsets[:-1])[:, None]
        return cls(source, layers, begins, states)

    def positions(self, sentence: int, length: int) -> Tensor:
        """Positions (length, 4) of the first `length` words of the translation of sentence `sentence`."""
        positions = self.begins[sentence, 0].repeat(length, 1)
        positions[:, 0] += torch.arange(length, device=positions.device)
        return positions


@dataclass
class DecoderState:
    """Live hypotheses. Rows are ordered slot by slot, `beam` of them each; a slot writes one sentence of the memory."""

    memory: Memory | None  # of the source documents; None if the slots read different memories
    beam: int
    sentences: Tensor  # (N,) each slot's sentence in its memory
    begins: Tensor  # (N, n, 4) as in `Memory.begins`
    lengths: Tensor  # (R,) number of tokens that each row has read
    breaks: Tensor  # (R,) how many of them were `<brk>`
    since: Tensor  # (R,) how many came before the last `<brk>`
    table: TokenTable  # where the tokens that the rows have read are stored
    layers: list[dict[str, Cache]]  # of each decoder layer, the caches of its sublayers

    def next_step(self) -> Step:
        """Give each row's next token a place; return what the layers' sublayers need to know of this step."""
        self.table.grow(self.lengths)
        return Step(self.lengths, self.sentences.repeat_interleave(self.beam), self.table)

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows`, in that order: still slot by slot, `beam` each; a slot may be dropped with all its rows."""
        slots = [row // self.beam for row in rows[:: self.beam].tolist()]
        all_stay = slots == list(range(len(self.sentences)))
        stay = None if all_stay else torch.tensor(slots, dtype=torch.int64, device=rows.device)
        self.table.keep(rows)
        for caches in self.layers:
            for cache in caches.values():
                cache.keep(rows, stay)
        if stay is not None:  # otherwise lengths stay, too: the rows of a slot are equally long
            self.sentences, self.begins = self.sentences[stay], self.begins[stay]
            self.lengths = self.lengths[rows]
        if self.joined or stay is not None:
            self.breaks, self.since = self.breaks[rows], self.since[rows]

    @property
    def joined(self) -> bool:
        """True if units may have several sentences, with `<brk>` between them."""
        return self.begins.shape[1] > 1

    @property
    def any_memory(self) -> bool:
        """True if slots of another memory can be appended, which every cache must allow."""
        return all(vars(type(cache)).get("any_memory", False) for caches in self.layers for cache in caches.values())

    def append(self, other: DecoderState) -> None:
        shared = other.memory is self.memory and self.memory is not None
        if other.beam != self.beam or not (shared or self.any_memory):
            raise ValueError("states can be joined only when they share one memory and one beam size")
        self.memory = self.memory if shared else None
        self.table.append(other.table)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            for name, cache in mine.items():
                cache.append(theirs[name])
        self.sentences = torch.cat([self.sentences, other.sentences])
        self.begins = join_begins([self.begins, other.begins])
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.breaks = torch.cat([self.breaks, other.breaks])
        self.since = torch.cat([self.since, other.since])

    def positions(self, tokens: Tensor, *, running: bool) -> Tensor:
        """Return positions (R, 4) of the tokens (R,) that the rows read next; `<brk>` begins a unit's next sentence.

        Args:
            running: if true, the word index counts along the whole unit.
        """
        begin, written = self.begins[:, 0].repeat_interleave(self.beam, dim=0), self.lengths  # (R, 4), (R,)
        if self.joined:
            is_break = tokens == BRK
            self.breaks = self.breaks + is_break
            self.since = torch.where(is_break, self.lengths, self.since)
            number = self.breaks.clamp(max=self.begins.shape[1] - 1)  # a dead row may read anything
            slot = torch.arange(len(number), device=number.device) // self.beam
            begin, written = self.begins[slot, number], self.lengths - self.since
        word = self.lengths if running else begin[:, 0] + written
        return torch.cat([word[:, None], begin[:, 1:]], dim=1)


# Encoder, decoder and both together, the base of every translation architecture.


class Stack(nn.Module):
    """The base of encoder and decoder: an embedding, layers, a final norm.

    Args:
        summarise: computes summaries once for all layers; hide: is applied to words before they are context.
        checkpoint_activations: recompute the layers' activations in the backward pass.
    """

    summarise: nn.Module | None

    def __init__(
        self, *, embedding: Embedding, layers: Sequence[Layer], norm: nn.Module, summarise: nn.Module | None = None,
        hide: nn.Module | None = None, checkpoint_activations: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.summarise, self.hide = summarise, hide or nn.Identity()
        self.checkpoint_activations = checkpoint_activations

    @property
    def stack(self) -> list[Layer]:
        return [cast(Layer, layer) for layer in self.layers]

    def embed(self, text: PackedText) -> Tensor:
        """The first layer's input (T, d)."""
        return cast(Tensor, self.embedding(text.tokens, text.positions, text.layout.sentence_offsets, text.highest))

    def run(self, x: Tensor, reads: Reads) -> Tensor:
        """All layers and the final norm: x (T, d) → (T, d)."""
        for layer in self.layers:
            if self.checkpoint_activations and self.training:
                x = cast(Tensor, checkpoint(layer, x, reads, use_reentrant=False))
            else:
                x = layer(x, reads)
        return cast(Tensor, self.norm(x))


class Encoder(Stack):
    """The encoder; `summarise` reads the embeddings (Trankova and Rykunov, figure 1), unless the layers have."""

    def forward(self, source: PackedText) -> Tensor:
        x = self.embed(source)  # (T, d)
        store = None if self.summarise is None else self.summarise(self.hide(x), source.layout)
        return self.run(x, Reads(source.layout, store=store))


class Decoder(Stack):
    """The decoder; `summarise` computes one document store of the encoder's output, for all layers, `summarise_target`
    one of the decoder's own input, for layers that read earlier target sentences."""

    summarise_target: nn.Module | None

    def __init__(self, *, summarise_target: nn.Module | None = None, **stack: Any) -> None:
        super().__init__(**stack)
        self.summarise_target = summarise_target

    def store(self, states: Tensor, layout: DocumentLayout) -> DocumentStore | None:
        """The source document's store for the layers' context attention, from encoder states (Tk, d)."""
        return None if self.summarise is None else cast(DocumentStore, self.summarise(self.hide(states), layout))

    def forward(self, target: PackedText, states: Tensor, source_layout: DocumentLayout) -> Tensor:
        """Features (Tq, d) of the packed target, given the encoder's states (Tk, d)."""
        store = self.store(states, source_layout)
        x = self.embed(target)
        written = None if self.summarise_target is None else self.summarise_target(self.hide(x), target.layout)
        return self.run(x, Reads(target.layout, states, source_layout, store, written))

    def remember(self, source: PackedText, states: Tensor) -> list[dict[str, object]]:
        """For each layer, what its sublayers read of source documents in decoding."""
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

    `output` maps features to scores of the vocabulary; `reading` is the plan of what it reads and writes at once.
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
        states = self.encoder(batch.source)
        return cast(Tensor, self.decoder(batch.target, states, batch.source.layout))

    def encode(self, source: PackedText) -> Memory:
        """Encode packed documents and project them to what the decoder's layers read."""
        return Memory.of(source, self.decoder.remember(source, self.encoder(source)))

    def begin(
        self, memory: Memory, sentences: Tensor, beam: int, earlier: Sequence[Sequence[WrittenSentence]] = ()
    ) -> DecoderState:
        """A state with one slot of `beam` empty rows for each of `sentences` (N,) of the memory; with
        `reading.own_text`, `earlier` is for each slot what `remember` returned for the sentences before its own."""
        slots = Slots(sentences, beam, (), self.decoder.embedding.tokens.weight)
        layers = []
        for number, (layer, remembered) in enumerate(zip(self.decoder.stack, memory.layers, strict=True)):
            of_layer = [[sentence[number] for sentence in slot] for slot in earlier]
            layers.append(layer.begin(remembered, replace(slots, earlier=of_layer)))
        zeros, table = sentences.new_zeros(slots.rows), TokenTable.empty(slots.rows, sentences.device)
        return DecoderState(memory, beam, sentences, memory.begins[sentences], zeros, zeros, zeros, table, layers)

    def remember(self, memory: Memory, sentence: int, tokens: Sequence[int]) -> WrittenSentence:
        """What later sentences read of the translation `tokens` (without `</s>`) of a sentence of the memory."""
        device = memory.begins.device
        text = torch.tensor([BOS, *tokens], device=device)
        positions = memory.positions(sentence, len(text))
        layout = DocumentLayout.from_lengths([[len(text)]]).to(device)
        summarise, targets = self.decoder.summarise_target, [layer.sublayer("target") for layer in self.decoder.stack]
        assert summarise is not None
        store = summarise(self.decoder.embedding(text, positions, layout.sentence_offsets), layout)
        return [cast(EarlierContext, target).attention.packed(store) for target in targets]

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one token (R,) in every row; return scores of the next one (R, V)."""
        return cast(Tensor, self.output(self.advance(tokens, state)))

    def advance(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one token (R,) in every row; return features (R, d), which `output` maps to scores of the next one."""
        positions = state.positions(tokens, running=self.reading.positions == "sequence")
        x: Tensor = self.decoder.embedding(tokens, positions)  # (R, d)
        at = state.next_step()  # each row's token has its place in the layers' caches now
        for layer, caches in zip(self.decoder.stack, state.layers, strict=False):  # a pointer has caches of its own
            x = layer.step(x, caches, at)
        state.lengths = state.lengths + 1
        return cast(Tensor, self.decoder.norm(x))


# The interfaces of translation models and tasks that search, scoring and training use. Plug-ins may implement them.


@runtime_checkable
class RowState(Protocol):
    """The decoder state of a model's live rows."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows, in that order; they stay slot by slot, and a slot may be dropped with all its rows."""

    def append(self, other: Self) -> None:
        """Append the slots of another state."""


MemoryT = TypeVar("MemoryT")
StateT = TypeVar("StateT", bound=RowState)
WrittenT = TypeVar("WrittenT")


class TranslationModel(Protocol[MemoryT, StateT, WrittenT]):
    """A model that writes text. `MemoryT` is its memory of source documents, `StateT` its state of live rows,
    `WrittenT` its record of a sentence that it has written. The search passes all three back unchanged."""

    reading: ReadingPlan
    output: nn.Linear
    training: bool

    def __call__(self, batch: TranslationBatch) -> Tensor | CopiedFeatures:
        """Return features (T, d) of the packed target tokens; `output` maps them to scores of the vocabulary."""

    def encode(self, source: PackedText) -> MemoryT:
        """Encode packed source documents for decoding."""

    def begin(
        self, memory: MemoryT, sentences: Tensor, beam: int, earlier: Sequence[Sequence[WrittenT]] = ()
    ) -> StateT:
        """A state with one slot of `beam` empty rows for each of `sentences` (N,) of the memory's layout.

        `earlier`: for each slot what `remember` returned, with `reading.own_text` for the sentences before its own,
        with `reading.given_text` for the given ones of its document.
        """

    def remember(self, memory: MemoryT, sentence: int, tokens: Sequence[int]) -> WrittenT:
        """Return what other sentences read of the translation `tokens` of a sentence of the memory."""

    def step(self, tokens: Tensor, state: StateT) -> Tensor:
        """Read one token (R,) in every row; return scores of the next one (R, V)."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the weights."""

    def train(self, mode: bool = True) -> object:
        """Switch dropout on or off."""


_PARTS = ["reading", "output", "encode", "begin", "remember", "step", "training", "parameters", "train", "__call__"]


def lacking(model: object) -> list[str]:
    """Return the names of the members that `model` lacks of a translation model.

    `isinstance` is not used: since Python 3.12 it looks members up without `__getattr__`, by which a module finds the
    modules that it holds.
    """
    return [part for part in _PARTS if not hasattr(model, part)]


def is_translation_model(model: object) -> TypeIs[AnyTranslationModel]:
    """Return True if `model` has all members of a translation model."""
    return not lacking(model)


#: A translation model whose own types do not matter to its user: models of an ensemble differ in them.
AnyTranslationModel: TypeAlias = TranslationModel[Any, Any, Any]


@runtime_checkable
class TranslationTask(Protocol):
    """The members that search and scoring use of a task whose models are `TranslationModel`s."""

    source_lang: str
    target_lang: str
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def max_doc_tokens(self) -> int | None:
        """The most subwords of a document before models of whole documents cut it; None: no limit."""

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""

    def of_folder(self, data_dir: Path) -> Self:
        """Return the same task with another data folder's vocabulary and languages."""
