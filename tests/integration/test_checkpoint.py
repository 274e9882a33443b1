"""The checkpoint file: what goes in comes out, and a damaged or hostile one is one clear error."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import random
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import small_system
import torch
import torch.nn.functional as F
from torch import Tensor
from toy import train, write_toy_data

from docnmt.cli.preprocess import main as preprocess
from docnmt.core.corpus import ParallelCorpus, read_meta
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.training.checkpoint import (
    average_checkpoints,
    checksums_of,
    load_checkpoint,
    load_model,
    save_checkpoint,
)
from docnmt.core.translation_task import DocumentTranslation
from docnmt.registry import TASKS
from docnmt.runtime import device as runtime
from docnmt.runtime.system import UserError, skipped


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint_last of the toy."""
    folder = tmp_path_factory.mktemp("checkpoint")
    assert train(write_toy_data(folder / "data"), folder / "run", "--max-update", "3") == 0
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


@pytest.mark.parametrize(
    ("part", "damage", "complaint"),
    [
        ("header", lambda h: h.update(format=2), "format is 2"),
        ("header", lambda h: h.pop("config"), "'config'"),
        ("header", lambda h: h.update(task=3), "'$.task'"),
        ("header", lambda h: h["task_state"].clear(), "'vocabulary'"),
        ("header", lambda h: h["config"]["model"].update(width="wide"), "'wide'"),
        ("header", lambda h: h["config"]["model"].update(depth=3), "'depth'"),
        ("header", lambda h: h["config"]["model"].update(width=10**13), "configuration"),
        ("header", lambda h: h["config"]["model"].update(merge="mine"), "'mine'"),
        ("header", lambda h: h.update(model="mystery"), "--user-dir"),
        ("tensors", lambda t: t.pop("model.hidden.weight"), "'model.hidden.weight'"),
        ("tensors", lambda t: t.update({"model.extra": torch.zeros(1)}), "'model.extra'"),
        ("tensors", lambda t: t.update({"model.hidden.bias": torch.zeros(3)}), "is torch.float32 of shape (3,), the"),
        ("tensors", lambda t: t.update({"model.hidden.bias": torch.zeros(8).int()}), "'model.hidden.bias'"),
        ("tensors", lambda t: t.pop("tokenizer.model"), "tokenizer.model"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_checkpoint_is_named(
    good: Path, tmp_path: Path, part: str, damage: Callable[[Any], Any], complaint: str
) -> None:
    path = changed(good, tmp_path / "bad.safetensors", **{part: damage})
    with pytest.raises(UserError) as caught:
        load_model(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


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
        ({"header": lambda h: h["progress"].update(batches=2**61)}, f"{2**61:,}"),  # else epochs without end
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


# A flipped bit anywhere in a data folder or a checkpoint is one line that names the file, and the tensor.


def flip(path: Path, bit: int) -> bytes:
    """Flip one bit of a file; returns what it held."""
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(damaged)
    return content


def refused(path: Path, bit: int, read: Callable[[], object]) -> str:
    """What reading says after a bit was flipped, which is undone again; nothing where the content stays the same."""
    content = flip(path, bit)
    try:
        read()
        return ""
    except UserError as error:
        said = str(error)
    finally:
        path.write_bytes(content)
    assert str(path.parent) in said
    assert "\n" not in said
    return said


def open_all(folder: Path) -> None:
    """Everything that a training and a translation read of a folder."""
    DocumentTranslation.load(DocumentTranslationConfig(), folder)
    for split in read_meta(folder)["splits"]:
        ParallelCorpus.open(folder, split)


def test_a_bit_of_every_file_of_a_data_folder(data: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(data, tmp_path / "data"))
    draw = random.Random(0)
    for file in sorted(data.iterdir()):
        for _ in range(60 if file.name == "meta.json" else 3):
            error = refused(file, draw.randrange(8 * file.stat().st_size), lambda: open_all(data))
            assert file.name in error or file.name == "meta.json"  # there, a damaged name is another file's
            assert error
    open_all(data)
    flip(data / "train.en.text.bin", 13)
    with pytest.raises(UserError, match=r"train\.en\.text\.bin"):
        open_all(data)
    with skipped():
        open_all(data)


def test_a_file_that_is_cut_off_is_named_without_checksums(data: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(data, tmp_path / "data"))
    for file in sorted(data.iterdir()):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        with skipped(), pytest.raises(UserError, match=re.escape(file.name)):
            open_all(data)
        file.write_bytes(content)
    text = data / "train.en.text.bin"
    text.write_bytes(b"\xff" * text.stat().st_size)
    with skipped(), pytest.raises(UserError, match="line 1"):
        ParallelCorpus.open(data, "train").source_text[0]


def test_many_bits_of_a_checkpoint(good: Path) -> None:
    draw = random.Random(1)
    size = 8 * good.stat().st_size
    begin = 64 + 8 * struct.unpack("<Q", good.read_bytes()[:8])[0]
    for number in range(150):
        bit = draw.randrange(begin) if number % 2 else draw.randrange(begin, size)
        error = refused(good, bit, lambda: load_checkpoint(good))
        assert str(good) in error
        assert bit < begin or "tensor '" in error
    load_checkpoint(good)


@pytest.mark.parametrize("task", ["text_classification", "nli"])
def test_a_bit_of_the_data_of_other_tasks(task: str, tmp_path: Path) -> None:
    columns = 3 if task == "nli" else 2
    rows = [
        ["label", "text", "text2"],
        *([("neutral", "entailment")[n % 2], f"This is text {n}", f"Some text {n}"] for n in range(20)),
    ]
    (tmp_path / "rows.tsv").write_text("".join("\t".join(row[:columns]) + "\n" for row in rows))
    paths = ["--train", str(tmp_path / "rows.tsv"), "--valid", str(tmp_path / "rows.tsv")]
    assert preprocess(["--task", task, *paths, "--destdir", str(tmp_path / "data")]) == 0
    model, draw = SimpleNamespace(position_count="unit"), random.Random(2)

    def read() -> None:
        made: Any = TASKS.get(task).load(TASKS.config(task)(), tmp_path / "data")
        for split in ("train", "valid"):
            made.dataset(split, model)

    read()
    for file in sorted((tmp_path / "data").iterdir()):
        for _ in range(3):
            assert refused(file, draw.randrange(8 * file.stat().st_size), read), file


def test_a_damaged_log_is_named_and_does_not_block_resuming(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(good.parent, tmp_path / "run"))
    log = (run / "train.jsonl").read_bytes()
    for damage in (
        b"\xff\xfe\x00\n",
        b'{"update": "2"}\n',
        b"[" * 100_000 + b"\n",
        b'{"update": 99999999999999999999}\n',
    ):
        (run / "train.jsonl").write_bytes(damage + log + b'{"event": "tr')
        assert train(good.parents[1] / "data", run, "--max-update", "4") == 0
        error = capsys.readouterr().err
        assert f"warning: {run / 'train.jsonl'}:1: " in error
        assert error.count("train.jsonl:") == 1  # the last one is only what a killed process did not finish
        assert (run / "train.jsonl").read_bytes().startswith(log)
        shutil.copytree(good.parent, run, dirs_exist_ok=True)


def test_a_header_that_asks_for_the_moon(tmp_path: Path) -> None:
    """`encoder_layers: 10**9` took all memory, or five minutes."""
    path = small_system.save(tmp_path / "model.safetensors")
    stored = load_checkpoint(path)
    for name, value, complaint in (
        ("encoder_layers", 10**9, "--encoder-layers: "),
        ("encoder_layers", 900, "--encoder-layers .*900"),
        ("ffn_dim", 100_000, "--ffn-dim .*100000"),
        ("max_positions", 10**12, "--max-positions: "),
    ):
        header = json.loads(json.dumps(stored.header))
        header["config"]["model"][name] = value
        save_checkpoint(tmp_path / "moon.safetensors", header, stored.tensors)
        with pytest.raises(UserError, match=complaint):
            load_model(tmp_path / "moon.safetensors")


def test_a_mean_says_whose_task_options_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With other ones the same weights may give other results: a classifier's `--max-length`."""
    first, last = small_system.save(tmp_path / "first.safetensors"), tmp_path / "last.safetensors"
    stored = load_checkpoint(first)
    header = json.loads(json.dumps(stored.header))
    header["config"]["task"]["resolutions"] = [1, 4]
    save_checkpoint(last, header, stored.tensors)
    average_checkpoints([first, last], tmp_path / "mean.safetensors")
    assert "--resolutions is [] in" in capsys.readouterr().err
    assert load_checkpoint(tmp_path / "mean.safetensors").header["config"] == header["config"]


# What `tune` decides; where it depends on how a process starts, in processes of their own.


#: What `tune` sets in the environment.
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.fixture
def untuned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as if nothing had been tuned; afterwards it is as it was."""
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    for name in ("DOCNMT_TUNE", *CACHES):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(runtime, "_prepares", False)
    monkeypatch.setattr(runtime, "_trains_linear", False)
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_in_training_onednn_computes_linear_layers_where_it_is_exact(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(runtime, "_product_error", lambda: error)
    runtime.tune(new_shapes=True)
    assert runtime.trains_linear() == (error == 0)
    with contextlib.suppress(KeyError), runtime.linear_products():
        assert torch.get_float32_matmul_precision() == ("medium" if error == 0 else "highest")
        raise KeyError
    assert torch.get_float32_matmul_precision() == "highest"
    assert runtime.tune().matmul == "default" or not error  # in search, too
    assert not runtime.trains_linear()
    one, other = runtime.new_shapes(), runtime.new_shapes()  # of two threads, the first of which leaves first
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == ("medium" if error == 0 else "highest")


def test_row_invariance_notices_a_product_that_depends_on_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = F.linear
    runtime._linear_invariant.cache_clear()
    monkeypatch.setattr(F, "linear", lambda x, weight: linear(x, weight) + len(x) * 1e-6)
    assert not runtime.row_invariant()
    runtime._linear_invariant.cache_clear()
