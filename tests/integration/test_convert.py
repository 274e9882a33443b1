"""docnmt-convert: the numbers of transformers' Marian models and ours are the same, both ways.

The models have random weights and several shapes. Transformers searches by docnmt's algorithm (`marian_models`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

marian = pytest.importorskip("marian_models", reason="transformers is not installed")

import small_system  # noqa: E402
from small_system import target_log_probs as log_probs  # noqa: E402

from docnmt.cli.convert import main as convert  # noqa: E402
from docnmt.core.batch import collate, planned_units  # noqa: E402
from docnmt.core.corpus import ParallelCorpus  # noqa: E402
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig  # noqa: E402
from docnmt.core.search.translate import translate_corpus  # noqa: E402
from docnmt.core.tokenizer import BOS, BRK, MASK  # noqa: E402
from docnmt.core.training.checkpoint import LoadedModel, load_checkpoint, load_model, unique_state  # noqa: E402

SOURCES, TARGETS = marian.sentences(200, "source", seed=5), marian.sentences(200, "target", seed=6)
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


def translations(loaded: LoadedModel, beam: int, **options: Any) -> tuple[list[str], list[float]]:
    task: Any = loaded.task
    corpus = ParallelCorpus.from_lines([SOURCES], task.source_tokenizer)
    search = BeamSearchConfig(beam=beam, max_len_a=0, max_len_b=LIMIT, min_len=0, **options)
    results = list(translate_corpus([loaded.model], task, corpus, GenerationConfig(), search))
    return [result.text for result in results], [result.nbest[0].score for result in results]


def columns(theirs: Any, names: list[str]) -> list[int]:
    """The column of transformers' logits for each of our entries; `<s>` is its <pad>."""
    tokenizer = theirs.tokenizer
    table = tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder
    return [table.get(name, -1) if number != BOS else tokenizer.pad_token_id for number, name in enumerate(names)]


def test_texts_are_cut_into_the_same_subwords(system: System) -> None:
    theirs, task = system.theirs, system.ours.task
    found = [task.source_tokenizer.pieces(ids) for ids in task.source_tokenizer.encode(SOURCES)]
    assert [[*pieces, "</s>"] for pieces in found] == theirs.pieces(SOURCES) == system.back.pieces(SOURCES)


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
    text, scores = translations(system.ours, beam)
    assert len(set(text)) > 1  # they depend on what is translated
    for loaded in (system.theirs, system.back) if beam == 1 else (system.theirs,):
        other, their_scores = loaded.translate(SOURCES, beam, LIMIT)
        assert text == other
        if their_scores is not None:
            assert scores == pytest.approx(their_scores, rel=1e-5, abs=1e-4)


def test_there_and_back_nothing_changes(system: System) -> None:
    one, two = (load_checkpoint(system.folder / name / "checkpoint_best.safetensors") for name in ("own", "again"))
    assert one.tensors.keys() == two.tensors.keys()
    assert all(torch.equal(tensor, two.tensors[name]) for name, tensor in one.tensors.items())
    assert {**one.header, "config": None} == {**two.header, "config": None}
    assert one.header["config"]["model"] == two.header["config"]["model"]


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
    lines = [line for document in small_system.text(40, 8, seed=3) for line in document][:60]
    theirs, again = marian.Loaded(tmp_path / "marian"), load_model(tmp_path / "again")
    there = columns(theirs, ours.task.target_tokenizer.vocabulary())
    for (logits, _), other in zip(log_probs(ours, lines, lines[::-1]), theirs.logits(lines, lines[::-1]), strict=True):
        torch.testing.assert_close(logits, other[:, there], atol=1e-5, rtol=0)
    assert again.model_config == ours.model_config
    assert again.task.state().json == ours.task.state().json
    tensors = [{**unique_state(each.model), **each.task.state().tensors} for each in (ours, again)]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensor, tensors[1][name]) for name, tensor in tensors[0].items())


def test_entries_that_marian_lacks_are_never_written_and_can_be_learned(tmp_path: Path) -> None:
    marian.write(tmp_path / "marian")
    assert convert([str(tmp_path / "marian"), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    found = torch.cat([each for _, each in log_probs(load_model(tmp_path / "own"), SOURCES, TARGETS)])
    assert (found[:, [BRK, MASK]] < -20).all()
    assert torch.isfinite(found).all()


def test_a_target_language_is_one_piece_at_the_beginning(tmp_path: Path) -> None:
    marian.write(tmp_path / "marian", codes=(">>deu<<", ">>nld<<"))
    for source, to, form in (("marian", "own", "docnmt"), ("own", "back", "hf-marian")):
        assert convert([str(tmp_path / source), str(tmp_path / to), "--to", form]) == 0
    texts = [f">>{code}<< {text}" for text in SOURCES for code in ("deu", "nld")]
    tokenizer: Any = load_model(tmp_path / "own").task
    found = [tokenizer.source_tokenizer.pieces(ids) for ids in tokenizer.source_tokenizer.encode(texts)]
    expected = marian.Loaded(tmp_path / "marian").pieces(texts)
    assert [[*pieces, "</s>"] for pieces in found] == [["▁" + pieces[0], *pieces[1:]] for pieces in expected]
    assert marian.Loaded(tmp_path / "back").pieces(texts) == expected


def test_what_the_vocabulary_lacks_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pieces without a row, and rows without a piece (matrices filled up to a round number)."""
    marian.write(tmp_path / "marian")
    table = json.loads((tmp_path / "marian/vocab.json").read_text(encoding="utf-8"))
    left_out = next(piece for piece in table if len(piece) > 3 and piece[1] == "b")
    del table[left_out]
    (tmp_path / "marian/vocab.json").write_text(json.dumps(table), encoding="utf-8")
    assert convert([str(tmp_path / "marian"), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    said = capsys.readouterr().err
    assert said.count("note: 1 ") == 2
    tokenizer: Any = load_model(tmp_path / "own").task
    assert left_out not in tokenizer.source_tokenizer.vocabulary()
    (ids,) = tokenizer.source_tokenizer.encode([left_out[1:]])
    assert tokenizer.source_tokenizer.decode(ids) == left_out[1:]


def test_a_folder_without_the_embeddings_is_refused_by_their_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `MarianModel.save_pretrained` writes it, whose tensors have no `model.` before their names."""
    marian.write(tmp_path / "marian")
    file = tmp_path / "marian/model.safetensors"
    tensors = {name.removeprefix("model."): tensor for name, tensor in safetensors.torch.load_file(file).items()}
    safetensors.torch.save_file(tensors, file, {"format": "pt"})
    assert convert([str(tmp_path / "marian"), str(tmp_path / "own"), "--to", "docnmt"]) == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if " error: " in line]
    assert "model.shared.weight" in error
    assert str(tmp_path / "marian") in error


def test_tokens_that_were_added_are_words(tmp_path: Path) -> None:
    """transformers finds them everywhere, docnmt where they stand by themselves."""
    marian.write(tmp_path / "marian", codes=(">>deu<<",))
    theirs = marian.Loaded(tmp_path / "marian")
    theirs.tokenizer.add_tokens(["<x>", "neu"])
    theirs.model.resize_token_embeddings(len(theirs.tokenizer), mean_resizing=False)
    theirs.model.final_logits_bias.normal_()
    for each in (theirs.tokenizer, theirs.model):
        each.save_pretrained(tmp_path / "added")
    assert (tmp_path / "added/added_tokens.json").is_file()
    assert convert([str(tmp_path / "added"), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    texts = ["<x> ba bu.", "ba <x> bu neu", "neu"]
    ours, theirs = load_model(tmp_path / "own"), marian.Loaded(tmp_path / "added")
    task: Any = ours.task
    found = [task.source_tokenizer.pieces(ids) for ids in task.source_tokenizer.encode(texts)]
    table = {**theirs.tokenizer.encoder, **theirs.tokenizer.added_tokens_encoder}
    names = {row: piece for piece, row in table.items()}
    expected = [[names[row] for row in theirs.tokenizer(text).input_ids] for text in texts]
    assert [[*(p[1:] if p in ("▁<x>", "▁neu") else p for p in pieces), "</s>"] for pieces in found] == expected
    there = [table.get(name.removeprefix("▁") if name in ("▁<x>", "▁neu") else name, -1)
             for name in task.target_tokenizer.vocabulary()]  # fmt: skip
    known = [n for n, row in enumerate(there) if row >= 0 and n != BOS]
    for (logits, _), other in zip(log_probs(ours, texts, TARGETS[:3]), theirs.logits(texts, TARGETS[:3]), strict=True):
        torch.testing.assert_close(logits[:, known], other[:, [there[n] for n in known]], atol=1e-5, rtol=0)
    # and the target's code, put before every text by the task
    tagged = task.between(target_lang="deu").source_tokenizer
    assert tagged.encode(texts) == task.source_tokenizer.encode([f">>deu<< {text}" for text in texts])


def test_windows_of_sentences_are_texts_with_breaks(tmp_path: Path) -> None:
    """A 2-to-2 model: transformers reads and writes `<brk>` between sentences as docnmt does."""
    shape = {"norm": "post", "position_fusion": "add", "source_context": 1, "target_window": 2}
    own = small_system.random_checkpoint(tmp_path / "own.safetensors", "concat_transformer", **shape)
    assert convert([str(own), str(tmp_path / "marian"), "--to", "hf-marian"]) == 0
    ours, theirs = load_model(own), marian.Loaded(tmp_path / "marian")
    lines = [line for document in small_system.text(40, 8, seed=3) for line in document][:40]
    sources, targets = ([each[n : n + 2] for n in range(0, 40, 2)] for each in (lines, lines[::-1]))
    joined = [[" <brk> ".join(pair) for pair in each] for each in (sources, targets)]
    there = columns(theirs, ours.task.target_tokenizer.vocabulary())  # type: ignore[attr-defined]
    expected = theirs.logits(*joined)
    task: Any = ours.task
    read = [ParallelCorpus.from_lines(each, side) for each, side in
            ((sources, task.source_tokenizer), (targets, task.target_tokenizer))]  # fmt: skip
    corpus, model = replace(read[0], target=read[1].source), ours.model
    units = planned_units(model.reading, corpus)  # type: ignore[arg-type]
    batch = collate(corpus, units, np.arange(len(units)), model.reading)  # type: ignore[arg-type]
    with torch.no_grad():
        logits = model.double().output(model(batch))  # type: ignore[operator]
    torch.testing.assert_close(logits, torch.cat(expected)[:, there], atol=1e-5, rtol=0)
