"""A flipped bit anywhere in a data folder or a checkpoint is one line that names the file, and the tensor."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import small_system
from toy import train, write_toy_data

from docnmt.cli.average import main as average
from docnmt.cli.inspect import main as inspect
from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.train import main as train_model
from docnmt.core.corpus import ParallelCorpus, read_meta
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.training.checkpoint import load_checkpoint, load_model, read_header, save_checkpoint
from docnmt.core.translation_task import DocumentTranslation
from docnmt.core.vocabularies import stored_tokenizers
from docnmt.other_tasks.options import NliConfig
from docnmt.other_tasks.sentence_vectors.use import Nli
from docnmt.runtime.system import UserError, skipped


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint_last of the toy, with its optimizer."""
    folder = tmp_path_factory.mktemp("damage")
    assert train(write_toy_data(folder / "data"), folder / "run", "--max-update", "3") == 0
    return folder / "run" / "checkpoint_last.safetensors"


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


def test_a_damaged_training_split_is_found_before_the_run_has_a_folder(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(shutil.copytree(data, tmp_path / "data"))
    flip(data / "train.de.tokens.bin", 13)
    run = tmp_path / "run"
    assert train_model([str(data), "--arch", "transformer_tiny", "--save-dir", str(run), "--max-update", "1"]) == 1
    assert "train.de.tokens.bin" in capsys.readouterr().err
    assert not run.exists()


def test_a_bit_of_a_vocabulary_that_is_taken_over(data: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(data, tmp_path / "data"))
    flip(data / "tokenizer.model", 4000)
    with pytest.raises(UserError, match=r"tokenizer\.model"):
        stored_tokenizers(data, "en", "de")


def test_many_bits_of_a_checkpoint(checkpoint: Path) -> None:
    draw = random.Random(1)
    size = 8 * checkpoint.stat().st_size
    begin = 64 + 8 * struct.unpack("<Q", checkpoint.read_bytes()[:8])[0]
    for number in range(150):
        bit = draw.randrange(begin) if number % 2 else draw.randrange(begin, size)
        error = refused(checkpoint, bit, lambda: load_checkpoint(checkpoint))
        assert str(checkpoint) in error
        assert bit < begin or "tensor '" in error
    load_checkpoint(checkpoint)


def test_a_header_by_itself(checkpoint: Path) -> None:
    place = checkpoint.read_bytes().index(b"toy-60-11-0")  # the fingerprint
    assert "header" in refused(checkpoint, 8 * place, lambda: read_header(checkpoint))


def test_tensors_that_are_missing_or_new(checkpoint: Path, tmp_path: Path) -> None:
    tensors = load_checkpoint(checkpoint).tensors
    with safetensors.safe_open(checkpoint, framework="pt") as file:
        metadata = file.metadata()
    for change, complaint in (
        ({n: t for n, t in tensors.items() if n != "model.hidden.bias"}, "'model.hidden.bias'"),
        ({**tensors, "model.more": tensors["model.hidden.bias"].clone()}, "'model.more'"),
    ):
        path = tmp_path / "changed.safetensors"
        safetensors.torch.save_file(change, path, metadata=metadata)
        with pytest.raises(UserError, match=complaint):
            load_checkpoint(path)


def test_inspect_verify(data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(shutil.copytree(data, tmp_path / "data"))
    run = Path(shutil.copytree(checkpoint.parent, tmp_path / "run"))
    assert inspect(["--verify", str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list(data.iterdir()))
    assert f"{data}/train.en.text.bin: holds (xxh3)" in lines
    assert inspect(["--verify", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [str(file) for file in sorted(run.glob("*.safetensors"))]
    flip(data / "train.en.text.bin", 77)
    assert inspect(["--verify", str(data)]) == 1
    assert f"error: {data}/train.en.text.bin: is damaged" in capsys.readouterr().err
    flip(run / checkpoint.name, 8 * checkpoint.stat().st_size - 3)
    assert inspect(["--verify", str(run / checkpoint.name)]) == 1
    assert f"error: {run / checkpoint.name}: tensor '" in capsys.readouterr().err


def test_a_bit_of_the_data_of_other_tasks(tmp_path: Path) -> None:
    lines = ["label\ttext", *(f"{n % 3}\tThis is text number {n} of them." for n in range(30))]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    pairs = ["label\ttext\ttext2", *(f"neutral\tText {n} here\tSome text {n}" for n in range(20))]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs))
    for task, file in (("text_classification", "train.tsv"), ("nli", "pairs.tsv")):
        paths = ["--train", str(tmp_path / file), "--valid", str(tmp_path / file)]
        assert preprocess(["--task", task, *paths, "--destdir", str(tmp_path / task)]) == 0
    from docnmt.other_tasks.classification import TextClassification
    from docnmt.other_tasks.options import TextClassificationConfig

    class Model:
        position_count = "unit"

    model: object = Model()
    draw = random.Random(2)
    for task, kind in (("text_classification", TextClassification), ("nli", Nli)):
        config = TextClassificationConfig() if kind is TextClassification else NliConfig()

        def read(kind: type = kind, config: object = config, task: str = task) -> None:
            made = kind.load(config, tmp_path / task)  # type: ignore[attr-defined]
            for split in ("train", "valid"):
                made.dataset(split, model)

        read()
        for file in sorted((tmp_path / task).iterdir()):
            for _ in range(3):
                assert refused(file, draw.randrange(8 * file.stat().st_size), read), file


def test_a_damaged_log_is_named_and_does_not_block_resuming(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(checkpoint.parent, tmp_path / "run"))
    log = (run / "train.jsonl").read_bytes()
    for damage in (
        b"\xff\xfe\x00\n",
        b'{"update": "2"}\n',
        b"[" * 100_000 + b"\n",
        b'{"update": 99999999999999999999}\n',
    ):
        (run / "train.jsonl").write_bytes(damage + log + b'{"event": "tr')
        assert train(checkpoint.parents[1] / "data", run, "--max-update", "4") == 0
        error = capsys.readouterr().err
        assert f"warning: {run / 'train.jsonl'}:1: " in error
        assert error.count("train.jsonl:") == 1  # the last one is only what a killed process did not finish
        assert (run / "train.jsonl").read_bytes().startswith(log)
        shutil.copytree(checkpoint.parent, run, dirs_exist_ok=True)


def test_weights_that_are_not_numbers(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = load_checkpoint(checkpoint)
    bad = tmp_path / "nan.safetensors"
    broken = {**stored.tensors, "model.hidden.bias": stored.tensors["model.hidden.bias"] / 0}
    save_checkpoint(bad, stored.header, broken)
    with pytest.raises(UserError, match=r"nan\.safetensors.*'model\.hidden\.bias'"):
        load_model(bad)
    assert average(["--inputs", str(checkpoint), str(bad), "--output", str(tmp_path / "mean.safetensors")]) == 1
    assert "'model.hidden.bias'" in capsys.readouterr().err
    assert not (tmp_path / "mean.safetensors").exists()


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
