"""Scaleformer's figures 4 and 5 measured again: linear attention against the paper's algorithms and softmax attention.

    OMP_NUM_THREADS=1 python tools/bench/linear_attention.py [--lengths 256 1024 4096 16384 65536] [--plot docs]

Eight heads of width 64, horizon 16, float32, one sequence; all with the settings of `docnmt.runtime.tune`, in turns,
medians of the thread's processor time. An algorithm is left out ("–") from the length on at which a call would last
longer than --limit seconds, or its own tensors would pass --memory GB. pytorch-fast-transformers takes part where it is
installed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from measuring import (
    Series,
    Way,
    forward,
    forward_backward,
    in_turns,
    limit_memory,
    peak_memory,
    print_series,
)
from torch import Tensor

from docnmt import runtime
from docnmt.functional import LinearState, linear_attention, relative_attention_term
from docnmt.functional.linear import feature_map

HEADS, WIDTH, HORIZON = 8, 64, 16
Algorithm = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def algorithm_1(features_q: Tensor, features_k: Tensor, v: Tensor) -> Tensor:
    """The paper's Algorithm 1 as printed, but for the contraction of φ(Q): with the keys' features, not the values."""
    expanded = v[..., :, None] * features_k[..., None, :]  # (B, h, Lk, dv, d)
    summed = expanded.cumsum(2)
    last = torch.arange(features_q.shape[2]).clamp(max=features_k.shape[2] - 1)
    aligned = summed if len(last) == features_k.shape[2] else summed.index_select(2, last)
    return torch.einsum("bhil,bhijl->bhij", features_q, aligned)


def algorithm_2(features_q: Tensor, features_rel: Tensor, v: Tensor) -> Tensor:
    """The paper's Algorithm 2, with its indices corrected: W[i, j + 1], Rcumulated[i + k] where i + k < L_K."""
    queries, keys, k = features_q.shape[2], v.shape[2], features_rel.shape[0] // 2
    weights = features_q @ features_rel.mT  # (B, h, Lq, 2k+1)
    cumulated = F.pad(v.cumsum(2), (0, 0, 1, 0))  # row n: the sum of the first n values
    row = torch.arange(queries)
    before = cumulated.index_select(2, (row - k + 1).clamp(0, keys))
    after = cumulated[:, :, -1:] - cumulated.index_select(2, (row + k).clamp(0, keys))
    padded = F.pad(v, (0, 0, k - 1, max(0, queries + k - 1 - keys)))[:, :, : queries + 2 * k - 2]
    around = padded.unfold(2, 2 * k - 1, 1)  # (B, h, Lq, dv, 2k-1)
    horizon = torch.einsum("bhij,bhilj->bhil", weights[..., 1:-1], around)
    return weights[..., :1] * before + horizon + weights[..., -1:] * after


def unnormalised(features_q: Tensor, features_k: Tensor, v: Tensor, features_rel: Tensor, causal: bool) -> Tensor:
    """Equation 10's numerator by Algorithms 1 and 2."""
    if not causal:
        return features_q @ (features_k.mT @ v) + algorithm_2(features_q, features_rel, v)
    future = torch.arange(len(features_rel))[:, None] > len(features_rel) // 2
    seen = features_rel.masked_fill(future, 0)  # not the embedding: φ(0) is 1
    return algorithm_1(features_q, features_k, v) + algorithm_2(features_q, seen, v)


def paper(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, *, causal: bool) -> Tensor:
    """Equation 10 as the paper says: the denominator by the same algorithms with V = ones of shape (L_K, 1)."""
    features = feature_map(q), feature_map(k), feature_map(rel)
    numerator, denominator = (
        unnormalised(*features[:2], values, features[2], causal) for values in (v, torch.ones_like(v[..., :1]))
    )
    return numerator / denominator


def paper_in_one_pass(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, *, causal: bool) -> Tensor:
    """The same in a way kinder to it: the column of ones stands beside the values."""
    features = feature_map(q), feature_map(k), feature_map(rel)
    mixed = unnormalised(*features[:2], F.pad(v, (0, 1), value=1.0), features[2], causal)
    return mixed[..., :-1] / mixed[..., -1:]


def kernelised_by_the_paper(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, *, causal: bool) -> Tensor:
    """Figure 5: equation 8 without its denominator, which ours always computes."""
    features_q, features_k = feature_map(q), feature_map(k)
    return algorithm_1(features_q, features_k, v) if causal else features_q @ (features_k.mT @ v)


def fast_transformers(q: Tensor, k: Tensor, v: Tensor, rel: Tensor) -> Tensor:
    """The masked kernel of pytorch-fast-transformers (C++), as its CausalLinearAttention calls it."""
    from fast_transformers.causal_product import causal_dot_product

    features_q, features_k = feature_map(q), feature_map(k)
    total = torch.einsum("bhid,bhid->bhi", features_q, features_k.cumsum(2))
    mixed: Tensor = causal_dot_product(features_q, features_k, v.contiguous())
    return mixed / (total[..., None] + 1e-6)


def figures(causal: bool) -> dict[str, dict[str, Algorithm]]:
    """Title → name → algorithm; the first one is ours."""
    direction = "masked" if causal else "bidirectional"
    peer = {"fast-transformers": fast_transformers} if causal and find_spec("fast_transformers") else {}
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
            **peer,
        },
    }


def inputs(length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, length, WIDTH, generator=random, requires_grad=True) for _ in range(3))
    return q, k, v, torch.randn(2 * HORIZON + 1, WIDTH, generator=random, requires_grad=True)


def gigabytes(name: str, title: str, length: int) -> float:
    """The largest tensor of an algorithm, three times: it, its gradient, one more."""
    if name == "quadratic":
        return 3 * HEADS * length * length * 4 / 1e9
    if name.startswith("paper"):
        expanded = WIDTH if "masked" in title and "figure 4" not in title else 2 * HORIZON - 1
        return 3 * HEADS * length * expanded * (WIDTH + 1) * 4 / 1e9
    return 0.0


def measure(title: str, algorithms: dict[str, Algorithm], options: argparse.Namespace) -> Series:
    """Prints the table of one figure; seconds of forward + backward, and of the forward pass as "name, forward"."""
    both = Series(repeats=options.repeats, limit=options.limit)
    alone = Series(repeats=options.repeats, limit=options.limit)
    for length in options.lengths:
        tensors = inputs(length)
        fitting = {name: run for name, run in algorithms.items() if gigabytes(name, title, length) <= options.memory}
        both.add(length, {name: forward_backward(run, tensors) for name, run in fitting.items()})
        alone.add(length, {name: forward(run, tensors) for name, run in fitting.items()})
    ratios = [(name, "linear") for name in algorithms if name != "linear"]
    print_series(f"{title}: forward + backward, ms", both, list(algorithms), unit="tokens", ratios=ratios, least=1024)
    print_series(f"{title}: forward, ms", alone, list(algorithms), unit="tokens", ratios=ratios, least=1024)
    return both


def forward_and_backward(causal: bool, length: int) -> tuple[Way, Way]:
    """For a short sequence, and for one of this length."""
    attend = partial(linear_attention, causal=causal, backend="linear")
    tensors = inputs(length)
    return forward_backward(attend, inputs(1024)), forward_backward(attend, tensors, torch.randn_like(tensors[0]))


def print_memory(length: int) -> None:
    for causal in (True, False):
        extra = peak_memory(forward_and_backward, causal, length) / length
        gradients = 3 * HEADS * WIDTH * 4 // 1024
        print(f"\nmemory, {'masked' if causal else 'bidirectional'}, {length:,} tokens, forward + backward: ", end="")
        print(f"{extra:.1f} KB a token beyond the inputs, of which {gradients} are their gradients")


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


def plot(results: dict[str, Series], folder: Path) -> None:
    """The paper's figures 4 and 5 and the whole attention in log-log axes, masked and bidirectional side by side."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    for figure in ("figure 4", "figure 5", "attention"):
        titles = [title for title in results if title.startswith(figure)]
        canvas, axes = pyplot.subplots(1, len(titles), figsize=(5 * len(titles), 4), sharey=True, squeeze=False)
        for axis, title in zip(axes[0], titles, strict=True):
            series = results[title]
            for name in dict.fromkeys(name for times in series.seconds.values() for name in times):
                points, slope = series.of(name), series.exponent(name, least=1024)
                label = name if math.isnan(slope) else f"{name}, exponent {slope:.2f}"
                axis.loglog(list(points), [seconds * 1e3 for seconds in points.values()], "o-", base=2, label=label)
            axis.set(title=title, xlabel="tokens", ylabel="forward + backward, ms")
            axis.legend(fontsize=8)
        canvas.tight_layout()
        path = folder / f"linear-attention-{figure.replace(' ', '-')}.png"
        canvas.savefig(path, dpi=110)
        print(f"wrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 1024, 4096, 16384, 65536])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that one call may be expected to last")
    parser.add_argument("--memory", type=float, default=6.0, help="GB that an algorithm's largest tensors may take")
    parser.add_argument("--most", type=float, default=16.0, help="GB of addresses that this process may take at all")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="also draw the figures into DIR")
    options = parser.parse_args()
    limit_memory(options.most)
    print(f"{runtime.tune()}; torch {torch.__version__}")
    results = {}
    for causal in (True, False):
        for title, algorithms in figures(causal).items():
            results[title] = measure(title, algorithms, options)
    print_memory(max(options.lengths))
    print_decoding_step()
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
