"""docnmt-report: systems compared on one page.

files → scores with intervals, by part, by phenomenon → charts → the page, with `templates/report`
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docnmt.apps.options import PageConfig
from docnmt.apps.pages import beginning, self_contained, template
from docnmt.core.data_options import parse_columns
from docnmt.core.scoring.config import DEFAULT
from docnmt.core.scoring.consistency import learn_lexicon, lexical_consistency
from docnmt.core.scoring.metrics import (
    FEW_DOCUMENTS,
    Comparison,
    Evaluation,
    evaluate_systems,
    interval,
    lower_is_better,
    paired_bootstrap,
    reservations,
)
from docnmt.core.scoring.report import TextPart, parts
from docnmt.core.scoring.text_files import read_layout, with_partners
from docnmt.registry import METRICS
from docnmt.runtime.progress import how_many
from docnmt.runtime.system import UsageError, UserError, check_writable, parse_json, read_limited, reading, write_text


@dataclass(frozen=True)
class Interval:
    """A score and the middle 95 % of its bootstrap samples; `low` and `high` are None without samples."""

    score: float
    low: float | None = None
    high: float | None = None

    @property
    def least(self) -> float:
        """The lower end of interval and score."""
        return self.score if self.low is None else min(self.low, self.score)

    @property
    def most(self) -> float:
        """The upper end of interval and score."""
        return self.score if self.high is None else max(self.high, self.score)

    @property
    def ends(self) -> str:
        """The interval alone, or an empty text."""
        return "" if self.low is None or self.high is None else f"{self.low:.1f}–{self.high:.1f}"

    def __str__(self) -> str:
        return f"{self.score:.1f} ({self.ends})" if self.ends else f"{self.score:.1f}"


@dataclass(frozen=True)
class Bootstrap:
    """The bootstrap's settings: `samples` draws of as many documents as there are, with `seed`."""

    samples: int
    seed: int

    def interval(self, evaluation: Evaluation, metric: str, counts: np.ndarray) -> Interval:
        """Return the score of the summed `counts` (D, K) of documents, with its interval if there are two documents."""
        score = evaluation.score(metric, counts.sum(axis=0))
        if len(counts) < 2:
            return Interval(score)
        return Interval(score, *interval(evaluation.metrics[metric], counts, samples=self.samples, seed=self.seed))

    def pairs(self, systems: Mapping[str, Evaluation]) -> dict[tuple[str, str], list[Comparison]]:
        """Compare every system with every later one, metric by metric; nothing for a text of one document."""
        if next(iter(systems.values())).documents < 2:
            return {}
        return {
            (one, other): paired_bootstrap(systems[one], systems[other], samples=self.samples, seed=self.seed)
            for one, other in combinations(systems, 2)
        }


# Charts of scores with intervals: the positions of points, which `charts.html` draws as SVG.

#: The size of a chart, in its own units, and its margins: left, right, top and bottom.
WIDTH, HEIGHT = 360, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 8, 36


class _Point(NamedTuple):
    """A score at x; y grows downward, so `low` has the larger y."""

    x: float
    y: float
    low: float | None
    high: float | None
    label: str


class Chart(NamedTuple):
    """A chart: points of every system above labelled places, with horizontal lines at round scores."""

    name: str
    axis: str
    places: Sequence[tuple[float, str]]
    ticks: Sequence[tuple[float, str]]
    systems: Sequence[tuple[str, Sequence[_Point]]]


def chart(
    name: str, axis: str, labels: Sequence[str], systems: Sequence[str], scores: Sequence[Sequence[Interval]]
) -> Chart:
    """Lay out a chart: `axis` is the meaning of the labels below it; for each, `scores` has an interval a system."""
    low, high = _range([interval for row in scores for interval in row])
    low, high = low - (high - low) / 20, high + (high - low) / 20
    unit: float = 10 ** math.floor(math.log10((high - low) / 5))
    between = next(unit * times for times in (1, 2, 5, 10) if unit * times >= (high - low) / 5)  # at most five ticks
    ticks = [round(between * n, 6) for n in range(math.ceil(low / between), math.floor(high / between) + 1)]
    step = (WIDTH - _LEFT - _RIGHT) / len(labels)
    aside = min(7.0, step / (len(systems) + 1))  # so that intervals do not hide one another

    def height(score: float) -> float:
        return round(_TOP + (HEIGHT - _TOP - _BOTTOM) * (high - score) / (high - low), 1)

    def point(column: int, number: int) -> _Point:
        interval = scores[column][number]
        x = _LEFT + step * (column + 0.5) + aside * (number - (len(systems) - 1) / 2)
        low_y, high_y = (None if end is None else height(end) for end in (interval.low, interval.high))
        label = f"{systems[number]}, {labels[column]}: {interval}"
        return _Point(round(x, 1), height(interval.score), low_y, high_y, label)

    begins = ["".join(label.partition("–")[:2]) for label in labels]  # `17–`: the next label shows where it ends
    places = [(round(_LEFT + step * (n + 0.5), 1), label) for n, label in enumerate(begins)]
    lines = [(system, [point(column, n) for column in range(len(labels))]) for n, system in enumerate(systems)]
    return Chart(name, axis, places, [(height(tick), f"{tick:g}") for tick in ticks], lines)


def bars(intervals: Sequence[Interval]) -> list[tuple[float, float, float]]:
    """Return intervals on one scale from 0 to 100: begin, score and end of each."""
    low, high = _range(intervals)

    def scaled(score: float) -> float:
        return round(100 * (score - low) / (high - low), 1)

    return [(scaled(interval.least), scaled(interval.score), scaled(interval.most)) for interval in intervals]


def _range(intervals: Sequence[Interval]) -> tuple[float, float]:
    low, high = min(interval.least for interval in intervals), max(interval.most for interval in intervals)
    return (low, high) if high - low > 1e-6 else (low - 1, high + 1)


def names_of(files: Sequence[str], option: str, given: Sequence[str] = ()) -> list[str]:
    """Return a name for each file: the one `given`, or its path."""
    # no text has what is not UTF-8, or a line break
    names = [" ".join(name.encode("utf-8", "replace").decode().split()) or "?" for name in given or files]
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        how = "give each its own with --names" if given else "give every file once"
        raise UsageError(f"{option}: two files have the name '{twice}'; {how}")
    return names


# docnmt-score's `--contrastive … --json`; of `--generative`, groups are questions, `solved` is `answered`, without
# chance.


@dataclass(frozen=True)
class Answers:
    """The results in one file.

    Attributes:
        labels: of every group. solved: True for each solved group.
        by: label → value → (groups, accuracy).
    """

    name: str
    overall: Interval
    chance: float | None
    labels: tuple[str, ...]
    solved: tuple[bool, ...]
    by: Mapping[str, Mapping[str, tuple[int, Interval]]]


@dataclass(frozen=True)
class _Disagreement:
    """The comparison of two files: the groups that only the first solved, only the second, and p by the sign test."""

    first: str
    second: str
    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class TestSet:
    """The files with answers to the same groups."""

    files: Sequence[Answers]
    disagreements: Sequence[_Disagreement]

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.files[0].solved)


def read_test_sets(paths: Sequence[str]) -> list[TestSet]:
    """Read the files by test set; files whose groups have the same labels in the same order belong together."""
    sets: dict[object, list[Answers]] = {}
    for name, path in zip(names_of(paths, "--discourse"), paths, strict=True):
        answers = _read(Path(path), name)
        cells = [(label, *values) for label, values in answers.by.items()]
        sets.setdefault((answers.labels, *cells), []).append(answers)
    return [TestSet(files, [_compare(*two) for two in combinations(files, 2)]) for files in sets.values()]


def _read(path: Path, name: str) -> Answers:
    expected = f"{path}: is not what docnmt-score --contrastive … --json or --generative … --json prints"
    content: Any = parse_json(read_limited(path), expected)
    try:
        total, done = ("groups", "solved") if "solved" in content else ("questions", "answered")
        solved = tuple(bool(group.pop(done)) for group in content[done])
        labels = tuple(json.dumps(group) for group in content[done])
        by = {
            str(label): {str(value): (int(cell[total]), _accuracy(cell, total)) for value, cell in cells.items()}
            for label, cells in content["by"].items()
        }
        chance = float(content["chance"]) if total == "groups" else None
        if not solved or len(solved) != int(content[total]) or not 0 <= (chance or 0.0) <= 100:  # also NaN
            raise ValueError(f"{len(solved)} of {content[total]} {total}, chance {chance}")
        return Answers(name, _accuracy(content, total), chance, labels, solved, by)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UserError(expected) from error


def _accuracy(cell: Mapping[str, float], total: str) -> Interval:
    """Return an accuracy in percent and its 95 % interval (Wilson 1927, Probable inference, the law of succession)."""
    z, n, share = 1.959964, int(cell[total]), float(cell["accuracy"]) / 100
    if not 0 <= share <= 1:  # also NaN
        raise ValueError(f"an accuracy of {100 * share} %")
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(100 * share, 100 * max(0.0, middle - half), 100 * min(1.0, middle + half))


def _compare(one: Answers, other: Answers) -> _Disagreement:
    """Make McNemar's exact test: each of the two is equally likely to be the only one that solves a group."""
    first = sum(a and not b for a, b in zip(one.solved, other.solved, strict=True))
    second = sum(b and not a for a, b in zip(one.solved, other.solved, strict=True))
    n, ways, tail = first + second, 1, 0  # ways: n over k
    for k in range(min(first, second) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)
    return _Disagreement(one.name, other.name, first, second, min(1.0, 2 * tail / 2**n))


#: For each division of a text: its heading, and the unit of its parts' labels.
TITLES = {
    "position": ("Position in the document", "sentence"),
    "document-length": ("Length of the document", "sentences"),
    "sentence-length": ("Length of the sentence", "words of the reference"),
}


@dataclass(frozen=True, eq=False)
class _ScoredPart:
    """A part of the text; `scores` has one interval per system for each metric."""

    label: str
    sentences: int
    documents: int
    scores: dict[str, list[Interval]]


@dataclass(frozen=True, eq=False)
class _Divided:
    """A text divided into parts; every sentence is in one of them."""

    name: str
    unit: str
    parts: Sequence[_ScoredPart]


def divisions(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> Iterator[_Divided]:
    """Yield the text in every division of `docnmt-score --by`; as there, parts are by the first system's counts."""
    first = next(iter(systems.values()))
    for by, titles in TITLES.items():
        whole = by == "document-length"  # then d-BLEU has scores, too
        yield _Divided(*titles, [_scored(part, list(systems.values()), bootstrap, whole) for part in parts(by, first)])


def _scored(part: TextPart, systems: Sequence[Evaluation], bootstrap: Bootstrap, whole: bool) -> _ScoredPart:
    """Score a part by counts of its documents, `whole` or only their sentences in the part."""
    document = np.searchsorted(systems[0].document_offsets, part.sentences, side="right") - 1
    scores: dict[str, list[Interval]] = {}
    for system in systems:
        for metric in system.counts if whole else system.sentence_counts:
            if whole:
                counts = system.counts[metric][part.documents]
            else:
                sentence_counts = system.sentence_counts[metric][part.sentences]
                counts = np.zeros((len(part.documents), sentence_counts.shape[1]))
                np.add.at(counts, np.searchsorted(part.documents, document), sentence_counts)
            scores.setdefault(metric, []).append(bootstrap.interval(system, metric, counts))
    return _ScoredPart(part.label.replace("-", "–"), len(part.sentences), len(part.documents), scores)


@dataclass(frozen=True)
class _ReportTexts:
    """The S sentences of each text; an empty sentence of a system is a missing translation."""

    document_offsets: Sequence[int]  # (D+1) the sentence where each document begins, and S
    source: Sequence[str] | None
    references: Sequence[Sequence[str]]
    systems: Mapping[str, Sequence[str]]  # by name, in the order of `--sys`
    unscored: int  # sentences that the source or a reference lacks


def read_texts(config: PageConfig) -> _ReportTexts:
    """Read the files."""
    names = names_of(config.sys, "--sys", config.names)
    columns, _ = parse_columns(config.columns)
    layout = read_layout(Path(config.src or config.ref[0]), columns, "source" if config.src else "target")
    numbers, scored, references, systems = with_partners(
        layout,
        [layout.align(Path(path), columns, "target") for path in config.ref],
        [layout.align(Path(path), columns) for path in config.sys],
    )
    unscored = len(layout.sentences) - len(numbers)
    source = scored.sentences if config.src else None
    return _ReportTexts(scored.document_offsets, source, references, dict(zip(names, systems, strict=True)), unscored)


def _columns(texts: _ReportTexts, config: PageConfig) -> Iterator[tuple[str, str | None, Sequence[str]]]:
    """Yield the name, the language and the S sentences of every column: the source, the references, the systems."""
    if texts.source is not None:
        yield "Source", config.source_lang, texts.source
    for number, reference in enumerate(texts.references, 1):
        yield f"Reference {number}" if len(texts.references) > 1 else "Reference", config.target_lang, reference
    for name, sentences in texts.systems.items():
        yield name, config.target_lang, sentences


def _page_data(texts: _ReportTexts, systems: Mapping[str, Evaluation], config: PageConfig) -> dict[str, Any]:
    """Return the data as plain JSON types."""
    of_documents = [system.of_documents() for system in systems.values()]
    shown = _columns(texts, config)
    return {
        "columns": [{"name": name, "lang": language, "text": list(sentences)} for name, language, sentences in shown],
        "systems": list(texts.systems),
        "offsets": list(texts.document_offsets),
        "lower_is_better": list(filter(lower_is_better, METRICS.names())),
        "sentences": {"chrF": [_rounded(system.of_sentences("chrF")) for system in systems.values()]},
        "documents": {
            metric: [_rounded(scores[metric] for scores in documents) for documents in of_documents]
            for metric in next(iter(systems.values())).metrics
        },
    }


def _rounded(scores: Iterable[float]) -> list[float]:
    return [round(score, 2) for score in scores]


#: Number of colours in page.css; further systems reuse them with other shapes.
STYLES = 6
#: Number of tests between systems that are shown unfolded.
PAIRS = 15
_NAME = "docnmt-report"
#: The beginning of every page, by which earlier reports are recognised.
HEAD = beginning(_NAME)
_SCRIPTS = ("diff.js", "documents.js", "text.js")


def _check_replaceable(path: Path) -> None:
    """Check before long work that no file of this name exists, or only an earlier report."""
    if not path.is_file():
        return  # no file, or an invalid name: writing reports it
    with reading(path), path.open("rb") as file:
        begins = file.read(len(HEAD))
    if begins != HEAD.encode():
        raise UserError(f"{path}: exists and is not a report of docnmt-report; choose another name")


def render(content: dict[str, object], data: dict[str, object]) -> str:
    """Render the page from `content`, the variables of page.html, and `data` for the scripts."""
    constants: dict[str, object] = {"styles": STYLES, "most_pairs": PAIRS}
    constants |= {"width": WIDTH, "height": HEIGHT}
    scripts = "\n".join(template(f"report/{name}") for name in _SCRIPTS)
    return self_contained("report", _NAME, template("shared/page.css"), scripts, {**constants, **content}, data)


# The command `docnmt-report`: read, evaluate, write the page.


def write_report(config: PageConfig) -> None:
    """Write the page."""
    out = Path(config.out)
    _check_replaceable(out)
    texts, test_sets = read_texts(config), read_test_sets(config.discourse)
    check_writable(out)
    metrics, translations = (*DEFAULT, "TER") if config.ter else DEFAULT, list(texts.systems.values())
    tokenize, offsets = config.sacrebleu_tokenize, texts.document_offsets
    evaluations = evaluate_systems(translations, texts.references, offsets, tokenize=tokenize, metrics=metrics)
    systems = dict(zip(texts.systems, evaluations, strict=True))
    bootstrap = Bootstrap(config.samples, config.seed)
    content = {
        "title": config.title, "summary": _summary(texts), "systems": list(texts.systems),
        "documents": len(texts.document_offsets) - 1, "columns": [name for name, _, _ in _columns(texts, config)],
        "first_reference": int(texts.source is not None), "consistency": _consistency(texts), "test_sets": test_sets,
        **_scores(systems, bootstrap), **_parts(systems, bootstrap), **_method(config, texts),
    }  # fmt: skip
    write_text(out, render(content, _page_data(texts, systems, config)))


def _summary(texts: _ReportTexts) -> str:
    sizes = [len(texts.systems), texts.document_offsets[-1], len(texts.document_offsets) - 1, len(texts.references)]
    systems, sentences, documents, references = map(how_many, sizes, ["system", "sentence", "document", "reference"])
    left = f"; {how_many(texts.unscored, 'sentence')} without a partner left out" if texts.unscored else ""
    return f"{systems}, {sentences} in {documents}, {references}{left}"


def _scores(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the systems' scores on the whole text, and their comparison."""
    every = list(systems.values())
    metrics = every[0].metrics
    scores = {m: [bootstrap.interval(system, m, system.counts[m]) for system in every] for m in metrics}
    best = {}
    for metric, row in scores.items():
        shown = [round(interval.score, 1) for interval in row]
        top = min(shown) if lower_is_better(metric) else max(shown)
        best[metric] = {n for n, score in enumerate(shown) if score == top and len(systems) > 1}
    documents = every[0].documents
    one = ["The text is one document, so there are no intervals and no tests: both draw whole documents."]
    return {
        "metrics": list(scores), "lower_is_better": list(filter(lower_is_better, scores)), "scores": scores,
        "signatures": every[0].scores.signatures, "best": best,
        "bars": {metric: bars(row) for metric, row in scores.items()}, "pairs": bootstrap.pairs(systems),
        "notes": one if documents == 1 else [f"{note[0].upper()}{note[1:]}." for note in reservations(documents)],
    }  # fmt: skip


def _parts(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the scores by position and length, as tables and charts."""
    divided = list(divisions(systems, bootstrap))
    drawn: list[list[Chart]] = []
    for division in divided:
        labels = [part.label for part in division.parts]
        scores = {metric: [part.scores[metric] for part in division.parts] for metric in division.parts[0].scores}
        drawn.append([chart(m, division.unit, labels, list(systems), rows) for m, rows in scores.items()])
    smallest = min(part.documents for division in divided for part in division.parts)
    several = next(iter(systems.values())).documents > 1  # else there are no intervals
    few = FEW_DOCUMENTS if several and smallest < FEW_DOCUMENTS else None
    return {"divisions": list(zip(divided, drawn, strict=True)), "few": few}


def _consistency(texts: _ReportTexts) -> list[str]:
    """Return the lexical consistency of each system and, last, of the reference; empty without a source."""
    if texts.source is None:
        return []
    lexicon = learn_lexicon(texts.source, texts.references[0])
    every, offsets = (*texts.systems.values(), texts.references[0]), texts.document_offsets
    measured = [lexical_consistency(texts.source, sentences, offsets, lexicon) for sentences in every]
    return [f"{system.ratio:.1f}" if system.pairs else "–" for system in measured]


def _method(config: PageConfig, texts: _ReportTexts) -> dict[str, Any]:
    method = {}
    if len(texts.document_offsets) > 2:
        method["Intervals, tests"] = (
            f"paired bootstrap over documents, {config.samples:,} samples, seed {config.seed}; parts of the text draw "
            "from the documents that have sentences in them"
        )
    method["By sentence"] = "the marks, and the order of sentences, are by words and by sentence chrF"
    files = {"--ref": config.ref, "--src": [config.src] if config.src else [], "--sys": config.sys}
    return {"method": method, "files": {option: names for option, names in files.items() if names}}
