"""docnmt-convert as a command: what follows it, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import small_system
import torch
from parallel_text import ParallelText

marian = pytest.importorskip("marian_models", reason="transformers is not installed")

from docnmt.apps.convert import convert as convert_main  # noqa: E402
from docnmt.cli.convert import main as convert  # noqa: E402
from docnmt.cli.inspect import main as inspect  # noqa: E402
from docnmt.cli.preprocess import main as preprocess  # noqa: E402
from docnmt.cli.train import main as train  # noqa: E402
from docnmt.cli.translate import main as translate  # noqa: E402
from docnmt.core.corpus import read_meta  # noqa: E402
from docnmt.core.training.checkpoint import load_model  # noqa: E402

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian folder."""
    path = tmp_path_factory.mktemp("models") / "marian"
    marian.write(path)
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    path = tmp_path / "marian"
    path.mkdir()
    for file in folder.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path


def test_raw_text_is_translated_with_nothing_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert convert([str(folder), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    texts = marian.sentences(12, "source", seed=1)
    source = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode() + b"\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", source)
    options = ["--max-len-a", "0", "--max-len-b", "10", "--min-len", "0", "--input-format", "corpus", "--beam", "2"]
    assert translate(["--path", str(tmp_path / "own"), *options]) == 0
    expected, _ = marian.Loaded(folder).translate(texts, 2, 10)
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in expected)
    assert inspect([str(tmp_path / "own")]) == 0
    assert "--activation                   swish" in capsys.readouterr().out


@pytest.mark.parametrize("separate", [False, True])
def test_models_start_from_it_on_data_of_its_vocabulary(tmp_path: Path, separate: bool, capsys: Capture) -> None:
    """A sentence model and a document model, with the options that the conversion wrote down."""
    marian.write(tmp_path / "marian", separate=separate)
    own, data, text = tmp_path / "own", tmp_path / "data", ParallelText(tmp_path)
    assert convert([str(tmp_path / "marian"), str(own), "--to", "docnmt"]) == 0
    files = [f"--trainpref={text.path('train')}", f"--validpref={text.path('dev')}", f"--destdir={data}"]
    assert preprocess(["-s", "en", "-t", "de", *files, f"--srcdict={own}"]) == 0
    assert read_meta(data)["vocabulary"]["joined"] is False
    for arch, more in (("transformer", []), ("cond_transformer", ["--context-norm", "pre"])):
        start = ["--config", str(own / "model.yaml"), "--finetune-from-model", str(own), "--max-update", "1"]
        run = tmp_path / arch
        assert train([str(data), "--arch", arch, "--save-dir", str(run), *start, *more, "--max-tokens", "500"]) == 0
        assert convert([str(run), str(tmp_path / f"{arch}-back"), "--to", "hf-marian"]) == (arch != "transformer")
    assert train([str(data), "--arch", "transformer", "--save-dir", str(own), "--max-update", "1"]) == 1
    assert str(own) in capsys.readouterr().err
    marian.Loaded(tmp_path / "transformer-back").translate(["A lamp."], 1, 5)


def test_a_folder_is_replaced_only_on_request_and_only_if_it_is_ours(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "own"
    assert convert([str(folder), str(out), "--to", "docnmt"]) == 0
    before = (out / "checkpoint_best.safetensors").read_bytes()
    assert convert([str(folder), str(out), "--to", "docnmt"]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert convert([str(folder), str(folder.parent), "--to", "docnmt", "--overwrite"]) == 1
    assert str(folder.parent) in capsys.readouterr().err

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(convert_main, "write_json", stop)
    assert convert([str(folder), str(out), "--to", "docnmt", "--overwrite"]) == 130
    assert convert([str(folder), str(tmp_path / "new"), "--to", "docnmt"]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
    assert (out / "checkpoint_best.safetensors").read_bytes() == before
    monkeypatch.undo()
    for source in (out, out / "checkpoint_best.safetensors"):
        assert convert([str(source), str(out), "--to", "hf-marian", "--overwrite"]) == 2
        assert str(source) in capsys.readouterr().err
    assert (out / "checkpoint_best.safetensors").read_bytes() == before
    assert convert([str(folder), str(out), "--to", "docnmt", "--overwrite", "--source-lang", "eng"]) == 0
    assert load_model(out).header["task_state"]["languages"] == ["eng", "de"]


def settings(**values: Any) -> Any:
    """Other values in config.json; None removes one."""

    def damage(folder: Path) -> None:
        file = folder / "config.json"
        found = {**json.loads(file.read_text(encoding="utf-8")), **values}
        file.write_text(json.dumps({name: value for name, value in found.items() if value is not None}))

    return damage


def tensors(change: Any) -> Any:
    """Other tensors."""

    def damage(folder: Path) -> None:
        found = safetensors.torch.load_file(folder / "model.safetensors")
        change(found)
        safetensors.torch.save_file(found, folder / "model.safetensors", {"format": "pt"})

    return damage


def only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


QUERY = "model.encoder.layers.0.self_attn.q_proj.weight"
FAULTS: list[tuple[Any, str]] = [
    (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
    (lambda folder: (folder / "vocab.json").unlink(), "vocab.json"),
    (only_a_pickle, "pytorch_model.bin"),
    (lambda folder: (folder / "model.safetensors").write_bytes(b"abc"), "model.safetensors"),
    (lambda folder: (folder / "source.spm").write_bytes(b"\xff\xff"), "source.spm: "),
    (lambda folder: (folder / "source.spm").write_bytes(b""), "source.spm: "),
    (lambda folder: (folder / "config.json").unlink(), "config.json"),
    (lambda folder: (folder / "vocab.json").write_text('{"</s>": 0, "<unk>": 0}'), "vocab.json"),
    (lambda folder: (folder / "vocab.json").write_text('{"</s>": 0, "a": 1}'), "vocab.json"),
    (lambda folder: (folder / "tokenizer_config.json").unlink(), "--source-lang"),
    (settings(model_type="bart"), "'model_type'"),
    (settings(d_model=None), "'d_model'"),
    (settings(d_model=30), "--embed-dim"),
    (settings(activation_function="gelu_new"), "'activation_function'"),
    (settings(normalize_before=True), "'normalize_before'"),
    (settings(decoder_ffn_dim=64), "'encoder_ffn_dim'"),
    (settings(decoder_start_token_id=0), "'decoder_start_token_id'"),
    (settings(eos_token_id=1), "'eos_token_id'"),
    (settings(encoder_layers=3), "'model.encoder.layers.2.self_attn.q_proj.weight'"),
    (settings(encoder_layers=1), "config.json"),
    (settings(encoder_ffn_dim=64, decoder_ffn_dim=64), "config.json"),
    (tensors(lambda found: found.pop(QUERY)), f"'{QUERY}'"),
    (tensors(lambda found: found.pop("model.shared.weight")), "model.shared.weight"),
    (tensors(lambda found: found.update({QUERY: torch.zeros(3, 3)})), "config.json"),
    (tensors(lambda found: found.update({"lm_head.weight": torch.zeros(9, 32)})), "tie_word_embeddings"),
    (
        tensors(lambda found: found.update({"model.shared.weight": found["model.shared.weight"][:50].clone()})),
        "'model.shared.weight'",
    ),
    (
        tensors(lambda found: found.update({"model.encoder.embed_positions.weight": torch.zeros(64, 32)})),
        "embed_positions",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), FAULTS, ids=[message[:40] for _, message in FAULTS])
def test_a_folder_that_cannot_be_converted(
    copy: Path, tmp_path: Path, capsys: Capture, damage: Any, message: str
) -> None:
    damage(copy)
    assert convert([str(copy), str(tmp_path / "own"), "--to", "docnmt"]) in (1, 2)
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("docnmt-convert: error: ")
    assert message in lines[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["marian"]


def test_other_input(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    def said(*words: object) -> str:
        assert convert([*map(str, words)]) in (1, 2)
        return capsys.readouterr().err.strip().splitlines()[-1]

    out = tmp_path / "out"
    (tmp_path / "empty").mkdir()
    own = small_system.save(tmp_path / "own.safetensors")
    assert "nothing" in said(tmp_path / "nothing", out, "--to", "docnmt")
    for to in ("hf-marian", "docnmt"):
        assert "config.json" in said(tmp_path / "empty", out, "--to", to)
    assert str(folder) in said(folder / "config.json", out, "--to", "docnmt")
    assert str(folder) in said(folder / "model.safetensors", out, "--to", "docnmt")
    assert str(folder) in said(folder, out, "--to", "hf-marian")
    assert str(own) in said(own, out, "--to", "docnmt")
    (tmp_path / "text").write_text("no model\n")
    assert "text" in said(tmp_path / "text", out, "--to", "docnmt")
    assert "--source-lang" in said(own, out, "--to", "hf-marian", "-s", "en")
    both = said(own, tmp_path / "text", "--to", "docnmt", "--languages", "en", "-t", "de")
    assert all(each in both for each in ("own.safetensors", "--languages", "--target-lang", "text"))
    assert "--to: " in said(own, out, "--to", "tflite")
    assert "output" in said(own, "--to", "docnmt")
    assert not out.exists()


@pytest.mark.parametrize(
    ("arch", "options", "named"),
    [
        ("transformer", {"norm": "pre"}, "--norm pre"),
        ("transformer", {"position": "learned"}, "--position learned"),
        ("transformer", {"position_fusion": "mul"}, "--position-fusion mul"),
        ("transformer", {"attention": "linear"}, "--attention linear"),
        ("cond_transformer", {}, "'cond_transformer'"),
        ("concat_transformer", {"position": "multi_level"}, "'concat_transformer'"),
        ("concat_transformer", {"source_breaks": False}, "'concat_transformer'"),
    ],
)
def test_what_marian_has_not_is_named(
    tmp_path: Path, capsys: Capture, arch: str, options: dict[str, Any], named: str
) -> None:
    shape = {"norm": "post", "position_fusion": "add", **options} if arch == "transformer" else options
    path = small_system.random_checkpoint(tmp_path / "own.safetensors", arch, **shape)
    assert convert([str(path), str(tmp_path / "out"), "--to", "hf-marian"]) == 1
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
