"""Attention of single queries to lists of rows: against the equation, and independent of other queries."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from docnmt.functional.decoding import RowLists, attend_listed, products, round_up

HEADS, WIDTH, ROWS = 3, 20, 40
DRAW = torch.Generator().manual_seed(0)
#: Spans of the table for each of two heads of a row: two, one, none, and one of many rows.
BEGINS = torch.tensor([[0, 30], [7, 0], [3, 9], [0, 0]])
LENGTHS = torch.tensor([[3, 5], [1, 0], [0, 0], [37, 2]])


def lists(rows: list[int]) -> RowLists:
    """Every head of a row reads the same places of the table, in the row of its own head."""
    return RowLists.of_spans(*(spans[rows][:, None].expand(-1, HEADS, -1) for spans in (BEGINS, LENGTHS)))


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    q = torch.randn(len(BEGINS), HEADS, WIDTH, generator=draw, dtype=torch.float64)
    keys, values = torch.randn(2, ROWS, HEADS, WIDTH, generator=draw, dtype=torch.float64)
    return q.to(dtype), keys.to(dtype), values.to(dtype)


def equation(q: Tensor, keys: Tensor, values: Tensor, added: list[Tensor]) -> Tensor:
    """Row by row and head by head, in float64."""
    mixed = torch.zeros(q.shape, dtype=torch.float64)
    q, keys, values = (x.double() for x in (q, keys, values))
    for row, spans in enumerate(zip(BEGINS.tolist(), LENGTHS.tolist(), strict=True)):
        places = [begin + n for begin, length in zip(*spans, strict=True) for n in range(length)]
        for head in range(HEADS):
            scores = keys[places, head] @ q[row, head] * WIDTH**-0.5 + added[row * HEADS + head].double()
            mixed[row, head] = scores.softmax(0) @ values[places, head] if places else 0
    return mixed


@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float64, 1e-13), (torch.float32, 1e-6), (torch.bfloat16, 3e-2), (torch.float16, 3e-3)]
)
def test_it_is_softmax_attention_over_the_rows_of_each_list(dtype: torch.dtype, error: float) -> None:
    q, keys, values = inputs(dtype)
    own = lists([0, 1, 2, 3])
    added = [torch.randn(int(n), generator=DRAW) for n in own.offsets.diff()]
    found = attend_listed(q, keys, values, own, torch.cat(added))
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), equation(q, keys, values, added), rtol=0, atol=error)
    assert (found[2] == 0).all()


@pytest.mark.gpu
def test_a_card_computes_the_same() -> None:
    q, keys, values = inputs(torch.float32)
    own = lists([0, 1, 2, 3])
    there = RowLists(own.rows.cuda(), own.offsets.cuda(), own.places.cuda(), own.width)
    found = attend_listed(q.cuda(), keys.cuda(), values.cuda(), there)
    torch.testing.assert_close(found.cpu(), attend_listed(q, keys, values, own), rtol=0, atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("some", [[1], [3, 0], [0, 1, 2], [2, 3, 3, 1, 0]])
def test_a_query_has_the_same_bits_in_every_company(some: list[int]) -> None:
    q, keys, values = inputs(torch.float32)
    whole = attend_listed(q, keys, values, lists([0, 1, 2, 3]))
    assert torch.equal(attend_listed(q[some], keys, values, lists(some)), whole[some])


def test_rows_that_no_list_has_may_hold_anything() -> None:
    q, keys, values = inputs(torch.float32)
    own = lists([0, 1])
    expected = attend_listed(q[:2], keys, values, own)
    unread = [place for place in range(ROWS) if place not in {0, 1, 2, 7, *range(30, 35)}]
    keys[unread], values[unread] = torch.nan, torch.inf
    assert torch.equal(attend_listed(q[:2], keys, values, own), expected)


def test_a_table_of_places_is_the_same_as_spans() -> None:
    width = round_up(5)
    rows, real = torch.randint(9, (4, width), generator=DRAW), torch.zeros(4, width, dtype=torch.bool)
    for row, count in enumerate((5, 0, 2, 1)):
        real[row, :count] = True
    by_place = RowLists.of_table(rows, real, 1)
    spans = RowLists.of_spans(rows[:, None, :5], real[:, None, :5].long())
    for name in ("rows", "offsets", "places"):
        assert torch.equal(getattr(by_place, name), getattr(spans, name))
    table, q = torch.randn(2, 9, 1, 4, generator=DRAW)
    padded = by_place.padded(products(q[:4], table, by_place))
    expected = (q[:4, 0] @ table[:, 0].T).gather(1, rows).masked_fill(~real, -torch.inf)
    torch.testing.assert_close(padded, expected)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_an_overflow_stays_in_its_own_call(poison: float) -> None:
    """The lists' buffer is used again by other layers and later steps: what they compute is as with new lists."""
    q, keys, values = inputs(torch.float32)
    used = lists([0, 1, 2, 3])
    expected = attend_listed(q, keys, values, lists([0, 1, 2, 3]))
    assert not attend_listed(torch.full_like(q, poison), keys, values, used).isfinite().all()
    assert torch.equal(attend_listed(q, keys, values, used), expected)
