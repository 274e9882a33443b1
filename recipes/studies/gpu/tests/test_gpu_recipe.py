"""The recipe for a borrowed card: what it does in which order, how it goes on; at toy size it runs on a CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from parallel_text import ParallelText

ROOT = Path(__file__).parents[4]
STUB = """#!/bin/sh
# writes what it was called with; fails where FAIL names it, and ends as `timeout` does where LATE names it
name="$(basename "$0") $*"
echo "$name" >> "$CALLS"
case "$name" in *${FAIL:-nothing}*) echo broken; exit 1 ;; esac
case "$name" in *${LATE:-nothing}*) exit 143 ;; esac
case "$name" in *--save-dir*)
    folder=${name#*--save-dir }
    mkdir -p "${folder%% *}"
    echo '{}' > "${folder%% *}/train.jsonl" ;;
esac
echo "result of $1"
"""
TABLES = [
    "--graphs DATA --arch transformer ",
    "--no-kernels DATA --arch transformer ",
    "--arch transformer ",
    "--graphs DATA --arch hier_cond_transformer ",
    "--no-kernels DATA --arch hier_cond_transformer ",
    "python recipes/studies/gpu/marian.py",
    "python recipes/studies/gpu/kernels.py",
    *["python recipes/studies/gpu/decode.py"] * 2,
    "python recipes/studies/gpu/gpu.py --device cuda attention",
]
ORDER = [
    "python -m pytest -q -n 12 tests/unit/test_kernels.py", "-m gpu tests/integration/test_gpu.py -k graphs",
    "python -m pytest -q -n 12 -m gpu tests", *TABLES,
    "work/start/model", "work/document/model", "work/sentence/model",
    *(f"--results-path OUT/work/{system}/{test}" for system in ("start", "document", "sentence")
      for test in ("near", "far")),
    "python recipes/studies/tools/results_table.py",
]  # fmt: skip


class Recipe:
    """The script, with commands that only write down that they were called."""

    def __init__(self, folder: Path) -> None:
        self.out, self.calls, commands = folder / "out", folder / "calls", folder / "bin"
        for made in (self.out, commands):
            made.mkdir()
        (self.out / "tests.names").write_text("near\nfar\n")
        for name in ("python", "docnmt-train", "docnmt-generate", "docnmt-score"):
            (commands / name).write_text(STUB)
            (commands / name).chmod(0o755)
        self.path = f"{commands}:{os.environ['PATH']}"

    def run(self, minutes: int = 30, *parts: str, **settings: str) -> tuple[int, list[str]]:
        """The exit status, and the commands in their order."""
        self.calls.write_text("")
        more = {"DATA": "", "PATH": self.path, "CALLS": str(self.calls), "OUT": str(self.out), **settings}
        command = ["bash", "recipes/studies/gpu/run.sh", str(minutes), *parts]
        environment = {**os.environ, "DOCNMT_ENV": "none", **more}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, [
            line.replace(f"{self.out}/work/data-bin", "DATA").replace(str(self.out), "OUT")
            for line in self.calls.read_text().splitlines()
        ]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe(tmp_path)


def assert_in_order(calls: list[str], expected: list[str]) -> None:
    assert len(calls) == len(expected), calls
    for call, part in zip(calls, expected, strict=True):
        assert part in call


def test_everything_is_done_once_in_order_of_worth(recipe: Recipe) -> None:
    status, calls = recipe.run()
    assert status == 0
    assert_in_order(calls, ORDER)
    kept = sorted(path.name for path in recipe.out.iterdir())
    assert [name for name in kept if name.endswith((".log", ".tmp"))] == []
    assert {
        "tests.txt",
        "attention.md",
        "step-transformer.md",
        "step-transformer--no-kernels.md",
        "step-transformer--graphs.md",
        "kernels.md",
        "start.jsonl",
        "scores.md",
    } <= set(kept)
    status, calls = recipe.run()
    assert status == 0
    assert_in_order(calls, ORDER[-1:])  # the table of what is there


def test_what_fails_hinders_nothing_else_and_is_done_again(recipe: Recipe) -> None:
    status, calls = recipe.run(FAIL="-n 12 -m gpu")
    assert status == 1
    assert_in_order(calls, ORDER)
    assert not (recipe.out / "tests.txt").exists()
    assert "broken" in (recipe.out / "tests.txt.log").read_text()
    status, calls = recipe.run()
    assert status == 0
    assert_in_order(calls, [ORDER[2], ORDER[-1]])
    assert not (recipe.out / "tests.txt.log").exists()


def test_a_training_that_was_stopped_goes_on_and_what_needs_it_waits(recipe: Recipe) -> None:
    status, calls = recipe.run(LATE="start/model")
    assert status == 75
    assert_in_order(calls, ORDER[: 1 + ORDER.index("work/start/model")])
    status, calls = recipe.run()
    assert status == 0
    assert_in_order(calls, ORDER[ORDER.index("work/start/model") :])


def test_each_part_is_done_by_itself(recipe: Recipe) -> None:
    status, calls = recipe.run(30, "b")
    assert status == 0
    assert_in_order(calls, TABLES)
    assert recipe.run(30, "b") == (0, [])
    status, calls = recipe.run(30, "d", "a")
    assert status == 0
    assert_in_order(calls, [*ORDER[:3], *ORDER[3 + len(TABLES) :]])
    assert recipe.run(30, "f") == (2, [])


def test_parts_that_need_corpora_have_theirs(recipe: Recipe, tmp_path: Path) -> None:
    status, calls = recipe.run(30, "d", DATA=str(tmp_path))
    assert status == 0
    asked = [call for call in calls if call.startswith("docnmt-score")]
    assert len(asked) == 3  # each system
    assert all("contrapro" in call for call in asked)


def test_without_time_nothing_begins(recipe: Recipe) -> None:
    assert recipe.run(0) == (75, [])


def test_it_asks_for_what_it_needs(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    shutil.rmtree(recipe.out)
    assert recipe.run() == (2, [])
    assert recipe.run(SETTING="fast") == (2, [])


@pytest.mark.slow
def test_it_runs_at_toy_size_on_a_cpu(tmp_path: Path) -> None:
    """Preparing and running; about 20 seconds of an idle core."""
    text = ParallelText(tmp_path)
    path = tmp_path
    settings = {
        "TRAIN": str(path / "train"), "VALID": str(path / "dev"), "TESTS": f"near={path / 'test'}",
        "OUT": str(path / "out"), "SETTING": "toy", "DOCNMT_ENV": "none", "LEAST": "1",
    }  # fmt: skip
    assert text.path("train.en").exists()
    commands = {"prepare.sh": str(path), "run.sh 30 a b d": ""}  # and DATA: no ContraPro there
    for command, corpora in commands.items():
        environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT), "DATA": corpora}
        done = subprocess.run(
            ["bash", *f"recipes/studies/gpu/{command}".split()],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )
        assert done.returncode == 0, done.stderr
    scores = (path / "out" / "scores.md").read_text()
    assert all(f"| {system} |" in scores for system in ("start", "document"))
    for way in ("hier_cond_transformer--graphs", "transformer"):
        assert "of the peak" in (path / "out" / f"step-{way}.md").read_text()
    assert "subwords a second" in (path / "out" / "marian.md").read_text()
    assert "bias, relu" in (path / "out" / "kernels.md").read_text()
    assert "| Marian |" in (path / "out" / "decoding-off.md").read_text()
    assert "faster than dense flash attention" in (path / "out" / "attention.md").read_text()
