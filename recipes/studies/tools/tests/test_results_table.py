"""Tables of an experiment from its commands' own files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from docnmt.core.training.checkpoint import save_checkpoint

sys.path.insert(0, str(Path(__file__).parents[1]))

import results_table as tool
from systems import BEST


def system(folder: Path, accuracy: float, *, start: str | None = None, distances: tuple[str, ...] = ("1", "2")) -> None:
    (folder / "model").mkdir(parents=True)
    (folder / "news").mkdir()
    tensors = {"model.weight": torch.zeros(3, 4), "model.bias": torch.zeros(4), "optimizer.step": torch.zeros(9)}
    named = dict.fromkeys(("model", "criterion", "task", "fingerprint", "device"), "")
    header: dict[str, Any] = {**named, "task_state": {}, "progress": {}, "threads": 1, "scores": {}}
    config = {"training": {"finetune_from_model": start}}
    save_checkpoint(folder / BEST, {**header, "arch": "transformer_tiny", "config": config}, tensors)
    train = {"event": "train", "tokens_per_second": 900.0, "peak_memory": 2_000_000_000}
    log = [
        {**train, "update": 10, "epoch": 1, "wall": 60.0},
        {**train, "update": 20, "epoch": 2, "wall": 90.0, "tokens_per_second": 1100.0, "peak_memory": 3_000_000_000},
        {"event": "valid", "update": 10, "wall": 60.0, "loss": 1.5, "nll": 1.25},
        {"event": "valid", "update": 20, "wall": 120.0, "loss": 1.6, "nll": 1.5},
    ]
    (folder / "model" / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    (folder / "news" / "scores.json").write_text(json.dumps(dict.fromkeys(tool.METRICS, 12.34)))
    cell = {"accuracy": accuracy, "chance": 50.0, "groups": 8}
    by = {"distance": dict.fromkeys(distances, cell), "kind": {"x": cell}}
    (folder / "true-context.json").write_text(json.dumps({**cell, "by": by}))


def test_every_file_of_every_system_is_in_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system(tmp_path / "a", 75.0)
    system(tmp_path / "b", 100.0, start="elsewhere/a/model")
    (tmp_path / "corpus").mkdir()
    compared = {"metric": "s-BLEU", "difference": 1.0, "low": -0.5, "high": 2.0, "p_value": 0.041}
    (tmp_path / "b" / "news" / "against-a.json").write_text(json.dumps({"paired": {"metrics": [compared]}}))
    tool.main([str(tmp_path), "--plot", str(tmp_path / "plot.png")])
    lines = capsys.readouterr().out.splitlines()
    assert "| a | `transformer_tiny` | 16 | 20 | 2.0 | 1,000 | 3.0 GB | 1.25 | 1.5 |" in lines
    assert "| b | `transformer_tiny` | 16 | 20 + 20 | 2.0 + 2.0 | 1,000 | 3.0 GB | 1.25 | 1.5 |" in lines
    assert "| news, s-BLEU | 12.3 | 12.3 |" in lines
    assert "| true-context, right % | 75.0 | 100.0 |" in lines
    assert "| news | b | a | +1.0 (-0.5 to +2.0), p 0.041 | – | – | – |" in lines
    assert "| news | b | 12.3 | 12.3 | 12.3 | 12.3 |" in lines
    assert "| context | system | all | distance 1 | distance 2 |" in lines
    assert "| | questions | 8 | 8 | 8 |" in lines
    assert "| | chance | 50.0 | 50.0 | 50.0 |" in lines
    assert "| true-context | b | 100.0 | 100.0 | 100.0 |" in lines
    assert not any("kind" in line for line in lines)
    kept = tmp_path / "kept.jsonl"
    tool.main([str(tmp_path), "--keep", str(kept)])
    printed = capsys.readouterr().out
    tool.main([str(kept)])
    assert capsys.readouterr().out == printed
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_when_validation_was_good_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system(tmp_path / "a", 75.0)
    for level, update in (("1.5", "10"), ("1.25", "10"), ("1.2", "–")):
        tool.main([str(tmp_path), "--until", level])
        head, _, row = capsys.readouterr().out.splitlines()[:3]
        assert head.endswith(f"| last | ≤ {level} at update |")
        assert row.endswith(f"| 1.5 | {update} |")


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main([str(tmp_path)])
    assert "no system in it" in capsys.readouterr().err
    system(tmp_path / "a", 75.0)
    (tmp_path / "a" / "model" / "train.jsonl").unlink()
    with pytest.raises(SystemExit):
        tool.main([str(tmp_path)])
    assert "train.jsonl: No such file or directory; run the recipe to its end first" in capsys.readouterr().err


def test_an_accuracy_stands_under_its_own_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system(tmp_path / "a", 75.0)
    system(tmp_path / "b", 100.0, distances=("2", ">3"))
    tool.main([str(tmp_path), "--plot", str(tmp_path / "plot.png")])
    lines = capsys.readouterr().out.splitlines()
    first, second = (lines.index(f"| context | system | all | distance {one} | distance {two} |") for one, two in (
        ("1", "2"), ("2", ">3")
    ))  # fmt: skip
    assert [line for line in lines[first:second] if "true-context" in line] == [
        "| true-context | a | 75.0 | 75.0 | 75.0 |"
    ]
    assert [line for line in lines[second:] if "true-context" in line] == [
        "| true-context | b | 100.0 | 100.0 | 100.0 |"
    ]


def test_what_the_true_context_is_worth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system(tmp_path / "a", 75.0)
    true = [True] * 9 + [False] * 1
    for name, solved in (("true", true), ("foreign", [False] * 6 + [True] * 4), ("other", [True] * 3)):
        report = {"accuracy": 0.0, "chance": 50.0, "groups": len(solved), "by": {}}
        report["solved"] = [{"solved": right} for right in solved]
        (tmp_path / "a" / f"{name}-context.json").write_text(json.dumps(report))
    tool.main([str(tmp_path)])
    rows = [line for line in capsys.readouterr().out.splitlines() if " p " in line]
    assert rows == ["| foreign-context | a | 6 | 1 | +50.0 (-2.0 to +79.3), p 0.125 |"]  # 2 · (1 + 7) / 2⁷


def test_no_reference_no_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system(tmp_path / "a", 75.0)
    for test in ("window-10", "window-4"):
        (tmp_path / "a" / test).mkdir()
        (tmp_path / "a" / test / "scores.json").write_text("{}")
    tool.main([str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("| window-10 | a | – | – | – | – |") == lines.index("| window-4 | a | – | – | – | – |") + 1


def test_the_last_sentence_says_who_uses_its_context() -> None:
    def judged(name: str, true: float, foreign: float, gained: int, lost: int) -> Any:
        cell = {"chance": 50.0, "groups": 800, "by": {}}
        other = {**cell, "accuracy": foreign, "against_true": [gained, lost]}
        shuffled = {**cell, "accuracy": true, "against_true": [0, 0]}  # all that is needed, in another order
        contexts = {"true-context": {**cell, "accuracy": true}, "shuffled-context": shuffled, "foreign-context": other}
        return SimpleNamespace(name=name, contrastive=contexts)

    said = tool.conclusion([judged("one", 51.0, 50.0, 30, 22), judged("two", 98.0, 50.0, 390, 6)])
    assert said == (
        "In short: of 800 questions, of which guessing gets 50.0 % right, one gets 51.0 % with the true context and "
        "50.0 % with another one (foreign-context), so it does not use what it reads; two gets 98.0 % with the true "
        "context and 50.0 % with another one (foreign-context), so it uses what it reads."
    )
    assert tool.conclusion([SimpleNamespace(name="one", contrastive={})]) == ""  # type: ignore[list-item]
