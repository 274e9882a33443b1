"""Times of several ways to compute one thing, taken in turns on one thread; memory; slopes; tables."""

from __future__ import annotations

import math
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from docnmt.runtime import device as runtime

Way = Callable[[], object]


def limit_memory(gigabytes: float) -> None:
    """What would take more fails in this process, instead of the machine ending some process."""
    resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30),) * 2)


def peak_memory(make: Callable[..., tuple[Way, Way]], *arguments: object) -> int:
    """Kilobytes that a call takes beyond what the process held before it, in a process of its own.

    `make(*arguments)` → a small call to warm up with, and the call to measure.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_memory, (make, arguments))


def _peak_memory(make: Callable[..., tuple[Way, Way]], arguments: tuple[object, ...]) -> int:
    runtime.tune()
    torch.set_num_threads(1)
    small, way = make(*arguments)
    small()
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from now; a new process inherits its parent's
    way()
    return _kilobytes("VmHWM") - before


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def forward_backward(function: Callable[..., Tensor], inputs: Sequence[Tensor], given: Tensor | None = None) -> Way:
    """One forward and backward pass for a fixed gradient of the output; the inputs' are made anew each time.

    given: the output's gradient, where making it is not to be measured; else the first call makes one.
    """
    gradient = [] if given is None else [given]

    def run() -> None:
        out = function(*inputs)
        if not gradient:
            gradient.append(torch.randn(out.shape, generator=torch.Generator().manual_seed(0)))
        torch.autograd.grad(out, inputs, gradient[0], allow_unused=True)

    return run


def forward(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> Way:
    """One forward pass without gradients."""

    def run() -> None:
        with torch.no_grad():
            function(*inputs)

    return run


def in_turns(ways: Mapping[str, Way], *, repeats: int) -> dict[str, float]:
    """Name → median seconds. One call of each way after the other, so that a busy machine disturbs them alike.

    Processor time of this thread: other processes change it less than the clock. What memory does not suffice for
    (`limit_memory`) is left out, and said.
    """
    fitting = {name: way for name, way in ways.items() if _fits(name, way)}
    samples: dict[str, list[float]] = {name: [] for name in fitting}
    for _ in range(repeats):
        for name, way in fitting.items():
            begin = time.thread_time()
            way()
            samples[name].append(time.thread_time() - begin)
    return {name: statistics.median(times) for name, times in samples.items()}


def print_shares(size: str, ways: Mapping[str, tuple[float, Way]], *, repeats: int) -> None:
    """How much of the machine's peak each way reaches that needs so many FLOPs: name → (FLOPs, way)."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    seconds = in_turns({"peak": lambda: a @ b, **{name: way for name, (_, way) in ways.items()}}, repeats=repeats)
    peak = 2 * 2048**3 / seconds["peak"]
    print(f"\n### Share of the peak, {size}: {peak / 1e9:.0f} GFLOP/s, a product of 2,048 × 2,048\n")
    for name, (flops, _) in ways.items():
        reached = flops / seconds[name]
        print(f"- {name}: {reached / 1e9:.0f} GFLOP/s, {reached / peak:.0%}")


def check_memory_was_missing(error: MemoryError | RuntimeError) -> None:
    """Raises the error again if it is of another kind: torch tells a lack of memory by its text alone."""
    if isinstance(error, RuntimeError) and "memory" not in str(error):
        raise error


def _fits(name: str, way: Way) -> bool:
    """Warms up."""
    try:
        way()
    except (MemoryError, RuntimeError) as error:
        check_memory_was_missing(error)
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        print(f"{name}: left out, it needs more than {limit / 2**30:.0f} GB", file=sys.stderr)
        return False
    return True


class Series:
    """Seconds by size and way; a way is left out from the size on at which one call would pass `limit` seconds."""

    def __init__(self, *, repeats: int, limit: float) -> None:
        self.repeats, self.limit = repeats, limit
        self.seconds: dict[int, dict[str, float]] = {}

    def add(self, size: int, ways: Mapping[str, Way]) -> None:
        live = {name: way for name, way in ways.items() if self._expected(name, size) <= self.limit}
        self.seconds[size] = in_turns(live, repeats=self.repeats)

    def _expected(self, name: str, size: int) -> float:
        """From the two sizes before, or linear growth."""
        if not self.seconds:
            return 0.0
        known = [(n, times[name]) for n, times in self.seconds.items() if name in times]
        if not known or known[-1][0] != max(self.seconds):
            return math.inf
        growth = 1.0
        if len(known) > 1:
            (before, earlier), (last, latest) = known[-2:]
            growth = math.log(max(latest / earlier, 1)) / math.log(last / before)
        return known[-1][1] * math.pow(size / known[-1][0], growth)

    def of(self, name: str) -> dict[int, float]:
        return {size: times[name] for size, times in self.seconds.items() if name in times}

    def exponent(self, name: str, *, least: int = 0, most: int | None = None) -> float:
        """Slope of log seconds over log size by least squares, between two sizes."""
        points = [
            (math.log(size), math.log(seconds))
            for size, seconds in self.of(name).items()
            if size >= least and (most is None or size <= most)
        ]
        if len(points) < 2:
            return math.nan
        mean_x, mean_y = (statistics.fmean(axis) for axis in zip(*points, strict=True))
        return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)

    def ratio(self, name: str, other: str) -> dict[int, float]:
        """How many times as long `name` takes as `other`."""
        mine, others = self.of(name), self.of(other)
        return {size: mine[size] / others[size] for size in mine if size in others}


def print_series(
    title: str,
    series: Series,
    names: Sequence[str],
    *,
    unit: str,
    ratios: Iterable[tuple[str, str]] = (),
    least: int = 0,
) -> None:
    """Milliseconds of each way by size, ratios of pairs of them, and the exponents from `least` on."""
    ratios = list(ratios)
    print(f"\n### {title}\n")
    print(f"| {unit} | " + " | ".join([*names, *(f"{a} : {b}" for a, b in ratios)]) + " |")
    print("| --- " * (1 + len(names) + len(ratios)) + "|")
    for size, times in series.seconds.items():
        cells = [f"{times[name] * 1e3:,.1f}" if name in times else "–" for name in names]
        for pair in ratios:
            ratio = series.ratio(*pair).get(size)
            cells.append("–" if ratio is None else f"{ratio:.2f}×")
        print(f"| {size:,} | " + " | ".join(cells) + " |")
    slopes = [series.exponent(name, least=least) for name in names]
    cells = ["–" if math.isnan(slope) else f"{slope:.2f}" for slope in slopes] + [""] * len(ratios)
    print(f"| exponent{f' from {least:,}' if least else ''} | " + " | ".join(cells) + " |", flush=True)
