"""Words of a command that contradict each other or would do nothing end in one line, before anything is read."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

GENERATIVE = ["--generative", "q.tsv", "--path", "m"]
CASES: list[tuple[str, list[str], str]] = [
    ("translate", ["--path", "m", "--memory", "d", "--context-window", "0"], "--memory does not go with --context"),
    ("generate", ["data", "--path", "m", "--memory", "d", "--context-window", "2"], "--memory does not go with --con"),
    ("serve", ["--path", "m", "--memory", "d", "--context-window", "2"], "--memory does not go with --context-window"),
    ("score", [*GENERATIVE, "--nbest", "2"], "--nbest has no effect: a text has one translation here"),
    ("score", [*GENERATIVE, "--memory", "d"], "unknown option --memory"),
    ("score", ["--generative", "q.tsv", "--sys", "a", "--given-context"], "--given-context: has no effect with --gene"),
    (
        "score",
        ["--contrastive", "q.tsv", "--path", "m", "--given-context"],
        "--given-context: has no effect with --con",
    ),
    ("inspect", ["--card", "--verify", "m"], "--card does not go with --verify"),
    ("embed", ["--path", "m", "--input", "a", "--output", "./a", "--overwrite"], "--output ./a: is the file that is r"),
    ("classify", ["--path", "m", "a", "--overwrite"], "--overwrite needs --results"),
    ("classify", ["--path", "m", "a.tsv", "--labelled", "--results", "a.tsv"], "--results a.tsv: is the file that is"),
    ("translate", ["--path", "m", "--lenpen", "inf"], "--lenpen: expected a number, from 0 to 10, got 'inf'"),
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
