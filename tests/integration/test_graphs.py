"""Updates as CUDA graphs, on a device that computes on the CPU and pretends to be a GPU.

A graph there is the list of what the device was told, told again to the same memory: no line of docnmt runs, and what
the host had decided stays as it was. So it goes wrong where a CUDA graph would.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from toy import log

from docnmt.cli.train import main, parse
from docnmt.core.training import graphed
from docnmt.core.training.checkpoint import load_checkpoint
from docnmt.core.training.run import Run
from docnmt.core.training.start import prepare
from docnmt.core.training.trainer import Epoch, open_epoch, set_learning_rate
from docnmt.core.training.update import take_step
from docnmt.modules.positions import MultiLevel
from docnmt.registry import MODELS
from docnmt.runtime.device import seeds_from
from docnmt.runtime.system import UserError

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "studies" / "gpu"))

import host_syncs
import pretended

pytestmark = pytest.mark.skipif(not pretended.available(), reason="this torch cannot be given devices from Python")
if pretended.available():
    pretended.make_known()  # here, before any test of this process has made gradients
SIZES = "--embed-dim 16 --heads 2 --ffn-dim 16 --encoder-layers 1 --decoder-layers 1 --max-tokens 120"
UPDATES = "--bf16 --force-bf16 --lr 0.01 --warmup-updates 3 --disable-validation --log-interval 1"

#: Lengths of documents: several shapes of batches of documents, too.
LENGTHS = [3, 1, 4, 5, 2, 3, 4, 5, 3, 2, 9, 30, 20, 25, 12]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return host_syncs.prepare(tmp_path_factory.mktemp("graphs"), LENGTHS)


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the Triton kernels, whose interpreter takes its time."""
    monkeypatch.setattr(pretended, "interprets", lambda: False)


class Trainings:
    """Trainings of a corpus, with and without graphs."""

    def __init__(self, data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.folder, self.patch = data, folder, monkeypatch
        self.recorders: list[pretended.PretendedRecorder] = []
        monkeypatch.setattr(graphed, "_ROWS", 16)  # several shapes, also of small batches

    def options(self, name: str, options: str) -> list[str]:
        words = f"{SIZES} {UPDATES} {options} --device {pretended.NAME}".split()
        return [str(self.data), "--arch", "transformer_tiny", "--save-dir", str(self.folder / name), *words]

    def train(self, name: str, options: str = "", *, graphs: bool = True, updates: int = 12) -> list[dict[str, float]]:
        """The lines of the log."""
        self.patch.setenv("DOCNMT_GRAPHS", "on" if graphs else "off")
        made = pretended.PretendedRecorder

        def recorder(device: torch.device) -> pretended.PretendedRecorder:
            self.recorders.append(made(device))
            return self.recorders[-1]

        with pretended.pretended(), patch.object(pretended.graphs, "CudaRecorder", recorder):
            assert main([*self.options(name, options), "--max-update", str(updates)]) == 0
        return log(self.folder / name, ["train"])

    def tensors(self, name: str) -> dict[str, Tensor]:
        checkpoint = load_checkpoint(self.folder / name / "checkpoint_last.safetensors")
        return {**checkpoint.group("model"), **checkpoint.group("optimizer")}


@pytest.fixture
def trainings(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainings:
    return Trainings(data, tmp_path, monkeypatch)


def assert_alike(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name, value in theirs.items() if not torch.equal(ours[name], value)] == []


CASES = {
    "label smoothing, two batches": "--label-smoothing 0.1 --update-freq 2 --weight-decay 0.1",
    "post": "--norm post --activation gelu --output-bias --clip-norm 0 --ema 0.9",
    "hier": "--arch hier_transformer_tiny",
    "kernels": "--max-tokens 48 --embed-dim 32 --label-smoothing 0.1 --dropout 0.2",
    "learned": "--position learned --no-share-embeddings --no-tie-output",
    "rope": "--position rope --dropout 0",
    "concat": "--arch concat_transformer_tiny --max-tokens 250",
    "doc": "--arch doc_transformer_tiny --max-tokens 700",
    "hier_cond, kernels": "--arch hier_cond_transformer_tiny --max-tokens 60 --top-t 2 --embed-dim 32 --dropout 0.2",
}
SLOW = ("post", "learned", "rope", "concat", "doc", "hier_cond, kernels")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow if c in SLOW else ()) for c in CASES])
def test_graphs_compute_what_is_computed_launch_by_launch(
    case: str, trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: weights, moments, losses and norms, with dropout. Without graphs to rounding: sums have more terms,
    which are 0, and rates are float32; dropout's numbers depend on shapes."""
    if "kernels" not in case:  # triton's interpreter takes its time
        monkeypatch.setattr(pretended, "interprets", lambda: False)
    elif not pretended.interprets():
        pytest.skip("needs triton and its interpreter (TRITON_INTERPRET=1)")
    updates = 5 if "kernels" in case else 12
    if "kernels" not in case:
        options = CASES[case] + " --dropout 0"
        ours, theirs = (trainings.train(name, options, graphs=name == "zero", updates=8) for name in ("zero", "none"))
        for name in ("loss", "gnorm", "nll"):
            assert [line[name] for line in ours] == pytest.approx([line[name] for line in theirs], rel=2e-4)
    ours = trainings.train("graphs", CASES[case], updates=updates)
    assert len(trainings.recorders[-1].recordings) >= 2  # of one shape at least, and of the step
    monkeypatch.setattr(pretended.PretendedRecorder, "record", lambda self, body: body)
    assert ours == trainings.train("launches", CASES[case], updates=updates)
    assert_alike(trainings.tensors("graphs"), trainings.tensors("launches"))


@pytest.mark.usefixtures("flash")
def test_a_run_that_is_continued_has_the_same_bits(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many graphs there were when it stopped, and however few are kept."""
    trainings.train("whole", updates=12)
    trainings.train("parts", updates=5)
    monkeypatch.setattr(graphed, "KEPT", 1)
    trainings.train("parts", updates=12)
    assert_alike(trainings.tensors("parts"), trainings.tensors("whole"))


@pytest.mark.usefixtures("flash")
@pytest.mark.parametrize(
    "options",
    [
        "--position relative --dropout 0",  # lengths are read on the host
        "--arch cond_transformer_tiny",  # without the kernels
        *(pytest.param(more, marks=pytest.mark.slow) for more in (
            "--position alibi --dropout 0", "--attention linear --dropout 0", "--r-drop 1",
            "--checkpoint-activations")),
    ],
)  # fmt: skip
def test_what_cannot_be_captured_trains_without(
    options: str, trainings: Trainings, capfd: pytest.CaptureFixture[str]
) -> None:
    trainings.train("asked", options, updates=3)
    assert capfd.readouterr().err.count("no CUDA graphs") == 1
    assert not any(recorder.recordings for recorder in trainings.recorders)
    trainings.train("not asked", options, graphs=False, updates=3)
    assert_alike(trainings.tensors("asked"), trainings.tensors("not asked"))


@pytest.mark.usefixtures("flash")
def test_a_recording_that_fails_ends_the_graphs_and_not_the_run(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def record(self: pretended.PretendedRecorder, body: Callable[[], None]) -> Callable[[], None]:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(pretended.PretendedRecorder, "record", record)
    ours = trainings.train("failed", "--dropout 0 --update-freq 2")
    assert capfd.readouterr().err.count("not permitted when stream is capturing") == 1
    theirs = trainings.train("none", "--dropout 0 --update-freq 2", graphs=False)
    assert [line["loss"] for line in ours] == pytest.approx([line["loss"] for line in theirs], rel=2e-4)


def test_on_a_cpu_there_are_none(trainings: Trainings, capfd: pytest.CaptureFixture[str]) -> None:
    trainings.patch.setenv("DOCNMT_GRAPHS", "on")
    assert main([*trainings.options("cpu", ""), "--device", "cpu", "--max-update", "1"]) == 0
    assert capfd.readouterr().err.count("DOCNMT_GRAPHS=on") == 1
    trainings.patch.setenv("DOCNMT_GRAPHS", "perhaps")
    assert main([*trainings.options("cpu", ""), "--device", "cpu", "--max-update", "2"]) == 1
    assert "DOCNMT_GRAPHS=perhaps" in capfd.readouterr().err


def opened(trainings: Trainings) -> tuple[Run, Epoch]:
    run = prepare(parse(trainings.options("steps", "")))
    run.model.train()
    return run, open_epoch(run)


@pytest.mark.usefixtures("flash")
def test_a_loss_that_is_not_a_number_changes_no_weight(trainings: Trainings) -> None:
    trainings.patch.setenv("DOCNMT_GRAPHS", "on")
    with pretended.pretended():
        run, epoch = opened(trainings)
        group = [epoch.plan[0]]
        for _ in range(3):
            set_learning_rate(run)
            take_step(run, epoch.data, group)
            run.state.update += 1
        with torch.no_grad():
            run.model.decoder.norm.weight[0] = torch.nan
        before = [
            x.clone() for x in (*run.model.parameters(), *run.optimizer.state[next(run.model.parameters())].values())
        ]
        with pytest.raises(UserError):
            take_step(run, epoch.data, group)
        after = [*run.model.parameters(), *run.optimizer.state[next(run.model.parameters())].values()]
        for x, y in zip(before, after, strict=True):
            assert torch.equal(x.cpu().nan_to_num(7), y.detach().cpu().nan_to_num(7))


@pytest.mark.parametrize(
    ("arch", "options", "has"),
    [
        ("transformer", {}, True),
        ("cond_transformer", {}, True),
        ("hier_cond_transformer", {}, True),
        ("hier_cond_transformer", {"merge": "source2token"}, False),
        ("cond_transformer", {"target_context": "conditional"}, False),
        ("transformer", {"position": "alibi"}, False),
        ("doc_transformer", {}, False),
    ],
)
def test_without_a_wish_graphs_are_for_what_a_card_has_run(arch: str, options: dict[str, Any], has: bool) -> None:
    assert graphed.has_run(MODELS.get(arch), MODELS.config(arch)(**options)) is has  # type: ignore[misc]


def test_levels_are_hidden_by_numbers_of_the_device() -> None:
    """As often as the host hides them, and all of a text at once."""
    torch.manual_seed(0)
    position = MultiLevel(8, levels=3, level_dropout=0.3).train()
    with torch.no_grad():
        position.unknown.normal_()
    places = torch.tensor([[0, 1, 2, -1], [1, 1, 2, -1]])
    shown = position.eval()(places)
    position.train()
    seeds = torch.randint(1 << 31, (300,))
    with seeds_from(seeds):
        same = [torch.equal(position(places), shown) for _ in seeds]
    assert same == (seeds >= 0.3 * (1 << 31)).tolist()
