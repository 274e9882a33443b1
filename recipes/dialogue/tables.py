#!/usr/bin/env python
"""The tables of docs/results/dialogue.md, from the kept scores.

    python recipes/dialogue/tables.py docs/measured/dialogue.jsonl

A difference is from the sentence model with the same start and seed. With several seeds a cell has their mean and, in
brackets, the smallest and the largest. With one seed, a difference has its interval over documents and p; with several,
the largest p.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

Row = dict[str, Any]  # a line of JSON: scores by their names
SCORES = (("agreement", 1), ("consistency", 1), ("s-BLEU", 2), ("chrF", 2))
GIVEN = {
    "none": "nothing given",
    "third": "the first third of each given, the rest scored",
    "foreign": "the next dialogue's first third given instead",
    "asked": "asked for the form of most lines of the reference",
}
#: Systems that begin at another sentence model of 2,500 updates than most, or at one of 6,000 or 12,000.
STARTS = (", second start", ", longer start", ", longest start")
TABLES = (("dev", ("none", "third")), ("diabla", ("none",)), ("diabla", ("third", "foreign")))
TABLES += (("games", ("none", "third")),)
#: Of models that can be told the form.
FORMS = (("diabla", ("none", "asked", "third", "foreign")), ("games", ("none", "third", "foreign")))


#: ctxpro's questions: all, and those whose context has a translation.
ASKED = {"formality": ("ctxpro formality", None), "auxiliary": ("ctxpro auxiliary", None)}
KNOWN = {"nothing given": ("ctxpro known", "none"), "translations given": ("ctxpro known", "given")}


def spread(values: Sequence[float], digits: int) -> str:
    """One number; or the mean, the smallest and the largest of several."""
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def difference(rows: Sequence[Row], metric: str) -> str:
    """How far a metric is from the sentence model's."""
    found = [row["against_sentence"][metric] for row in rows if metric in row["against_sentence"]]
    if not found:
        return ""
    p = max(each[3] for each in found)
    said = f"p {'≤ ' if len(found) > 1 else ''}{p:.3f}".replace("0.", ".")
    if len(found) == 1:
        return f"{found[0][0]:+.2f} ({found[0][1]:+.2f} to {found[0][2]:+.2f}), {said}".replace("-", "−")
    values = [each[0] for each in found]
    return f"{fmean(values):+.2f} ({min(values):+.2f} to {max(values):+.2f}), {said}".replace("-", "−")


def order(system: str) -> tuple[int, bool, str]:
    """By start, the sentence model first."""
    start = next((n for n, each in enumerate(STARTS, start=1) if system.endswith(each)), 0)
    return start, not system.startswith("sentence"), system


def questions(rows: Sequence[Row], columns: Mapping[str, tuple[str, str | None]]) -> Iterator[str]:
    """How many of ctxpro's questions each system answers; a column is a set and what was given, if it says so."""
    systems: dict[str, dict[tuple[str, str | None], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if (asked := (row.get("set", ""), row.get("given"))) in columns.values():
            systems[row["system"]][asked].append(row["accuracy"])
    yield f"| system | seeds | {' | '.join(columns)} |"
    yield f"| --- | {' | '.join(['---:'] * (1 + len(columns)))} |"
    for name in sorted(systems, key=order):
        found = [systems[name][asked] for asked in columns.values()]
        cells = [name, str(max(map(len, found))), *(spread(values, 1) if values else "" for values in found)]
        yield f"| {' | '.join(cells)} |"


def table(rows: Sequence[Row], where: str, ways: Sequence[str], *, forms: bool = False) -> Iterator[str]:
    """One table: a row for each system and what it was given; of models that can be told the form, or of the others."""
    yield "| system | seeds | agreement | consistency | s-BLEU | difference | chrF | difference |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for way in ways:
        systems: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if (row.get("set"), row.get("given")) == (where, way):
                systems[row["system"]].append(row)
        if systems:
            yield f"| *{GIVEN[way]}* | | | | | | | |"
        starts = {order(name)[0] for name in systems if forms == ("forms" in name)}
        for name in sorted(systems, key=order):
            mine, alone = systems[name], name.startswith("sentence")
            if forms != ("forms" in name) and not (alone and order(name)[0] in starts):
                continue
            values = {score: spread([row[score] for row in mine], digits) for score, digits in SCORES}
            bleu, chrf = ("" if alone else difference(mine, metric) for metric in ("s-BLEU", "chrF"))
            cells = (name, str(len(mine)), values["agreement"], values["consistency"], values["s-BLEU"], bleu)
            yield f"| {' | '.join((*cells, values['chrF'], chrf))} |"


def main() -> None:
    """Print all tables, an empty line between them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path)
    rows = [json.loads(line) for line in parser.parse_args().scores.read_text(encoding="utf-8").splitlines()]
    tables = [table(rows, where, ways) for where, ways in TABLES]
    told = (table(rows, where, ways, forms=True) for where, ways in FORMS)
    german = (table(rows, where, ("none", "third", "foreign")) for where in ("xdailydialog", "games-de"))
    found = (*tables, *told, questions(rows, ASKED), *german, questions(rows, KNOWN))
    print("\n\n".join("\n".join(each) for each in found))


if __name__ == "__main__":
    main()
