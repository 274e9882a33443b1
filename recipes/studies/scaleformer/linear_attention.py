"""Figures 4 and 5 of Favier and Dal'Maz Silva measured again: linear, softmax and the paper's own attention.

    OMP_NUM_THREADS=1 python recipes/studies/scaleformer/linear_attention.py [--what figure-5] \
        [--lengths 256 1024 4096 16384 65536]
    OMP_NUM_THREADS=1 python recipes/studies/scaleformer/linear_attention.py --what figure-4 figure-5 --forward \
        --lengths 64 128 256 512

Eight heads of width 64, horizon 16, float32, one sequence (`shape`: other widths and numbers of heads at 4,096 tokens);
all with the settings of `docnmt.runtime.tune`, in turns, medians of the thread's processor time. An algorithm is left
out ("–") from the length on at which a call would last longer than --limit seconds, or its own tensors would pass
--memory GB. pytorch-fast-transformers takes part where it is installed, and torch.compile with --compile, which needs a
C++ compiler and half a minute for each length.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from linear_ways import (
    algorithm_2,
    chunked,
    fast_transformers,
    kernelised_by_the_paper,
    paper,
    paper_in_one_pass,
    plain_features,
)
from torch import Tensor

from docnmt.functional import linear_attention, relative_attention_term
from docnmt.functional.linear import LINEAR_BLOCK, LinearState, feature_map
from docnmt.runtime import device as runtime

sys.path.append(str(Path(__file__).parents[1] / "speed"))
from measuring import (
    Series,
    Way,
    forward,
    forward_backward,
    in_turns,
    limit_memory,
    peak_memory,
    print_series,
    print_shares,
)

HEADS, WIDTH, HORIZON = 8, 64, 16
SHAPES = [(8, 16), (8, 32), (8, 64), (8, 128), (1, 64), (2, 64), (4, 64), (16, 64)]
LONGEST_SDPA = 16_384  # tokens, where memory is measured: its time is quadratic, its memory is not
Algorithm = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def peers(compiled: bool) -> dict[str, Algorithm]:
    """Other ways to what figure 5 measures, masked."""
    algorithms: dict[str, Algorithm] = {"chunked": chunked}
    if compiled:
        algorithms["chunked, compiled"] = torch.compile(partial(chunked, features=plain_features), dynamic=False)
    if find_spec("fast_transformers"):
        algorithms["fast-transformers"] = fast_transformers
    return algorithms


def figures(causal: bool, compiled: bool) -> dict[str, dict[str, Algorithm]]:
    """Title → name → algorithm; the first one is ours."""
    direction = "masked" if causal else "bidirectional"
    return {
        f"attention with relative positions, {direction}": {
            "linear": lambda q, k, v, rel: linear_attention(q, k, v, rel, causal=causal, backend="linear"),
            "quadratic": lambda q, k, v, rel: linear_attention(q, k, v, rel, causal=causal, backend="quadratic"),
            "paper": lambda q, k, v, rel: paper(q, k, v, rel, causal=causal),
            "paper, one pass": lambda q, k, v, rel: paper_in_one_pass(q, k, v, rel, causal=causal),
            "SDPA": lambda q, k, v, rel: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        },
        f"figure 4, S^rel V, {direction}": {
            "linear": lambda q, k, v, rel: relative_attention_term(q, v, rel, causal=causal, backend="linear"),
            "quadratic": lambda q, k, v, rel: relative_attention_term(q, v, rel, causal=causal, backend="quadratic"),
            "paper": lambda q, k, v, rel: algorithm_2(
                feature_map(q),
                feature_map(rel).masked_fill(causal & (torch.arange(len(rel))[:, None] > HORIZON), 0),
                v,
            ),
        },
        f"figure 5, φ(Q) φ(K)ᵀ V, {direction}": {
            "linear": lambda q, k, v, rel: linear_attention(q, k, v, causal=causal, backend="linear"),
            "quadratic": lambda q, k, v, rel: linear_attention(q, k, v, causal=causal, backend="quadratic"),
            "paper": lambda q, k, v, rel: kernelised_by_the_paper(q, k, v, rel, causal=causal),
            "SDPA": lambda q, k, v, rel: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
            **(peers(compiled) if causal else {}),
        },
    }


def inputs(length: int, heads: int = HEADS, width: int = WIDTH) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, width, generator=random, requires_grad=True) for _ in range(3))
    return q, k, v, torch.randn(2 * HORIZON + 1, width, generator=random, requires_grad=True)


def gigabytes(name: str, title: str, length: int) -> float:
    """The largest tensor of an algorithm, three times: it, its gradient, one more."""
    if name == "quadratic":
        return 3 * HEADS * length * length * 4 / 1e9
    if name.startswith("paper"):
        expanded = WIDTH if "masked" in title and "figure 4" not in title else 2 * HORIZON - 1
        return 3 * HEADS * length * expanded * (WIDTH + 1) * 4 / 1e9
    return 0.0


def measure(title: str, algorithms: dict[str, Algorithm], options: argparse.Namespace) -> dict[str, Series]:
    """Prints the tables of one figure; seconds by passes."""
    ratios = [(name, "linear") for name in algorithms if name != "linear"]
    by_passes = {}
    for passes, timed in (("forward + backward", forward_backward), ("forward", forward))[options.forward :]:
        series = by_passes[passes] = Series(repeats=options.repeats, limit=options.limit)
        for length in options.lengths:
            tensors = inputs(length)
            fitting = [name for name in algorithms if gigabytes(name, title, length) <= options.memory]
            series.add(length, {name: timed(algorithms[name], tensors) for name in fitting})
        names = list(algorithms)
        print_series(f"{title}: {passes}, ms", series, names, unit="tokens", ratios=ratios, least=1024)
    return by_passes


def print_shapes(length: int, repeats: int) -> None:
    """What width and heads cost: milliseconds of masked attention at one length."""
    print(f"\n### {length:,} tokens, masked, by heads × width, forward + backward, ms\n")
    whole, _, kernelised = figures(causal=True, compiled=False).values()
    ways = {"linear, relative": whole["linear"], "linear": kernelised["linear"], "SDPA": kernelised["SDPA"]}
    print("| heads × width | " + " | ".join(ways) + " |\n| --- |" + " ---: |" * len(ways))
    for heads, width in SHAPES:
        tensors = inputs(length, heads, width)
        seconds = in_turns({name: forward_backward(run, tensors) for name, run in ways.items()}, repeats=repeats)
        print(f"| {heads} × {width} | " + " | ".join(f"{1e3 * seconds[name]:,.1f}" for name in ways) + " |", flush=True)


def forward_and_backward(title: str, name: str, length: int) -> tuple[Way, Way]:
    """For a short sequence, and for one of this length."""
    attend, tensors = figures(title.endswith("masked"), compiled=False)[title][name], inputs(length)
    return forward_backward(attend, inputs(64)), forward_backward(attend, tensors, torch.randn_like(tensors[0]))


def print_memory(lengths: list[int], most: float) -> None:
    """Kilobytes a token beyond the inputs, each in a new process."""
    ways = [
        (title, name)
        for causal in (True, False)
        for title, algorithms in list(figures(causal, compiled=False).items())[:1]
        for name in algorithms
    ]
    heads = (f"{name}, {title.rpartition(' ')[2]}" for title, name in ways)
    print("\n### Memory, KB a token beyond the inputs, forward + backward\n")
    print("| tokens | " + " | ".join(heads) + " |\n| --- |" + " ---: |" * len(ways))
    for length in lengths:
        cells = []
        for title, name in ways:
            fits = gigabytes(name, title, length) <= most and (name != "SDPA" or length <= LONGEST_SDPA)
            cells.append(f"{peak_memory(forward_and_backward, title, name, length) / length:,.1f}" if fits else "–")
        print(f"| {length:,} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nOf these {3 * HEADS * WIDTH * 4 // 1024} KB are the gradients of queries, keys and values.")


def print_flops(length: int, repeats: int) -> None:
    """Products that equation 11 needs in linear time over time and peak.

    A token and head: its key by its values into the state, its query by the state, and four such products backwards;
    for the rows of the horizon, its scores, those by values, and twice as much backwards.
    """
    tensors, ways = inputs(length), {}
    for causal in (True, False):
        title, algorithms = next(iter(figures(causal, compiled=False).items()))
        rows = HORIZON + 1 if causal else 2 * HORIZON + 1
        products = 6 * WIDTH * (WIDTH + 1) + 3 * rows * (2 * WIDTH + 1)
        ways[title] = (2 * HEADS * length * products, forward_backward(algorithms["linear"], tensors))
    print_shares(f"{length:,} tokens", ways, repeats=repeats)


def print_decoding_step(*, rows: int = 8, positions: tuple[int, int] = (64, 4096), repeats: int = 100) -> None:
    """One step of linear attention's state at two positions, and of softmax attention with a cache."""
    random = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    rel, (q, k, v) = draw(2 * HORIZON + 1, WIDTH), (draw(rows, HEADS, WIDTH) for _ in range(3))
    steps: dict[str, Way] = {}
    caches: dict[str, Way] = {}
    for position in positions:
        state = LinearState.empty(rows, HEADS, WIDTH, WIDTH, HORIZON, like=q)
        for _ in range(position):
            state.step(q, k, v, rel)
        cached_k, cached_v = (draw(rows, HEADS, position, WIDTH) for _ in range(2))
        steps[f"{position:,}"] = partial(state.step, q, k, v, rel)
        caches[f"{position:,}"] = partial(F.scaled_dot_product_attention, q[:, :, None], cached_k, cached_v)
    for name, ways in (("linear attention's state", steps), ("softmax attention with a cache", caches)):
        seconds = in_turns(ways, repeats=repeats)
        (early, first), (late, last) = seconds.items()
        print(f"\ndecoding step of {rows} rows, {name}, at positions {early} / {late}: ", end="")
        print(f"{first * 1e3:.3f} / {last * 1e3:.3f} ms ({last / first:.2f}×)")


def plot(results: dict[str, Series], folder: Path, passes: str) -> None:
    """The paper's figures 4 and 5 and the whole attention in log-log axes, masked and bidirectional side by side."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    for figure in ("figure 4", "figure 5", "attention"):
        titles = [title for title in results if title.startswith(figure)]
        if not titles:
            continue
        canvas, axes = pyplot.subplots(1, len(titles), figsize=(5 * len(titles), 4), sharey=True, squeeze=False)
        for axis, title in zip(axes[0], titles, strict=True):
            series = results[title]
            for name in dict.fromkeys(name for times in series.seconds.values() for name in times):
                points, slope = series.of(name), series.exponent(name, least=1024)
                label = name if math.isnan(slope) else f"{name}, exponent {slope:.2f}"
                axis.loglog(list(points), [seconds * 1e3 for seconds in points.values()], "o-", base=2, label=label)
            axis.set(title=title, xlabel="tokens", ylabel=f"{passes}, ms")
            axis.legend(fontsize=8)
        canvas.tight_layout()
        suffix = "-forward" if passes == "forward" else ""
        path = folder / f"linear-attention-{figure.replace(' ', '-')}{suffix}.png"
        canvas.savefig(path, dpi=110)
        print(f"wrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ["attention", "figure-4", "figure-5", "shape", "memory", "flops", "step"]
    parser.add_argument("--what", nargs="+", choices=every, default=every)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 1024, 4096, 16384, 65536])
    parser.add_argument("--forward", action="store_true", help="of the figures the forward pass only")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that one call may be expected to last")
    parser.add_argument("--memory", type=float, default=6.0, help="GB that an algorithm's largest tensors may take")
    parser.add_argument("--most", type=float, default=16.0, help="GB of addresses that this process may take at all")
    parser.add_argument("--compile", action="store_true", help="also the plain chunked form under torch.compile")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="also draw the figures into DIR")
    options = parser.parse_args()
    if any(length < 1 or length % LINEAR_BLOCK for length in options.lengths):
        parser.error(f"--lengths: expected multiples of {LINEAR_BLOCK}, the block of the chunked form")
    if options.plot:
        options.plot.mkdir(parents=True, exist_ok=True)
    limit_memory(options.most)
    print(f"{runtime.tune()}; torch {torch.__version__}")
    results = {}
    for causal in (True, False):
        for title, algorithms in figures(causal, options.compile).items():
            if any(title.startswith(what.replace("-", " ")) for what in options.what):
                results[title] = measure(title, algorithms, options)
    if "shape" in options.what:
        print_shapes(4096, options.repeats)
    if "memory" in options.what:
        print_memory([length for length in options.lengths if length >= 1024], options.memory)
    if "flops" in options.what:
        print_flops(16_384, options.repeats)
    if "step" in options.what:
        print_decoding_step()
    if options.plot is not None:
        for passes in dict.fromkeys(passes for by_passes in results.values() for passes in by_passes):
            plot({title: by_passes[passes] for title, by_passes in results.items()}, options.plot, passes)


if __name__ == "__main__":
    main()
