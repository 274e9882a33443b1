"""docnmt-convert as a command: what follows it, and what it refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import small_system
import torch
from commands import translated
from parallel_text import ParallelText
from small_system import target_log_probs as log_probs

from docnmt.apps.convert import convert as convert_main
from docnmt.apps.convert.sentence_model import SentenceModel
from docnmt.apps.convert.transformers_folder import added_tokens
from docnmt.cli.convert import main as convert
from docnmt.cli.inspect import main as inspect
from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.train import main as train
from docnmt.core.corpus import (
    ParallelCorpus,
    read_meta,
)
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.tokenizer import BOS
from docnmt.core.training.checkpoint import (
    LoadedModel,
    load_checkpoint,
    load_model,
    unique_state,
)
from docnmt.runtime.system import UserError

marian = pytest.importorskip("marian_models", reason="transformers is not installed")


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
    return shutil.copytree(folder, tmp_path / "marian")


def test_raw_text_is_translated_with_nothing_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert convert([str(folder), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    texts = marian.sentences(12, "source", seed=1)
    options = ["--max-len-a", "0", "--max-len-b", "10", "--min-len", "0", "--input-format", "corpus"]
    output = translated(tmp_path / "own", "\n".join(texts) + "\n", monkeypatch, *options)
    assert output.splitlines() == marian.Loaded(folder).translate(texts, 2, 10)[0]
    capsys.readouterr()
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
        config = {**json.loads(file.read_text(encoding="utf-8")), **values}
        file.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))

    return damage


def tensors(change: Any) -> Any:
    """Other tensors."""

    def damage(folder: Path) -> None:
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        change(weights)
        safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})

    return damage


QUERY = "model.encoder.layers.0.self_attn.q_proj.weight"
FAULTS: list[tuple[Any, str]] = [
    (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
    (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "pytorch_model.bin"),
    (lambda folder: (folder / "model.safetensors").write_bytes(b"abc"), "model.safetensors"),
    (lambda folder: (folder / "source.spm").write_bytes(b"\xff\xff"), "source.spm: "),
    (lambda folder: (folder / "vocab.json").write_text('{"</s>": 0, "<unk>": 0}'), "vocab.json"),
    (lambda folder: (folder / "tokenizer_config.json").unlink(), "--source-lang"),
    (settings(model_type="bart"), "'model_type'"),
    (settings(d_model=None), "'d_model'"),
    (settings(activation_function="gelu_new"), "'activation_function'"),
    (settings(decoder_ffn_dim=64), "'encoder_ffn_dim'"),
    (settings(dropout=float("nan")), "dropout"),
    (settings(dropout=10**400), "'dropout'"),
    (settings(decoder_start_token_id=-1, pad_token_id=-1), "'pad_token_id'"),
    (lambda folder: (folder / "added_tokens.json").write_text('{"zzz": 5}'), "row 5"),
    (tensors(lambda weights: weights.update({"model.shared.weight": torch.zeros(())})), "'model.shared.weight'"),
    (settings(encoder_layers=3), "'model.encoder.layers.2.self_attn.q_proj.weight'"),
    (tensors(lambda weights: weights.pop(QUERY)), f"'{QUERY}'"),
    (tensors(lambda weights: weights.update({QUERY: weights[QUERY].to(torch.int8)})), f"'{QUERY}'"),
    (tensors(lambda weights: weights.pop("model.shared.weight")), "model.shared.weight"),
    (tensors(lambda weights: weights.update({"lm_head.weight": torch.zeros(9, 32)})), "tie_word_embeddings"),
    (
        tensors(lambda weights: weights.update({"model.shared.weight": weights["model.shared.weight"][:50].clone()})),
        "'model.shared.weight'",
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


@pytest.mark.parametrize(
    ("name", "content"),
    [("tokenizer_config.json", {"added_tokens_decoder": {"9" * 5000: "<x>"}}), ("added_tokens.json", {"<x>": True})],
)
def test_rows_of_added_tokens_are_numbers(tmp_path: Path, name: str, content: Any) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(UserError, match=name):
        added_tokens(tmp_path)


def test_attention_of_a_plug_in_is_not_exported(tmp_path: Path) -> None:
    """A subclass passed, and what it adds was missing in the file."""
    loaded: Any = load_model(small_system.random_checkpoint(tmp_path / "own.safetensors", "transformer"))
    sentence = SentenceModel(tmp_path, loaded.model, loaded.model_config, loaded.task)
    assert not convert_main.attention_problems(sentence)
    attention = loaded.model.decoder.stack[0].sublayer("attention")
    attention.__class__ = type("Gated", (type(attention),), {})
    assert convert_main.attention_problems(sentence)


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


# docnmt-convert: the numbers of transformers' Marian models and ours are the same, both ways.


SOURCES, TARGETS = marian.sentences(60, "source", seed=5), marian.sentences(60, "target", seed=6)
LIMIT = 12  # subwords of a translation


@dataclass
class System:
    """A Marian folder, what docnmt makes of it, and what that becomes on the way back."""

    folder: Path

    @cached_property
    def theirs(self) -> Any:
        return marian.Loaded(self.folder / "marian")

    @cached_property
    def ours(self) -> LoadedModel:
        return load_model(self.folder / "own")

    @cached_property
    def back(self) -> Any:
        return marian.Loaded(self.folder / "back")


@pytest.fixture(scope="module", params=marian.SHAPES)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> System:
    folder = tmp_path_factory.mktemp("system")
    marian.write(folder / "marian", **marian.SHAPES[request.param])
    for source, to, form in (("marian", "own", "docnmt"), ("own", "back", "hf-marian"), ("back", "again", "docnmt")):
        assert convert([str(folder / source), str(folder / to), "--to", form]) == 0
    return System(folder)


def columns(theirs: Any, names: list[str]) -> list[int]:
    """The column of transformers' logits for each of our entries; `<s>` is its <pad>."""
    tokenizer = theirs.tokenizer
    table = tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder
    return [table.get(name, -1) if number != BOS else tokenizer.pad_token_id for number, name in enumerate(names)]


def test_texts_are_cut_into_the_same_subwords(system: System) -> None:
    theirs, task = system.theirs, system.ours.task
    subwords = [task.source_tokenizer.pieces(ids) for ids in task.source_tokenizer.encode(SOURCES)]
    assert [[*pieces, "</s>"] for pieces in subwords] == theirs.pieces(SOURCES) == system.back.pieces(SOURCES)


@pytest.mark.parametrize("side", ["theirs", "back"])
def test_logits_are_the_same(system: System, side: str) -> None:
    theirs, ours = getattr(system, side), system.ours
    there = columns(theirs, ours.task.target_tokenizer.vocabulary())
    known = [number for number, column in enumerate(there) if column >= 0]
    assert len(ours.task.target_tokenizer.vocabulary()) - len(known) == (2 if side == "theirs" else 0)
    chosen = [there[number] for number in known]
    spread = 0.0
    expected = theirs.logits(SOURCES, TARGETS)
    for (logits, probabilities), other in zip(log_probs(ours, SOURCES, TARGETS), expected, strict=True):
        torch.testing.assert_close(logits[:, known], other[:, chosen], atol=1e-5, rtol=0)
        torch.testing.assert_close(probabilities[:, known], other.log_softmax(-1)[:, chosen], atol=1e-5, rtol=0)
        spread = max(spread, float(other.std()))
    assert spread > 0.5  # the numbers are no zeros


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_the_same(system: System, beam: int) -> None:
    task: Any = system.ours.task
    corpus = ParallelCorpus.from_lines([SOURCES], task.source_tokenizer)
    search = BeamSearchConfig(beam=beam, max_len_a=0, max_len_b=LIMIT, min_len=0)
    results = [*translate_corpus([system.ours.model], task, corpus, GenerationConfig(), search)]
    text, scores = [result.text for result in results], [result.nbest[0].score for result in results]
    assert len(set(text)) > 1  # they depend on what is translated
    for loaded in (system.theirs, system.back) if beam == 1 else (system.theirs,):
        other, their_scores = loaded.translate(SOURCES, beam, LIMIT)
        assert text == other
        if their_scores is not None:
            assert scores == pytest.approx(their_scores, rel=1e-5, abs=1e-4)


OWN: list[dict[str, Any]] = [
    {"activation": "gelu"},
    {"activation": "swish", "output_bias": True, "decoder_layers": 1},
    {"share_embeddings": False},
    {"tie_output": False, "scale_embeddings": False},
    {"share_embeddings": False, "tie_output": False, "separate": True, "output_bias": True},
]


@pytest.mark.parametrize("settings", OWN)
def test_a_model_of_docnmt_goes_there_and_comes_back(tmp_path: Path, settings: dict[str, Any]) -> None:
    own = small_system.random_checkpoint(tmp_path / "own.safetensors", norm="post", position_fusion="add", **settings)
    ours = load_model(own)
    assert convert([str(own), str(tmp_path / "marian"), "--to", "hf-marian"]) == 0
    assert convert([str(tmp_path / "marian"), str(tmp_path / "again"), "--to", "docnmt"]) == 0
    lines = small_system.lines(60, seed=3)
    theirs, again = marian.Loaded(tmp_path / "marian"), load_model(tmp_path / "again")
    there = columns(theirs, ours.task.target_tokenizer.vocabulary())
    for (logits, _), other in zip(log_probs(ours, lines, lines[::-1]), theirs.logits(lines, lines[::-1]), strict=True):
        torch.testing.assert_close(logits, other[:, there], atol=1e-5, rtol=0)
    assert again.model_config == ours.model_config
    assert again.task.state().json == ours.task.state().json
    tensors = [{**unique_state(loaded.model), **loaded.task.state().tensors} for loaded in (ours, again)]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensor, tensors[1][name]) for name, tensor in tensors[0].items())


def test_a_target_language_is_one_piece_at_the_beginning(tmp_path: Path) -> None:
    marian.write(tmp_path / "marian", codes=(">>deu<<", ">>nld<<"))
    for source, to, form in (("marian", "own", "docnmt"), ("own", "back", "hf-marian")):
        assert convert([str(tmp_path / source), str(tmp_path / to), "--to", form]) == 0
    texts = [f">>{code}<< {text}" for text in SOURCES for code in ("deu", "nld")]
    tokenizer: Any = load_model(tmp_path / "own").task
    subwords = [tokenizer.source_tokenizer.pieces(ids) for ids in tokenizer.source_tokenizer.encode(texts)]
    expected = marian.Loaded(tmp_path / "marian").pieces(texts)
    assert [[*pieces, "</s>"] for pieces in subwords] == [["▁" + pieces[0], *pieces[1:]] for pieces in expected]
    assert marian.Loaded(tmp_path / "back").pieces(texts) == expected


def test_tokens_that_were_added_are_words(tmp_path: Path) -> None:
    """transformers finds them everywhere, docnmt where they stand by themselves."""
    marian.write(tmp_path / "marian", codes=(">>deu<<",))
    theirs = marian.Loaded(tmp_path / "marian")
    theirs.tokenizer.add_tokens(["<x>", "neu"])
    theirs.model.resize_token_embeddings(len(theirs.tokenizer), mean_resizing=False)
    theirs.model.final_logits_bias.normal_()
    for part in (theirs.tokenizer, theirs.model):
        part.save_pretrained(tmp_path / "added")
    assert (tmp_path / "added/added_tokens.json").is_file()
    assert convert([str(tmp_path / "added"), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    texts = ["<x> ba bu.", "ba <x> bu neu", "neu"]
    ours, theirs = load_model(tmp_path / "own"), marian.Loaded(tmp_path / "added")
    task: Any = ours.task
    subwords = [task.source_tokenizer.pieces(ids) for ids in task.source_tokenizer.encode(texts)]
    table = {**theirs.tokenizer.encoder, **theirs.tokenizer.added_tokens_encoder}
    names = {row: piece for piece, row in table.items()}
    expected = [[names[row] for row in theirs.tokenizer(text).input_ids] for text in texts]
    assert [[*(p[1:] if p in ("▁<x>", "▁neu") else p for p in pieces), "</s>"] for pieces in subwords] == expected
    there = [table.get(name.removeprefix("▁") if name in ("▁<x>", "▁neu") else name, -1)
             for name in task.target_tokenizer.vocabulary()]  # fmt: skip
    known = [n for n, row in enumerate(there) if row >= 0 and n != BOS]
    for (logits, _), other in zip(log_probs(ours, texts, TARGETS[:3]), theirs.logits(texts, TARGETS[:3]), strict=True):
        torch.testing.assert_close(logits[:, known], other[:, [there[n] for n in known]], atol=1e-5, rtol=0)
    # and the target's code, put before every text by the task
    tagged = task.between(target_lang="deu").source_tokenizer
    assert tagged.encode(texts) == task.source_tokenizer.encode([f">>deu<< {text}" for text in texts])


def test_there_and_back_nothing_changes(system: System) -> None:
    one, two = (load_checkpoint(system.folder / name / "checkpoint_best.safetensors") for name in ("own", "again"))
    assert one.tensors.keys() == two.tensors.keys()
    assert all(torch.equal(tensor, two.tensors[name]) for name, tensor in one.tensors.items())
    assert {**one.header, "config": None} == {**two.header, "config": None}
    assert one.header["config"]["model"] == two.header["config"]["model"]
