"""The texts and the table of recipes/dialogue."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "dialogue"))

import dialogues

PAIR = ["--languages", "en", "fr"]
SOURCE = [["you a1", "you a2", "a3", "a4"], ["b1", "you b2", "you b3"], ["c1"]]
TARGET = [["vous A1", "tu A2", "A3", "A4"], ["B1", "vous B2", "vous B3"], ["C1"]]


def write(path: Path, documents: list[list[str]]) -> None:
    path.write_text("\n\n".join("\n".join(each) for each in documents) + "\n")


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
    write(tmp_path / "set.en", [["you"] * len(each) for each in SOURCE])
    for form in ("formal", "informal"):
        write(tmp_path / form, [[f"{form} {line}" for line in each] for each in TARGET])
    assert dialogues.main(["asked", prefix, str(tmp_path / "formal"), str(tmp_path / "informal"), *PAIR]) == 0
    out = tmp_path / "chosen"
    out.write_text(capsys.readouterr().out)
    forms = [{line.split()[0] for line in each} for each in dialogues.documents(out)]
    assert forms == [{"informal"}, {"formal"}, {"informal"}]  # where both are as frequent, or none is: informal


def test_the_table_has_a_row_for_each_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metric = {"metric": "chrF", "difference": 1.0, "low": 0.5, "high": 1.5, "p_value": 0.01}
    scores = {"s-BLEU": 15.0, "chrF": 38.0, "address": {"agreement": 51.25, "consistency": None}}
    (tmp_path / "one.json").write_text(json.dumps(scores))
    (tmp_path / "two.json").write_text(json.dumps(scores | {"paired": {"metrics": [metric]}}))
    assert dialogues.main(["table", str(tmp_path / "one.json"), str(tmp_path / "two.json")]) == 0
    one, two = (row.split("|") for row in capsys.readouterr().out.splitlines()[2:])
    assert [cell.strip() for cell in one[2:6]] == ["51.2", "–", "15.00", ""]
    assert two[7].strip() == "+1.00 (+0.50 to +1.50), p 0.010"
