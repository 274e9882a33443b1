"""The study's figures: paired differences seed by seed (figures 3, 5, 6, 7) and accuracy by input length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from results import Results

from docnmt.files import replacing


def draw_figures(results: Results, folder: Path) -> list[Path]:
    """Draw what the results allow; returns the files."""
    figures = {"deltas": deltas(results), "lengths": lengths(results)}
    paths = []
    for name, figure in figures.items():
        if figure is not None:
            path = folder / f"fusion-{results.study.name}-{name}.png"
            save(figure, path)
            paths.append(path)
    return paths


def save(figure: Any, path: Path) -> None:
    """Write a figure whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, bbox_inches="tight")
    plt.close(figure)


def deltas(results: Results) -> Any:
    """Differences from the reference under the same seed: a dot a seed, the mean and its 95 % interval."""
    variants = [variant for variant in results.variants if results.comparison(variant) is not None]
    if not variants:
        return None
    figure, axes = plt.subplots(figsize=(7, 0.9 + 0.34 * len(variants)))
    axes.axvline(0, color="0.6", linewidth=1)
    for row, variant in enumerate(reversed(variants)):
        comparison = results.comparison(variant)
        assert comparison is not None
        _, differences = results.pairs(variant)
        axes.plot(differences, [row] * len(differences), "o", color="0.55", markersize=4, alpha=0.7)
        axes.plot(comparison.interval, [row, row], color="C0", linewidth=2)
        axes.plot([comparison.mean], [row], "D", color="C0", markersize=6)
    axes.set_yticks(range(len(variants)), list(reversed(variants)))
    axes.set_xlabel(f"test accuracy − {results.study.reference} under the same seed, points (mean, 95 % bootstrap)")
    axes.set_title(results.study.name)
    return figure


def lengths(results: Results) -> Any:
    """Accuracy against the number of tokens that are read of each test text."""
    cuts = sorted(map(int, next(iter(results.cells[results.variants[0]].values()))["accuracy_at_length"]))
    if len(cuts) < 2:
        return None
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for variant in results.variants:
        means = [results.values(variant, lambda c, k=str(k): 100 * c["accuracy_at_length"][k]).mean() for k in cuts]  # type: ignore[misc]
        axes.plot(cuts, means, "o-", markersize=3, label=variant)
    axes.set_xscale("log", base=2)
    axes.set_xticks(cuts, [f"{cut:,}" for cut in cuts])
    axes.set_xlabel("tokens read of each test text")
    axes.set_ylabel("test accuracy, %")
    axes.set_title(results.study.name)
    axes.legend(fontsize=7, ncols=2)
    return figure
