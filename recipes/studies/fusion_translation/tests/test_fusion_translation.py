"""The table of fusion operators in translation, and which setting was chosen for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))

import fusion_translation as tool


def log(folder: Path, *nlls: float) -> None:
    (folder / "model").mkdir(parents=True)
    lines = [json.dumps({"event": "valid", "update": 100 * n, "nll": nll}) for n, nll in enumerate(nlls, 1)]
    (folder / "model" / "train.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_the_lowest_validation_wins_wherever_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "1e-3.scale", 5.0, 4.5)
    log(tmp_path / "3e-3.no-scale", 4.4, 4.9)
    log(tmp_path / "3e-3.scale")  # killed before its first
    tool.main([str(tmp_path), "--best"])
    assert capsys.readouterr().out == "3e-3.no-scale\n"


def test_nothing_to_choose_from_says_what_is_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main([str(tmp_path), "--best"])
    assert "no training with a validation; expected folders RATE.SCALE/model" in capsys.readouterr().err


def test_differences_are_paired_by_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nats = {"add": [4.0, 4.2, 4.1], "concat": [3.9, 4.0, 4.05]}
    cells = {
        f"sinusoidal.{name}": {
            str(seed): {"parameters": 7, "nats": value, "bleu": 2 * value} for seed, value in enumerate(values, 1)
        }
        for name, values in nats.items()
    }
    cells["multi_level.none"] = {"1": {"parameters": 7, "nats": 5.0, "bleu": 1.0}}  # nothing to compare with
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps({"cells": cells, "chosen": dict.fromkeys(cells, "1e-3.no-scale")}))
    tool.main([str(kept)])
    rows = {line.split(" | ")[0]: line for line in capsys.readouterr().out.splitlines()}
    differences = np.subtract(nats["concat"], nats["add"])
    test = stats.ttest_1samp(differences, 0)
    low, high = test.confidence_interval()
    want = (
        f"| {np.mean(nats['concat']):.3f} | {differences.mean():+.3f} ({low:+.3f} to {high:+.3f}) | {test.pvalue:.3f} |"
    )
    assert want in rows["| sinusoidal.concat"]
    assert "| 1e-3, 1 | 7 | 1 | 5.000 |  |  | 1.00 |  |  |" in rows["| multi_level.none"]


def test_what_was_kept_and_what_came_later_make_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def keep(name: str, cells: dict[str, list[int]], setting: str = "1e-3.scale") -> str:
        seeds = {v: {str(s): {"parameters": 7, "nats": s, "bleu": s} for s in of} for v, of in cells.items()}
        (tmp_path / name).write_text(json.dumps({"cells": seeds, "chosen": dict.fromkeys(cells, setting)}))
        return str(tmp_path / name)

    whole = keep("whole", {"learned.add": [1, 2], "learned.mul": [1, 2]})
    parts = [keep("one", {"learned.add": [1, 2], "learned.mul": [1]}), keep("two", {"learned.mul": [2]})]
    tool.main([*parts, "--keep", str(tmp_path / "merged")])
    assert json.loads((tmp_path / "merged").read_text()) == json.loads(Path(whole).read_text())
    tool.main([whole])
    first, second = np.array_split(capsys.readouterr().out.splitlines(), 2)
    assert list(first) == list(second)
    (tmp_path / "bad").write_text("[]")
    for more, said in (
        (whole, "learned.add has seed 1, as another has"),
        (keep("other", {"learned.mul": [3]}, "3e-3.scale"), "learned.mul has 3e-3.scale, and 1e-3.scale in another"),
        (str(tmp_path / "bad"), "not what --keep writes"),
    ):
        with pytest.raises(SystemExit):
            tool.main([whole, more])
        assert said in capsys.readouterr().err


def test_one_seed_has_a_difference_and_nothing_more() -> None:
    cells = {
        f"learned.{name}": {"1": {"parameters": 7, "nats": n, "bleu": n}} for name, n in (("add", 4.0), ("mul", 5.0))
    }
    rows = list(tool.table(cells, dict.fromkeys(cells, "1e-3.scale")))
    assert rows[-1] == "| learned.mul | 1e-3, √d | 7 | 1 | 5.000 | +1.000 |  | 5.00 | +1.000 |  |"


def test_positions_are_compared_under_the_same_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nats = {"sinusoidal.add": [4.0, 4.2, 4.1], "multi_level.add": [3.9, 4.0, 4.05], "multi_level.mul": [1.0, 2.0, 3.0]}
    cells = {
        name: {str(seed): {"parameters": 7, "nats": value, "bleu": value} for seed, value in enumerate(values)}
        for name, values in nats.items()
    }
    rows = {
        row.split(" | ")[0]: row for row in tool.table(cells, dict.fromkeys(cells, "1e-3.scale"), family="sinusoidal")
    }
    test = stats.ttest_rel(nats["multi_level.add"], nats["sinusoidal.add"])
    low, high = test.confidence_interval()
    assert f"| {np.mean(nats['multi_level.add']) - 4.1:+.3f} ({low:+.3f} to {high:+.3f}) |" in rows["| multi_level.add"]
    assert rows["| multi_level.mul"].endswith("| 2.000 |  |  | 2.00 |  |  |")  # nothing to compare with
