"""The study's tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from paired import PairedComparison, holm
from power import detectable_effect
from published import PUBLISHED, TABLE_1_SD, paper_variant
from results import Results
from two_way import TwoWay

Key = TypeVar("Key")
#: Seeds from which on the sd of a difference is known well enough to say what could be detected.
ENOUGH = 5


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, the first column left, all others right."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def mean_sd(values: np.ndarray, digits: int = 2) -> str:
    """`mean ± sd`, the sd with n − 1; of one value the value."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def published(results: Results, variant: str, *, table_1: bool = False) -> str:
    """The paper's mean ± sd, or a dash; of ArXiv with the sd of Table 1 or of Table 3, which contradict each other."""
    data, name = results.study.data, paper_variant(variant, results.study.variants)
    if name not in PUBLISHED.get(data, {}):
        return "–"
    mean, sd = PUBLISHED[data][name]
    if table_1 and data == "arxiv":
        sd = TABLE_1_SD.get(name, sd)
    return f"{mean:.2f}" if math.isnan(sd) else f"{mean:.2f} ± {sd:.2f}"


def number(value: float, form: str) -> str:
    """A number, or a dash where there is none."""
    return "–" if math.isnan(value) else format(value, form)


def interval(bounds: tuple[float, float]) -> str:
    """`[low, high]`, or a dash."""
    return "–" if math.isnan(bounds[0]) else f"[{bounds[0]:+.2f}, {bounds[1]:+.2f}]"


def comparison_table(results: Results) -> str:
    """Every variant: test accuracy and its paired difference from the reference (Tables 1 and 2)."""
    comparisons = {v: None if v in results.study.apart else results.comparison(v) for v in results.variants}
    header = [
        "variant", "seeds", "accuracy", "published", "macro-F1", "minus SVM", "validation",
        f"Δ to {results.study.reference}", "95 %, seeds", f"95 %, seeds and {results.study.test_units}", "sd of Δ",
        "Δ > 0", "paired t p", "Holm", "permutation p", f"p, seeds and {results.study.test_units}, Holm", "detectable",
    ]  # fmt: skip
    both = {variant: results.two_way(variant) for variant, c in comparisons.items() if c is not None}
    seeds = adjusted({variant: c.t_p for variant, c in comparisons.items() if c is not None})
    all_ = adjusted({variant: two_way.p for variant, two_way in both.items()})
    rows = []
    for variant, c in comparisons.items():
        row = [variant, _seeds(results, variant), mean_sd(results.accuracy(variant))]
        row.append(published(results, variant))
        row.append(mean_sd(results.values(variant, lambda cell: 100 * cell["macro_f1"])))
        row.append(_gap(results, variant))
        row.append(mean_sd(results.values(variant, lambda cell: 100 * cell["valid_accuracy"])))
        rows.append(
            [*row, *(["–"] * 10 if c is None else _difference(c, both[variant], seeds[variant], all_[variant]))]
        )
    if results.svm is not None:
        scores = [f"{100 * results.svm['accuracy']:.2f}", "–", f"{100 * results.svm['macro_f1']:.2f}", "–"]
        scores.append(f"{100 * results.svm['valid_accuracy']:.2f}")
        rows.append([_svm_name(results), "–", *scores, *["–"] * 10])
    header, rows = without(header, rows, "published")
    mark = "†" if results.published_otherwise else ""
    return markdown([f"published{mark}" if name == "published" else name for name in header], rows)


def adjusted(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """By Holm over all of them."""
    return dict(zip(p_values, holm(np.array(list(p_values.values()))).tolist(), strict=True))


def _difference(c: PairedComparison, both: TwoWay, seeds: float, all_: float) -> list[str]:
    """The cells of a comparison, `seeds` and `all_` its adjusted p; what it can detect needs an sd of some seeds."""
    return [
        f"{c.mean:+.2f}", interval(c.interval), interval(both.interval), number(c.sd, ".2f"), f"{c.positive}/{c.n}",
        number(c.t_p, ".3f"), number(seeds, ".3f"), f"{c.permutation_p:.3f}", number(all_, ".3f"),
        number(detectable_effect(c.n, c.sd) if c.n >= ENOUGH else math.nan, ".2f"),
    ]  # fmt: skip


def _seeds(results: Results, variant: str) -> str:
    """How many, and which if not all."""
    seeds = sorted(results.cells[variant])
    if len(seeds) == results.study.seeds:
        return f"{len(seeds)}"
    return f"{len(seeds)} ({', '.join(map(str, seeds))})"


def without(header: Sequence[str], rows: list[list[str]], name: str) -> tuple[list[str], list[list[str]]]:
    """The table without a column that says nothing."""
    column = header.index(name)
    if {row[column] for row in rows} != {"–"}:
        return list(header), rows
    return [*header[:column], *header[column + 1 :]], [[*row[:column], *row[column + 1 :]] for row in rows]


def contrast_table(results: Results) -> str:
    """The differences that answer the study's questions, their p adjusted for being several; empty without any."""
    contrasts = {
        f"{variant} − {other}": (c, results.two_way(variant, other))
        for variant, other in results.study.contrasts
        if {variant, other} <= results.cells.keys() and (c := results.comparison(variant, other)) is not None
    }
    seeds = adjusted({name: c.t_p for name, (c, _) in contrasts.items()})
    all_ = adjusted({name: both.p for name, (_, both) in contrasts.items()})
    rows = [
        [
            name, f"{c.n}", f"{c.mean:+.2f}", interval(c.interval), interval(both.interval), f"{c.positive}/{c.n}",
            number(c.t_p, ".3f"), number(seeds[name], ".3f"), f"{c.permutation_p:.3f}", number(all_[name], ".3f"),
        ]
        for name, (c, both) in contrasts.items()
    ]  # fmt: skip
    header = [
        "difference", "seeds", "points", "95 %, seeds", f"95 %, seeds and {results.study.test_units}", "above 0",
        "paired t p", "Holm", "permutation p", f"p, seeds and {results.study.test_units}, Holm",
    ]  # fmt: skip
    return markdown(header, rows) if rows else ""


def _gap(results: Results, variant: str) -> str:
    gap = results.gap_to_svm(variant)
    return "–" if gap is None else f"{gap[0]:+.2f} ± {gap[1]:.2f}"


def _svm_name(results: Results) -> str:
    """The baseline, what it reads, and the accuracies of all its settings: how much hangs on their choice."""
    svm = results.svm or {}
    name = "TF-IDF + linear SVM" + (f", first {length:,} words" if (length := svm.get("max_length")) else "")
    others = [100 * setting["accuracy"] for setting in svm.get("settings", [])]
    return name + (f" (all settings {min(others):.2f} to {max(others):.2f})" if others else "")
