"""COMET in document windows, with a stub that scores a text by its number of words."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scored import write

from docnmt.cli import score as command
from docnmt.core.scoring import metrics as agreement
from docnmt.core.scoring.metrics import Comet, Score, evaluate, windows
from docnmt.registry import METRICS

MODEL = "model.ckpt"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What a stub of COMET is given; its score is a hundredth of the words of the translation."""
    seen: list[dict[str, str]] = []

    def predict(rows: list[dict[str, str]], **_: int) -> SimpleNamespace:
        seen.extend(rows)
        return SimpleNamespace(scores=[len(row["mt"].split()) / 100 for row in rows])

    scorer = SimpleNamespace(predict=predict, requires_references=lambda: "needs" in seen)
    monkeypatch.setitem(sys.modules, "comet", SimpleNamespace(load_from_checkpoint=lambda path: scorer))
    return seen


@pytest.mark.parametrize(
    ("window", "stride", "expected"),
    [
        (3, 1, [(0, 3), (1, 4), (2, 5), (5, 7)]),
        (3, 2, [(0, 3), (2, 5), (5, 7)]),
        (2, 2, [(0, 2), (2, 4), (3, 5), (5, 7)]),
        (9, 1, [(0, 5), (5, 7)]),
    ],
)
def test_windows_slide_over_each_document(window: int, stride: int, expected: list[tuple[int, int]]) -> None:
    assert list(windows([0, 5, 5, 7], window, stride)) == expected


@pytest.mark.parametrize(("window", "stride"), [(1, 1), (2, 1), (3, 2), (9, 1)])
def test_the_score_is_the_mean_over_windows(rows: list[dict[str, str]], window: int, stride: int) -> None:
    sentences = ["a", "a b", "", "a b c", "a b c d", "a", "b b b"]
    offsets = [0, 5, 7]
    comet = Comet(MODEL, window, stride)
    (counts,) = comet.counts([sentences], sentences, sentences, offsets)
    evaluation = evaluate(sentences, [sentences], offsets).including("COMET", comet, counts)
    sizes = [sum(len(line.split()) for line in sentences[a:b]) for a, b in windows(offsets, window, stride)]
    assert evaluation.scores["COMET"] == pytest.approx(np.mean(sizes))
    assert evaluation.counts["COMET"].sum() == pytest.approx(counts.sum())
    assert [row["mt"] for row in rows] == [row["ref"] for row in rows]
    for number, score in enumerate(evaluation.of_sentences("COMET")):  # the mean of the windows that hold it
        spans = zip(windows(offsets, window, stride), sizes, strict=True)
        assert score == pytest.approx(np.mean([words for (a, b), words in spans if a <= number < b]))


def test_the_command_gives_windows_intervals_and_sentences(
    tmp_path: Path, rows: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sides = {"src": "s1\ns2\ns3\n\nt1\n", "ref": "r1\nr2\nr3\n\nu1\n"}
    systems = {"sys": "a a\nb b\nc\n\nd\n", "other": "a\nb\nc\n\nd d\n"}
    src, ref, sys_, other = map(str, write(tmp_path, **sides, **systems))
    arguments = ["--src", src, "--ref", ref, "--sys", sys_, "--comet", MODEL, "--comet-window", "2"]
    assert command.main([*arguments, "--paired", other, "--per-sentence", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert rows[0] == {"src": "s1 s2", "mt": "a a b b", "ref": "r1 r2"}
    assert content["COMET"] == pytest.approx((4 + 3 + 1) / 3)
    assert "window:2|stride:1" in content["signatures"]["COMET"]
    (paired,) = [row for row in content["paired"]["metrics"] if row["metric"] == "COMET"]
    assert paired["difference"] == pytest.approx((4 + 3 + 1) / 3 - (2 + 2 + 2) / 3)
    assert [row["COMET"] for row in content["of_sentences"]] == pytest.approx([4, 3.5, 3, 1])
    assert command.main([*arguments, "--comet-stride", "3"]) == 2
    assert "--comet-stride" in capsys.readouterr().err
    assert command.main(["--ref", ref, "--sys", sys_, "--comet-window", "2", "--comet-qe"]) == 2
    said = capsys.readouterr().err
    assert all(f"{name} " in said for name in ("--comet-window", "--comet-qe"))


def test_people_agree_as_the_paper_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kocmi et al. 2024: BLEU 1.00 is 63.99 %, as the package's own readme has it; chrF as much by 0.67."""
    pytest.importorskip("mt_thresholds")
    hypothesis, offsets = ["a b c d", "e f g h"], [0, 1, 2]
    metrics: dict[str, Score] = dict(evaluate(hypothesis, [hypothesis], offsets, metrics=METRICS.names()).metrics)
    metrics |= {"COMET": Comet("Unbabel/wmt22-comet-da")}
    agree = agreement.human_agreement
    assert agree("s-BLEU", metrics["s-BLEU"], -1.0) == pytest.approx(63.989, abs=1e-3)
    assert agree("chrF", metrics["chrF"], 0.67) == pytest.approx(63.1, abs=0.2)
    assert agree("COMET", metrics["COMET"], 0.56) == pytest.approx(80, abs=1)
    assert agree("s-BLEU", metrics["s-BLEU"], 0.0) == 50  # the curve is below chance there
    assert agree("TER", metrics["TER"], 2.0) is agree("d-BLEU", metrics["d-BLEU"], 2.0) is None
    assert agree("COMET", Comet("Unbabel/wmt22-comet-da", window=3), 0.56) is None
    monkeypatch.setattr(agreement, "INSTALLED", False)
    assert agree("s-BLEU", metrics["s-BLEU"], 1.0) is None
