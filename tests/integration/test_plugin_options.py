"""Position families of plug-ins bring options: typed, checked, stored, handed to what they build; tutorial, wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import Tensor, nn

from docnmt import registry
from docnmt.cli.command import run
from docnmt.cli.generate import main as generate
from docnmt.cli.train import main as train
from docnmt.cli.train import parse
from docnmt.core.training.checkpoint import load_model
from docnmt.modules.positions import Position, PositionSettings
from docnmt.options import option
from docnmt.registry import import_plugins, register_position

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


def period_family(settings: PositionSettings, *, period: int) -> Position:
    """A learned encoding that repeats itself."""
    return Position(input=Period(settings.d_model, period))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for registered in registry.ALL:
        monkeypatch.setattr(registered, "_entries", dict(registered._entries))
    register_position("period", config=PeriodConfig)(period_family)


@pytest.mark.parametrize(
    ("words", "position", "fusion"),
    [
        (["--arch", "doc_transformer"], "multi_level", "concat_addition"),
        (["--arch", "hier_cond_transformer", "--position", "learned"], "learned", "concat_addition"),
        (["--arch", "cond_transformer", "--position", "rope"], "rope", "concat_addition"),  # it has nothing to fuse
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
    assert train([*words, "--period", "3"]) == 0
    loaded = load_model(run)
    assert loaded.model_config.period == 3
    assert loaded.model.encoder.embedding.position.table.weight.shape == (3, 16)
    assert generate([str(DATA), "--path", run, "--scoring", "none", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert train([*words, "--period", "4", "--max-update", "3"]) == 2
    assert "--period" in capsys.readouterr().err
    shutil.rmtree(run)
    assert train([*words, "--period", "0"]) == 2
    assert "--period" in capsys.readouterr().err


# What goes wrong inside a plug-in is said to be there.


def test_a_python_error_names_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a_broken_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text("def work() -> None:\n    raise TypeError('not this way')\n")

    def body(words: list[str]) -> None:
        import_plugins(str(folder))
        import a_broken_plugin  # type: ignore[import-not-found]

        a_broken_plugin.work()

    assert run("docnmt-translate", body, []) == 1
    assert f"{folder / '__init__.py'}, line 2" in capsys.readouterr().err


# The tutorial notebook runs from its first cell to its last.


TUTORIAL = Path(__file__).parents[2] / "docs" / "guide" / "tutorial.ipynb"


def test_the_tutorial_runs(tmp_path: Path) -> None:
    nbformat, nbclient, _ = (pytest.importorskip(name) for name in ("nbformat", "nbclient", "ipykernel"))
    notebook = nbformat.read(TUTORIAL, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # what they were on somebody's machine
    (training,) = (cell for cell in notebook.cells if "max_update=60" in cell.source)
    training.source = training.source.replace("max_update=60", "max_update=2")  # what it learns is not looked at
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("layer 1, head 0:" in output.get("text", "") for output in shown)


# The wheel holds all that the package needs outside of the repository.


ROOT = Path(__file__).parents[2]


def test_every_file_of_the_package_is_in_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    copy = tmp_path / "source"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("needs the repository")
    for name in tracked:
        if name.startswith("docnmt/") or name in ("pyproject.toml", "README.md", "LICENSE"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    words = ["wheel", str(copy), "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if "invalid command 'bdist_wheel'" in done.stderr:
        pytest.skip("needs wheel, or a newer setuptools")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in tracked if name.startswith("docnmt/")} <= set(names)
