"""The table of the factorial: effects that were put in come out, from cells with different seeds, too."""

from __future__ import annotations

import json
import math
import random
import sys
from itertools import product
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import learning_time as tool


def made(noise: float) -> dict[str, dict[str, int | None]]:
    """Every cell under two of three seeds: random starts take twice as long, chosen ones of trees 1.5 times."""
    numbers = random.Random(1)
    reached: dict[str, dict[str, int | None]] = {}
    for levels in product(*tool.FACTORS.values()):
        start, schedule, _, form = levels
        updates = 1_000_000 * (2 if start == "random" else 1) * (1.5 if (schedule, form) == ("chosen", "tree") else 1)
        seeds = numbers.sample("123", 2)
        reached["-".join(levels)] = {
            seed: int(updates * (1 + int(seed) / 10) * math.exp(numbers.gauss(0, noise))) for seed in seeds
        }
    return reached


def test_effects_that_were_put_in_come_out() -> None:
    effects = {label: ratio for label, ratio, _, _ in tool.effects(made(0.0), 10**9)}
    want = {"random : equal": 2.0, "chosen : all": 1.5**0.5, "0.7 : 0.1": 1.0, "tree : flat": 1.5**0.5}
    assert effects == pytest.approx({**dict.fromkeys(effects, 1.0), **want, "schedule × form": 1.5}, rel=1e-4)
    intervals = {label: (low, high) for label, _, low, high in tool.effects(made(0.1), 10**9)}
    assert intervals["random : equal"][0] > 1.7
    assert intervals["random : equal"][1] < 2.4
    assert intervals["start × scale"][0] < 1 < intervals["start × scale"][1]


def test_logs_and_kept_numbers_give_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def log(seed: int, cell: str, *events: tuple[int, float]) -> None:
        folder = tmp_path / "work" / str(seed) / cell
        folder.mkdir(parents=True)
        lines = [json.dumps({"event": "valid", "update": update, "nll": nll}) for update, nll in events]
        (folder / "train.jsonl").write_text("".join(f"{line}\n" for line in lines))

    log(1, "equal-all-0.1-flat", (100, 0.1), (200, 0.009), (300, 0.02))
    log(2, "equal-all-0.1-flat", (100, 0.1), (4000, 0.011))
    log(1, "random-all-0.1-flat", (100, 0.1))  # goes on
    log(2, "random-all-0.1-flat")  # began just now
    tool.main([str(tmp_path / "work"), "--most", "4000", "--keep", str(tmp_path / "kept.json")])
    said = capsys.readouterr().out
    assert "| equal | all | 0.1 | flat | 200 | > 4,000 | ≥ 894 |" in said
    assert "random" not in said.split("No effects: 2 trainings are too few")[0]
    tool.main([str(tmp_path / "kept.json"), "--most", "4000"])
    assert capsys.readouterr().out == said


def test_folders_without_a_training_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source, message in ((tmp_path, "no training SEED/CELL/train.jsonl"), (tmp_path / "none", "No such file")):
        with pytest.raises(SystemExit):
            tool.main([str(source), "--most", "4000"])
        assert message in capsys.readouterr().err.splitlines()[-1]
