"""packed_attention against a loop over spans, values and gradients, in float64."""

from __future__ import annotations

import pytest
import torch
from attention_reference import assert_same_passes, spans
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from docnmt.functional import packed as costs
from docnmt.functional.decoding import PackedKeys, Shelf, TokenTable
from docnmt.functional.packed import packed_attention
from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.attention import KeyValueCache, SelfAttention
from docnmt.modules.document_context import ConditionalAttention, ContextAttention, SourceContext, SummaryAttention
from docnmt.modules.layers import DocumentStore, Reads, Slots, Step
from docnmt.modules.positions import Alibi, RelativeKeys, Rotary

LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6)
ROUTES = st.sampled_from(["bucket", "long"])


def by_span(
    q: Tensor, k: Tensor, v: Tensor, q_spans: Spans, k_spans: Spans, causal: bool, near: Tensor | None
) -> Tensor:
    """The definition, a span, a head and a query at a time."""
    out = torch.zeros(len(q), q.shape[1], v.shape[2], dtype=q.dtype)
    for n in range(len(q_spans)):
        a, b = int(q_spans.offsets[n]), int(q_spans.offsets[n + 1])
        c, d = int(k_spans.offsets[n]), int(k_spans.offsets[n + 1])
        for i in range(a, b):
            last = min(d, c + i - a + 1) if causal else d
            if last == c:
                continue
            scores = torch.einsum("hd,jhd->hj", q[i], k[c:last]) / q.shape[-1] ** 0.5
            if near is not None:
                radius = near.shape[-1] // 2
                columns = radius + (torch.arange(last - c) - (i - a)).clamp(-radius, radius)
                scores = scores + (near if near.dim() == 2 else near[i])[:, columns]
            out[i] = torch.einsum("hj,jhd->hd", scores.softmax(-1), v[c:last])
    return out


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@settings(max_examples=30)
@given(LENGTHS, st.booleans(), st.sampled_from(["none", "shared", "by query"]), ROUTES)
def test_equals_the_loop_over_spans(lengths: list[tuple[int, int]], causal: bool, distance: str, route: str) -> None:
    torch.manual_seed(len(lengths))
    q_spans, k_spans = spans([a for a, _ in lengths]), spans([b for _, b in lengths])
    q, k, v = leaf(q_spans.num_tokens, 2, 4), leaf(k_spans.num_tokens, 2, 4), leaf(k_spans.num_tokens, 2, 3)
    near = {"none": None, "shared": leaf(2, 7), "by query": leaf(len(q), 2, 7)}[distance]
    inputs = [x for x in (q, k, v, near) if x is not None]
    with pytest.MonkeyPatch.context() as patch:
        if route == "long":  # every span alone, in small blocks
            patch.setattr(costs, "SPAN_LONG", 0)
            patch.setattr(costs, "SPAN_BLOCK", 50)
        fast = packed_attention(q, k, v, q_spans, k_spans, causal=causal, distance_scores=near)
        with torch.no_grad():  # long spans go another way then
            assert torch.allclose(
                fast, packed_attention(q, k, v, q_spans, k_spans, causal=causal, distance_scores=near), atol=1e-12
            )
        slow = by_span(q, k, v, q_spans, k_spans, causal, near)
        assert_same_passes(fast, slow, inputs, 1e-12)


@pytest.mark.parametrize("longest", [0, 256])
def test_half_types_are_close_to_float32(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SPAN_LONG", longest)
    both, x = spans([6, 11]), torch.randn(17, 2, 8)
    full, half = (packed_attention(y, y, y, both, both) for y in (x, x.bfloat16()))
    assert half.dtype == torch.bfloat16
    assert torch.allclose(full, half.float(), atol=0.03)


# What a document layout is, and what is none.


@pytest.mark.parametrize(
    ("sentences", "documents", "message"),
    [
        ([0, 5, 8], [0, 1], "document_offsets:"),
        ([2, 5, 8], [0, 2], "sentence_offsets:"),
        ([0, 5, 3], [0, 2], "sentence_offsets:"),
        ([0, 5, 8], [1, 2], "document_offsets:"),
        ([], [0], "sentence_offsets:"),
    ],
)
def test_offsets_that_are_no_layout_are_refused(sentences: list[int], documents: list[int], message: str) -> None:
    offsets = (torch.tensor(values, dtype=torch.int64) for values in (sentences, documents))
    with pytest.raises(ValueError, match=message):
        DocumentLayout(*offsets)


# Slots of several memories: read at once, or one memory after the other, each gets what it gets alone.


WIDTH, BEAM = 16, 2
LENGTHS_OF_JOINED = [[[3, 5, 2], [4]], [[6, 1, 2, 7, 3]], [[2, 2], [5, 3]]]
CHOSEN = [[0, 3], [4, 1, 2], [3, 0]]
EVERY = [number for chosen in CHOSEN for number in chosen]
ATTENTIONS = {
    "summaries": lambda: SummaryAttention(d_model=WIDTH, heads=2, d_head=8),
    "sentences": lambda: ConditionalAttention(d_model=WIDTH, heads=2, d_head=8, top_t=2),
    "own": lambda: ConditionalAttention(d_model=WIDTH, heads=2, d_head=8, top_t=2, always_own=True, by_blocks=True),
}


def memory(sublayer: SourceContext, lengths: list[list[int]]) -> PackedKeys:
    layout = DocumentLayout.from_lengths(lengths)
    words, summaries = torch.randn(layout.num_tokens, WIDTH), torch.randn(layout.num_sentences, WIDTH)
    keys = sublayer.remember(Reads(layout, store=DocumentStore(words, layout, summaries, None)))
    assert isinstance(keys, PackedKeys)
    return keys


def begun(sublayer: SourceContext, keys: PackedKeys, chosen: list[int]) -> Shelf:
    shelf = sublayer.begin(keys, Slots(torch.tensor(chosen), BEAM, [], torch.zeros(0)))
    assert isinstance(shelf, Shelf)
    return shelf


def stepped(sublayer: SourceContext, x: torch.Tensor, cache: Shelf, chosen: list[int]) -> torch.Tensor:
    rows = torch.tensor(chosen).repeat_interleave(BEAM)
    return sublayer.step(x, cache, Step(torch.zeros_like(rows), rows, TokenTable.empty(len(rows))))


@torch.inference_mode()
@pytest.mark.parametrize("name", ATTENTIONS)
def test_each_slot_reads_its_own_memory(name: str) -> None:
    torch.manual_seed(0)
    attention: ContextAttention = ATTENTIONS[name]()
    sublayer = SourceContext(attention)
    memories = [memory(sublayer, lengths) for lengths in LENGTHS_OF_JOINED]
    x = [torch.randn(len(chosen) * BEAM, WIDTH) for chosen in CHOSEN]
    alone = [
        stepped(sublayer, rows, begun(sublayer, keys, chosen), chosen)
        for rows, keys, chosen in zip(x, memories, CHOSEN, strict=True)
    ]
    cache = begun(sublayer, memories[0], CHOSEN[0])
    for keys, chosen in zip(memories[1:], CHOSEN[1:], strict=True):
        cache.append(begun(sublayer, keys, chosen))
    together = stepped(sublayer, torch.cat(x), cache, EVERY)
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=1e-6)

    kept = torch.tensor([1, 6, 5])  # the second memory is no longer read
    cache.keep(torch.arange(0), kept)
    rows = (kept[:, None] * BEAM + torch.arange(BEAM)).flatten()
    fewer = stepped(sublayer, torch.cat(x)[rows], cache, [EVERY[n] for n in kept.tolist()])
    torch.testing.assert_close(fewer, torch.cat(alone)[rows], atol=1e-6, rtol=1e-6)


# Caches of attention: rows branch off and die, slots enter and leave, and each reads what it has written.


def stepped_of_caches(
    attention: SelfAttention, x: Tensor, cache: KeyValueCache, table: TokenTable, lengths: list[int]
) -> Tensor:
    table.grow(torch.tensor(lengths))
    return attention.step(x, cache, Step(torch.tensor(lengths), torch.zeros(len(lengths)), table))


@torch.inference_mode()
@pytest.mark.parametrize("position", [None, "rotary", "relative", "alibi"])
def test_rows_that_branch_off_and_die_read_what_they_have_written(position: str | None) -> None:
    """Against the full pass over each row's own tokens, kept in lists; slots enter and leave on the way."""
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(1)
    make = {"rotary": Rotary, "relative": lambda: RelativeKeys(8, 3), "alibi": lambda: Alibi(2)}
    inside = None if position is None else make[position]()
    attention = SelfAttention(d_model=16, heads=2, d_head=8, causal=True, position=inside).double()
    beam, table = 3, TokenTable.empty(6)
    cache = KeyValueCache.empty(2, 8, torch.zeros(0, dtype=torch.float64))
    rows: list[list[Tensor]] = [[] for _ in range(2 * beam)]
    most = 0
    for number in range(60):
        tokens = torch.randn(len(rows), 16, generator=draw, dtype=torch.float64)
        outputs = stepped_of_caches(attention, tokens, cache, table, [len(row) for row in rows])
        rows = [[*row, token] for row, token in zip(rows, tokens, strict=True)]
        for row, output in zip(rows, outputs, strict=True):
            layout = DocumentLayout.from_lengths([[len(row)]])
            torch.testing.assert_close(output, attention(torch.stack(row), Reads(layout))[-1])
        most = max(most, len(cache.keys))
        slots = list(range(len(rows) // beam))
        if number % 11 == 7:
            del slots[number % len(slots)]
        order = [slot * beam + int(n) for slot in slots for n in torch.randint(beam, (beam,), generator=draw)]
        table.keep(torch.tensor(order))
        cache.keep(torch.tensor(order), torch.tensor(slots))
        rows = [rows[row] for row in order]
        if number % 11 == 9:
            cache.append(KeyValueCache.empty(2, 8, cache.keys))
            table.append(TokenTable.empty(beam))
            rows += [[] for _ in range(beam)]
    assert most <= 4 * 60  # and not one place for each of 60 tokens of 6 to 9 rows


@torch.inference_mode()
def test_rows_that_have_written_join_others() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(d_model=16, heads=2, d_head=8, causal=True).double()
    x = torch.randn(5, 2, 16, dtype=torch.float64)
    alone = [attention(x[:, row], Reads(DocumentLayout.from_lengths([[5]]))) for row in range(2)]
    tables = [TokenTable.empty(1) for _ in range(2)]
    caches = [KeyValueCache.empty(2, 8, x) for _ in range(2)]
    for position in range(3):
        for row in range(2):
            stepped_of_caches(attention, x[position, row : row + 1], caches[row], tables[row], [position])
    tables[0].append(tables[1])
    caches[0].append(caches[1])
    for position in (3, 4):
        outputs = stepped_of_caches(attention, x[position], caches[0], tables[0], [position, position])
        torch.testing.assert_close(outputs, torch.stack([output[position] for output in alone]))


def test_a_row_since_a_token_reads_only_what_follows() -> None:
    table = TokenTable.empty(2)
    for length in range(4):
        table.grow(torch.tensor([length, length]))
    table.keep(torch.tensor([1, 1]))
    table.grow(torch.tensor([4, 4]))
    recent = table.since(torch.tensor([3, 0])).lists(1)
    assert recent.offsets.diff().tolist() == [2, 5]
    assert recent.rows.tolist() == [*table.places[0, 3:5].tolist(), *table.places[1, :5].tolist()]
    assert table.distances()[:, :5].tolist() == [[-4, -3, -2, -1, 0]] * 2


@torch.inference_mode()
def test_slots_read_their_own_source_sentence_whatever_enters_and_leaves() -> None:
    """Against each sentence alone; sentences come from three encodings, as in a search over many documents."""
    draw = torch.Generator().manual_seed(0)
    spans = DocumentLayout.from_lengths([[50, 4, 6, 0, 9]]).sentences
    packed = [PackedKeys(*torch.randn(2, 69, 2, 8, generator=draw), spans) for _ in range(3)]
    cache, slots = packed[0].of(torch.tensor([0, 1])), [(0, 0), (0, 1)]
    most = 0
    for number in range(30):
        leave = number % 3 == 0 and len(slots) > 1
        stay = torch.tensor([n for n in range(len(slots)) if not leave or n != number % len(slots)])
        cache.keep(stay, stay)
        slots = [slots[n] for n in stay.tolist()]
        new = (number // 4 % 3, number % 5)
        cache.append(packed[new[0]].of(torch.tensor([new[1]])))
        slots = [*slots, new][-6:]
        last = torch.arange(max(len(cache.slots) - 6, 0), len(cache.slots))
        cache.keep(last, last)
        q = torch.randn(len(slots) * 2, 2, 8, generator=draw)  # two rows a slot, two heads
        attended = cache.attend(q, {}).view(-1, 2, 2, 8)
        most = max(most, len(cache.keys))
        for (memory, sentence), rows, query in zip(slots, attended, q.view(-1, 2, 2, 8), strict=True):
            begin, end = spans.host[sentence : sentence + 2].tolist()
            k, v = packed[memory].keys[begin:end], packed[memory].values[begin:end]
            weights = (torch.einsum("bhd,khd->bhk", query, k) * 8**-0.5).softmax(-1)
            torch.testing.assert_close(rows, torch.einsum("bhk,khd->bhd", weights, v), atol=1e-5, rtol=1e-5)
    assert most <= 600  # what has left is given up
