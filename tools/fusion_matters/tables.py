"""The study's tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from paired import holm
from published import PUBLISHED
from results import Results


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, the first column left, all others right."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def mean_sd(values: np.ndarray, digits: int = 2) -> str:
    """`mean ± sd`, the sd with n − 1; of one value the value."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def published(data: str, variant: str) -> str:
    """The paper's mean ± sd, or a dash."""
    if variant not in PUBLISHED.get(data, {}):
        return "–"
    mean, sd = PUBLISHED[data][variant]
    return f"{mean:.2f}" if math.isnan(sd) else f"{mean:.2f} ± {sd:.2f}"


def comparison_table(results: Results) -> str:
    """Every variant: test accuracy and its paired difference from the reference, with all tests (Tables 1 and 2)."""
    variants = results.variants
    found = {variant: results.comparison(variant) for variant in variants}
    tested = [variant for variant in variants if found[variant] is not None]
    adjusted = dict(zip(tested, holm(np.array([found[v].permutation_p for v in tested])), strict=True))  # type: ignore[union-attr]
    rows = []
    for variant in variants:
        accuracy = results.accuracy(variant)
        row = [variant, f"{len(accuracy)}", mean_sd(accuracy), published(results.study.data, variant)]
        row.append(mean_sd(results.values(variant, lambda cell: 100 * cell["macro_f1"])))
        comparison = found[variant]
        if comparison is None:
            rows.append([*row, *["–"] * 6])
            continue
        low, high = comparison.interval
        rows.append(
            [
                *row, f"{comparison.mean:+.2f} [{low:+.2f}, {high:+.2f}]", f"{comparison.positive}/{comparison.n}",
                f"{comparison.t_p:.3f}", f"{comparison.permutation_p:.3f}", f"{adjusted[variant]:.3f}",
                f"{comparison.detectable:.2f}",
            ]
        )  # fmt: skip
    if results.svm is not None:
        svm = results.svm
        rows.append(
            [
                "TF-IDF + linear SVM",
                "1",
                f"{100 * svm['accuracy']:.2f}",
                "–",
                f"{100 * svm['macro_f1']:.2f}",
                *["–"] * 6,
            ]
        )
    header = [
        "variant", "seeds", "accuracy", "published", "macro-F1", f"Δ to {results.study.reference} [95 %]", "Δ > 0",
        "paired t p", "permutation p", "Holm", "detectable",
    ]  # fmt: skip
    return markdown(header, rows)


def family_table(results: Results) -> str:
    """Families down, operators across, ours above the paper's (Table 3); empty with fewer than two families."""
    split = [variant.split(".") for variant in results.variants if variant.count(".") == 1]
    families = list(dict.fromkeys(family for family, _ in split))
    operators = list(dict.fromkeys(operator for _, operator in split))
    if len(families) < 2:
        return ""
    rows = []
    for family in families:
        names = [f"{family}.{operator}" for operator in operators]
        rows.append([family, *(mean_sd(results.accuracy(n)) if n in results.cells else "–" for n in names)])
        theirs = [published(results.study.data, name) for name in names]
        if set(theirs) != {"–"}:
            rows.append([f"{family}, published", *theirs])
    return markdown(["family", *operators], rows)


def length_table(results: Results) -> str:
    """Accuracy when test texts are cut after so many tokens."""
    lengths = sorted(
        {int(cut) for seeds in results.cells.values() for c in seeds.values() for cut in c["accuracy_at_length"]}
    )
    rows = []
    for variant in results.variants:
        cells = [
            mean_sd(results.values(variant, lambda c, cut=str(cut): 100 * c["accuracy_at_length"][cut]))  # type: ignore[misc]
            for cut in lengths
        ]
        rows.append([variant, *cells])
    return markdown(["variant", *(f"{length:,} tokens" for length in lengths)], rows)


def text_length_table(results: Results) -> str:
    """Accuracy by the whole length of the test texts, over all seeds; empty when they all fall into one class."""
    first = next(iter(results.cells[results.variants[0]].values()))["by_text_length"]
    if len(first) < 2:
        return ""
    rows = []
    for variant in results.variants:
        cells = list(results.cells[variant].values())
        right = np.array([[group["right"] for group in cell["by_text_length"]] for cell in cells])
        texts = np.array([group["texts"] for group in cells[0]["by_text_length"]])
        rows.append([variant, *(mean_sd(column) for column in (100 * right / texts).T)])
    return markdown(["variant", *(f"≤ {g['up_to']:,} ({g['texts']:,} texts)" for g in first)], rows)


def cost_table(results: Results) -> str:
    """Parameters and time of every variant."""
    rows = [
        [
            variant,
            f"{results.values(variant, lambda c: c['parameters']).mean():,.0f}",
            f"{results.values(variant, lambda c: c['fusion_parameters']).mean():,.0f}",
            f"{results.values(variant, lambda c: c['train_updates']).mean():,.0f}",
            f"{results.values(variant, lambda c: c['train_seconds']).mean():,.0f}",
            f"{results.values(variant, lambda c: c['test_seconds']).mean():,.1f}",
        ]
        for variant in results.variants
    ]
    return markdown(["variant", "parameters", "of the fusion", "updates", "training s", "test s"], rows)
