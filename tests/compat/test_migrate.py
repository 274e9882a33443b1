"""Names of earlier versions are understood, in checkpoints and in files of options; names of none are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from docnmt import registry as migrate
from docnmt.cli.train import main as train
from docnmt.cli.train import parse
from docnmt.core.training.checkpoint import load_checkpoint, load_model, read_header
from docnmt.registry import CHANGES, CONFIG_VERSION, TensorChange
from docnmt.runtime.system import UsageError, UserError

V1 = Path(__file__).parent / "v1"
CONTINUE = ["--config", "resume/config.yaml", "--max-update", "7"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(V1, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "resume" / "checkpoint_last.safetensors"


def change(path: Path, header: Callable[[dict[str, Any]], object]) -> None:
    """Alter a checkpoint's header."""
    with safetensors.safe_open(path, framework="pt") as file:
        values = json.loads(file.metadata()["docnmt"])
    header(values)
    values.pop("checksums", None)  # which a file of an earlier version does not have
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, metadata={"docnmt": json.dumps(values)})


@pytest.mark.parametrize("each", CHANGES, ids=lambda each: each.name)
def test_every_change(each: migrate.Change) -> None:
    model = each.models[0] if each.models else "any"
    value = (each.same_as or (7,))[0]
    stored = {each.section: {each.name: value, "other": 1}}
    kept = {"other": 1} if each.new is None else {each.new: value, "other": 1}
    assert migrate.migrate(stored, each.version - 1, model) == {each.section: kept}
    assert migrate.migrate(stored, each.version, model) == stored
    if each.models:  # of one model: its old name is an alias there
        return
    assert migrate.migrate_file({each.name.replace("_", "-"): value}, []) == ({each.new: value} if each.new else {})
    assert migrate.migrate_file({each.name: value}, [each.name]) == {each.name: value}  # a plug-in's, say
    assert migrate.gone(each.name)


def test_an_option_of_another_model_is_not_touched() -> None:
    stored = {"model": {"relative_distance": 3}}
    assert migrate.migrate(stored, 1, "mine") == stored


def test_what_is_written_is_of_today(folder: Path) -> None:
    assert train(CONTINUE) == 0
    header, _ = read_header(folder)
    assert header["config_version"] == CONFIG_VERSION
    assert "save_interval_minutes" not in header["config"]["run"]


def test_an_unknown_option_stops_translating_and_resuming(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(folder, lambda h: h["config"]["model"].update(depth=3))
    with pytest.raises(
        UsageError, match=r"checkpoint_last\.safetensors: configuration of the model: unknown key 'depth'"
    ):
        load_model(folder)
    assert train(CONTINUE) == 2
    assert "checkpoint_last.safetensors: configuration of the model: unknown key 'depth'" in capsys.readouterr().err


def test_a_dropped_option_that_was_used_stops_resuming_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = migrate.Change(version=2, section="optimization", name="rho", same_as=(1.0,), instead="it is 1")
    monkeypatch.setattr(migrate, "CHANGES", (*CHANGES, dropped))
    change(folder, lambda h: h["config"]["optimization"].update(rho=1.0))
    assert train(CONTINUE) == 0
    change(folder, lambda h: h.update(config_version=1) or h["config"]["optimization"].update(rho=2.0))
    load_model(folder)
    assert train(CONTINUE) == 2
    error = capsys.readouterr().err
    assert "configuration of the optimization: unknown key 'rho': does not exist any more: it is 1" in error


@pytest.mark.parametrize("each", [each for each in CHANGES if each.training], ids=lambda each: each.name)
def test_how_a_model_was_trained_once_stops_resuming_alone(
    each: migrate.Change, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder, lambda h: h.update(config_version=2) or h["config"][each.section].update({each.name: 0.7}))
    load_model(folder)
    assert train(CONTINUE) == 2
    assert f"unknown key '{each.name}': does not exist any more" in capsys.readouterr().err


def test_a_newer_version_is_refused(folder: Path) -> None:
    change(folder, lambda h: h.update(config_version=CONFIG_VERSION + 1))
    wanted = rf"its options are of version {CONFIG_VERSION + 1} \(written by docnmt 0\.1\.0\)"
    with pytest.raises(UserError, match=wanted):
        load_checkpoint(folder)


def test_typed_options_of_earlier_versions_are_explained(tmp_path: Path) -> None:
    words = ["data", "--arch", "transformer_tiny", "--save-dir", "new", "--save-interval-minutes", "1"]
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert "--save-interval-minutes: does not exist any more: a run saves every 15 minutes" in str(caught.value)


def test_tensors_of_another_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the next version called the last layer norm of encoder and decoder `last`: model and optimizer follow."""
    old = load_checkpoint(folder)
    renamed = TensorChange(
        version=CONFIG_VERSION + 1,
        models=("transformer",),
        pattern=r"(encoder|decoder)\.norm\.(\w+)",
        new=r"\1.last.\2",
    )
    monkeypatch.setattr(migrate, "TENSOR_CHANGES", (renamed,))
    new = load_checkpoint(folder)
    assert torch.equal(new.tensors["model.encoder.last.weight"], old.tensors["model.encoder.norm.weight"])
    assert "optimizer.exp_avg.decoder.last.bias" in new.tensors
    assert "model.encoder.norm.weight" not in new.tensors
    assert "model.encoder.last.weight" in read_header(folder)[1]
    assert len(new.tensors) == len(old.tensors)
