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
    row = {"text": ["a wrong one of them", "the right one of them"], "mt": [-1.0, -1.2]}
    rows = [{**row, "none": [-1.0, -1.0], "true": [-2.0, -1.0], "foreign": [-1.0, -2.0]}] * 3
    (tmp_path / "rows").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (tmp_path / "right").write_text("the right one of them\n" * 3)
    (tmp_path / "structure").write_text("1\n2\n\n3\n")
    tool["main"](["choose", *(str(tmp_path / name) for name in ("rows", "right", "rows", "structure", "out"))])
    right, wrong = row["text"][1], row["text"][0]
    assert (tmp_path / "out" / "true").read_text() == f"{right}\n{right}\n\n{right}\n"
    for kind in ("none", "foreign"):
        assert (tmp_path / "out" / kind).read_text() == f"{wrong}\n{wrong}\n\n{wrong}\n"
    assert "true: λ 0.25, dev BLEU 100.00" in capsys.readouterr().out
