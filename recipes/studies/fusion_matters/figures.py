"""The study's figures: paired differences seed by seed (the paper's figures 3, 5, 6, 7), accuracy against latency (4),
accuracy by input length, gates along the text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyplot import plt
from results import Results

from docnmt.runtime.system import replacing

#: Share of the texts that a class of lengths must have to be worth a point in a figure.
LEAST_SHARE = 0.05


def draw_figures(results: Results, folder: Path, latency: dict[str, Any] | None = None) -> list[Path]:
    """Draw what the results (and what latency.py wrote) allow; returns the files."""
    figures = {"deltas": deltas(results), "lengths": lengths(results), "gates": gates(results)}
    if latency is not None:
        figures["latency"] = accuracy_and_latency(results, latency)
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
    """Operators against `add` of their family, under the same seed: a panel a family, a dot a seed, the mean and its
    95 % interval. Families of one variant, and those without `add`, are compared with the study's reference."""
    panels = {}
    for family, variants in _panels(results, results.variants).items():
        reference = variants.get("add", results.study.reference)
        names = [variant for variant in variants.values() if results.comparison(variant, reference) is not None]
        if names:
            panels[family] = (reference, names)
    if not panels:
        return None
    rows = [len(names) for _, names in panels.values()]
    figure, all_axes = plt.subplots(
        len(panels),
        figsize=(7, 0.8 * len(panels) + 0.34 * sum(rows)),
        squeeze=False,
        height_ratios=rows,
        layout="constrained",
    )
    for axes, (reference, names) in zip(all_axes[:, 0], panels.values(), strict=True):
        _differences(axes, results, reference, names)
    figure.supxlabel("test accuracy under the same seed, points (mean, 95 % by t)", fontsize=10)
    figure.suptitle(results.study.name)
    return figure


def _differences(axes: Any, results: Results, reference: str, variants: Sequence[str]) -> None:
    """One panel: a row a variant, all against one reference, on an axis that its differences fill."""
    axes.axvline(0, color="0.6", linewidth=1)
    end = farthest = 1e-3
    for row, variant in enumerate(reversed(variants)):
        comparison = results.comparison(variant, reference)
        assert comparison is not None
        _, differences = results.pairs(variant, reference)
        axes.plot(differences, [row] * len(differences), "o", color="0.55", markersize=4, alpha=0.7)
        axes.plot(comparison.interval, [row, row], color="C0", linewidth=2)  # nothing where it is not known
        axes.plot([comparison.mean], [row], "D", color="C0", markersize=6)
        farthest = max(farthest, *np.abs(differences))
        end = np.nanmax([end, farthest, *np.abs(comparison.interval)])
    limit = 1.1 * min(end, 3 * farthest)  # the intervals of two seeds go on
    axes.set_xlim(-limit, limit)
    axes.set_yticks(range(len(variants)), list(reversed(variants)))
    axes.set_ylim(-0.7, len(variants) - 0.3)
    axes.set_title(f"− {reference}", fontsize=10)


def lengths(results: Results) -> Any:
    """Accuracy against the number of tokens that are read of each test text, or the texts' own: a panel a family."""
    cell = next(iter(results.cells[results.variants[0]].values()))
    cuts = sorted(_accuracy_by_length(cell))
    panels = _panels(results, results.variants)
    if len(cuts) < 2:
        return None
    figure, all_axes = plt.subplots(1, len(panels), figsize=(1.5 + 2.6 * len(panels), 3.8), sharey=True, squeeze=False)
    for axes, (family, variants) in zip(all_axes[0], panels.items(), strict=True):
        for operator, variant in variants.items():
            means = [results.values(variant, lambda c, k=k: _accuracy_by_length(c)[k]).mean() for k in cuts]  # type: ignore[misc]
            axes.plot(cuts, means, markersize=3, **_style(results, operator))
        axes.set_xscale("log", base=2)
        axes.set_xticks(cuts, [_short(cut) for cut in cuts], fontsize=8)
        axes.set_title(family, fontsize=10)
    all_axes[0][0].set_ylabel("test accuracy, %")
    what = "tokens read of each test text" if cell["accuracy_at_length"] else "tokens of the test text, at most"
    figure.supxlabel(what, fontsize=10, y=-0.02)
    _legend(figure, all_axes[0])
    return figure


def _accuracy_by_length(cell: dict[str, Any]) -> dict[int, float]:
    """Percent right by the tokens read of each text; where none was cut, by the texts' whole length."""
    if cell["accuracy_at_length"]:
        return {int(cut): 100 * accuracy for cut, accuracy in cell["accuracy_at_length"].items()}
    groups = cell["by_text_length"]
    least = LEAST_SHARE * sum(group["texts"] for group in groups)
    return {group["up_to"]: 100 * group["right"] / group["texts"] for group in groups if group["texts"] >= least}


def gates(results: Results) -> Any:
    """The mean gate along the text, from its first to its last token that is read: a panel a family."""
    means = {
        variant: np.array([cell["gate"]["along"] for cell in results.cells[variant].values()], dtype=float).mean(0)
        for variant in results.variants
        if all(cell["gate"] is not None for cell in results.cells[variant].values())
    }
    if not means:
        return None
    panels = _panels(results, list(means))
    figure, all_axes = plt.subplots(1, len(panels), figsize=(1.5 + 2.6 * len(panels), 3.8), sharey=True, squeeze=False)
    for axes, (family, variants) in zip(all_axes[0], panels.items(), strict=True):
        for operator, variant in variants.items():
            along = means[variant]
            axes.plot((np.arange(len(along)) + 0.5) / len(along), along, **{**_style(results, operator), "marker": ""})
        axes.set_title(family, fontsize=10)
    all_axes[0][0].set_ylabel("gate: what the word is multiplied by")
    figure.supxlabel("place in the text, as a share of the longest", fontsize=10, y=-0.02)
    _legend(figure, all_axes[0])
    return figure


def accuracy_and_latency(results: Results, latency: dict[str, Any]) -> Any:
    """Accuracy of the operators on sinusoidal positions against the whole model's median latency (figure 4)."""
    operators = [o for o in results.families().get("sinusoidal", []) if o in latency["whole"]]
    if not operators:
        return None
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for operator in operators:
        low, middle, high = latency["whole"][operator]
        accuracy = results.accuracy(f"sinusoidal.{operator}")
        spread = accuracy.std(ddof=1) if len(accuracy) > 1 else 0.0
        style = {**_style(results, operator), "linestyle": "", "linewidth": 0.8}
        axes.errorbar(middle, accuracy.mean(), spread, [[middle - low], [high - middle]], **style)
    axes.set_xlabel(f"ms a batch of {latency['tokens']:,} tokens, whole model (median, 10–90 %)")
    axes.set_ylabel("test accuracy, % (mean ± sd)")
    axes.set_title(results.study.name)
    _legend(figure, [axes])
    return figure


def _panels(results: Results, variants: Sequence[str]) -> dict[str, dict[str, str]]:
    """Variants by family and operator; families of one variant, in the whole study, share the last panel."""
    families = [variant.partition(".")[0] for variant in results.variants]
    panels: dict[str, dict[str, str]] = {}
    alone: dict[str, str] = {}
    for variant in variants:
        family, _, operator = variant.partition(".")
        if families.count(family) > 1:
            panels.setdefault(family, {})[operator or variant] = variant
        else:
            alone[variant] = variant
    return panels | ({"others": alone} if alone else {})


def _style(results: Results, operator: str) -> dict[str, Any]:
    """One colour and mark an operator, the same in every panel."""
    operators = list(dict.fromkeys(name for panel in _panels(results, results.variants).values() for name in panel))
    number = operators.index(operator)
    return {"color": f"C{number % 10}", "marker": "os^vDPX*"[number % 8], "linestyle": "-", "label": operator}


def _legend(figure: Any, all_axes: Sequence[Any]) -> None:
    """One legend beside all panels."""
    handles: dict[str, Any] = {}
    for axes in all_axes:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="center left", bbox_to_anchor=(0.91, 0.5), fontsize=8)


def _short(tokens: int) -> str:
    """128, 512, 1k, 4k."""
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)
