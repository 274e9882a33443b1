"""Scores of parts of a text: their counts add up to the text's, and each is sacreBLEU's on its sentences."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scored import corpus, write

from docnmt.cli import score as command
from docnmt.core.scoring.metrics import Evaluation, evaluate
from docnmt.core.scoring.report import PartScores, parts

BY = ["position", "document-length", "sentence-length"]


def evaluated() -> tuple[list[str], list[str], Evaluation]:
    hypothesis, reference, offsets = corpus(11, sentences=90, documents=9)
    return hypothesis, reference, evaluate(hypothesis, [reference], offsets)


@pytest.mark.parametrize("by", BY)
def test_every_sentence_is_in_one_part_and_counts_add_up(by: str) -> None:
    *_, evaluation = evaluated()
    found = parts(by, evaluation)
    assert sorted(np.concatenate([part.sentences for part in found])) == list(range(90))
    for name, counts in evaluation.sentence_counts.items():
        summed = sum(counts[part.sentences].sum(axis=0) for part in found)
        assert evaluation.score(name, summed) == evaluation.scores[name]


@pytest.mark.parametrize("by", BY)
def test_a_part_has_the_bleu_of_its_sentences(by: str) -> None:
    hypothesis, reference, evaluation = evaluated()
    for part in parts(by, evaluation):
        chosen = [[side[n] for n in part.sentences] for side in (hypothesis, reference)]
        expected = BLEU().corpus_score(chosen[0], [chosen[1]]).score
        assert evaluation.of_part(part.sentences)["s-BLEU"] == pytest.approx(expected)


def test_parts_are_named_by_what_their_sentences_share() -> None:
    lines = ["a b .", "a b c d e .", "a", "a b", "b", "a", "b"]
    evaluation = evaluate(lines, [lines], [0, 1, 6, 7])
    found = {by: {part.label: part.sentences.tolist() for part in parts(by, evaluation)} for by in BY}
    assert found["position"] == {"1": [0, 1, 6], "2": [2], "3-4": [3, 4], "5-8": [5]}
    assert found["document-length"] == {"1": [0, 6], "5-8": [1, 2, 3, 4, 5]}
    assert found["sentence-length"] == {"1-5": [0, 2, 3, 4, 5, 6], "6-10": [1]}


def test_documents_are_whole_in_parts_by_their_length() -> None:
    hypothesis, reference, evaluation = evaluated()
    scores = PartScores.of("document-length", {"system": evaluation})
    offsets = evaluation.document_offsets
    for part, values in zip(scores.parts, scores.scores["system"], strict=True):
        spans = [(offsets[d], offsets[d + 1]) for d in part.documents]
        joined = [[" ".join(filter(None, side[a:b])) for a, b in spans] for side in (hypothesis, reference)]
        assert values["d-BLEU"] == pytest.approx(BLEU().corpus_score(joined[0], [joined[1]]).score)
    assert "d-BLEU" not in PartScores.of("position", {"system": evaluation}).scores["system"][0]


def files(tmp_path: Path) -> list[str]:
    text = "Das Haus ist alt .\nDas Haus ist rot .\n\nEin Hund bellt laut .\n"
    return [str(path) for path in write(tmp_path, ref=text, sys=text.replace("rot", "neu"), other=text)]


def test_the_command_prints_and_draws_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ref, sys_, other = files(tmp_path)
    arguments = ["--ref", ref, "--sys", sys_, "--by", "position", "--metrics", "TER"]
    assert command.main(arguments) == 0
    table = [line.split("\t") for line in capsys.readouterr().out.splitlines() if "\t" in line]
    assert table[0] == ["position", "sentences", "documents", "s-BLEU", "chrF", "TER"]
    assert [row[:3] for row in table[1:]] == [["1", "2", "2"], ["2", "1", "1"]]
    assert command.main([*arguments, "--paired", other, "--plot", f"{tmp_path}/by.svg", "--json"]) == 0
    assert (tmp_path / "by.svg").read_text(encoding="utf-8").startswith("<?xml")
    content = json.loads(capsys.readouterr().out)["of_parts"]
    assert content["parts"][1]["other"]["TER"] == 0
    assert content["parts"][1]["system"]["TER"] == 20


def test_what_cannot_be_drawn_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ref, sys_, _ = files(tmp_path)
    arguments = ["--ref", ref, "--sys", sys_, "--by", "position", "--plot"]
    assert command.main([*arguments, f"{tmp_path}/by.txt"]) == 1
    assert "--plot" in (said := capsys.readouterr().err)
    assert ".txt" in said
    assert command.main(["--ref", ref, "--sys", sys_, "--plot", "by.png"]) == 2
    assert "--plot" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert command.main([*arguments, f"{tmp_path}/by.png"]) == 1
    assert "pip install 'docnmt[evaluation]'" in capsys.readouterr().err
