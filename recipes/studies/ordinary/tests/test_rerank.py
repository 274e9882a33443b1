"""Choosing among n-best translations (recipes/studies/ordinary/rerank.py)."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[1] / "rerank.py"))


def test_candidates_of_generate(tool: dict[str, Any]) -> None:
    lines = ["S-1\tb", "D-1\t-0.5\tB", "D-1\t-0.7\tb", "D-0\t-1.25\tA", "H-0\t-1.25\t▁A"]
    assert tool["candidates"](lines) == [[(-1.25, "A")], [(-0.5, "B"), (-0.7, "b")]]


def test_contexts_end_before_the_sentence_and_are_as_long(tool: dict[str, Any]) -> None:
    best = [["a", "b", "c", "d"], ["x", "y"]]
    rows = list(tool["contexts"](best, 2))
    assert [row["true"] for row in rows] == [[], ["a"], ["a", "b"], ["b", "c"], [], ["x"]]
    assert [row["foreign"] for row in rows] == [[], ["x"], ["x", "y"], ["x", "y"], [], ["a"]]


def test_the_weight_is_that_of_dev(tool: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = "the right one of them", "a wrong one of these"
    # The right one leads from λ .25 on with the true context, never with none; above .5 a third one leads with both.
    row = {"text": [wrong, right, "another"], "mt": [-1.0, -1.2, -3.0]}
    row |= {"none": [-1.0, -1.0, 3.1], "true": [-2.0, -1.0, 2.6]}
    tuning = [row] * 2
    tests = [{**row, "foreign": [-1.0, -1.0, last]} for last in (6.0, 8.0)]  # 8 leads at λ .25, 6 does not
    for name, rows in (("dev", tuning), ("test", tests)):
        (tmp_path / name).write_text("".join(json.dumps(one) + "\n" for one in rows))
    (tmp_path / "right").write_text(f"{right}\n" * 2)
    (tmp_path / "structure").write_text("1\n\n2\n")
    tool["main"](["choose", *(str(tmp_path / name) for name in ("dev", "right", "test", "structure", "out"))])
    written = {kind: (tmp_path / "out" / kind).read_text() for kind in ("best", "none", "true", "foreign")}
    assert written == {
        "best": f"{wrong}\n\n{wrong}\n",
        "none": f"{wrong}\n\n{wrong}\n",
        "true": f"{right}\n\n{right}\n",
        "foreign": f"{wrong}\n\nanother\n",
    }
    assert "true: λ 0.25, dev BLEU 100.00" in capsys.readouterr().out
