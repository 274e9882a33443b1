"""How a command ends: what it says on one line, whatever went wrong."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import MISSING, dataclass
from pathlib import Path

import pytest
import small_system

from docnmt.cli import train
from docnmt.cli.command import Given, called, run
from docnmt.cli.commands import COMMANDS
from docnmt.core.search import translate as room
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import SentenceResult, translate_corpus
from docnmt.options import Section, option
from docnmt.runtime import launch, progress
from docnmt.runtime.jobs import deal
from docnmt.runtime.launch import obtainable_memory
from docnmt.runtime.system import UsageError, UserError

#: The environment of a process whose stdout is written at its end.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def test_text_of_others_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def work(words: list[str]) -> None:
        error = UserError()
        error.args = ("file\x1b[2J.txt:\n3: bad",)  # tests refuse line breaks where errors are made
        raise error

    assert run("docnmt-score", work, []) == 1
    assert capsys.readouterr().err == "docnmt-score: error: file\\x1b[2J.txt: 3: bad\n"


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


def test_a_closed_stdout_is_an_error_before_work(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    monkeypatch.setattr(sys, "stdout", None)
    assert run("docnmt-test", begun.append, []) == 1
    assert not begun


@pytest.mark.parametrize("name", ["config", "user-dir"])
def test_an_option_of_one_file_is_given_once(name: str, tmp_path: Path) -> None:
    """The last of two would win, and the first be passed over in silence."""
    (tmp_path / "a.yaml").write_text("lr: 1\n")
    word = f"--{name}={tmp_path / 'a.yaml'}"
    assert getattr(Given("docnmt-test", [word]), name.replace("-", "_")) == word.partition("=")[2]
    with pytest.raises(UsageError, match=f"--{name}: given 2 times"):
        Given("docnmt-test", [word, word])


@pytest.mark.parametrize(
    ("updates", "left"),
    [
        (((10, 100), (30, 2000), (50, 2000)), "59s left"),  # ten seconds are needed once, a unit takes 0.01
        (((1, 3000), (11, 1)), "26s left"),  # with --given much is done at once; nineteen hours were left
    ],
)
def test_the_time_left_is_that_of_the_work_left(
    updates: tuple[tuple[int, int], ...], left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, file = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    bar = progress.Progress(10_000, "", unit="tok", file=file)
    for seconds, units in updates:
        clock[0] = seconds
        bar.update(units)
    assert left in file.getvalue().splitlines()[-1]


def test_a_program_prints_again_after_a_job_whose_first_process_printed_for_all() -> None:
    before = sys.stdout, sys.stderr
    with called(COMMANDS["average"], [], {}):
        launch.mute()
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("words", [["--help"], ["translate", "--help"], ["translate", "--version"]])
def test_a_full_stdout_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        call = [sys.executable, "-m", "docnmt", *words]
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=BUFFERED)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "error: " in done.stderr


def test_a_job_without_a_number_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launch.job_process.cache_clear()
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "x")
        patch.setenv("WORLD_SIZE", "2")
        assert run("docnmt-test", lambda words: 0, []) == 2
    assert capsys.readouterr().err.startswith("docnmt-test: error: RANK=x ")


# Which process of a job this is, and what one says that is stopped before it has met the others.


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
STEP = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "70001"}


def test_torchrun_and_slurm_say_which_process_this_is() -> None:
    assert launch.job_process_in(TORCHRUN) == launch.JobProcess(3, 8, 1, "node1", 29500)
    assert launch.job_process_in({**STEP, "SLURM_STEP_NODELIST": "node[03-07,9]"}) == launch.JobProcess(
        2, 4, 0, "node03", 30_001
    )
    assert launch.job_process_in({"SLURM_JOB_ID": "5", "SLURM_STEP_NUM_TASKS": "1"}) == launch.JobProcess()
    for empty in ({"WORLD_SIZE": "", "RANK": ""}, {"WORLD_SIZE": "2", "RANK": ""}):
        assert launch.job_process_in(empty) == launch.JobProcess()
        assert launch.job_process_in({**STEP, **empty}).world == 4
    with pytest.raises(UsageError, match="WORLD_SIZE"):
        launch.job_process_in({**TORCHRUN, "WORLD_SIZE": "many"})


def test_a_dry_run_describes_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "job_process", lambda: launch.JobProcess(world=2))
    words = ["data", "--arch", "transformer_tiny", "--task", "document_translation", "--save-dir", "x", "--dry-run"]
    with pytest.raises(UsageError, match="one process"):
        train._train(Given("docnmt-train", words))


# What each rank gets of the work.


def test_the_costliest_pieces_go_first_each_to_the_least_loaded_rank() -> None:
    assert deal([1, 1, 4, 2], 2) == [[2], [0, 1, 3]]
    assert deal([3, 3, 3], 2) == [[0, 2], [1]]
    assert deal([5], 3) == [[0], [], []]


# The words of a command line and its file of options are read once.


@dataclass(frozen=True)
class Places:
    """Two positional words and options of one and of several values."""

    first: str = option(MISSING, "", positional=True)
    second: str = option(MISSING, "", positional=True)
    texts: tuple[str, ...] = option((), "")
    kind: str = option("a", "")


@pytest.mark.parametrize("between", [["--kind", "b"], ["--debug"], ["--user-dir", "plugins"]])
def test_a_word_behind_an_option_is_no_value_of_the_option_before_it(between: list[str]) -> None:
    given = Given("test", ["x", "--texts", "1", "2", *between, "y", "z"])
    given.read_choices("kind")
    given.parse([Section("places", Places)])
    assert (given.typed["first"], given.typed["second"]) == ("x", "y")
    assert (given.typed["texts"], given.rest) == (["1", "2"], ["z"])


@pytest.mark.parametrize(
    "words", [["x", "--kind=b", "-"], ["--kind", "b", "x", "--", "-"], ["--kind", "b", "--", "x", "-"]]
)
def test_positional_words_stand_anywhere(words: list[str]) -> None:
    given = Given("test", words)
    given.parse([Section("places", Places)])
    assert given.typed == {"first": "x", "second": "-", "kind": "b"}
    assert not given.rest


# A document whose translation cannot fit into memory is refused before the work, in a line.


MEMINFO = "MemTotal:  3000 kB\nMemAvailable:    2000 kB\nSwapFree:  1000 kB\nHugePages_Total:       0\n"


def translated(arch: str, text: list[list[str]], **options: object) -> list[SentenceResult]:
    model, search = small_system.model(arch), BeamSearchConfig(beam=3, max_len_a=1, max_len_b=2)
    corpus = small_system.corpus(text)
    return list(translate_corpus([model], small_system.task(), corpus, GenerationConfig(), search, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("arch", ["cond_transformer_tiny", "transformer_tiny"])
def test_what_cannot_fit_is_refused_by_name(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = [["the dog.", "a cat sees."], ["he walks in the old house.", *["the tree."] * 30]]
    monkeypatch.setattr(room, "obtainable_memory", lambda: 1000)
    with pytest.raises(UserError, match=r"'he walks in.* GB ") as caught:
        translated(arch, text)
    assert ("--context-window" in str(caught.value)) == (arch != "transformer_tiny")
    monkeypatch.setattr(room, "obtainable_memory", lambda: None)
    assert len(translated(arch, text)) == 33


def test_memory_of_the_machine_and_of_the_group(tmp_path: Path) -> None:
    """What this process holds already is its own, too."""
    assert obtainable_memory(tmp_path) is None
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(MEMINFO)
    assert obtainable_memory(tmp_path) is None
    (tmp_path / "proc" / "self" / "statm").write_text("900 0 10 1 0 2 0\n")
    assert obtainable_memory(tmp_path) == 3000 * 1024
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    for name, value in (("memory.max", "max"), ("memory.current", "50000"), ("memory.stat", "anon 7\nfile 20000")):
        (group / name).write_text(f"{value}\n")
    assert obtainable_memory(tmp_path) == 3000 * 1024
    (group / "memory.max").write_text("60000\n")
    assert obtainable_memory(tmp_path) == 30_000
    assert (obtainable_memory() or 1 << 40) > 1 << 26
