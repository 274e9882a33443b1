"""What an operator's output has of words and of positions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from parallel_text import ParallelText

sys.path.insert(0, str(Path(__file__).parents[1]))

import translation_gates

from docnmt.cli import train
from docnmt.registry import FUSIONS
from docnmt.runtime.system import UserError

GATES = ["scalar", "vector", "mlp", "constant", "content", "conv"]


@pytest.mark.parametrize("name", ["add", "concat", "none", "scale", *(f"gate_{kind}" for kind in GATES)])
def test_the_parts_add_up_to_the_output(name: str) -> None:
    torch.manual_seed(0)
    fusion, offsets = FUSIONS.get(name)(8), torch.tensor([0, 3, 7])
    words, positions = torch.randn(2, 7, 8).unbind()
    first, second, gate = translation_gates.parts(fusion, words, positions, offsets)
    constant = fusion.projection.bias if name == "concat" else 0
    torch.testing.assert_close(first + second + constant, fusion(words, positions, offsets))
    assert (gate is not None) == name.startswith("gate")


def test_what_is_no_sum_is_refused() -> None:
    with pytest.raises(UserError, match="Mlp: its output is no part"):
        translation_gates.parts(FUSIONS.get("mlp")(8), torch.ones(2, 8), torch.ones(2, 8))


def test_a_models_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ParallelText(tmp_path).preprocess("--vocab-size", "80") == 0
    small = "--embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1 --decoder-layers 1 --max-update 0 --device cpu"
    paths = []
    for fusion in ("add", "gate_scalar"):
        paths.append(str(tmp_path / fusion))
        words = [str(tmp_path / "data"), "--arch", "transformer", "--position-fusion", fusion, "--save-dir", paths[-1]]
        assert train.main([*words, *small.split(), "--disable-validation"]) == 0
    capsys.readouterr()
    translation_gates.main([str(tmp_path / "data"), "--path", *paths, "--units", "3", "--device", "cpu"])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:2] for row in rows] == [
        [path, f"{side}.embedding.fusion"] for path in paths for side in ("encoder", "decoder")
    ]
    assert all(int(row[2]) > 0 and 0 < float(row[3]) < 100 for row in rows)
    assert [row[4] == "–" for row in rows] == [True, True, False, False]
    with pytest.raises(SystemExit):
        translation_gates.main([str(tmp_path / "data"), "--path", str(tmp_path / "absent")])
    assert "absent" in capsys.readouterr().err
