"""The study's tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
    found = {variant: results.comparison(variant) for variant in results.variants}
    tested = {variant: comparison for variant, comparison in found.items() if comparison is not None}
    adjusted = dict(zip(tested, holm(np.array([c.permutation_p for c in tested.values()])), strict=True))
    rows = []
    for variant in results.variants:
        accuracy = results.accuracy(variant)
        row = [variant, f"{len(accuracy)}", mean_sd(accuracy), published(results.study.data, variant)]
        row.append(mean_sd(results.values(variant, lambda cell: 100 * cell["macro_f1"])))
        row.append(_gap(results, variant))
        row.append(mean_sd(results.values(variant, lambda cell: 100 * cell["valid_accuracy"])))
        c = tested.get(variant)
        if c is None:
            rows.append([*row, *["–"] * 7])
            continue
        low, high = c.interval
        rows.append(
            [
                *row, f"{c.mean:+.2f} [{low:+.2f}, {high:+.2f}]", f"{c.sd:.2f}", f"{c.positive}/{c.n}", f"{c.t_p:.3f}",
                f"{c.permutation_p:.3f}", f"{adjusted[variant]:.3f}", f"{c.detectable:.2f}",
            ]
        )  # fmt: skip
    if results.svm is not None:
        scores = [f"{100 * results.svm['accuracy']:.2f}", "–", f"{100 * results.svm['macro_f1']:.2f}", "–"]
        scores.append(f"{100 * results.svm['valid_accuracy']:.2f}")
        rows.append([_svm_name(results), "–", *scores, *["–"] * 7])
    header = [
        "variant", "seeds", "accuracy", "published", "macro-F1", "above the SVM", "validation",
        f"Δ to {results.study.reference} [95 %]", "sd of Δ", "Δ > 0", "paired t p", "permutation p", "Holm",
        "detectable",
    ]  # fmt: skip
    return markdown(header, rows)


def _gap(results: Results, variant: str) -> str:
    gap = results.gap_to_svm(variant)
    return "–" if gap is None else f"{gap[0]:+.2f} ± {1.96 * gap[1]:.2f}"


def _svm_name(results: Results) -> str:
    """The baseline, what it reads, and the accuracies of all its settings: how much hangs on their choice."""
    svm = results.svm or {}
    name = "TF-IDF + linear SVM" + (f", first {length:,} words" if (length := svm.get("max_length")) else "")
    others = [100 * setting["accuracy"] for setting in svm.get("settings", [])]
    return name + (f" (all settings {min(others):.2f} to {max(others):.2f})" if others else "")


def overview_table(several: Sequence[Results]) -> str:
    """Data sets down, operators on sinusoidal positions across, the paper's below ours (Table 1)."""
    operators = list(dict.fromkeys(o for results in several for o in results.families().get("sinusoidal", [])))
    names = [f"sinusoidal.{operator}" for operator in operators]
    rows = []
    for results in several:
        svm = "–" if results.svm is None else f"{100 * results.svm['accuracy']:.2f}"
        ours = [mean_sd(results.accuracy(n)) if n in results.cells else "–" for n in names]
        rows.append([results.study.name, svm, *ours])
        theirs = [published(results.study.data, n) for n in names]
        if set(theirs) != {"–"}:
            rows.append([f"{results.study.name}, published", "–", *theirs])
    return markdown(["data", "TF-IDF + SVM", *operators], rows)


def family_table(results: Results) -> str:
    """Families down, operators across, ours above the paper's (Table 3); empty with fewer than two families."""
    families, operators = _grid(results)
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


def inside_table(results: Results) -> str:
    """Every operator against `add` of the same family: does what an operator brings depend on the family?"""
    families, operators = _grid(results)
    others = [operator for operator in operators if operator != "add"]
    return _differences(results, list(families), others, lambda family, operator: f"{family}.add")


def across_table(results: Results) -> str:
    """Every family against the reference's family under the same operator."""
    families, operators = _grid(results)
    own = results.study.reference.partition(".")[0]
    others = [family for family in families if family != own]
    return _differences(results, others, operators, lambda family, operator: f"{own}.{operator}")


def _grid(results: Results) -> tuple[list[str], list[str]]:
    families = results.families()
    return list(families), list(dict.fromkeys(operator for operators in families.values() for operator in operators))


def _differences(
    results: Results, families: Sequence[str], operators: Sequence[str], reference: Callable[[str, str], str]
) -> str:
    """Mean ± sd of the paired differences, and how many seeds are above 0; empty with fewer than two such rows."""
    rows = []
    for family in families:
        row = []
        for operator in operators:
            variant, other = f"{family}.{operator}", reference(family, operator)
            c = results.comparison(variant, other) if {variant, other} <= results.cells.keys() else None
            row.append("–" if c is None else f"{c.mean:+.2f} ± {c.sd:.2f} ({c.positive}/{c.n})")
        if set(row) != {"–"}:
            rows.append([family, *row])
    return markdown(["family", *operators], rows) if len(rows) > 1 else ""
