#!/usr/bin/env python
"""The tables of README.md here, from the kept scores.

    python recipes/studies/dialogue/tables.py recipes/studies/dialogue/dialogue.jsonl
    python recipes/studies/dialogue/tables.py recipes/studies/dialogue/given.jsonl --kept

A difference is from the sentence model with the same start and seed. With several seeds a cell has their mean and, in
brackets, the smallest and the largest. With one seed, a difference has its interval over documents and p; with several,
the largest p.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import measured

Row = dict[str, Any]  # a line of JSON: scores by their names
SCORES = (("agreement", 1), ("consistency", 1), ("s-BLEU", 2), ("chrF", 2))
GIVEN = {
    "none": "nothing given",
    "third": "the first third of each given, the rest scored",
    "foreign": "the next dialogue's first third given instead",
    "asked": "asked for the form of most lines of the reference",
}
#: Systems that begin at another sentence model of 2,500 updates than most, or at one of 6,000 or 12,000.
STARTS = (", second start", ", third start", ", longer start", ", longest start")
TABLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dev", ("none", "third")), ("diabla", ("none",)), ("diabla", ("third", "foreign")),
    ("games", ("none", "third", "foreign")),
)  # fmt: skip
#: Of models that can be told the form.
FORMS = (("diabla", ("none", "asked", "third", "foreign")), ("games", ("none", "third", "foreign")))


#: What `run.sh` asked for, by the names of its files.
WAYS = {
    "none": "nothing given, all lines",
    "written": "nothing given, the 2,865 lines that DiaBLa scores",
    "third": "the first third of each given, the rest scored",
}

#: Sets whose systems were given the true and another document's first third.
PLACES = {"diabla": "DiaBLa", "games": "games, French", "xdailydialog": "XDailyDialog", "games-de": "games, German"}
#: ctxpro's questions: all, and those whose context has a translation.
ASKED = {"formality": ("ctxpro formality", None), "auxiliary": ("ctxpro auxiliary", None)}
KNOWN = {"nothing given": ("ctxpro known", "none"), "translations given": ("ctxpro known", "given")}


def spread(values: Sequence[float], digits: int) -> str:
    """One number; or the mean, the smallest and the largest of several."""
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def signed(values: Sequence[float], digits: int) -> str:
    """`spread` of differences, with their signs."""
    mean = f"{fmean(values):+.{digits}f}"
    several = f" ({min(values):+.{digits}f} to {max(values):+.{digits}f})" if len(values) > 1 else ""
    return f"{mean}{several}".replace("-", "−")


def over_seeds(values: Sequence[float], digits: int) -> str:
    """`signed`; of three seeds also the 95 % interval of their mean, by Student's t."""
    if len(values) != 3:
        return signed(values, digits)
    interval = measured.over_seeds(values, digits).partition(" (")[2]
    return f"{signed(values, digits)[:-1]}; 95 % {interval}"


def difference(rows: Sequence[Row], metric: str, digits: int = 2) -> str:
    """How far a metric is from the sentence model's."""
    seeds = [row["against_sentence"][metric] for row in rows if metric in row["against_sentence"]]
    if not seeds:
        return ""
    p = f"p {'≤ ' if len(seeds) > 1 else ''}{max(seed[3] for seed in seeds):.3f}".replace("0.", ".")
    if len(seeds) == 1:
        low, high = (f"{bound:+.{digits}f}" for bound in seeds[0][1:3])
        return f"{seeds[0][0]:+.{digits}f} ({low} to {high}), {p}".replace("-", "−")
    return f"{signed([seed[0] for seed in seeds], digits)}, {p}"


def order(system: str) -> tuple[int, bool, str]:
    """By start, the sentence model first."""
    start = next((n for n, ending in enumerate(STARTS, start=1) if system.endswith(ending)), 0)
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
        seeds = [systems[name][asked] for asked in columns.values()]
        cells = [name, str(max(map(len, seeds))), *(spread(values, 1) if values else "" for values in seeds)]
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


def true_and_foreign(rows: Sequence[Row]) -> Iterator[str]:
    """What the document's own first third is worth beside another document's, by the same systems and seeds."""
    columns = (
        "agreement, sentence model",
        "foreign third",
        "true third",
        "foreign − sentence model, p",
        "true − foreign",
    )
    yield f"| text | system | seeds | {' | '.join(columns)} | s-BLEU, true − foreign | chrF, true − foreign |"
    yield f"| --- | --- |{' ---: |' * 8}"
    scored = {(row["set"], row["system"], row["seed"], row["given"]): row for row in rows if "s-BLEU" in row}
    for where, title in PLACES.items():
        for name in sorted({key[1] for key in scored if key[0] == where and key[3] == "foreign"}, key=order):
            seeds = sorted(
                seed for part, system, seed, given in scored if (part, system, given) == (where, name, "foreign")
            )
            pairs = [(scored[where, name, seed, "third"], scored[where, name, seed, "foreign"]) for seed in seeds]
            beside = [foreign["against_sentence"]["agreement"] for _, foreign in pairs]
            control = [foreign["agreement"] - over[0] for (_, foreign), over in zip(pairs, beside, strict=True)]
            cells = [spread(control, 1), *(spread([pair[n]["agreement"] for pair in pairs], 1) for n in (1, 0))]
            cells.append(f"{difference([foreign for _, foreign in pairs], 'agreement', 1)}")
            cells += [
                over_seeds([true[score] - foreign[score] for true, foreign in pairs], digits)
                for score, digits in (("agreement", 1), ("s-BLEU", 2), ("chrF", 2))
            ]
            yield f"| {title} | {name} | {len(pairs)} | {' | '.join(cells)} |"


def worth(rows: Sequence[Row]) -> Iterator[str]:
    """Nats a target subword of dev, with the true context, with a foreign one and with none."""
    yield "| system | seeds | true context | none − true | foreign − true |\n| --- | ---: | ---: | ---: | ---: |"
    losses: dict[str, list[list[float]]] = defaultdict(list)
    for row in rows:
        if isinstance(row.get("training"), list) and len(row["valid"][-1]) == 4:
            losses[row["training"][0]].append(row["valid"][-1][1:])
    for name in sorted(losses, key=order):
        true, foreign, none = zip(*losses[name], strict=True)
        differences = ([there - here for there, here in zip(other, true, strict=True)] for other in (none, foreign))
        cells = (spread(true, 3), *(signed(values, 4) for values in differences))
        yield f"| {name} | {len(true)} | {' | '.join(cells)} |"


def shipped(rows: Sequence[Row]) -> Iterator[str]:
    """The translations that DiaBLa has of what its speakers wrote in English."""
    yield "| system | dialogues | lines | s-BLEU | chrF | agreement | consistency |\n| --- |" + " ---: |" * 6
    for row in rows:
        if row.get("set") == "diabla, written in English":
            values = (f"{row[score]:.{digits}f}" for score, digits in (("s-BLEU", 1), ("chrF", 1), *SCORES[:2]))
            yield f"| {row['system']} | {row['documents']} | {row['sentences']:,} | {' | '.join(values)} |"


def rule(rows: Sequence[Row]) -> Iterator[str]:
    """How often the reference goes on in the last form of the given third (`dialogues.py kept`)."""
    yield "| text | lines of address | agreement of a rule that keeps the last given form |\n| --- | ---: | ---: |"
    for row in rows:
        if row.get("set") == "the last given form kept":
            yield f"| {PLACES[row['text']]} | {row['agreement_lines']:,} | {row['agreement']:.1f} |"


def kept_scores(path: Path) -> Iterator[str]:
    """Scores that `run.sh` left, by what was given: of seeds their mean, least and most; differences of s-BLEU and chrF
    are those of the seeds' means, with intervals over dialogues; those of agreement have the largest p of the seeds."""
    yield "| system | seeds | agreement | − sentence | consistency | s-BLEU | − sentence | chrF | − sentence |"
    yield "| --- |" + " ---: |" * 8
    for way, title in WAYS.items():
        yield f"| *{title}* |" + " |" * 8
        for system, seeds, mean in scored_systems(path, way):
            beside = "" if system == "sentence" else "paired"
            cells = [system, str(len(seeds))]
            cells += [spread([seed["address"]["agreement"] for seed in seeds], 1), shares(seeds, beside)]
            cells.append(spread([seed["address"]["consistency"] for seed in seeds], 1))
            for metric in ("s-BLEU", "chrF"):
                cells += [spread([seed[metric] for seed in seeds], 2), interval(mean, beside, metric)]
            yield f"| {' | '.join(cells)} |"
    yield "\n| system | seeds | agreement, true − foreign | s-BLEU, true − foreign | chrF, true − foreign |"
    yield "| --- |" + " ---: |" * 4
    for system, seeds, mean in scored_systems(path, "third"):
        if "foreign" in mean:
            cells = [shares(seeds, "foreign"), *(interval(mean, "foreign", metric) for metric in ("s-BLEU", "chrF"))]
            yield f"| {system} | {len(seeds)} | {' | '.join(cells)} |"


def scored_systems(path: Path, way: str) -> Iterator[tuple[str, list[Row], Row]]:
    """Each system with the scores of its seeds and of their mean."""
    for mean in sorted(measured.find(path, f"diabla/*.seeds/{way}.json"), key=lambda file: order(file.parent.name)):
        system = mean.parent.name.removesuffix(".seeds")
        seeds = [measured.read_json(file) for file in measured.find(path, f"diabla/{system}[0-9]/{way}.json")]
        yield system, seeds, measured.read_json(mean)


def interval(mean: Row, beside: str, metric: str) -> str:
    """The difference of the seeds' means from other translations; its 95 % interval over dialogues; p."""
    for difference in mean.get(beside, {}).get("metrics", ()):
        if difference["metric"] == metric:
            values = (difference["difference"], difference["low"], difference["high"], difference["p_value"])
            return "{:+.2f} ({:+.2f} to {:+.2f}), p {:.3f}".format(*values).replace("-", "−").replace("p 0.", "p .")
    return ""


def shares(seeds: Sequence[Row], beside: str) -> str:
    """The difference in agreement from other translations: the seeds' mean, least and most, and their largest p."""
    rows = [
        difference
        for seed in seeds
        for difference in seed.get(beside, {}).get("metrics", ())
        if difference["metric"] == "agreement"
    ]
    if not rows:
        return ""
    largest = max(row["p_value"] for row in rows)
    return f"{signed([row['difference'] for row in rows], 1)}, p ≤ {largest:.3f}".replace("≤ 0.", "≤ .")


def hours(rows: Sequence[Row]) -> Iterator[str]:
    """How long the trainings took, each counted once: of one that goes on, the last row has its whole time."""
    walls: dict[str, float] = {}
    for row in rows:
        if "training" in row:
            begun = json.dumps([row["training"], row["valid"][0]])
            walls[begun] = max(row["wall"], walls.get(begun, 0))
    yield "| trainings | hours of one core |\n| ---: | ---: |"
    yield f"| {len(walls)} | {sum(walls.values()) / 3600:.1f} |"


def main() -> None:
    """Print all tables, an empty line between them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--kept", action="store_true", help="the scores are what measured.py kept of run.sh")
    args = parser.parse_args()
    if args.kept:
        print("\n".join(kept_scores(args.scores)))
        return
    rows = [json.loads(line) for line in args.scores.read_text(encoding="utf-8").splitlines()]
    tables = [table(rows, where, ways) for where, ways in TABLES]
    told = (table(rows, where, ways, forms=True) for where, ways in FORMS)
    german = (table(rows, where, ("none", "third", "foreign")) for where in ("xdailydialog", "games-de"))
    tables += (*told, questions(rows, ASKED), *german, questions(rows, KNOWN))
    tables += (shipped(rows), true_and_foreign(rows), worth(rows), rule(rows), hours(rows))
    print("\n\n".join(map("\n".join, tables)))


if __name__ == "__main__":
    main()
