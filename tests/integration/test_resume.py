"""A run in parts is the run in one, bit for bit: log, weights, moments; and options that do not go are refused by name.

Further kinds of runs beside what they change: `test_finetune`, `test_training`.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import reduce
from pathlib import Path

import pytest
import toy
from parallel_text import ParallelText
from torch import Tensor, nn
from toy import assert_same_checkpoint, log, write_toy_data
from toy import train as train_toy
from trainings import LAST, SMALL

from docnmt.cli.inspect import main as inspect
from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.train import main as train
from docnmt.core.training.checkpoint import load_checkpoint, save_checkpoint
from docnmt.core.training.run import MeanWeights

NOISE = "--source-mask 0.3 --subword-sampling 0.3 --r-drop 1"
CASES = {
    "float32": "transformer --no-bf16 --weight-decay 0.1",
    "bfloat16": "hier_cond_transformer --bf16 --force-bf16 --top-t 1 --read-all-updates 3",
    "own text, by BLEU": "hier_cond_transformer --target-context conditional --context-word-dropout 0.1 "
    "--best-checkpoint-metric bleu",
    "sentences of documents": "transformer --unit-sentences 0 --max-doc-tokens 60",
    "parts of documents": "hier_cond_transformer --unit-sentences 2 --bf16 --force-bf16",
    "noise": f"hier_cond_transformer {NOISE} --context-word-dropout 0.2 --context-dropout 0.3 --resolutions 2 0",
    "noise in windows": f"concat_transformer {NOISE} --context-word-dropout 0.2",
    "two corpora": "doc_transformer --resolutions 1 2 0 --mix-data OTHER=1.5",
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_resumes_bit_for_bit(data: Path, other: Path, tmp_path: Path, case: str) -> None:
    options = CASES[case].replace("OTHER", str(other)).split()
    command = [str(data), *SMALL.split(), "--max-tokens", "300", "--log-interval", "2", "--arch", *options]
    end, early = ["--max-epoch", "2"], [] if "bleu" in options else [["--max-update", "2"]]  # it might be the best
    for run, limits in (("whole", [end]), ("parts", [*early, ["--max-epoch", "1"], end])):
        for limit in limits:
            assert train([*command, "--save-dir", str(tmp_path / run), *limit]) == 0
    lines, parts = (log(tmp_path / run, ["train", "epoch"]) for run in ("whole", "parts"))
    assert lines == parts
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)
    if "--r-drop" in options:
        assert all(line["divergence"] > 0 for line in lines if line["event"] == "train")
    if "bleu" in options:
        assert all("bleu" in line for line in log(tmp_path / "whole", ["valid"]))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("transformer --context-word-dropout 0.1", "--context-word-dropout"),
        ("transformer --r-drop 1 --dropout 0", "--r-drop"),
        ("transformer --resolutions 1 0", "--resolutions"),
        ("concat_transformer --resolutions 2", "--resolutions"),
        ("transformer --max-doc-tokens 50", "--max-doc-tokens"),
        ("doc_transformer --unit-sentences 2", "--unit-sentences"),
        ("doc_transformer --target-context none", "--target-context"),
        ("doc_transformer --position rope --levels 2", "--levels"),
        ("scaleformer --relative-horizon 0 --no-cross-relative", "--no-cross-relative"),
        ("doc_transformer --eval-bleu-beam 4", "--eval-bleu-beam"),
        ("doc_transformer --disable-validation --patience 2", "--patience"),
        ("doc_transformer --disable-validation --lr-scheduler plateau", "--lr-scheduler"),
        ("doc_transformer --mix-data OTHER=0", "--mix-data"),
        ("doc_transformer --mix-data nothing", "nothing"),
        ("doc_transformer --mix-data REVERSED", "reversed"),
        ("doc_transformer --mix-data FOREIGN", "foreign"),
    ],
)
def test_what_does_not_go_together_is_refused(
    data: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, named: str
) -> None:
    """In one line, and nothing is written. What is out of its range: `test_rules`."""
    files = ["--trainpref", str(data.parent / "train"), "--destdir"]
    if "FOREIGN" in options:  # another vocabulary
        pair = ["--source-lang", "en", "--target-lang", "de", "--vocab-size", "50"]
        assert preprocess([*pair, *files, str(tmp_path / "foreign")]) == 0
    if "REVERSED" in options:
        pair = ["--source-lang", "de", "--target-lang", "en", "--srcdict", str(data)]
        assert preprocess([*pair, *files, str(tmp_path / "reversed")]) == 0
    made = {"OTHER": other, "FOREIGN": tmp_path / "foreign", "REVERSED": tmp_path / "reversed"}
    words = reduce(lambda text, name: text.replace(name, str(made[name])), made, options).split()
    capsys.readouterr()
    assert train([str(data), *SMALL.split(), "--save-dir", str(tmp_path / "run"), "--arch", *words]) != 0
    assert named in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "run").exists()


# Processes that are killed, hung up or terminated at any moment and started again end with what one process gives.


TRAIN = "import sys; sys.path.insert(0, sys.argv[1]); import toy; from pathlib import Path\n"
TRAIN += "sys.exit(toy.train(Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:], arch='toy_other'))\n"


def command(data: Path, run: Path, *options: str) -> list[str]:
    return [sys.executable, "-c", TRAIN, str(Path(toy.__file__).parent), str(data), str(run), *options]


def test_a_signal_while_weights_and_means_are_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of some parameters was saved as the weights."""
    data, signals = write_toy_data(tmp_path / "data", seed=1), [signal.SIGTERM]
    options = ("--validate-interval-updates", "2", "--max-update", "4", "--ema", "0.9")
    assert train_toy(data, tmp_path / "whole", *options) == 0

    class Means(dict[str, Tensor]):
        def __getitem__(self, name: str) -> Tensor:
            if signals and name != next(iter(self)) and sys._getframe(1).f_code.co_name == "_exchange":
                os.kill(os.getpid(), signals.pop())
            return super().__getitem__(name)

    made = MeanWeights.__init__

    def make(self: MeanWeights, model: nn.Module, decay: float) -> None:
        made(self, model, decay)
        self.means = Means(self.means)

    monkeypatch.setattr(MeanWeights, "__init__", make)
    assert train_toy(data, tmp_path / "parts", *options) == 143
    assert train_toy(data, tmp_path / "parts", *options) == 0
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)
    assert log(tmp_path / "whole") == log(tmp_path / "parts")


@pytest.mark.parametrize("damage", ["no newline", "killed after a validation"])
def test_the_log_of_a_run_that_goes_on(damage: str, tmp_path: Path) -> None:
    """Two events stood in one line; a validation that is repeated stood there twice."""
    data = write_toy_data(tmp_path / "data", seed=1)
    options = ("--validate-interval-updates", "2", "--save-interval-updates", "3", "--max-update")
    assert train_toy(data, tmp_path / "whole", *options, "6") == 0
    assert train_toy(data, tmp_path / "parts", *options, "3") == 0
    path = tmp_path / "parts" / "train.jsonl"
    if damage == "no newline":
        path.write_bytes(path.read_bytes().rstrip())
    else:
        header = load_checkpoint(tmp_path / "parts" / LAST)
        header.header["progress"] |= {"concluded": 0}
        save_checkpoint(header.path, header.header, header.tensors)
    for limit in ("3", "6"):
        assert train_toy(data, tmp_path / "parts", *options, limit) == 0
    events = [(line["event"], line["update"]) for line in map(json.loads, path.read_text().splitlines())]
    assert len(set(events)) == len(events)
    assert {update for event, update in events if event == "valid"} >= {2, 4, 6}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_training_under_random_signals(tmp_path: Path, seed: int) -> None:
    """Signals of random kinds at random moments, from the start of the process on."""
    draw = random.Random(seed)
    data = write_toy_data(tmp_path / "data", seed=seed)
    options = ("--max-epoch", "12", "--save-interval-updates", str(draw.choice((1, 3, 50))), "--keep-last", "2")
    options += ("--validate-interval-updates", str(draw.choice((4, 100))), *(("--ema", "0.9") if seed % 2 else ()))
    assert train_toy(data, tmp_path / "whole", *options, arch="toy_other") == 0
    started = time.monotonic()
    assert subprocess.run(command(data, tmp_path / "one", *options), capture_output=True, check=False).returncode == 0
    length, kills = time.monotonic() - started, 0
    while True:
        with subprocess.Popen(command(data, tmp_path / "parts", *options), stderr=subprocess.PIPE) as process:
            wait = draw.uniform(0, 1.3 * length) if kills < 25 else None
            try:
                status = process.wait(wait)
            except subprocess.TimeoutExpired:
                process.send_signal(draw.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)))
                kills, status = kills + 1, process.wait()
            error = b"" if process.stderr is None else process.stderr.read()
        assert status in (0, -9, -15, -1, -2, 130, 143), error
        if status == 0:
            break
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    assert inspect(["--verify", str(tmp_path / "parts")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_preprocessing_under_random_kills(tmp_path: Path, seed: int) -> None:
    """The folder is at every moment the old or the new one, or the next run puts it back; only temporary files stay."""
    draw = random.Random(seed)
    text = ParallelText(tmp_path)
    assert text.preprocess("--vocab-size", "60") == 0
    shutil.copytree(text.data, tmp_path / "good")
    words = [sys.executable, "-m", "docnmt.cli.preprocess", *text.arguments("--vocab-size", "60", "--overwrite")]
    started = time.monotonic()
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    length = time.monotonic() - started
    for _ in range(10):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(draw.uniform(0.3 * length, 1.1 * length))
            except subprocess.TimeoutExpired:
                process.kill()
        assert inspect(["--verify", str(text.data)]) == 0
        for file in (tmp_path / "good").glob("*.bin"):
            assert (text.data / file.name).read_bytes() == file.read_bytes()
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    hidden = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert all(re.fullmatch(rf"\.{text.data.name}\.docnmt-\w+\.tmp", name) for name in hidden), hidden
