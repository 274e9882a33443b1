"""Caches of attention: rows branch off and die, slots enter and leave, and each reads what it has written."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from docnmt.functional.decoding import PackedKeys, TokenTable
from docnmt.layout import DocumentLayout
from docnmt.modules.attention import KeyValueCache, SelfAttention
from docnmt.modules.layers import Reads, Step
from docnmt.modules.positions import Alibi, RelativeKeys, Rotary


def stepped(attention: SelfAttention, x: Tensor, cache: KeyValueCache, table: TokenTable, lengths: list[int]) -> Tensor:
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
        found = stepped(attention, tokens, cache, table, [len(row) for row in rows])
        rows = [[*row, token] for row, token in zip(rows, tokens, strict=True)]
        for row, output in zip(rows, found, strict=True):
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
    for place in range(3):
        for row in range(2):
            stepped(attention, x[place, row : row + 1], caches[row], tables[row], [place])
    tables[0].append(tables[1])
    caches[0].append(caches[1])
    for place in (3, 4):
        found = stepped(attention, x[place], caches[0], tables[0], [place, place])
        torch.testing.assert_close(found, torch.stack([each[place] for each in alone]))


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
        found = cache.attend(q, {}).view(-1, 2, 2, 8)
        most = max(most, len(cache.keys))
        for (memory, sentence), rows, query in zip(slots, found, q.view(-1, 2, 2, 8), strict=True):
            begin, end = spans.host[sentence : sentence + 2].tolist()
            k, v = packed[memory].keys[begin:end], packed[memory].values[begin:end]
            weights = (torch.einsum("bhd,khd->bhk", query, k) * 8**-0.5).softmax(-1)
            torch.testing.assert_close(rows, torch.einsum("bhk,khd->bhd", weights, v), atol=1e-5, rtol=1e-5)
    assert most <= 600  # what has left is given up
