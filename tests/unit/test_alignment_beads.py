"""Aligned sentences: costs against another formula, and paths against all paths there are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from docnmt.apps.align import (
    BEADS,
    BOUNDARY,
    VARIANCE,
    AlignedSide,
    Bead,
    align,
    length_cost,
    log_tail,
    word_evidence,
)


def side(lengths: list[int], paragraphs: str = "") -> AlignedSide:
    return AlignedSide(["x" * n for n in lengths], [("0", each) for each in paragraphs or "a" * len(lengths)])


@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 2.5, 5.0])
def test_the_tail_is_that_of_the_normal_distribution(z: float) -> None:
    assert math.exp(log_tail(np.array(z))) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=1e-6)


def test_the_tail_stays_a_number_far_out() -> None:
    assert np.isfinite(log_tail(np.array([40.0, 1e4]))).all()


def paths(n: int, m: int) -> Iterator[list[Bead]]:
    """Every way through n and m sentences."""
    if not n and not m:
        yield []
    for s, t in BEADS:
        if s <= n and t <= m:
            for rest in paths(n - s, m - t):
                yield [*rest, Bead(tuple(range(n - s, n)), tuple(range(m - t, m)))]


def cost(beads: list[Bead], source: AlignedSide, target: AlignedSide, evidence: np.ndarray) -> float:
    """The same sum, bead by bead."""
    ratio, total = target.lengths.sum() / source.lengths.sum(), 0.0
    for bead in beads:
        total -= math.log(BEADS[len(bead.source), len(bead.target)])
        if not (bead.source and bead.target):
            continue
        own, other = (each.lengths[list(n)].sum() for each, n in ((source, bead.source), (target, bead.target)))
        delta = abs(other - own * ratio) / math.sqrt(VARIANCE * (own + other / ratio) / 2)
        total -= float(log_tail(np.array(delta)))
        total += BOUNDARY[abs(source.begins[bead.source[0]] - target.begins[bead.target[0]])]
        total += sum(BOUNDARY[each.begins[n]] for each, own in ((source, bead.source), (target, bead.target))
                     for n in own[1:])  # fmt: skip
        total -= sum(evidence[i, j] for i, j in itertools.product(bead.source, bead.target))
    return total


def test_the_path_is_the_cheapest_of_all() -> None:
    draw = np.random.default_rng(3)
    for _ in range(40):
        n, m = draw.integers(1, 5, 2)
        source, target = (
            side(draw.integers(5, 120, size).tolist(), "".join(sorted(draw.choice(list("abc"), size))))
            for size in (n, m)
        )
        evidence = draw.normal(scale=3, size=(n, m)).astype(np.float32)
        found = align(source, target, evidence)
        assert [n for bead in found for n in bead.source] == list(range(n))  # nothing is lost, nothing twice
        assert [n for bead in found for n in bead.target] == list(range(m))
        least = min(cost(beads, source, target, evidence) for beads in paths(n, m))
        assert cost(found, source, target, evidence) == pytest.approx(least, abs=1e-6)


def test_a_cost_is_the_same_in_both_directions() -> None:
    lengths = np.array([10.0, 40.0, 90.0])
    assert length_cost(lengths, lengths[::-1], 1.0) == pytest.approx(length_cost(lengths[::-1], lengths, 1.0))


def test_words_that_are_alike_speak_for_a_pair() -> None:
    source = AlignedSide(["The Panorama filter of 2003.", "He came home."], [("0", "0")] * 2)
    target = AlignedSide(["Er kam nach Hause.", "Der Panorama-Filter von 2003."], [("0", "0")] * 2)
    found = word_evidence(source, target)
    assert found[0, 1] > found[0, 0]
    assert found[0, 1] > found[1, 1]
