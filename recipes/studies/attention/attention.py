"""Table 1 of Trankova and Rykunov, measured, and what conditional attention and the tree cost against other ways.

    OMP_NUM_THREADS=1 python recipes/studies/attention/attention.py [--what table1 conditional …] [--plot docs/pictures]

One document of n sentences of 25 words, eight heads of width 64, t = 4, float32. All ways run with the same settings of
`docnmt.runtime.tune` and take turns; medians of forward + backward, and of the forward pass alone. A way is left out
("–") from the size on at which a call would last longer than --limit seconds. `memory`: every way in a new process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from attention_ways import (
    HEADS,
    LONGEST_DENSE,
    QUERIES,
    TOP_T,
    WIDTH,
    WORDS,
    Document,
    Timed,
    conditional,
    conditional_ways,
    layer_ways,
    step_ways,
    table1_pairs,
    table1_ways,
    tree_ways,
)
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

from docnmt.runtime import device as runtime


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


def print_auto(repeats: int) -> None:
    """Whether `auto` takes the best form for other shapes than the tables': few and many words read of a document."""
    print("\n### `auto` against the best form, forward + backward, ms\n")
    print("| documents × sentences × words | t | auto | dispatch | dense | auto : best |")
    print("| --- |" + " ---: |" * 5)
    for documents, sentences, words, top_t in SHAPES:
        document = Document.of(sentences, words, documents)
        names = ("auto", "dispatch", "dense")
        seconds = in_turns({name: conditional(document, name, top_t=top_t) for name in names}, repeats=repeats)
        cells = " | ".join(f"{1e3 * seconds[name]:,.1f}" for name in names)
        ratio = seconds["auto"] / min(seconds.values())
        print(f"| {documents} × {sentences} × {words} | {top_t} | {cells} | {ratio:.2f}× |", flush=True)


def print_memory(sizes: list[int], folder: Path | None) -> None:
    """Kilobytes a word that forward and backward take beyond the inputs, gradients included, in fresh processes."""
    print("\n### Memory, KB a word, forward + backward, peak beyond the inputs\n")
    names = ["SDPA", "dispatch", "tree", "dense", "masked SDPA"]
    print("| words | " + " | ".join(names) + " |\n| --- |" + " ---: |" * len(names))
    kilobytes: dict[str, dict[int, float]] = {name: {} for name in names}
    for sentences in sizes:
        for name in names:
            if (
                sentences * WORDS <= LONGEST_DENSE
                or name in ("dispatch", "tree")
                or (name == "SDPA" and sentences <= 512)
            ):
                kilobytes[name][sentences * WORDS] = peak_memory(_one_way, name, sentences) / (sentences * WORDS)
        words = sentences * WORDS
        cells = (f"{kilobytes[name][words]:,.1f}" if words in kilobytes[name] else "–" for name in names)
        print(f"| {words:,} | " + " | ".join(cells) + " |", flush=True)
    print(
        f"\nOf these {4 * HEADS * WIDTH * 4 // 1024} KB are the gradients, of SDPA's {3 * HEADS * WIDTH * 4 // 1024}."
    )
    if folder:
        draw(kilobytes, folder / "attention-memory.png", title="Memory of attention", axes=("words", "KB a word"))


def _one_way(name: str, sentences: int) -> tuple[Way, Way]:
    """A small call to warm up, and one whose output's gradient is there before memory is looked at."""
    given = torch.randn(sentences * WORDS, HEADS, WIDTH)
    way = conditional_ways(sentences, partial(forward_backward, given=given))[name]
    return conditional_ways(2, forward_backward)[name], way


def print_flops(sentences: int, repeats: int) -> None:
    """Products that equation 7 needs (two forward, five backward, scores twice; selection once) over time and peak."""
    words = sentences * WORDS
    useful = 2 * HEADS * WIDTH * words * (7 * TOP_T * WORDS + sentences)
    way = conditional(Document.of(sentences), "dispatch")
    print_shares(f"{words:,} words", {"conditional": (useful, way)}, repeats=repeats)


def print_pairs(title: str, unit: str, pairs: dict[int, dict[str, int]]) -> None:
    """Thousands of pairs of a query and a key in one head."""
    names = list(next(iter(pairs.values())))
    print(f"\n### {title}: pairs of a query and a key that a head compares, thousands\n")
    print(f"| {unit} | " + " | ".join(names) + " |\n| --- |" + " ---: |" * len(names))
    for size, counts in pairs.items():
        print(f"| {size:,} | " + " | ".join(f"{counts[name] / 1e3:,.1f}" for name in names) + " |", flush=True)


def draw(points: dict[str, dict[int, float]], path: Path, *, title: str, axes: tuple[str, str]) -> None:
    """A line for every name, both axes logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, plane = pyplot.subplots(figsize=(7, 4.5))
    for label, line in points.items():
        plane.loglog(list(line), list(line.values()), marker="o", label=label)
    plane.set(xlabel=axes[0], ylabel=axes[1], title=title)
    plane.grid(alpha=0.3)
    plane.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"\nplot: {path}")


TABLE1 = "Table 1 of Trankova and Rykunov, measured"
PAIRS: dict[str, Callable[[int], dict[str, int]]] = {
    "table1": table1_pairs,
    "table1-m": lambda m: table1_pairs(64, words=m),
    "table1-t": lambda t: table1_pairs(64, top_t=t),
}
PARTS: dict[str, tuple[Callable[[int, Timed], dict[str, Way]], str, str, int, tuple[tuple[str, str], ...]]] = {
    # ways, title, unit, words a size, ratios
    "table1": (table1_ways, f"{TABLE1}, sentences of 25 words, t = 4", "sentences", 1, ()),
    "table1-m": (
        lambda m, timed: table1_ways(64, timed, words=m),
        f"{TABLE1}, 64 sentences, t = 4",
        "words a sentence",
        1,
        (),
    ),
    "table1-t": (
        lambda t, timed: table1_ways(64, timed, top_t=t),
        f"{TABLE1}, 64 sentences of 25 words",
        "t",
        1,
        (),
    ),
    "conditional": (
        conditional_ways,
        "Conditional attention",
        "words",
        WORDS,
        (
            ("SDPA", "dispatch"),
            ("masked SDPA", "dispatch"),
            ("dense", "dispatch"),
            ("auto", "dispatch"),
        ),
    ),
    "tree": (tree_ways, f"Selection of {QUERIES:,} words", "sentences", 1, (("flat", "blocks"), ("flat", "tree"))),
    "step": (step_ways, "A step of decoding", "sentences", 1, (("flat", "blocks"), ("flat", "tree"))),
    "layer": (
        layer_ways,
        "A whole layer",
        "words",
        WORDS,
        (
            ("whole document", "conditional"),
            ("conditional", "sentence by sentence"),
            ("conditional", "by blocks"),
        ),
    ),
}
#: The size from which exponents are taken.
LEAST = {"conditional": 1600, "layer": 1600, "table1-m": 10, "table1-t": 1}
ALONE = {"tree": "selection alone", "step": "forward"}  # parts without a backward pass
SHAPES = (
    *((1, 16, 25, t) for t in (4, 16)),
    *((1, 32, 25, t) for t in (16, 32)),
    *((1, 64, 25, t) for t in (32, 64)),
    *((1, 100, 3, t) for t in (4, 16)),
    (1, 6, 200, 4),
    *((10, 8, 25, t) for t in (4, 8)),
    (40, 3, 20, 2),
)
SIZES = {
    "table1": [8, 32, 128, 512, 2048],
    "table1-m": [5, 10, 25, 50, 100],
    "table1-t": [1, 2, 4, 8, 16, 32, 64],
    "conditional": [8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "tree": [8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384],
    "step": [128, 512, 2048],
    "layer": [8, 16, 32, 128, 512, 2048],
    "memory": [32, 128, 512, 2048],
}


def measure(part: str, timed: Timed, options: argparse.Namespace) -> None:
    """Print one part's table, and draw it."""
    ways, title, unit, words, ratios = PARTS[part]
    series = Series(repeats=options.repeats, limit=options.limit)
    for sentences in options.sentences or SIZES[part]:
        series.add(sentences * words, ways(sentences, timed))
    names, least = list(ways(2, timed)), LEAST.get(part, 64)
    alone, suffix = ("forward", "-forward") if timed is forward else ("forward + backward", "")
    if part in ALONE:
        alone = ALONE[part]
    print_series(f"{title}, {alone}, ms", series, names, unit=unit, ratios=ratios, least=least)
    if part in PAIRS and timed is forward_backward:
        print_pairs(title, unit, {size: PAIRS[part](size) for size in series.seconds})
    if options.plot:
        lines = {f"{name}, exponent {series.exponent(name, least=least):.2f}": series.of(name) for name in names}
        points = {label: {n: 1e3 * seconds for n, seconds in line.items()} for label, line in lines.items()}
        path = options.plot / f"attention-{part}{suffix}.png"
        draw(points, path, title=title, axes=(unit, f"{alone}, ms"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*PARTS, "auto", "skew", "memory", "flops"]
    parser.add_argument("--what", nargs="+", choices=every, default=every)
    parser.add_argument("--sentences", nargs="+", type=int, help="sizes [each part its own]")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--most", type=float, default=16.0, metavar="GB", help="addresses this process may take")
    parser.add_argument("--plot", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.plot:
        options.plot.mkdir(parents=True, exist_ok=True)
    limit_memory(options.most)
    print(runtime.tune())
    torch.set_num_threads(1)
    for part in options.what:
        if part in PARTS:
            for timed in (forward_backward, forward)[: 1 if part in ALONE else 2]:
                measure(part, timed, options)
        elif part == "auto":
            print_auto(options.repeats)
        elif part == "skew":
            print_skew(512, options.repeats)
        elif part == "memory":
            print_memory(options.sentences or SIZES["memory"], options.plot)
        else:
            print_flops(512, options.repeats)


if __name__ == "__main__":
    main()
