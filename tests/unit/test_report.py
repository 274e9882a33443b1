"""The numbers of a report: sacreBLEU on the sentences themselves, and SciPy, are the second routes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from scipy.stats import binomtest
from translations import documents, noised

from docnmt.apps.report import (
    HEIGHT,
    WIDTH,
    Bootstrap,
    Interval,
    bars,
    chart,
    divisions,
    names_of,
    read_test_sets,
)
from docnmt.core.scoring.config import DEFAULT
from docnmt.core.scoring.metrics import Evaluation, evaluate_systems
from docnmt.runtime.system import UsageError, UserError

SIZES = [1, 2, 3, 5, 9, 17, 4]
OFFSETS = np.cumsum([0, *SIZES]).tolist()
REFERENCE = [line for text in documents(SIZES) for line in text]


BOOTSTRAP = Bootstrap(samples=50, seed=3)


SYSTEMS = {
    name: [line for text in noised(documents(SIZES), share, seed=seed) for line in text]
    for name, share, seed in (("one", 0.2, 5), ("two", 0.4, 6))
}
SYSTEMS["two"][7] = ""


@pytest.fixture(scope="module")
def evaluated() -> dict[str, Evaluation]:
    return dict(
        zip(
            SYSTEMS,
            evaluate_systems(list(SYSTEMS.values()), [REFERENCE], OFFSETS, metrics=(*DEFAULT, "TER")),
            strict=True,
        )
    )


def test_a_part_is_scored_as_its_sentences_are(evaluated: dict[str, Evaluation]) -> None:
    position, _, words = divisions(evaluated, BOOTSTRAP)
    first = OFFSETS[:-1]
    long = [s for s, line in enumerate(REFERENCE) if 6 <= len(line.split()) <= 10]
    for part, chosen in ((position.parts[0], first), (words.parts[1], long)):
        for n, hypotheses in enumerate(SYSTEMS.values()):
            lines, references = [hypotheses[s] for s in chosen], [[REFERENCE[s] for s in chosen]]
            for metric, scorer in {"s-BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}.items():
                score = part.scores[metric][n].score
                assert score == pytest.approx(scorer.corpus_score(lines, references).score)


def test_an_interval_is_of_the_documents_drawn(evaluated: dict[str, Evaluation]) -> None:
    """With one sample, its two ends are sacreBLEU's score of the text that was drawn."""
    system, once = evaluated["two"], Bootstrap(samples=1, seed=7)
    drawn = np.random.default_rng(7).multinomial(len(SIZES), np.full(len(SIZES), 1 / len(SIZES)))
    lines = [s for d, times in enumerate(drawn) for _ in range(times) for s in range(OFFSETS[d], OFFSETS[d + 1])]
    found = once.interval(system, "chrF", system.counts["chrF"])
    expected = CHRF().corpus_score([SYSTEMS["two"][s] for s in lines], [[REFERENCE[s] for s in lines]]).score
    assert (found.low, found.high) == pytest.approx((expected, expected))
    assert found.score == pytest.approx(system.scores["chrF"])


def test_one_document_has_no_interval(evaluated: dict[str, Evaluation]) -> None:
    system = evaluated["one"]
    assert BOOTSTRAP.interval(system, "chrF", system.counts["chrF"][:1]).ends == ""


def test_systems_are_named_by_their_paths_or_as_asked() -> None:
    assert names_of(["out/ours.de.txt", "b.txt"], "--sys") == ["out/ours.de.txt", "b.txt"]
    assert names_of(["a.txt", "b.txt"], "--sys", ["x", " y\n"]) == ["x", "y"]


def test_one_name_for_two_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--sys.*'a\.txt'"):
        names_of(["a.txt", "a.txt"], "--sys")
    with pytest.raises(UsageError, match=r"--sys.*'x'.*--names"):
        names_of(["a.txt", "b.txt"], "--sys", ["x", " x"])


def discourse(path: Path, solved: list[bool], labels: list[str]) -> str:
    rows = list(zip(solved, labels, strict=True))
    cells = {value: [done for done, label in rows if label == value] for value in sorted(set(labels))}

    def accuracy(done: list[bool]) -> dict[str, float]:
        return {"accuracy": 100 * sum(done) / len(done), "chance": 50.0, "groups": len(done)}

    content = {
        **accuracy(solved),
        "by": {"distance": {value: accuracy(done) for value, done in cells.items()}},
        "solved": [{"distance": label, "solved": done} for done, label in rows],
    }
    path.write_text(json.dumps(content))
    return str(path)


def test_contrastive_files_of_one_test_set_are_compared(tmp_path: Path) -> None:
    draw = random.Random(1)
    labels = [draw.choice("123") for _ in range(300)]
    one, two = ([draw.random() < share for _ in labels] for share in (0.6, 0.5))
    files = [discourse(tmp_path / "one.json", one, labels), discourse(tmp_path / "two.json", two, labels)]
    alone = discourse(tmp_path / "alone.json", one[:50], labels[:50])
    both, single = read_test_sets([*files, alone])
    assert [len(both.files), both.groups, len(single.files), single.groups] == [2, 300, 1, 50]
    (found,) = both.disagreements
    only = [sum(a > b for a, b in zip(one, two, strict=True)), sum(a < b for a, b in zip(one, two, strict=True))]
    assert [found.only_first, found.only_second] == only
    assert found.p_value == pytest.approx(binomtest(only[0], sum(only)).pvalue)
    wilson = binomtest(sum(one), 300).proportion_ci(method="wilson")
    overall = both.files[0].overall
    assert (overall.low, overall.high) == pytest.approx((100 * wilson.low, 100 * wilson.high))
    groups, accuracy = both.files[1].by["distance"]["2"]
    members = [done for done, label in zip(two, labels, strict=True) if label == "2"]
    assert (groups, accuracy.score) == (len(members), pytest.approx(100 * np.mean(members)))


def test_generative_results_have_no_chance(tmp_path: Path) -> None:
    content = {
        "accuracy": 50.0, "questions": 2, "by": {"kind": {"a": {"accuracy": 50.0, "questions": 2}}},
        "answered": [{"kind": "a", "expected": "it", "answered": done} for done in (True, False)],
    }  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps(content))
    (found,) = read_test_sets([str(tmp_path / "x.json")])
    assert (found.groups, found.files[0].chance, found.files[0].overall.score) == (2, None, 50)
    assert found.files[0].by["kind"]["a"][0] == 2


NOT_A_NUMBER = '{"solved": [{"solved": true}], "by": {}, "accuracy": NaN, "groups": 1, "chance": 50}'


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"accuracy": 1}', '{"solved": [1], "by": {}, "groups": 1}', NOT_A_NUMBER, "[" * 9999],
    ids=lambda content: content[:12],
)
def test_other_files_than_contrastive_ones_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UserError, match=r"x\.json.*--contrastive"):
        read_test_sets([str(tmp_path / "x.json")])
    with pytest.raises(UserError, match=r"none\.json"):
        read_test_sets([str(tmp_path / "none.json")])


def test_points_stand_in_the_chart_in_the_order_of_their_scores() -> None:
    draw = random.Random(4)
    scores = [[Interval(s := draw.uniform(20, 60), s - 3, s + 2) for _ in range(3)] for _ in range(5)]
    drawn = chart("chrF", "words", ["1", "2", "3–4", "5–8", "9–"], ["a", "b", "c"], scores)
    assert [label for _, label in drawn.places] == ["1", "2", "3–", "5–", "9–"]
    points = [point for _, row in drawn.systems for point in row]
    assert all(0 < point.x < WIDTH and 0 <= point.high <= point.y <= point.low < HEIGHT for point in points)
    values = [scores[place][n].score for n in range(3) for place in range(5)]
    assert np.corrcoef([point.y for point in points], values)[0, 1] == pytest.approx(-1, abs=1e-4)
    marks = np.array([[float(label), y] for y, label in drawn.ticks])  # the ticks are on the same scale
    slope, start = np.polyfit(marks[:, 0], marks[:, 1], 1)
    assert [point.y for point in points] == pytest.approx([slope * value + start for value in values], abs=0.2)


def test_charts_of_equal_scores_can_be_drawn() -> None:
    drawn = chart("chrF", "words", ["1"], ["a"], [[Interval(0.0)]])
    assert 0 < drawn.systems[0][1][0].y < HEIGHT
    assert bars([Interval(100.0), Interval(100.0)]) == [(50, 50, 50)] * 2


def test_bars_share_one_scale() -> None:
    assert bars([Interval(20, 10, 30), Interval(25, 22, 50)]) == [(0, 25, 50), (30, 37.5, 100)]
