"""Position families and fusions of plug-ins bring options: typed, checked, stored, and handed to what they build."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from docnmt import registry
from docnmt.cli.generate import main as generate
from docnmt.cli.train import main as train
from docnmt.cli.train import parse
from docnmt.core.training.checkpoint import load_model
from docnmt.modules.positions import AttentionPosition, Position, PositionSettings
from docnmt.options import option
from docnmt.registry import MODELS, register_architecture, register_fusion, register_model, register_position

DATA = Path(__file__).parents[1] / "compat" / "v1" / "data"
SIZE = ["--embed-dim", "16", "--heads", "2", "--ffn-dim", "24"]
SMALL = [*SIZE, "--max-tokens", "300", "--max-update", "2", "--device", "cpu"]


@dataclass(frozen=True)
class PeriodConfig:
    """Options of the family `period`."""

    period: int = option(10, "words after which an encoding is repeated", between=(1, None))


class Period(nn.Module):
    """A learned encoding of a word's index modulo a period."""

    def __init__(self, d_model: int, period: int) -> None:
        super().__init__()
        self.table = nn.Embedding(period, d_model)

    def forward(self, positions: Tensor) -> Tensor:
        encoded: Tensor = self.table(positions[:, 0] % self.table.num_embeddings)
        return encoded


@dataclass(frozen=True)
class WeightedConfig:
    """Options of the fusion `weighted`."""

    position_weight: float = option(1.0, "what encodings are multiplied by")


class Weighted(nn.Module):
    """E + wP."""

    def __init__(self, d_model: int, *, position_weight: float) -> None:
        super().__init__()
        self.weight = position_weight

    def forward(self, e: Tensor, p: Tensor, offsets: Tensor | None = None) -> Tensor:
        return e + self.weight * p


def period_family(settings: PositionSettings, *, period: int) -> Position:
    """A learned encoding that repeats itself."""
    return Position(input=Period(settings.d_model, period))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in registry.ALL:
        monkeypatch.setattr(each, "_entries", dict(each._entries))
    register_position("period", config=PeriodConfig)(period_family)
    register_fusion("weighted", config=WeightedConfig)(Weighted)


@pytest.mark.parametrize(
    ("words", "position", "fusion"),
    [
        (["--arch", "transformer"], "sinusoidal", "add"),
        (["--arch", "doc_transformer"], "multi_level", "add"),
        (["--arch", "hier_cond_transformer", "--position", "learned"], "learned", "add"),
        (["--arch", "cond_transformer", "--position", "rope"], "rope", "add"),  # it has nothing to fuse
        (["--arch", "scaleformer"], "none", "add"),
        (["--arch", "doc_transformer", "--position-fusion", "concat"], "multi_level", "concat"),
    ],
)
def test_a_run_records_how_positions_join(words: list[str], position: str, fusion: str, tmp_path: Path) -> None:
    """A run records what was meant; its options are then those that were typed, with the default or without."""
    command = [str(DATA), *words, *SMALL, "--save-dir", str(tmp_path / "run")]
    model = parse(command)["model"]
    assert (model.position, model.position_fusion) == (position, fusion)
    assert parse([*command, "--position-fusion", fusion])["model"] == model
    assert train([*command, "--max-update", "0"]) == 0
    recorded = load_model(str(tmp_path / "run")).model_config
    assert recorded.position_fusion == fusion
    assert f"position-fusion: {fusion}\n" in (tmp_path / "run/config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("arch", ["transformer_tiny", "hier_transformer_tiny"])
def test_options_reach_what_is_built(arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    words = [str(DATA), "--arch", arch, *SMALL, "--save-dir", run, "--position", "period"]
    words += ["--position-fusion", "weighted", "--position-weight", "0.5"]
    assert train([*words, "--period", "3"]) == 0
    loaded = load_model(run)
    assert (loaded.model_config.period, loaded.model_config.position_weight) == (3, 0.5)
    embedding = loaded.model.encoder.embedding
    assert embedding.position.table.weight.shape == (3, 16)
    assert embedding.fusion.weight == 0.5
    assert generate([str(DATA), "--path", run, "--scoring", "none", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert train([*words, "--period", "4", "--max-update", "3"]) == 2
    assert "--period" in capsys.readouterr().err
    shutil.rmtree(run)
    assert train([*words, "--period", "0"]) == 2
    assert "--period" in capsys.readouterr().err


def test_options_of_a_family_that_is_not_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(DATA), "--arch", "transformer_tiny", "--save-dir", str(tmp_path / "run"), "--period", "3"]
    assert train(words) == 2
    assert "--position" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        train([*words, "--position", "period", "--help-all"])
    assert "--period N" in capsys.readouterr().out


@dataclass(frozen=True)
class ClashingConfig:
    """An option of a name that every model has."""

    dropout: float = option(0.7, "another dropout")


def test_mistakes_of_a_plug_in_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(DATA), *SMALL, "--save-dir", str(tmp_path / "run")]
    register_position("clash", config=ClashingConfig)(period_family)
    assert train([*words, "--arch", "transformer_tiny", "--position", "clash"]) == 2
    assert "ClashingConfig" in capsys.readouterr().err

    @register_architecture("transformer", "misspelt")
    def misspelt() -> dict[str, int]:
        """A setting that no transformer has."""
        return {"encoder_layer": 3}

    assert train([*words, "--arch", "misspelt"]) == 2
    assert "--arch" in capsys.readouterr().err

    @register_model("no_reading")
    class NoReading(nn.Module):
        """A model without a plan of reading."""

        Config = MODELS.config("transformer")

        @classmethod
        def build(cls, config: object, task: object) -> NoReading:
            return cls()

    assert train([*words, "--arch", "no_reading"]) == 1
    assert "NoReading" in capsys.readouterr().err


class Bias(AttentionPosition):
    """A number for each distance and head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, 5))

    def distance_scores(self, q: Tensor, max_distance: int) -> Tensor:
        return self.table


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--attention", "linear"], "--attention linear"),
        (["--position-fusion", "concat"], "--position-fusion concat"),
        (["--position-fusion", "add"], ""),
    ],
)
def test_what_a_family_inside_attention_cannot_do_is_refused(
    words: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_position("bias")(lambda settings: Position(attention=lambda heads, d_head: Bias(heads)))
    how = ["--arch", "transformer_tiny", "--position", "bias", "--save-dir", str(tmp_path / "run"), *SMALL, *words]
    assert train([str(DATA), *how]) == (2 if named else 0)
    assert named in capsys.readouterr().err
