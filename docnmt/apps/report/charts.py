"""Charts of scores with intervals: the positions of points, which `charts.html` draws as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from docnmt.apps.report.measure import Interval

#: The size of a chart, in its own units, and its margins: left, right, top and bottom.
WIDTH, HEIGHT = 360, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 8, 36


@dataclass(frozen=True)
class Point:
    """A score at x; y grows downward, so `low` has the larger y."""

    x: float
    y: float
    low: float | None
    high: float | None
    label: str


@dataclass(frozen=True)
class Chart:
    """A chart: points of every system above labelled places, with horizontal lines at round scores."""

    name: str
    axis: str
    places: Sequence[tuple[float, str]]
    ticks: Sequence[tuple[float, str]]
    systems: Sequence[tuple[str, Sequence[Point]]]


def chart(
    name: str, axis: str, labels: Sequence[str], systems: Sequence[str], scores: Sequence[Sequence[Interval]]
) -> Chart:
    """Lay out a chart.

    Args:
        axis: the meaning of the labels below it.
        scores: for each label, an interval of each system.
    """
    every = [interval for row in scores for interval in row]
    low, high = _range(every)
    low, high = low - (high - low) / 20, high + (high - low) / 20
    ticks = _ticks(low, high)
    step = (WIDTH - _LEFT - _RIGHT) / len(labels)
    aside = min(7.0, step / (len(systems) + 1))  # so that intervals do not hide one another

    def height(score: float) -> float:
        return round(_TOP + (HEIGHT - _TOP - _BOTTOM) * (high - score) / (high - low), 1)

    def point(place: int, number: int) -> Point:
        interval = scores[place][number]
        x = _LEFT + step * (place + 0.5) + aside * (number - (len(systems) - 1) / 2)
        low_y, high_y = (None if end is None else height(end) for end in (interval.low, interval.high))
        label = f"{systems[number]}, {labels[place]}: {interval}"
        return Point(round(x, 1), height(interval.score), low_y, high_y, label)

    return Chart(
        name,
        axis,
        [(round(_LEFT + step * (place + 0.5), 1), _short(label)) for place, label in enumerate(labels)],
        [(height(tick), f"{tick:g}") for tick in ticks],
        [(system, [point(place, n) for place in range(len(labels))]) for n, system in enumerate(systems)],
    )


def bars(intervals: Sequence[Interval]) -> list[tuple[float, float, float]]:
    """Return intervals on one scale from 0 to 100: begin, score and end of each."""
    low, high = _range(intervals)
    return [
        (
            round(100 * (a - low) / (high - low), 1),
            round(100 * (s - low) / (high - low), 1),
            round(100 * (b - low) / (high - low), 1),
        )
        for a, s, b in map(_ends, intervals)
    ]


def _ends(interval: Interval) -> tuple[float, float, float]:
    score = interval.score
    return (
        score if interval.low is None else min(interval.low, score),
        score,
        score if interval.high is None else max(interval.high, score),
    )


def _range(intervals: Sequence[Interval]) -> tuple[float, float]:
    low = min(_ends(interval)[0] for interval in intervals)
    high = max(_ends(interval)[2] for interval in intervals)
    return (low, high) if high - low > 1e-6 else (low - 1, high + 1)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high`, at most five."""
    rough = (high - low) / 5
    unit: float = 10 ** math.floor(math.log10(rough))
    step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= rough)
    return [round(step * n, 6) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _short(label: str) -> str:
    """Shorten `17–32` to `17–`: the next label shows where it ends."""
    first, dash, _ = label.partition("–")
    return first + dash
