"""How a command ends: what it says on one line, whatever went wrong."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path

import pytest
import torch

from docnmt.__main__ import main as docnmt_main
from docnmt.cli import average, score
from docnmt.cli.command import run
from docnmt.cli.commands import COMMANDS
from docnmt.runtime.launch import JobProcess
from docnmt.runtime.system import UserError


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 8.00 PiB for an array with shape (1125899906842624,)"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 80 bytes"),
        RuntimeError("std::bad_alloc"),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ],
)
def test_out_of_memory_is_expected(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def work(words: list[str]) -> None:
        raise error

    assert run("docnmt-translate", work, []) == 1
    said = capsys.readouterr().err
    assert said.startswith("docnmt-translate: error: ")
    assert "--max-tokens" in said
    assert len(said.splitlines()) == 1


def test_one_process_does_what_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun starts several: none of the others may read standard input, or write a file a second time."""
    done: list[str] = []
    for rank in (0, 1):
        monkeypatch.setattr("docnmt.cli.command.job_process", lambda rank=rank: JobProcess(rank, 2, 0))
        for prog in ("docnmt-translate", "docnmt-convert", "docnmt-generate"):
            assert run(prog, lambda words, name=f"{prog} {rank}": done.append(name), []) == 0
    assert done == ["docnmt-translate 0", "docnmt-convert 0", "docnmt-generate 0", "docnmt-generate 1"]


def test_text_of_others_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def work(words: list[str]) -> None:
        error = UserError()
        error.args = ("file\x1b[2J.txt:\n3: bad",)  # tests refuse line breaks where errors are made
        raise error

    assert run("docnmt-score", work, []) == 1
    assert capsys.readouterr().err == "docnmt-score: error: file\\x1b[2J.txt: 3: bad\n"


def test_without_a_model_only_the_first_process_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ref").write_text("a dog sees it .\n")
    for rank in (1, 0):
        monkeypatch.setattr(score, "job_process", lambda rank=rank: JobProcess(rank, 2))
        assert score.main(["--ref", f"{tmp_path}/ref", "--sys", f"{tmp_path}/ref"]) == 0
        assert bool(capsys.readouterr().out) == (rank == 0)


def test_every_script_is_a_word_behind_docnmt() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    scripts = re.findall(r'^docnmt-(\w+) = "(docnmt\.cli\.\w+):(\w+)"$', project, re.MULTILINE)
    assert [name for name, _, _ in scripts] == list(COMMANDS)
    for name, module, function in scripts:
        assert getattr(importlib.import_module(module), function) is COMMANDS[name]
        assert importlib.import_module(f"docnmt.cli.{name}").main is COMMANDS[name]


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), ([], 2), (["tran"], 2)])
def test_commands_of_one_script(words: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert docnmt_main(words) == status
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == (words == ["tran"])
    assert bool(printed.out) == (words != ["tran"])


def test_the_words_behind_a_name_are_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for main, words in ((docnmt_main, ["average", "--help"]), (average.main, ["--help"])):
        with pytest.raises(SystemExit):
            main(words)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_a_closed_stderr_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as Python starts with 2>&-

    def work(words: list[str]) -> None:
        print("a note", file=sys.stderr)
        assert not sys.stderr.isatty()  # as a bar asks

    assert run("docnmt-test", work, []) == 0


def test_a_full_stderr_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that cannot be written, and the message of an error."""

    def work(words: list[str]) -> None:
        print("a note", file=sys.stderr, flush=True)
        if words:
            raise UserError("no")

    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert run("docnmt-test", work, []) == 0
        assert run("docnmt-test", work, ["once"]) == 1


def test_a_terminal_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = os.openpty()
    with open(leader, "rb", buffering=0), open(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert run("docnmt-test", lambda words: 0 if sys.stderr.isatty() else 1, []) == 0
