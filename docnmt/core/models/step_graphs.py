"""Steps of decoding as CUDA graphs: what a step of so many rows launches is recorded once and launched together.

Rows are filled up to one of a few numbers by copies of the last one. What a step reads is in memory that stays where it
is: numbers of the rows, the places of their tokens, and the tables of keys and values. Where a cache has put a table
elsewhere, it is copied back before the next step; that happens when slots enter and when places are given up.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn

from docnmt.core.models.encoder_decoder import DecoderState, EncoderDecoder
from docnmt.functional import kernels
from docnmt.modules.layers import FeedForward
from docnmt.modules.slot_spans import SlotSpans
from docnmt.modules.softmax_attention import CrossAttention, CrossKeys, KeyValueCache, SelfAttention
from docnmt.modules.sublayer import Cache, NoCache, Step
from docnmt.modules.token_table import TokenTable
from docnmt.runtime import graphs
from docnmt.runtime.graphs import Recorder, Repeated, Uncapturable, power_of_two

#: Tokens a row for which the first tables have places: they grow by doubling, and all graphs are recorded anew.
_TOKENS = 16
_Tables: TypeAlias = KeyValueCache | CrossKeys
#: Columns of a row's numbers: token, place of its keys, tokens read, begin and length of its source, positions.
_COLUMNS = 9


def graphed_step(model: object) -> StepGraphs | None:
    """Return what computes a model's steps as graphs; None if that cannot be, and a line says why."""
    if reason := decoding_hindrance(model):
        print(f"note: DOCNMT_GRAPHS=on: no CUDA graphs in decoding, {reason}", file=sys.stderr)
        return None
    assert isinstance(model, EncoderDecoder)
    return StepGraphs(model, graphs.CudaRecorder(model.output.weight.device))


def decoding_hindrance(model: object) -> str:
    """Why a model's steps cannot be graphs; an empty string if they can."""
    if not isinstance(model, EncoderDecoder) or type(model).step is not EncoderDecoder.step:
        return "the model has a step of its own"
    if not model.output.weight.is_cuda:
        return "they need a CUDA card"
    parts = [layer.sublayer(name) for layer in model.decoder.stack for name in layer.names]
    if any(type(part) not in (SelfAttention, CrossAttention, FeedForward) for part in parts):
        return "they are for decoders that read the source sentence and their own text by softmax attention"
    if any(isinstance(part, SelfAttention) and part.position is not None for part in parts):
        return "they are for positions that are added to embeddings"
    with kernels.used():
        return "" if kernels.takes_kernels(model.output.weight) else "they need Triton's kernels"


class StepGraphs:
    """The steps of a model; a call is `EncoderDecoder.step`. Its memory is one state's at a time.
    Once a graph cannot be recorded, steps are launched one by one.

    Args:
        model: one without `hindrance`.
    """

    def __init__(self, model: EncoderDecoder, recorder: Recorder) -> None:
        self._failed = False
        self._model, self._recorder = model, recorder
        self._steps: dict[int, Repeated] = {}
        self._own: list[tuple[Tensor, Tensor]] = []  # keys and values of the text itself, for each layer
        self._source: list[tuple[Tensor, Tensor]] = []  # and of the source
        self._state: weakref.ref[DecoderState] | None = None
        self._reach = 0
        like = model.output.weight
        self._numbers = like.new_zeros(0, _COLUMNS, dtype=torch.int64)
        self._places, self._scores = self._numbers[:, :0], like.new_zeros(0, len(like))
        self._kept: dict[int, Tensor] = {}  # the model replaces tables of positions, and graphs read the earlier

    def __call__(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one token (R,) in every row; return scores of the next one (R, V), which the next call overwrites."""
        if self._failed:
            return self._model.step(tokens, state)
        rows, filled = len(tokens), _filled_rows(len(tokens))
        positions = state.positions(tokens, running=self._model.reading.positions == "sequence")
        state.table.grow(state.lengths)
        self._hold(state)
        self._make_room(filled, state)
        self._send(tokens, positions, state, filled)
        try:
            if filled not in self._steps:  # by a weak reference, so that all memory goes with the last reference
                body = partial(StepGraphs._compute, cast(StepGraphs, weakref.proxy(self)), filled)
                self._steps[filled] = Repeated(self._recorder, body)
            self._steps[filled]()
        except Uncapturable as reason:
            print(f"note: no CUDA graphs in decoding, {reason}", file=sys.stderr)
            self._failed = True
            self._steps.clear()
            self._compute(filled)
        state.lengths = state.lengths + 1
        return self._scores[:rows]

    def _hold(self, state: DecoderState) -> None:
        """Let the state's tables be those that the graphs read; a state that had them gets copies."""
        before = None if self._state is None else self._state()
        if before is not None and before is not state:
            its: list[_Tables] = [*_caches(before, KeyValueCache), *_caches(before, CrossKeys)]
            for cache in its:
                cache.keys, cache.values = cache.keys.clone(), cache.values.clone()
        self._state = weakref.ref(state)
        own, source = _caches(state, KeyValueCache), _caches(state, CrossKeys)
        for tokens in own:
            tokens.make_room(state.table)
        self._own = self._held(self._own, own, _TOKENS * len(state.lengths))
        self._source = self._held(self._source, source, 1)
        state.table.capacity = len(own[0].keys)

    def _held(
        self, held: list[tuple[Tensor, Tensor]], caches: Sequence[_Tables], least: int
    ) -> list[tuple[Tensor, Tensor]]:
        """Return what holds the caches' keys and values from now on, of at least `least` rows: `held`, or more room."""
        needed = max(least, *(len(cache.keys) for cache in caches))
        if not held or len(held[0][0]) < needed:
            self._steps.clear()  # first, as in `_make_room`
            rows = power_of_two(needed)
            held = [
                (c.keys.new_zeros(rows, *c.keys.shape[1:]), c.values.new_zeros(rows, *c.values.shape[1:]))
                for c in caches
            ]
        for pair, cache in zip(held, caches, strict=True):
            for mine, theirs in zip(pair, (cache.keys, cache.values), strict=True):
                if mine is not theirs:
                    mine[: len(theirs)].copy_(theirs)
            cache.keys, cache.values = pair
        return held

    def _make_room(self, filled: int, state: DecoderState) -> None:
        rows, width = max(filled, len(self._places)), max(state.table.places.shape[1], self._places.shape[1])
        if (rows, width) != self._places.shape:
            self._steps.clear()  # first: where there is no room, no graph that reads what is gone may stay
            rows, width = power_of_two(rows), power_of_two(width)  # or they would be made anew often
            self._scores = self._scores.new_zeros(rows, self._scores.shape[1])
            self._numbers = self._numbers.new_zeros(rows, _COLUMNS)
            self._places = self._places.new_zeros(rows, width)  # last: its shape says what there is
        if (reach := state.reach + self._places.shape[1]) > self._reach:
            self._reach = power_of_two(reach)
            self._steps.clear()

    def _send(self, tokens: Tensor, positions: Tensor, state: DecoderState, filled: int) -> None:
        """Write what differs from step to step to the memory that the graphs read."""
        table, spans = state.table, _caches(state, CrossKeys)[0].spans
        places = torch.arange(table.size - len(tokens), table.size, device=tokens.device)
        source = torch.stack([spans.begins, spans.lengths]).repeat_interleave(state.beam, dim=1)
        numbers = torch.cat([torch.stack([tokens, places, table.lengths]), source, positions.T])  # (9, R)
        of = torch.arange(filled, device=tokens.device).clamp(max=len(tokens) - 1)
        self._numbers[:filled] = numbers.T[of]
        self._places[:filled, : table.places.shape[1]] = table.places[of]

    def _compute(self, rows: int) -> None:
        """All that a step of so many rows launches."""
        tokens, places, lengths, begins, source = self._numbers[:rows, :5].T.contiguous()
        spans, own, read = _FixedSpans(begins, source, 0), iter(self._own), iter(self._source)
        caches: dict[type[nn.Module], Callable[[], Cache]] = {
            SelfAttention: lambda: _FixedKeys(*next(own), places),
            CrossAttention: lambda: CrossKeys(*next(read), spans),
            FeedForward: NoCache,
        }
        layers = [
            {name: caches[type(layer.sublayer(name))]() for name in layer.names} for layer in self._model.decoder.stack
        ]
        at = Step(lengths, lengths, _FixedTable(self._places[:rows], lengths))
        with kernels.used():
            features = self._model.read(tokens, self._numbers[:rows, 5:], layers, at, (self._reach,) * 4)
            self._scores[:rows] = self._model.output(features)
        self._kept |= {id(buffer): buffer for buffer in self._model.buffers()}


class _FixedTable(TokenTable):
    """Lists of tokens in memory that stays where it is, whatever their lengths."""

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, added: Tensor | None = None) -> Tensor:
        from docnmt.functional.kernels.listed_attention import attend_words

        return attend_words(q, keys, values, self.places, self.lengths)


class _FixedSpans(SlotSpans):
    """A span for each row, likewise."""

    def attend(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        from docnmt.functional.kernels.listed_attention import attend_span

        return attend_span(q, keys, values, self.begins, self.lengths)


@dataclass
class _FixedKeys(KeyValueCache):
    """Tables that have room; the new tokens' places (R,) are on the device."""

    places: Tensor

    def put(self, key: Tensor, value: Tensor, table: TokenTable) -> None:
        self.keys.index_copy_(0, self.places, key)
        self.values.index_copy_(0, self.places, value)


CacheT = TypeVar("CacheT", KeyValueCache, CrossKeys)


def _caches(state: DecoderState, kind: type[CacheT]) -> list[CacheT]:
    """The caches of a kind, layer by layer."""
    return [cache for caches in state.layers for cache in caches.values() if isinstance(cache, kind)]


def _filled_rows(rows: int) -> int:
    """The number of rows to which so many are filled up: at most an eighth more, or eight."""
    step = max(8, 1 << max(0, rows.bit_length() - 4))
    return -(-rows // step) * step
