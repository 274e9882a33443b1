"""The texts and the table of recipes/studies/dialogue."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from docnmt.core.scoring.discourse import read_questions

sys.path.insert(0, str(Path(__file__).parents[1]))

import dialogues

PAIR = ["--languages", "en", "fr"]
SOURCE = [["you a1", "you a2", "a3", "a4"], ["b1", "you b2", "you b3"], ["c1"]]
TARGET = [["vous A1", "tu A2", "A3", "A4"], ["B1", "vous B2", "vous B3"], ["C1"]]


def write(path: Path, documents: list[list[str]]) -> None:
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n")


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    write(tmp_path / "set.en", SOURCE)
    write(tmp_path / "set.fr", TARGET)
    return str(tmp_path / "set")


def test_first_thirds_are_given_and_the_rest_is_scored(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dialogues.main(["given", prefix, *PAIR]) == 0
    lines = {name: Path(f"{prefix}.{name}").read_text().split("\n")[:-1] for name in
             ("en", "third.fr", "foreign.en", "foreign.third.fr", "rest.en", "rest.fr")}  # fmt: skip
    assert lines["third.fr"] == ["vous A1", "", "", "", "", "B1", "", "", "", ""]
    assert lines["foreign.en"] == ["b1", "you a2", "a3", "a4", "", "you b2", "you b3", "", "you a1", "c1"]
    assert lines["foreign.third.fr"] == ["B1", "", "", "", "", "", "", "", "vous A1", ""]
    assert len(lines["third.fr"]) == len(lines["en"])
    for given, whole in (("third.fr", "fr"), ("foreign.third.fr", "foreign.en")):
        assert dialogues.main(["rest", f"{prefix}.{whole}", f"{prefix}.{given}"]) == 0
        side = whole.rpartition(".")[2]
        assert capsys.readouterr().out.split("\n")[:-1] == lines[f"rest.{side}"]


def test_an_empty_text_has_nothing_to_give(tmp_path: Path) -> None:
    for side in ("en", "fr"):
        (tmp_path / f"none.{side}").write_text("")
    assert dialogues.main(["given", str(tmp_path / "none"), *PAIR]) == 0
    assert (tmp_path / "none.third.fr").read_text().strip() == ""


def test_an_empty_translation_is_no_end_of_a_document(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path(f"{prefix}.fr").read_text().split("\n")
    lines[1] = ""
    Path(f"{prefix}.way").write_text("\n".join(lines))
    assert dialogues.main(["asked", prefix, f"{prefix}.way", f"{prefix}.way", *PAIR]) == 0
    assert capsys.readouterr().out.split("\n") == lines


def test_other_texts_and_numbers_are_refused(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path(f"{prefix}.short"), TARGET[:2])
    Path(f"{prefix}.json").write_text("{}")
    for words, said in (
        (["rest", f"{prefix}.fr", f"{prefix}.short"], "set.fr: 10 lines, and"),
        (["asked", prefix, f"{prefix}.fr", f"{prefix}.short", *PAIR], "set.short: 8 lines, and"),
        (["table", f"{prefix}.json"], "set.json: no forms of address"),
    ):
        assert dialogues.main(words) == 1
        assert said in capsys.readouterr().err
    for number in ("0", "-1"):
        with pytest.raises(SystemExit):
            dialogues.main(["text", prefix, f"{prefix}.out", *PAIR, "--every", number])
        assert "expected 1 or more" in capsys.readouterr().err


def test_levels_and_paragraphs(prefix: str, tmp_path: Path) -> None:
    rows = [f"1\t{n}" for n in range(8)]
    Path(f"{prefix}.levels.tsv").write_text("\n".join([*rows[:4], "", *rows[4:]]) + "\n")  # one empty row of two
    out = tmp_path / "out"
    assert dialogues.main(["text", prefix, str(out), *PAIR, "--levels", "--least", "2"]) == 0
    levels = Path(f"{out}.levels.tsv").read_text().split("\n")[:-1]
    assert levels == [*rows[:4], "", *rows[4:7]]
    assert [bool(row) for row in levels] == [bool(row) for row in Path(f"{out}.en").read_text().split("\n")[:-1]]
    assert dialogues.main(["given", prefix, *PAIR]) == 0
    assert dialogues.main(["paragraphs", prefix, str(out), *PAIR]) == 0
    for name in ("en", "third.fr", "foreign.en", "foreign.third.fr"):
        marked = Path(f"{out}.{name}").read_text()
        assert marked.replace("<p>\n", "") == Path(f"{prefix}.{name}").read_text()
        assert marked.count("<p>\n") == 8
    assert Path(f"{out}.third.fr").read_text().startswith("<p>\nvous A1\n<p>\n\n<p>\n")


def test_how_often_the_last_given_form_is_kept(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dialogues.main(["given", prefix, *PAIR]) == 0
    assert dialogues.main(["kept", prefix, *PAIR]) == 0  # of "tu A2", "vous B2" and "vous B3" none is the last given
    assert capsys.readouterr().out.startswith("0.0 % of 3 ")
    Path(f"{prefix}.third.fr").write_text("vous A1\n\n\n\n\nB1\nvous B2\n\n\n\n")
    assert dialogues.main(["kept", prefix, *PAIR]) == 0
    assert capsys.readouterr().out.startswith("50.0 % of 2 ")


def test_some_documents_are_taken_and_sides_that_differ_are_refused(
    prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dialogues.main(["text", prefix, str(tmp_path / "out"), *PAIR, "--least", "2", "--most", "3"]) == 0
    assert dialogues.documents(tmp_path / "out.fr") == TARGET[1:2]
    assert dialogues.main(["text", prefix, str(tmp_path / "out"), *PAIR, "--every", "2"]) == 0
    assert dialogues.documents(tmp_path / "out.en") == SOURCE[::2]
    write(tmp_path / "set.fr", TARGET[1:])
    assert dialogues.main(["text", prefix, str(tmp_path / "out"), *PAIR]) == 1
    assert prefix in capsys.readouterr().err


def test_each_dialogue_is_asked_in_the_form_of_most_of_its_lines(
    prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "set.en", [["you"] * len(document) for document in SOURCE])
    for form in ("formal", "informal"):
        write(tmp_path / form, [[f"{form} {line}" for line in document] for document in TARGET])
    assert dialogues.main(["asked", prefix, str(tmp_path / "formal"), str(tmp_path / "informal"), *PAIR]) == 0
    out = tmp_path / "chosen"
    out.write_text(capsys.readouterr().out)
    forms = [{line.split()[0] for line in document} for document in dialogues.documents(out)]
    assert forms == [{"informal"}, {"formal"}, {"informal"}]  # where both are as frequent, or none is: informal


def test_questions_are_trained_on_or_asked_never_both(tmp_path: Path) -> None:
    labels = {"expected": "tu", "rule": "R"}
    rows = [
        {"source": ["a", "b", f"you {n}"], "target": ["", "", f"tu {n}"], "document": f"{n}", "segment": 2, **labels}
        for n in range(60)
    ]
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["questions", str(file), "--held", str(tmp_path / "held.tsv")]
    assert dialogues.main([*words, "--train", str(tmp_path / "train.jsonl"), "--sentences", "2"]) == 0
    trained = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    held = [line.split("\t") for line in (tmp_path / "held.tsv").read_text().splitlines()[1:]]
    assert 0 < len(held) < 20
    questions = [row["source"][-1] for row in trained] + [row[2] for row in held]
    assert sorted(questions) == sorted(f"you {n}" for n in range(60))
    assert trained[0]["target"][0] == ""
    assert [len(row["source"]) for row in trained] == [2] * len(trained)
    assert dialogues.main(words) == 0
    assert len((tmp_path / "held.tsv").read_text().splitlines()) == 61


def test_what_an_earlier_question_says_is_known_of_a_context(tmp_path: Path) -> None:
    said = [(2, ["a", "b", "c?"], "c."), (4, ["b", "c?", "d", "e?"], "e."), (9, ["w", "x", "y?"], "y.")]
    rows = [
        {"source": source, "target": [*[""] * (len(source) - 1), target], "document": name, "segment": number}
        | {"expected": "tu", "rule": "R"}
        for name in ("one", "two")
        for number, source, target in said
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["questions", str(tmp_path / "q.jsonl"), "--held", str(tmp_path / "held.tsv")]
    assert dialogues.main(words) == 0
    asked = read_questions(tmp_path / "held.tsv")
    assert [question.example.target_context for question in asked] == [(), ("", "c.", ""), ()] * 2
    assert dialogues.main([*words, "--known"]) == 0
    assert read_questions(tmp_path / "held.tsv") == [asked[1], asked[4]]


def test_the_table_has_a_row_for_each_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metric = {"metric": "chrF", "difference": 1.0, "low": 0.5, "high": 1.5, "p_value": 0.01}
    scores = {"s-BLEU": 15.0, "chrF": 38.0, "address": {"agreement": 51.25, "consistency": None}}
    (tmp_path / "one.json").write_text(json.dumps(scores))
    (tmp_path / "two.json").write_text(json.dumps(scores | {"paired": {"metrics": [metric]}}))
    assert dialogues.main(["table", str(tmp_path / "one.json"), str(tmp_path / "two.json")]) == 0
    one, two = (row.split("|") for row in capsys.readouterr().out.splitlines()[2:])
    assert [cell.strip() for cell in one[2:6]] == ["51.2", "–", "15.00", ""]
    assert two[7].strip() == "+1.00 (+0.50 to +1.50), p 0.010"


def test_only_what_speakers_wrote_in_english_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    english, french = "english", "french"
    said = [[(english, "one", "un", "eins"), (french, "deux", "two", "zwei"), (english, "three", "trois", "drei")]]
    said += [[(french, "quatre", "four", "vier"), (english, "five", "cinq", "fünf")]]
    for number, (model, utterances) in enumerate(zip(("baseline", "2to2"), said, strict=True)):
        keys = ("language", "original_text", "reference_translation", "postprocessed_text", "normalised_version")
        rows = {str(n): dict(zip(keys, (*row, ""), strict=True)) for n, row in enumerate(utterances)}
        content = {"translation_model": model, "utterances": dict(reversed(rows.items()))}
        (tmp_path / f"{number}.json").write_text(json.dumps(content), encoding="utf-8")
    assert dialogues.main(["written", str(tmp_path), str(tmp_path / "shipped")]) == 0
    assert (tmp_path / "shipped.baseline.en").read_text() == "one\nthree\n"
    assert (tmp_path / "shipped.baseline.translated.fr").read_text() == "eins\ndrei\n"
    assert (tmp_path / "shipped.2to2.fr").read_text() == "cinq\n"
    (tmp_path / "ours.fr").write_text("a\nb\nc\n\nd\ne\n")
    assert dialogues.main(["written", str(tmp_path), "--translation", str(tmp_path / "ours.fr")]) == 0
    assert capsys.readouterr().out == "a\nc\n\ne\n"
    (tmp_path / "ours.fr").write_text("a\nb\nc\nd\ne\n")
    assert dialogues.main(["written", str(tmp_path), "--translation", str(tmp_path / "ours.fr")]) == 1
    assert "ours.fr" in capsys.readouterr().err
