"""`plan_batches`: every unit once, no batch too large, the same for the same (seed, epoch)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docnmt.core.batch import plan_batches

sizes_strategy = st.lists(st.integers(0, 300), max_size=80).map(lambda x: np.array(x, dtype=np.int64))


@given(sizes_strategy, st.integers(1, 200), st.integers(0, 5), st.booleans(), st.none() | st.integers(1, 7))
def test_every_unit_once_and_no_batch_too_large(
    sizes: np.ndarray, max_tokens: int, seed: int, shuffle: bool, max_units: int | None
) -> None:
    plan = plan_batches(sizes, max_tokens, seed=seed, epoch=1, shuffle=shuffle, max_units=max_units)
    units = np.concatenate([*plan, np.zeros(0, dtype=np.int64)])
    assert sorted(units.tolist()) == list(range(len(sizes)))
    for batch in plan:
        assert batch.dtype == np.int64
        assert len(batch) == 1 or (sizes[batch].sum() <= max_tokens and (max_units is None or len(batch) <= max_units))
    again = plan_batches(sizes, max_tokens, seed=seed, epoch=1, shuffle=shuffle, max_units=max_units)
    assert len(plan) == len(again)
    assert all(np.array_equal(a, b) for a, b in zip(plan, again, strict=True))


@given(sizes_strategy, st.integers(1, 200))
def test_without_shuffling_batches_are_filled_greedily_in_order(sizes: np.ndarray, max_tokens: int) -> None:
    """The second route: one unit after the other."""
    expected: list[list[int]] = []
    for unit, size in enumerate(sizes.tolist()):
        if not expected or sum(sizes[expected[-1]]) + size > max_tokens:
            expected.append([])
        expected[-1].append(unit)
    plan = plan_batches(sizes, max_tokens, seed=0, epoch=0, shuffle=False)
    assert [batch.tolist() for batch in plan] == expected


def test_order_depends_on_seed_and_epoch() -> None:
    sizes = np.full(1000, 7)
    plans = {
        (seed, epoch): np.concatenate(plan_batches(sizes, 70, seed=seed, epoch=epoch)).tobytes()
        for seed in (1, 2)
        for epoch in (1, 2)
    }
    assert len(set(plans.values())) == 4


def test_batch_mates_are_of_similar_size_but_not_always_the_same() -> None:
    sizes = np.random.default_rng(0).integers(1, 200, 20_000)
    spread = np.mean([np.ptp(sizes[batch]) for batch in plan_batches(sizes, 4000, seed=1, epoch=1)])
    assert 5 < spread < 45  # of 199; 0 or 1 would be plain sorting
    first, second = (plan_batches(sizes, 4000, seed=1, epoch=epoch) for epoch in (1, 2))
    mates = [next(set(batch.tolist()) for batch in plan if 77 in batch) for plan in (first, second)]
    assert len(mates[0] & mates[1]) < 0.5 * len(mates[0])


def test_batches_come_in_random_order_of_size() -> None:
    sizes = np.random.default_rng(0).integers(1, 200, 20_000)
    means = np.array([sizes[batch].mean() for batch in plan_batches(sizes, 4000, seed=1, epoch=1)])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.2


def test_batches_are_nearly_full() -> None:
    sizes = np.random.default_rng(0).integers(1, 100, 50_000)
    plan = plan_batches(sizes, 4000, seed=1, epoch=1)
    assert len(plan) < 1.03 * sizes.sum() / 4000


@pytest.mark.parametrize("sizes", [np.array([1.5]), np.array([[1]]), np.array([-1])])
def test_wrong_sizes(sizes: np.ndarray) -> None:
    with pytest.raises(ValueError, match="sizes"):
        plan_batches(sizes, 10, seed=1, epoch=1)
