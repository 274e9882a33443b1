"""Two processes train what one trains with twice as many batches an update: for every architecture, criterion and task.

All trainings of two ranks run in one job, because starting it takes longer than they do.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import rank_toy
import torch
from parallel_text import ParallelText
from rank_jobs import Result, run_jobs
from toy import log, write_toy_data
from toy import train as train_toy

from docnmt.cli import preprocess, train
from docnmt.core.training.checkpoint import load_checkpoint
from docnmt.core.training.run_folder import RunFolder
from docnmt.registry import MODELS
from docnmt.runtime.system import UserError

TRANSLATION = {
    "transformer": "", "copy_transformer": "", "hier_transformer": "", "cond_transformer": "--top-t 2",
    "hier_cond_transformer": "--merge source2token", "concat_transformer": "--source-context 1 --target-window 2",
    "doc_transformer": "", "scaleformer": "", "g_transformer": "", "han_encoder": "", "han": "",
}  # fmt: skip
PAIRS = {
    "inferlite": "--hash-bits 16 --hidden-dim 8 --output-dim 16", "bag_of_words": "", "bilstm_max": "--output-dim 16",
    "source2token_encoder": "--embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1",
}  # fmt: skip
SMALL = "--embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1 --decoder-layers 1 --max-tokens 250"
#: Beside the architectures: criteria, and what draws random numbers.
MORE = {
    "cross_entropy": "--arch transformer --criterion cross_entropy",
    "r_drop": "--arch transformer --r-drop 2 --dropout 0.2",
    "mix": "--arch transformer --mix-data {folder}/data=0.5",
    "resolutions": "--arch doc_transformer --resolutions 1 2 0",
    "subwords": "--arch transformer --subword-sampling 0.1",
    "bf16": "--arch hier_cond_transformer --bf16 --force-bf16",
    "checkpointing": "--arch cond_transformer --position-fusion add --checkpoint-activations",
    "bleu": "--arch transformer --eval-metrics",
    "three": "--arch transformer --max-tokens 60",
}

SHARDED = ["transformer", "hier_cond_transformer", "copy_transformer", "r_drop", "checkpointing", "three", "inferlite"]
CASES = [*TRANSLATION, *MORE, *PAIRS, "fusion_classifier"]
TRAINED = [*(("two", case) for case in CASES), *(("sharded", case) for case in SHARDED)]
#: Some of each kind, which are trained in every run; `--slow` trains all.
ALWAYS = {
    "transformer", "cond_transformer", "hier_cond_transformer", "r_drop", "mix", "resolutions", "checkpointing",
    "three", "inferlite", "fusion_classifier",
}  # fmt: skip


def always(kind: str, case: str) -> bool:
    """Whether a training is one of those; of those that are sharded alike one of each task is."""
    return case in ALWAYS and (kind == "two" or case in ("hier_cond_transformer", "three", "inferlite"))


PARAMETERS = [
    pytest.param(kind, case, marks=() if always(kind, case) else pytest.mark.slow, id=f"{kind}-{case}")
    for kind, case in TRAINED
]


class Jobs(NamedTuple):
    """What became of two ranks' trainings (`two/CASE`, `sharded/CASE`), and of commands with one process's models."""

    folder: Path
    trained: dict[str, Result]
    used: dict[str, Result]


def pairs(folder: Path) -> Path:
    draw, words = random.Random(0), ["dog", "cat", "runs", "sleeps", "house", "tree", "big", "small"]

    def row() -> str:
        texts = [" ".join(draw.choices(words, k=draw.randint(2, 7))) for _ in range(2)]
        return "\t".join([draw.choice(["entailment", "neutral", "contradiction"]), *texts])

    for split, count in (("train", 40), ("valid", 10)):
        rows = [row() for _ in range(count)]
        (folder / f"{split}.tsv").write_text("\n".join(["label\ttext\ttext2", *rows]) + "\n")
        (folder / f"{split}.labels.tsv").write_text("".join("\t".join(line.split("\t")[:2]) + "\n" for line in rows))
    splits = [f"--{split}={folder / split}.tsv" for split in ("train", "valid")]
    assert preprocess.main(["--task", "nli", *splits, f"--destdir={folder / 'nli'}"]) == 0
    splits = [f"--{split}={folder / split}.labels.tsv" for split in ("train", "valid")]
    assert preprocess.main(["--task", "text_classification", *splits, f"--destdir={folder / 'labels'}"]) == 0
    return folder


def cases(folder: Path) -> dict[str, list[str]]:
    common = ["--max-update", "3", "--lr", "0.01", "--warmup-updates", "1", "--log-interval", "1", "--device", "cpu"]
    data, arguments = str(folder / "data"), {}
    for arch, options in TRANSLATION.items():
        arguments[arch] = [data, "--arch", arch, *SMALL.split(), *options.split(), *common]
    for case, options in MORE.items():
        arguments[case] = [data, *SMALL.split(), *common, *options.format(folder=folder).split()]
    pair = "--max-tokens 60 --classifier-dim 16"
    for arch, options in PAIRS.items():
        arguments[arch] = [str(folder / "nli"), "--arch", arch, *pair.split(), *options.split(), *common]
    small = "--arch fusion_classifier --max-tokens 60 --embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1"
    arguments["fusion_classifier"] = [str(folder / "labels"), *small.split(), *common]
    return arguments


def uses(folder: Path, name: str) -> dict[str, list[str]]:
    """Commands that use trained models; what they write is called by `name`."""
    contrastive = folder / "contrastive.tsv"
    rows = [(n // 2, n % 2, "the lamp", f"river {n // 2}", "LAMP THE", f"{n} RIVER") for n in range(12)]
    head = ["group", "correct", "src_context", "src", "tgt_context", "tgt"]
    contrastive.write_text("".join("\t".join(map(str, row)) + "\n" for row in [head, *rows]))
    lines = folder / "lines.txt"
    lines.write_text("".join(f"dog {'runs ' * (n % 5)}{n}\n" for n in range(9000)))  # three portions
    models = folder / "one"
    small = ["--max-tokens", "60", "--beam", "2", "--max-len-a", "0.5", "--max-len-b", "4"]
    embed = ["embed", "--path", f"{models}/inferlite", "--input", str(lines)]
    return {
        "search": ["generate", f"{folder}/data", "--path", f"{models}/hier_cond_transformer", *small,
                   "--results-path", f"{folder}/{name}.results"],
        "ensemble": ["generate", f"{folder}/data", "--path", f"{models}/transformer:{models}/r_drop", "--nbest", "2",
                     "--gen-subset", "valid", *small],
        "contrastive": ["score", "--contrastive", str(contrastive), "--path", f"{models}/cond_transformer", "--json"],
        "vectors": [*embed, "--output", f"{folder}/{name}.npy"],
        "codes": [*embed, "--codes", "--output", f"{folder}/{name}.codes.npy"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def jobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    folder = tmp_path_factory.mktemp("ranks")
    slow = request.config.getoption("--slow")
    trainings = [(kind, case) for kind, case in TRAINED if slow or always(kind, case)]
    text = ParallelText(folder)
    assert text.preprocess("--vocab-size", "80") == 0
    pairs(folder)
    words = cases(folder)
    for case in dict.fromkeys(case for _, case in trainings):
        assert train.main([*words[case], "--update-freq", "2", "--save-dir", str(folder / "one" / case)]) == 0, case
    more = {"two": [], "sharded": ["--shard"]}
    shared = [["train", *words[case], *more[kind], "--save-dir", str(folder / kind / case)] for kind, case in trainings]
    results = iter(run_jobs(folder, 2, [*shared, *uses(folder, "two").values()]))
    trained = {f"{kind}/{case}": next(results) for kind, case in trainings}
    return Jobs(folder, trained, {case: next(results) for case in uses(folder, "")})


@pytest.mark.parametrize(("kind", "case"), PARAMETERS)
def test_two_ranks_train_what_one_does(jobs: Jobs, kind: str, case: str) -> None:
    result = jobs.trained[f"{kind}/{case}"]
    assert result.status == 0
    one, two = (log(jobs.folder / name / case) for name in ("one", kind))
    assert len(one) == len(two) >= 4
    for line, other in zip(one, two, strict=True):
        other.pop("idle", None)
        assert line.pop("event") == other.pop("event")
        assert other == pytest.approx(line, rel=1e-6, abs=1e-9)
    assert len(result.digests) == 2
    assert len(set(result.digests)) == (1 if kind == "two" else 2)  # the same bits in every rank, or other parts
    last = f"{case}/checkpoint_last.safetensors"
    first, second = (load_checkpoint(jobs.folder / name / last) for name in ("one", kind))
    assert first.tensors.keys() == second.tensors.keys()
    for name, tensor in first.tensors.items():
        if not name.endswith(("qkv.bias", "key_value.bias")):  # without gradient: noise, which Adam makes large
            torch.testing.assert_close(second.tensors[name], tensor, rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("case", ["search", "ensemble", "contrastive", "vectors", "codes"])
def test_two_ranks_write_what_one_does(jobs: Jobs, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder, (command, *words) = jobs.folder, uses(jobs.folder, "one")[case]
    assert importlib.import_module(f"docnmt.cli.{command}").main(words) == jobs.used[case].status == 0
    assert jobs.used[case].out == capsys.readouterr().out
    for file in {"vectors": [".npy"], "codes": [".codes.npy"], "search": [".results/hypotheses.txt"]}.get(case, []):
        assert (folder / f"two{file}").read_bytes() == (folder / f"one{file}").read_bytes()


def test_no_architecture_is_missing() -> None:
    built_in = {name for name in MODELS.names() if MODELS.get(name).__module__.startswith("docnmt.")}
    tested = {*TRANSLATION, *PAIRS, "fusion_classifier"}
    assert built_in <= tested <= set(MODELS.names())


# What goes wrong among several processes: one is killed, is out of memory, gets a signal; a second job comes along.


LAST = "checkpoint_last.safetensors"
OFTEN = ("--save-interval-updates", "10", "--disable-validation", "--log-interval", "1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_toy_data(tmp_path / "data")


@contextlib.contextmanager
def job(processes: int, data: Path, run: Path, *options: str, arch: str = "toy") -> Iterator[subprocess.Popen[str]]:
    """A job under way; whatever is left of it is killed at the end."""
    for file in run.parent.glob("pid.*"):
        file.unlink()
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    words = [*start, rank_toy.__file__, arch, str(data), str(run), *options]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def pid(run: Path, rank: int) -> int:
    return int((run.parent / f"pid.{rank}").read_text())


def updates(run: Path) -> int:
    """How far the log has come."""
    try:
        lines = (run / "train.jsonl").read_text().splitlines()
        return int(json.loads(lines[-1])["update"]) if lines else 0
    except (OSError, ValueError):
        return 0


def wait_for(run: Path, update: int, process: subprocess.Popen[str]) -> None:
    while updates(run) < update and process.poll() is None:
        time.sleep(0.02)


def own_lines(err: str) -> list[str]:
    """What the command itself says at its end; torchrun adds a report of its own."""
    return [line for line in err.splitlines() if line.startswith("docnmt-train:")]


@pytest.mark.parametrize("killed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_rank_is_named_and_the_last_checkpoint_goes_on(data: Path, tmp_path: Path, killed: int) -> None:
    run = tmp_path / "run"
    with job(2, data, run, "--max-update", "100000", *OFTEN) as process:
        wait_for(run, 25, process)
        os.kill(pid(run, killed), signal.SIGKILL)
        err = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    (line,) = own_lines(err)
    assert line.startswith(f"docnmt-train: error: rank {killed} (")
    saved = load_checkpoint(run / LAST).header["progress"]["update"]
    assert saved >= 20
    limit = ("--max-update", str(saved + 15))
    assert train_toy(data, run, *limit, *OFTEN) == 0  # one process goes on with the updates of two
    train_toy(data, tmp_path / "whole", "--update-freq", "2", *limit, *OFTEN)
    for line, other in zip(log(tmp_path / "whole"), log(run), strict=True):
        other.pop("idle", None)
        assert other.pop("event") == line.pop("event")
        assert other == pytest.approx(line, rel=1e-5)


@pytest.mark.parametrize(
    ("frozen", "options"), [(0, ()), pytest.param(1, ("--shard",), marks=pytest.mark.slow)], ids=["whole", "sharded"]
)
def test_a_frozen_rank_ends_the_job(
    data: Path, tmp_path: Path, frozen: int, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process keeps its connections open: only the time says that it computes no more."""
    run = tmp_path / "run"
    monkeypatch.setenv("DOCNMT_RANK_TIMEOUT", "0.15")
    with job(2, data, run, "--max-update", "100000", *OFTEN, *options) as process:
        wait_for(run, 25, process)
        os.kill(pid(run, frozen), signal.SIGSTOP)
        assert process.stderr is not None
        err = ""
        for line in process.stderr:
            err += line
            if own_lines(line):
                os.kill(pid(run, frozen), signal.SIGKILL)  # torchrun itself waits half a minute for it
        process.wait(60)
    assert process.returncode != 0
    (line,) = own_lines(err)
    assert line.startswith(f"docnmt-train: error: rank {frozen} (")
    assert "DOCNMT_RANK_TIMEOUT" in line
    assert load_checkpoint(run / LAST).header["progress"]["update"] >= 20
    assert train_toy(data, run, "--max-update", str(updates(run)), *OFTEN) == 0


@pytest.mark.parametrize("fast", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.slow), ("--shard",)], ids=["whole", "sharded"])
def test_one_rank_decides_when_a_checkpoint_is_due_and_saves_once_at_a_signal_to_any(
    data: Path, tmp_path: Path, fast: int, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks differ. Here a quarter of an hour passes in one rank at every update, and never in the other."""
    monkeypatch.setenv("FAST_CLOCK", str(fast))
    limits, run = ("--max-update", "100000", "--disable-validation", "--log-interval", "1"), tmp_path / "run"
    with job(2, data, run, *limits, "--keep-last", "9", *options) as process:
        wait_for(run, 12, process)
        os.kill(pid(run, 1), signal.SIGTERM)
        err = process.communicate(timeout=60)[1]
    assert own_lines(err) == ["docnmt-train: stopped by SIGTERM"]
    last = load_checkpoint(run / LAST).header["progress"]["update"]
    assert last == updates(run) >= 12
    kept = [load_checkpoint(path).header["progress"]["update"] for path in RunFolder(run).numbered().values()]
    assert kept in ([list(range(end - 8, end + 1)) for end in (last - 1, last)] if fast == 0 else ([], [last]))
    names = {path.name for path in RunFolder(run).numbered().values()}
    assert {file.name for file in run.iterdir()} == {".lock", LAST, "config.yaml", "train.jsonl", *names}


def test_the_lock_of_a_killed_job_is_free(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hold = "import os, sys, pathlib\nfrom docnmt.core.training.run_folder import RunFolder\n"
    hold += "with RunFolder(pathlib.Path(sys.argv[1])).opened():\n    print(os.getpid(), flush=True)\n    input()\n"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        number = process.stdout.readline().strip()
        with pytest.raises(UserError, match=number):
            RunFolder(run).opened().__enter__()
        process.kill()
    with RunFolder(run).opened():
        pass


@pytest.mark.parametrize("module", ["docnmt.cli.score", "docnmt"])
def test_a_finished_job_ends_before_python_is_taken_down(module: str, tmp_path: Path) -> None:
    """Native threads of --shard may abort in what comes then."""
    text = tmp_path / "text"
    text.write_text("a b\n")
    words = [*(["score"] if module == "docnmt" else []), "--sys", str(text), "--ref", str(text)]
    program = "import atexit, runpy, sys; atexit.register(print, 'taken down'); sys.argv[0:1] = []; "
    program += f"runpy.run_module({module!r}, run_name='__main__')"
    outputs = []
    for job in ({}, {"WORLD_SIZE": "2", "RANK": "0"}):
        command = [sys.executable, "-c", program, module, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | job)
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1] + "taken down\n"
