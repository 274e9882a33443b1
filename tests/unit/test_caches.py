"""Caches of attention are as long as the rows that are at work need them, and no longer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from docnmt.layout import DocumentLayout
from docnmt.modules.positions.attention_positions import Alibi, RelativeKeys, Rotary
from docnmt.modules.softmax_attention import CrossKeys, KeyValueCache, SelfAttention
from docnmt.modules.sublayer import Reads, Slots, Step
from docnmt.modules.token_tree import TokenTree
from docnmt.runtime.tuning import INVARIANT_KEYS


def begun(attention: SelfAttention, tree: TokenTree) -> KeyValueCache:
    groups, rows = tree.places.shape
    return attention.begin(None, Slots(torch.zeros(groups), rows, [], torch.zeros(0)))


def stepped(attention: SelfAttention, x: Tensor, cache: KeyValueCache, tree: TokenTree, lengths: list[int]) -> Tensor:
    tree.grow(torch.tensor(lengths))
    return attention.step(x, cache, Step(torch.tensor(lengths), torch.zeros(len(lengths)), tree))


def reordered(rows: list[int], cache: KeyValueCache, tree: TokenTree, slots: list[int] | None) -> None:
    tree.keep(torch.tensor(rows))
    cache.keep(torch.tensor(rows), None if slots is None else torch.tensor(slots))


@torch.inference_mode()
def test_a_cache_forgets_the_length_of_rows_that_have_left() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(d_model=16, heads=2, d_head=8, causal=True)
    long, short = torch.randn(3 * INVARIANT_KEYS + 5, 16), torch.randn(9, 16)
    tree, new = TokenTree.empty(1, 1), TokenTree.empty(1, 1)
    cache = begun(attention, tree)
    for place, token in enumerate(long):
        stepped(attention, token[None], cache, tree, [place])
    cache.append(begun(attention, new))
    tree.append(new)
    reordered([1], cache, tree, [1])
    steps = [stepped(attention, token[None], cache, tree, [place]) for place, token in enumerate(short)]
    assert cache.keys.shape[2] == cache.values.shape[2] == INVARIANT_KEYS
    whole = attention(short, Reads(DocumentLayout.from_lengths([[len(short)]])))
    torch.testing.assert_close(torch.cat(steps), whole, atol=1e-6, rtol=1e-6)


@torch.inference_mode()
@pytest.mark.parametrize("position", [None, "rotary", "relative", "alibi"])
def test_rows_that_branch_off_and_die_read_what_they_have_written(position: str | None) -> None:
    """Against the full pass over each row's own tokens, kept in lists; slots enter and leave on the way."""
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(1)
    make = {"rotary": Rotary, "relative": lambda: RelativeKeys(8, 3), "alibi": lambda: Alibi(2)}
    inside = None if position is None else make[position]()
    attention = SelfAttention(d_model=16, heads=2, d_head=8, causal=True, position=inside).double()
    beam, tree = 3, TokenTree.empty(2, 3)
    cache = KeyValueCache.empty(2, beam, 2, 8, torch.zeros(0, dtype=torch.float64))
    rows: list[list[Tensor]] = [[] for _ in range(2 * beam)]
    most = 0
    for number in range(40):
        tokens = torch.randn(len(rows), 16, generator=draw, dtype=torch.float64)
        found = stepped(attention, tokens, cache, tree, [len(row) for row in rows])
        rows = [[*row, token] for row, token in zip(rows, tokens, strict=True)]
        for row, output in zip(rows, found, strict=True):
            layout = DocumentLayout.from_lengths([[len(row)]])
            torch.testing.assert_close(output, attention(torch.stack(row), Reads(layout))[-1])
        most = max(most, cache.keys.shape[2])
        slots = list(range(len(rows) // beam))
        if number % 11 == 7:
            del slots[number % len(slots)]
        order = [slot * beam + int(n) for slot in slots for n in torch.randint(beam, (beam,), generator=draw)]
        reordered(order, cache, tree, slots if len(slots) < len(rows) // beam else None)
        rows = [rows[row] for row in order]
        if number % 11 == 9:
            new = TokenTree.empty(1, beam)
            cache.append(KeyValueCache.empty(1, beam, 2, 8, cache.keys))
            tree.append(new)
            rows += [[] for _ in range(beam)]
    assert most <= 4 * INVARIANT_KEYS  # and not one place for each of 40 tokens of 3 rows


def test_a_row_since_a_token_reads_only_what_follows() -> None:
    tree = TokenTree.empty(1, 2)
    for length in range(4):
        tree.grow(torch.tensor([length, length]))
    tree.keep(torch.tensor([1, 1]))
    tree.grow(torch.tensor([4, 4]))
    recent = tree.since(torch.tensor([3, 0]))
    assert recent.written.sum(2).tolist() == [[2, 5]]
    distances = tree.distances()[0]
    assert [sorted(distances[row][tree.written[0, row]].tolist()) for row in (0, 1)] == [[-4, -3, -2, -1, 0]] * 2


def test_source_keys_forget_the_length_of_sentences_that_have_left() -> None:
    keys, values = torch.randn(60, 2, 8), torch.randn(60, 2, 8)
    spans = DocumentLayout.from_lengths([[50, 4, 6]]).sentences
    cache = CrossKeys.gather(keys, values, spans, torch.tensor([0, 1]))
    assert cache.keys.shape[2] == 64
    cache.keep(torch.tensor([1]), torch.tensor([1]))
    cache.append(CrossKeys.gather(keys, values, spans, torch.tensor([2])))
    assert cache.keys.shape[2] == cache.allowed.shape[1] == INVARIANT_KEYS
    for row, (start, length) in enumerate([(50, 4), (54, 6)]):
        assert torch.equal(cache.keys[row, :, :length].transpose(0, 1), keys[start : start + length])
        assert torch.equal(cache.values[row, :, :length].transpose(0, 1), values[start : start + length])
        assert cache.allowed[row].sum() == length
    left = CrossKeys.gather(keys, values, spans, torch.tensor([0]))
    left.keep(torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long))
    left.append(cache)
    assert left.keys.shape == cache.keys.shape
