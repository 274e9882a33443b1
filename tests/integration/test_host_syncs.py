"""Where the host waits for a GPU, counted on a device that computes on the CPU and pretends to be one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from docnmt.cli.train import main
from docnmt.core.training import criterions as form_choice
from docnmt.functional import selection as nearest
from docnmt.modules.layers import Dropout
from docnmt.runtime.device import to_device, to_host

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "studies" / "gpu"))

import host_syncs
import pretended

pytestmark = pytest.mark.skipif(not pretended.available(), reason="this torch cannot be given devices from Python")
if pretended.available():
    pretended.make_known()  # here, before any test of this process has made gradients
SIZES = "--embed-dim 16 --heads 2 --ffn-dim 16 --encoder-layers 1 --decoder-layers 1 --max-tokens 700"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("syncs")
    return host_syncs.prepare(folder, [3, 1, 45, 5, 2, 7, 38, 30])


class Halves:
    """A rule by which every word has a form."""

    def __init__(self, language: str) -> None:
        pass

    def form(self, sentence: str) -> str:
        return "formal" if sum(map(ord, sentence)) % 2 else "informal"


CASES = {
    **{name: (host_syncs.full_name(name), "") for name in host_syncs.ARCHITECTURES},
    "tree": ("hier_cond_transformer_tiny", "--merge source2token --checkpoint-activations"),
    "own text": ("cond_transformer_tiny", "--target-context conditional --unit-sentences 3"),
    "own summaries": ("hier_transformer_tiny", "--target-context summaries"),
    "two passes": ("transformer_tiny", "--r-drop 5 --ema 0.9"),
    "forms of address": ("transformer_tiny", "--criterion form_choice"),
    "blocks": ("hier_cond_transformer_tiny", "--always-own-sentence --update-freq 2 --max-tokens 300"),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow if case in ("hier", "cond", "scaleformer", "doc") else ())
        for case in CASES
    ],
)
def test_an_update_waits_once_and_computes_the_same(
    case: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arch, options = CASES[case]
    if case in ("transformer", "hier_cond"):
        options = "--dropout 0"  # the kernels draw other numbers
    else:  # triton's interpreter takes its time
        monkeypatch.setattr(pretended, "interprets", lambda: False)
    if case == "blocks":  # also in documents of a few sentences
        monkeypatch.setattr(nearest, "_FEW", 8)
        monkeypatch.setattr(nearest, "_LEAST", 2)
    if case == "forms of address":  # the generated text has none: half of its words are formal
        monkeypatch.setattr(form_choice, "AddressRule", Halves)
    given = f"{SIZES} {options}".split()
    found = host_syncs.count(data, tmp_path / "pretended", arch, given).waits
    # the losses and the gradient's norm, read together; in float32 a dispatch reads which sentences were chosen
    elsewhere = {place: times for place, times in found.items() if "functional/dispatch.py" not in place[1]}
    assert sum(elsewhere.values()) <= 1, found.most_common()

    monkeypatch.setattr(Dropout, "forward", nn.Dropout.forward)  # as on a card
    options = ["--max-update", "3", "--disable-validation", "--log-interval", "1", "--device", "cpu"]
    assert main([str(data), "--arch", arch, *given, *options, "--save-dir", str(tmp_path / "cpu")]) == 0
    logs = [(tmp_path / name / "train.jsonl").read_text().splitlines() for name in ("pretended", "cpu")]
    ours, theirs = ([json.loads(line) for line in log[:3]] for log in logs)
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
