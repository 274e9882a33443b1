"""Families of positions down, operators across: accuracy (Tables 1 and 3) and paired differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from results import Results
from tables import adjusted, interval, markdown, mean_sd, number, published


def overview_table(several: Sequence[Results]) -> str:
    """Data sets down, operators on sinusoidal positions across, the paper's below ours (Table 1); where a study has
    `paper.*`, with the paper's scale and rate, these in a row of their own."""
    operators = list(dict.fromkeys(o for results in several for o in results.families().get("sinusoidal", [])))
    rows = []
    for results in several:
        svm = "–" if results.svm is None else f"{100 * results.svm['accuracy']:.2f}"
        for family in [name for name in ("sinusoidal", "paper") if name in results.families()]:
            title = results.study.name + (", at the paper's scale and rate" if family == "paper" else "")
            rows += _family_rows(results, title, family, operators, [svm if family == "sinusoidal" else "–"])
    return markdown(["data", "TF-IDF + SVM", *operators], rows)


def _family_rows(
    results: Results, title: str, family: str, operators: Sequence[str], before: Sequence[str] = ()
) -> list[list[str]]:
    """A family's accuracy by operator, and the paper's below where it has any; `before`: further columns."""
    names = [f"{family}.{operator}" for operator in operators]
    rows = [[title, *before, *(mean_sd(results.accuracy(n)) if n in results.cells else "–" for n in names)]]
    theirs = [published(results, name, table_1=bool(before)) for name in names]
    if set(theirs) != {"–"}:
        mark = "†" if results.published_otherwise else ""
        rows.append([f"{title}, published{mark}", *("–" for _ in before), *theirs])
    return rows


def family_table(results: Results) -> str:
    """Families down, operators across, ours above the paper's (Table 3); empty with fewer than two families."""
    families, operators = _grid(results)
    if len(families) < 2:
        return ""
    rows = [row for family in families for row in _family_rows(results, family, family, operators)]
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
    """Means of the paired differences with 95 % over seeds, how many seeds are above 0, p by Holm over the whole table.

    Empty with fewer than two such rows.
    """
    comparisons = {
        (family, operator): c
        for family in families
        for operator in operators
        if {variant := f"{family}.{operator}", other := reference(family, operator)} <= results.cells.keys()
        and (c := results.comparison(variant, other)) is not None
    }
    p = adjusted({key: c.t_p for key, c in comparisons.items()})

    def cell(key: tuple[str, str]) -> str:
        if key not in comparisons:
            return "–"
        c = comparisons[key]
        return f"{c.mean:+.2f} {interval(c.interval)} ({c.positive}/{c.n}; {number(p[key], '.3f')})"

    rows = [[f, *(cell((f, o)) for o in operators)] for f in families if any((f, o) in comparisons for o in operators)]
    return markdown(["family", *operators], rows) if len(rows) > 1 else ""
