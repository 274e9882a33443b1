"""Paper 002's table 1 measured, and what conditional attention and the tree cost against what else one could use.

    OMP_NUM_THREADS=1 python tools/bench/attention.py [--what table1 conditional tree layer …] [--plot docs]

One document of n sentences of 25 words, eight heads of width 64, t = 4, float32. All ways run with the same settings of
`docnmt.runtime.tune` and take turns; medians of forward + backward. A way is left out ("–") from the size on at which a
call would last longer than --limit seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from attention_ways import (
    HEADS,
    QUERIES,
    TOP_T,
    WIDTH,
    WORDS,
    Document,
    conditional,
    conditional_ways,
    hierarchical,
    layer_ways,
    table1_ways,
    tree_ways,
)
from measuring import Series, Way, in_turns, limit_memory, peak_memory, print_series

from docnmt import runtime


def print_skew(sentences: int, repeats: int) -> None:
    """All queries choosing the same sentences against each its own."""
    uniform, same = Document.of(sentences), Document.of(sentences)
    same.sentence_q.data.fill_(1.0)
    times = in_turns(
        {"uniform": conditional(uniform, "dispatch"), "same": conditional(same, "dispatch")}, repeats=repeats
    )
    words = sentences * WORDS
    print(f"\n### All queries choose the same sentences, {words:,} words\n")
    print(
        f"{times['same'] * 1e3:,.1f} ms against {times['uniform'] * 1e3:,.1f} ms: "
        f"×{times['same'] / times['uniform']:.2f}"
    )


def print_memory(sentences: int) -> None:
    """Kilobytes a word that forward and backward take beyond the inputs, gradients included, in a fresh process."""
    print(f"\n### Memory, {sentences * WORDS:,} words, forward + backward, peak beyond the inputs\n")
    for kind in (conditional, hierarchical):
        extra = peak_memory(_dispatch, kind, sentences) / (sentences * WORDS)
        print(f"{kind.__name__}: {extra:.1f} KB a word, of which {4 * HEADS * WIDTH * 4 // 1024} are the gradients")


def _dispatch(kind: Callable[..., Way], sentences: int) -> tuple[Way, Way]:
    document = Document.of(sentences)
    return kind(Document.of(16), "dispatch"), kind(document, "dispatch", torch.randn_like(document.q))


def print_flops(sentences: int, repeats: int) -> None:
    """Products that equation 7 needs (two forward, five backward, scores twice; selection once) over time and peak."""
    document = Document.of(sentences)
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    seconds = in_turns({"peak": lambda: a @ b, "conditional": conditional(document, "dispatch")}, repeats=repeats)
    peak = 2 * 2048**3 / seconds["peak"]
    words = sentences * WORDS
    useful = 2 * HEADS * WIDTH * words * (7 * TOP_T * WORDS + sentences)
    reached = useful / seconds["conditional"]
    print(f"\n### Share of the peak, {words:,} words\n")
    print(f"{reached / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s (a product of 2,048 × 2,048): {reached / peak:.0%}")


def plot(series: Series, names: list[str], path: Path, *, title: str, unit: str, least: int) -> None:
    """Milliseconds over size, both logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name in names:
        points = series.of(name)
        label = f"{name}, exponent {series.exponent(name, least=least):.2f}"
        axes.loglog(list(points), [s * 1e3 for s in points.values()], marker="o", label=label)
    what = "selection alone" if "Selection" in title else "forward + backward"
    axes.set(xlabel=unit, ylabel=f"{what}, ms", title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"\nplot: {path}")


PARTS: dict[str, tuple[Callable[[int], dict[str, Way]], str, str, int, tuple[tuple[str, str], ...]]] = {
    # ways, title, unit, words a size, ratios
    "table1": (table1_ways, "Table 1 of paper 002, measured", "sentences", 1, ()),
    "conditional": (
        conditional_ways,
        "Conditional attention",
        "words",
        WORDS,
        (
            ("SDPA", "dispatch"),
            ("masked SDPA", "dispatch"),
            ("dense", "dispatch"),
            ("padded", "dispatch"),
            ("auto", "dispatch"),
        ),
    ),
    "tree": (tree_ways, f"Selection of {QUERIES:,} words", "sentences", 1, (("flat", "tree"),)),
    "layer": (
        layer_ways,
        "A whole layer",
        "words",
        WORDS,
        (("whole document", "conditional"), ("conditional", "sentence by sentence")),
    ),
}
SIZES = {
    "table1": [8, 32, 128, 512, 2048],
    "conditional": [8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "tree": [8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384],
    "layer": [8, 16, 32, 128, 512],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*PARTS, "skew", "memory", "flops"]
    parser.add_argument("--what", nargs="+", choices=every, default=every)
    parser.add_argument("--sentences", nargs="+", type=int, help="sizes [each part its own]")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--most", type=float, default=16.0, metavar="GB", help="addresses this process may take")
    parser.add_argument("--plot", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    limit_memory(options.most)
    print(runtime.tune())
    torch.set_num_threads(1)
    for part in options.what:
        if part in PARTS:
            ways, title, unit, words, ratios = PARTS[part]
            series = Series(repeats=options.repeats, limit=options.limit)
            for sentences in options.sentences or SIZES[part]:
                series.add(sentences * words, ways(sentences))
            names = list(ways(2))
            least = 1600 if unit == "words" else 64
            print_series(title, series, names, unit=unit, ratios=ratios, least=least)
            if options.plot:
                plot(series, names, options.plot / f"attention-{part}.png", title=title, unit=unit, least=least)
        elif part == "skew":
            print_skew(512, options.repeats)
        elif part == "memory":
            print_memory(512)
        else:
            print_flops(512, options.repeats)


if __name__ == "__main__":
    main()
