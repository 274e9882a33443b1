"""Generative evaluation: ctxpro's rule, its files, and the command on translations that are there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from scored import write

from docnmt.cli import score as command
from docnmt.core.scoring.discourse import ForcedExample, Question, in_contexts, read_answers, read_questions
from docnmt.runtime.system import UserError


@pytest.mark.parametrize(
    ("expected", "translation", "answered"),
    [
        ("er", "Er ist da.", True),
        ("er", "Da ist er", True),
        ("er", "Da ist »er«.", False),  # only ASCII punctuation is taken away
        ("er", "Da ist (er).", True),
        ("er", "Der Mann geht.", False),
        ("er", "Er's", False),  # ctxpro's rule makes one word of it
        ("geht los", "Es geht los!", True),
        ("geht los", "Es geht jetzt los!", False),
        ("Sie", "kommen sie", True),
        ("er", "", False),
        ("-du", "Kommst -du", False),  # nor is the expected form stripped
    ],
)
def test_the_rule(expected: str, translation: str, answered: bool) -> None:
    assert Question(ForcedExample((), "", (), ""), expected, {}).answered(translation) is answered


def test_a_table_says_what_is_expected(tmp_path: Path) -> None:
    full, least = write(
        tmp_path,
        full="expected\tsrc_context\tsrc\ttgt\trule\nEr\tA.<SEP>B.\tIt is.\tEr ist.\tanaphora\n\nsie\t\tIt.\tSie.\t-\n",
        least="pronoun\tnote\nes\tx\n",
    )
    first, second = read_questions(full)
    assert first == Question(ForcedExample(("A.", "B."), "It is.", (), "Er ist."), "Er", {"rule": "anaphora"})
    assert second.example.source_context == ()
    (only,) = read_questions(least)
    assert only == Question(ForcedExample((), "", (), ""), "es", {"pronoun": "es", "note": "x"})


def test_a_contrastive_test_set_asks_by_its_right_rows(tmp_path: Path) -> None:
    (path,) = write(
        tmp_path,
        path="group\tcorrect\tpronoun\tctx_en\tsrc_en\tctx_de\ttgt_de\n0\t1\tes\tA.\tIt.\tB.\tEs.\n0\t0\t\tA.\tIt.\tB.\tEr.\n",
    )
    (question,) = read_questions(path)
    assert question == Question(ForcedExample(("A.",), "It.", ("B.",), "Es."), "es", {"pronoun": "es"})


def test_ctxpros_and_contrapros_json(tmp_path: Path) -> None:
    entry = {"expected": "geht", "src segment": "It does.", "ref segment": "Es geht.", "rule": "DO.ELL", "more": 1}
    pronoun = {
        "src segment": "It is.", "ref segment": "Er ist.", "errors": [{"contrastive": "Es ist."}], "ante distance": 5,
        "src pronoun": "It", "ref pronoun": "Er",
    }  # fmt: skip
    ctxpro, contrapro, other = write(
        tmp_path, **{"a.json": json.dumps([entry]), "b.json": json.dumps([pronoun]), "c.json": '[{"expected": 1}]'}
    )
    assert read_questions(ctxpro) == [
        Question(ForcedExample((), "It does.", (), "Es geht."), "geht", {"rule": "DO.ELL"})
    ]
    (question,) = read_questions(contrapro)
    assert (question.expected, question.example.target, question.labels["distance"]) == ("er", "Er ist.", ">3")
    with pytest.raises(UserError, match=r"'str'.*'int'"):
        read_questions(other)


@pytest.mark.parametrize(
    "text", ["[1]", '"x"', '[{"expected": 3, "src segment": "a", "ref segment": "b", "rule": "c"}]', "[" * 9999, "[]"]
)
def test_json_of_other_types_is_refused(tmp_path: Path, text: str) -> None:
    (path,) = write(tmp_path, **{"x.json": text})
    with pytest.raises(UserError, match=r"x\.json: "):
        read_questions(path)


def test_forms_that_the_rule_never_finds_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions, answers = write(tmp_path, **{"q.tsv": "expected\nl'a\nla\n", "a": "l'a\nla\n"})
    assert command.main(["--generative", str(questions), "--sys", str(answers), "--json"]) == 0
    found = capsys.readouterr()
    assert [each["answered"] for each in json.loads(found.out)["answered"]] == [False, True]
    assert found.err.startswith("note: 1 of 2 questions")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src\ttgt\na\tb\n", r":1:.*'expected'"),
        ("expected\tsrc\n \tb\n", r":2:.*'expected'"),
        ("expected\n", "path: "),
        ("expected\tsrc\na\n", ":2:"),
        ("expected\tcorrect\na\t2\n", r":2:.*'correct'"),
    ],
)
def test_tables_that_ask_nothing_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (path,) = write(tmp_path, path=text)
    with pytest.raises(UserError, match=message):
        read_questions(path)


def test_the_last_sentence_is_ctxpros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_splitter")
    (path,) = write(tmp_path, path="Ja. Er geht am 3. Mai.\n\nWas? - Nein, Dr. Frank. - Gut.\n")
    assert read_answers(path, 3, "de") == ["Er geht am 3. Mai.", "", "Was? - Nein, Dr. Frank. - Gut."]
    assert read_answers(path, 3, None)[0] == "Ja. Er geht am 3. Mai."
    with pytest.raises(UserError, match="--last-sentence"):
        read_answers(path, 3, "xx")
    with pytest.raises(UserError):
        read_answers(path, 2, None)
    monkeypatch.setitem(sys.modules, "sentence_splitter", None)
    with pytest.raises(UserError, match=r"docnmt\[evaluation\]"):
        read_answers(path, 3, "de")


def test_other_contexts_leave_what_is_expected(tmp_path: Path) -> None:
    (path,) = write(tmp_path, path="expected\tsrc_context\tsrc\na\tA.\tx\nb\tB.\ty\n")
    questions = read_questions(path)
    foreign = in_contexts(questions, "foreign", seed=1)
    assert [each.example.source_context for each in foreign] == [("B.",), ("A.",)]
    assert [each.expected for each in foreign] == ["a", "b"]
    assert in_contexts(questions, "none", seed=1)[0].example.source_context == ()


def test_the_command_counts_answers_by_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions, answers = write(
        tmp_path,
        questions="expected\ttgt\trule\ner\tEr.\tx\nes\tEs.\tx\nsie\tEr.\ty\n",
        answers="Dann kam er.\nSie kam.\n\n",
    )
    arguments = ["--generative", str(questions), "--sys", str(answers)]
    assert command.main(arguments) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert printed[1:] == [
        ["all", "33.3%", "66.7%", "3"],
        ["rule", "x", "50.0%", "100.0%", "2"],
        ["rule", "y", "0.0%", "0.0%", "1"],
    ]
    assert command.main([*arguments, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [each["answered"] for each in content["answered"]] == [True, False, False]
    assert content["by"]["rule"]["x"] == {"accuracy": 50.0, "questions": 2, "reference": 100.0}
    assert command.main([*arguments, "--path", "x", "--ref", "y"]) == 2
    said = capsys.readouterr().err
    assert "--path: " in said
    assert "--ref: " in said
    assert command.main(["--generative", str(questions)]) == 2
    assert "--path" in capsys.readouterr().err
    assert command.main(["--generative", str(questions), "--path", "x", "--last-sentence", "de"]) == 2
    assert "--last-sentence" in capsys.readouterr().err
