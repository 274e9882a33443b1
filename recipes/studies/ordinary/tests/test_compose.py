"""Which lines depend on their context, and how often documents are written (recipes/studies/ordinary/compose.py)."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1]


@pytest.fixture
def compose(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.delitem(sys.modules, "prepare", raising=False)  # there is another one in recipes/data
    return runpy.run_path(str(FOLDER / "compose.py"))


def test_rules_of_dependent_lines(compose: dict[str, Any]) -> None:
    lines = [
        ("The zeppelin is old.", "Der Zeppelin ist alt."),
        ("It is new.", "Er ist neu."),
        ("It rains.", "Es regnet."),
        ("She said it.", "Sie sagte es."),
        ("Yes, of course.", "Ja, natürlich."),
        ("Save File", "Datei speichern"),
        ("A zeppelin flies over the town hall tonight.", "Ein Zeppelin fliegt heute Abend über das Rathaus."),
    ]
    document = compose["Document"]("any", lines)
    counts = compose["dependent"](document, Counter({"zeppelin": 2}))
    assert counts == {"pronoun": 1, "answer": 3, "word": 1}
    often = compose["dependent"](document, Counter({"zeppelin": 6}))
    assert "word" not in often


def test_documents_with_most_such_lines_stand_four_times(
    compose: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, answers = ["A long line that says all."] * 4, ["Where is he going tonight?", *["Over there."] * 3]
    documents = [answers, plain, plain, plain]
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("\n".join("".join(f"{x}\n" for x in d) for d in documents))
    rows = "".join(f"{number}\ta\n" for number in range(4))
    (tmp_path / "train.docs.tsv").write_text(f"doc_index\tcorpus\n{rows}")
    assert compose["main"]([str(tmp_path), str(tmp_path / "out" / "train")]) == 0
    written = (tmp_path / "out" / "train.en").read_text().strip("\n").split("\n\n")
    assert Counter(written) == {"\n".join(answers): 4, "\n".join(plain): 3}
    assert "written: 7 documents, 28 lines" in capsys.readouterr().out
