"""Updates as CUDA graphs, on a device that computes on the CPU and pretends to be a GPU.

A graph there is the list of what the device was told, told again to the same memory: no line of docnmt runs, and what
the host had decided stays as it was. So it goes wrong where a CUDA graph would.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toy import log

from docnmt.cli.train import main, parse
from docnmt.core.training import criterions as form_choice
from docnmt.core.training import graphed
from docnmt.core.training.checkpoint import load_checkpoint
from docnmt.core.training.start import prepare
from docnmt.core.training.trainer import open_epoch, set_learning_rate
from docnmt.core.training.update import take_step
from docnmt.functional import selection as nearest
from docnmt.modules.layers import Dropout
from docnmt.runtime.device import to_device, to_host
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
    updates = 4 if "kernels" in case else 12 if case == "hier" else 8
    if "kernels" not in case:
        options = CASES[case] + " --dropout 0"
        ours, theirs = (trainings.train(name, options, graphs=name == "zero", updates=5) for name in ("zero", "none"))
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
    trainings.train("whole", updates=8)
    trainings.train("parts", updates=4)
    monkeypatch.setattr(graphed, "KEPT", 1)
    trainings.train("parts", updates=8)
    assert_alike(trainings.tensors("parts"), trainings.tensors("whole"))


@pytest.mark.usefixtures("flash")
def test_a_loss_that_is_not_a_number_changes_no_weight(trainings: Trainings) -> None:
    trainings.patch.setenv("DOCNMT_GRAPHS", "on")
    with pretended.pretended():
        run = prepare(parse(trainings.options("steps", "")))
        run.model.train()
        epoch = open_epoch(run)
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


# Where the host waits for a GPU, counted on a device that computes on the CPU and pretends to be one.


class Halves:
    """A rule by which every word has a form."""

    def __init__(self, language: str) -> None:
        pass

    def form(self, sentence: str) -> str:
        return "formal" if sum(map(ord, sentence)) % 2 else "informal"


CASES_OF_HOST = {
    **{name: (host_syncs.full_name(name), "") for name in host_syncs.ARCHITECTURES},
    "tree": ("hier_cond_transformer_tiny", "--merge source2token --checkpoint-activations"),
    "own text": ("cond_transformer_tiny", "--target-context conditional --unit-sentences 3"),
    "own summaries": ("hier_transformer_tiny", "--target-context summaries"),
    "two passes": ("transformer_tiny", "--r-drop 5 --ema 0.9"),
    "forms of address": ("transformer_tiny", "--criterion form_choice"),
    "blocks": ("hier_cond_transformer_tiny", "--always-own-sentence --update-freq 2 --max-tokens 200"),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow if case in ("hier", "cond", "scaleformer", "doc") else ())
        for case in CASES_OF_HOST
    ],
)
def test_an_update_waits_once_and_computes_the_same(
    case: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arch, options = CASES_OF_HOST[case]
    if case in ("transformer", "hier_cond"):
        options = "--dropout 0 --max-tokens 90"  # the kernels draw other numbers
    else:  # triton's interpreter takes its time
        monkeypatch.setattr(pretended, "interprets", lambda: False)
    if case == "blocks":  # also in documents of a few sentences
        monkeypatch.setattr(nearest, "_FEW", 8)
        monkeypatch.setattr(nearest, "_LEAST", 2)
    if case == "forms of address":  # the generated text has none: half of its words are formal
        monkeypatch.setattr(form_choice, "AddressRule", Halves)
    given = f"{SIZES} --max-tokens 200 {options}".split()
    waits = host_syncs.count(data, tmp_path / "pretended", arch, given, updates=2).waits
    # the losses and the gradient's norm, read together; in float32 a dispatch reads which sentences were chosen
    elsewhere = {where: times for where, times in waits.items() if "functional/dispatch.py" not in where[1]}
    assert sum(elsewhere.values()) <= 1, waits.most_common()

    monkeypatch.setattr(Dropout, "forward", nn.Dropout.forward)  # as on a card
    options = ["--max-update", "2", "--disable-validation", "--log-interval", "1", "--device", "cpu"]
    assert main([str(data), "--arch", arch, *given, *options, "--save-dir", str(tmp_path / "cpu")]) == 0
    logs = [(tmp_path / name / "train.jsonl").read_text().splitlines() for name in ("pretended", "cpu")]
    ours, theirs = ([json.loads(line) for line in log[:2]] for log in logs)
    for name in ("loss", "gnorm"):
        assert [line[name] for line in ours] == pytest.approx([line[name] for line in theirs], rel=2e-5)


def test_arrays_arrive_together_without_a_wait() -> None:
    arrays = [np.arange(3), np.zeros((0, 2)), np.array([[True], [False]]), torch.tensor([1.5, 2.5]), np.int32([[7]])]
    with pretended.pretended() as counter:
        moved = to_device(arrays, pretended.NAME)
        assert counter.found == []
        read = [x.cpu() for x in moved]
        numbers = to_host([1.25, moved[3][1], torch.tensor(0.1), moved[0].sum()])
    for array, x in zip(arrays, read, strict=True):
        expected = torch.as_tensor(array)
        assert x.dtype == expected.dtype
        assert torch.equal(x, expected)
    assert numbers == [1.25, 2.5, float(torch.tensor(0.1)), 3.0]
    assert [what for what, _ in counter.found] == ["device to host"] * 6  # five arrays, and all numbers at once
