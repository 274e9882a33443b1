"""Words of a command that contradict each other or would do nothing end in one line, before anything is read."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

GENERATIVE = ["--generative", "q.tsv", "--path", "m"]
CASES: list[tuple[str, list[str], str]] = [
    ("translate", ["--path", "m", "--memory", "d", "--context-window", "0"], "--context"),
    ("generate", ["data", "--path", "m", "--memory", "d", "--context-window", "2"], "--memory"),
    ("serve", ["--path", "m", "--memory", "d", "--context-window", "2"], "--context-window"),
    ("score", [*GENERATIVE, "--nbest", "2"], "--nbest"),
    ("score", [*GENERATIVE, "--memory", "d"], "--memory"),
    ("score", ["--generative", "q.tsv", "--sys", "a", "--given-context"], "--given-context"),
    ("score", ["--contrastive", "q.tsv", "--path", "m", "--given-context"], "--given-context"),
    ("inspect", ["--card", "--verify", "m"], "--verify"),
    ("embed", ["--path", "m", "--input", "a", "--output", "./a", "--overwrite"], "--output"),
    ("classify", ["--path", "m", "a", "--overwrite"], "--overwrite"),
    ("classify", ["--path", "m", "a.tsv", "--labelled", "--results", "a.tsv"], "--results"),
    ("translate", ["--path", "m", "--lenpen", "inf"], "--lenpen"),
]


@pytest.mark.parametrize(("name", "words", "message"), CASES, ids=[f"{name} {words[-2:]}" for name, words, _ in CASES])
def test_they_are_named(
    name: str, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    command = importlib.import_module(f"docnmt.cli.{name}")
    assert command.main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]
