"""The checkpoint file: what goes in comes out, and a damaged or hostile one is one clear error."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor
from toy import ToyModel, train, write_toy_data

from docnmt.core.training import checkpoint as loading
from docnmt.core.training.checkpoint import (
    checksums_of,
    load_checkpoint,
    load_model,
    save_checkpoint,
    unique_state,
)
from docnmt.runtime.system import UserError


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint_last of the toy."""
    folder = tmp_path_factory.mktemp("checkpoint")
    assert train(write_toy_data(folder / "data"), folder / "run", "--max-update", "2") == 0
    return folder / "run" / "checkpoint_last.safetensors"


def changed(
    good: Path,
    path: Path,
    header: Callable[[dict[str, Any]], Any] = lambda h: None,
    tensors: Callable[[dict[str, Tensor]], Any] = lambda t: None,
) -> Path:
    """A copy of a checkpoint with something changed in it, still a valid safetensors file."""
    checkpoint = load_checkpoint(good)
    content, new_header = dict(checkpoint.tensors), copy.deepcopy(checkpoint.header)
    header(new_header)
    tensors(content)
    text = json.dumps(new_header)
    safetensors.torch.save_file(content, path, metadata={"docnmt": text, "xxh3": checksums_of(text, content)})
    return path


def test_tied_parameters_are_stored_once() -> None:
    model = ToyModel(vocabulary=5, width=3, dropout=0.0)
    assert "output.weight" not in unique_state(model)
    model.output.weight = torch.nn.Parameter(model.output.weight.detach().clone())
    assert "output.weight" in unique_state(model)


def test_views_are_stored_without_what_they_are_views_of(tmp_path: Path, good: Path) -> None:
    base = torch.arange(100.0)
    header = load_checkpoint(good).header
    save_checkpoint(tmp_path / "a", header, {"model.a": base[10:20], "model.b": base[15:30], "model.c": base[::7]})
    loaded = load_checkpoint(tmp_path / "a").tensors
    assert torch.equal(loaded["model.b"], base[15:30])
    assert torch.equal(loaded["model.c"], base[::7])
    assert sum(tensor.untyped_storage().nbytes() for tensor in loaded.values()) == 4 * (10 + 15 + 15)


def test_permissions_are_those_of_other_new_files(tmp_path: Path, good: Path) -> None:
    checkpoint = load_checkpoint(good)
    old = os.umask(0o027)
    try:
        save_checkpoint(tmp_path / "new.safetensors", checkpoint.header, checkpoint.tensors)
    finally:
        os.umask(old)
    assert (tmp_path / "new.safetensors").stat().st_mode & 0o777 == 0o640


def test_load_model_is_the_saved_one(good: Path) -> None:
    loaded = load_model(good)
    stored = load_checkpoint(good)
    for name, tensor in unique_state(loaded.model).items():
        assert torch.equal(tensor, stored.tensors[f"model.{name}"])
    assert loaded.task.vocabulary == 11
    assert loaded.header["config"]["training"]["max_tokens"] == 40


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (lambda h: h.update(format=2), "format is 2"),
        (lambda h: h.update(format="1"), "format is 1"),
        (lambda h: h.pop("config"), "'config'"),
        (lambda h: h.update(task=3), "'$.task'"),
        (lambda h: h["task_state"].clear(), "'vocabulary'"),
        (lambda h: h["config"].update(model=[]), "'object'"),
        (lambda h: h["config"]["model"].update(width="wide"), "'wide'"),
        (lambda h: h["config"]["model"].update(width={}), "its header"),
        (lambda h: h["config"]["model"].update(depth=3), "'depth'"),
        (lambda h: h["config"]["model"].update(width=-1), "configuration"),
        (lambda h: h["config"]["model"].update(width=10**13), "configuration"),
        (lambda h: h["config"]["model"].update(merge="mine"), "'mine'"),
        (lambda h: h["config"]["model"].update(position="logs"), "'logs'"),
        (lambda h: h.update(plugins=3), "its header"),
        (lambda h: h.update(model="mystery"), "--user-dir"),
    ],
)
def test_hostile_headers(good: Path, tmp_path: Path, header: Callable[[Any], Any], complaint: str) -> None:
    path = changed(good, tmp_path / "bad.safetensors", header=header)
    with pytest.raises(UserError) as caught:
        load_model(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_plugin_that_has_changed_is_named(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(good, tmp_path / "of.safetensors", header=lambda h: h.update(plugins={"mine.py": "0" * 8}))
    for content, said in (("0" * 8, False), ("1" * 8, True)):
        monkeypatch.setattr(loading, "imported", lambda content=content: {"mine.py": content, "other.py": "2"})
        load_model(path)
        assert ("was made by another state of mine.py" in capsys.readouterr().err) is said


@pytest.mark.parametrize(
    ("tensors", "complaint"),
    [
        (lambda t: t.pop("model.hidden.weight"), "'model.hidden.weight'"),
        (lambda t: t.update({"model.extra": torch.zeros(1)}), "'model.extra'"),
        (lambda t: t.update({"model.hidden.bias": torch.zeros(3)}), "is torch.float32 of shape (3,), the arch"),
        (lambda t: t.update({"model.hidden.bias": torch.zeros(8).int()}), "'model.hidden.bias'"),
        (lambda t: t.pop("tokenizer.model"), "tokenizer.model"),
    ],
)  # fmt: skip
def test_wrong_tensors(good: Path, tmp_path: Path, tensors: Callable[[Any], Any], complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        load_model(changed(good, tmp_path / "bad.safetensors", tensors=tensors))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ({"tensors": lambda t: t.update({"optimizer.step.hidden.bias": torch.zeros(3)})}, "optimizer.step.hidden.bias"),
        ({"tensors": lambda t: t.pop("optimizer.step.hidden.bias")}, "'optimizer.step.hidden.bias'"),
        ({"tensors": lambda t: t.update({"optimizer.exp_avg.ghost": torch.zeros(3)})}, "optimizer.exp_avg.ghost"),
        ({"tensors": lambda t: [t.pop(n) for n in list(t) if n.startswith("opt")]}, "optimizer"),
        ({"header": lambda h: h["progress"].update(update=-3)}, "progress"),
        ({"header": lambda h: h["progress"].update(history=[["a", 1]])}, "progress"),
        ({"header": lambda h: h["progress"].pop("epoch")}, "progress"),
    ],
)  # fmt: skip
def test_training_does_not_continue_from_damage(
    good: Path, tmp_path: Path, damage: dict[str, Any], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    changed(good, run / "checkpoint_last.safetensors", **damage)
    before = (run / "checkpoint_last.safetensors").read_bytes()
    assert train(good.parent.parent / "data", run, "--max-update", "4") == 1
    error = capsys.readouterr().err
    assert complaint in error
    assert len(error.splitlines()) == 1
    assert (run / "checkpoint_last.safetensors").read_bytes() == before


def test_training_does_not_go_on_behind_the_end_of_an_epoch(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Epoch after epoch would have no batch, without end."""
    run = tmp_path / "run"
    run.mkdir()
    changed(good, run / "checkpoint_last.safetensors", header=lambda h: h["progress"].update(batches=2**61))
    assert train(good.parent.parent / "data", run, "--max-update", "9") == 1
    assert "2,305,843,009,213,693,952" in capsys.readouterr().err


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.write_text, (tmp_path / "exploded", "boom"))

    (tmp_path / "bomb.safetensors").write_bytes(pickle.dumps(Bomb()))
    torch.save({"model": Bomb()}, tmp_path / "zip.safetensors")
    for name in ("bomb", "zip"):
        with pytest.raises(UserError):
            load_model(tmp_path / f"{name}.safetensors")
    assert not (tmp_path / "exploded").exists()
