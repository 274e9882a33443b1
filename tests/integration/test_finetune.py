"""`--finetune-from-model`: a document model that starts exactly where a sentence model is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
import torch
from toy import assert_same_checkpoint
from trainings import LAST, SMALL

from docnmt.cli.train import main as train
from docnmt.core.batch import IGNORE, TranslationBatch, collate, planned_units
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.tokenizer import BRK
from docnmt.core.training.checkpoint import load_checkpoint, load_model, save_checkpoint
from docnmt.core.training.config import TrainingConfig
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.training.start import document_parameters, start_from
from docnmt.options import NoOptions, contradictions, to_dict
from docnmt.registry import ARCHITECTURES, MODELS
from docnmt.runtime.system import UserError

SIZES: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 2, "embed_dim": 32, "heads": 2, "ffn_dim": 48}
POST: dict[str, Any] = {"norm": "post"}
LINEAR: dict[str, Any] = {"attention": "linear", "relative_horizon": 4}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("hier_transformer", {}, {}),
    ("cond_transformer", {}, {"target_context": "summaries"}),
    ("hier_cond_transformer", {}, {"position": "sinusoidal", "summary_input": "embeddings"}),
    ("hier_cond_transformer", {}, {"context_placement": "heads", "levels": 4}),
    ("hier_transformer", POST, {**POST, "context_norm": "pre", "context_sides": "decoder"}),
    ("hier_cond_transformer", POST, {**POST, "context_norm": "pre", "target_context": "summaries"}),
    ("cond_transformer", POST, {**POST, "context_norm": "pre", "context_placement": "heads"}),
    ("hier_transformer", {"position": "rope"}, {"position": "rope"}),
    ("cond_transformer", {"position": "learned"}, {"position": "learned", "context_sides": "encoder"}),
    ("cond_transformer", LINEAR, LINEAR),
    ("cond_transformer", {"position_fusion": "concat"}, {}),
    ("hier_cond_transformer", {"position": "multi_level"}, {"levels": 1}),
    ("hier_cond_transformer", {}, {"target_context": "conditional", "always_own_sentence": True}),
    ("han_encoder", POST, {**POST, "sentence_start": True}),
]
#: Plug-ins whose sequences are documents, of which every layer sees sentences.
BY_SENTENCE: list[tuple[str, dict[str, Any]]] = [
    ("han", {"sentence_start": True}),
    ("g_transformer", {"sentence_start": True, "global_layers": 1}),
]
JOINED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("concat_transformer", {}, {"source_context": 2, "target_window": 3, "position": "multi_level"}),
    ("doc_transformer", POST, POST),
    ("doc_transformer", {"position_fusion": "add"}, {"position_fusion": "concat"}),
    ("doc_transformer", {"position_fusion": "add"}, {}),
    ("scaleformer", {"attention": "linear", "position": "none", "relative_horizon": 4}, {}),
]


def build(name: str, settings: dict[str, Any], seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = MODELS.config(name)(**{**SIZES, **settings})
    assert contradictions(config) == []
    model = small_system.task().build_model(MODELS.get(name), config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # biases and gains, too, are no constants
    return model


def checkpoint(path: Path, name: str, settings: dict[str, Any], **header: Any) -> tuple[Path, Any]:
    """A checkpoint with these settings, and its model."""
    small_system.save(path, f"{name}_tiny")
    stored, model = load_checkpoint(path), build(name, settings)
    sections = {**stored.header["config"], "model": to_dict(MODELS.config(name)(**{**SIZES, **settings}))}
    tensors = {f"model.{key}": value for key, value in small_system.unique_state(model).items()}
    save_checkpoint(path, {**stored.header, "config": sections, **header}, tensors | stored.task_tensors)
    return path, model


def started(path: Path, name: str, settings: dict[str, Any]) -> Any:
    """A new model of this kind that starts from a checkpoint."""
    assert name in ARCHITECTURES
    model = build(name, settings, seed=1)
    config = MODELS.config(name)(**{**SIZES, **settings})
    options = TrainingConfig(arch=name, task="document_translation", finetune_from_model=str(path))
    start_from(model, config, small_system.task(), options)
    return model


def batch(model: Any, documents: list[list[str]]) -> TranslationBatch:
    corpus = small_system.corpus(documents)
    corpus = replace(corpus, target=corpus.source)
    units = planned_units(model.reading, corpus)
    return collate(corpus, units, np.arange(len(units)), model.reading)


@pytest.mark.parametrize(("name", "old", "new"), CASES)
def test_the_start_is_the_sentence_model(tmp_path: Path, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    """In one pass over documents, and in search, whose steps take another route; and new parts learn from the first
    update: their ways out, behind which all is still closed."""
    path, sentence = checkpoint(tmp_path / "old.safetensors", "transformer", old)
    document = started(path, name, new)
    documents = small_system.text(4, 5)
    given = batch(document, documents)
    with torch.no_grad():
        assert torch.equal(document(given), sentence(given))
    results = [
        list(translate_corpus([model], small_system.task(), small_system.corpus(documents), *search()))
        for model in (sentence, document)
    ]
    assert [r.text for r in results[0]] == [r.text for r in results[1]]
    scores = [[r.nbest[0].score for r in translations] for translations in results]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5, abs=1e-5)
    CrossEntropy(label_smoothing=0.0)(document.train(), given)[0].backward()
    gradients = {name: parameter.grad for name, parameter in document.named_parameters() if parameter.numel()}
    ends = ("context.attention.output.weight", "position.scale", "han.sum.opening")
    first = [g for n, g in gradients.items() if n.endswith(ends)]
    assert first
    assert all(g is not None and bool((g != 0).any()) for g in first)
    behind = [g for n, g in gradients.items() if n.endswith("context.attention.query.weight")]
    assert all(g is not None and not g.any() for g in behind)


def search() -> tuple[GenerationConfig, BeamSearchConfig]:
    return GenerationConfig(), BeamSearchConfig(beam=2, max_len_a=0.5, max_len_b=4)


@pytest.mark.parametrize(("name", "old", "new"), JOINED)
def test_joined_units_start_as_it_on_single_sentences(
    tmp_path: Path, name: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    path, sentence = checkpoint(tmp_path / "old.safetensors", "transformer", old)
    document = started(path, name, new)
    with torch.no_grad():
        given = batch(document, [[line] for line in small_system.text(1, 9)[0]])
        assert torch.equal(document(given), sentence(given))


@pytest.mark.parametrize(("name", "new"), BY_SENTENCE)
def test_plugins_of_documents_start_with_the_loss_of_the_sentence_model(
    tmp_path: Path, name: str, new: dict[str, Any]
) -> None:
    """The loss of all words; at a sentence's end they have `<brk>` to write, which no sentence model knows."""
    path, sentence = checkpoint(tmp_path / "old.safetensors", "transformer", {})
    document = started(path, name, new)
    documents = small_system.text(4, 5)
    whole, lines = batch(document, documents), batch(sentence, documents)
    assert len(whole.target.layout.sentences) < len(lines.target.layout.sentences)
    assert torch.equal(document(whole), sentence(lines))
    for given in (whole, lines):
        given.labels[given.labels <= BRK] = IGNORE
    losses = [CrossEntropy(label_smoothing=0.1)(*pair)[0] for pair in ((document, whole), (sentence, lines))]
    assert torch.equal(*losses)
    losses[0].backward()
    opening = [p for n, p in document.named_parameters() if n.endswith("sum.opening")]
    assert opening
    assert all(bool(p.grad.any()) for p in opening)
    assert document_parameters(document) >= {n for n, _ in document.named_parameters() if ".sum." in n}


def test_a_model_of_the_same_kind_takes_all_weights(tmp_path: Path) -> None:
    path, old = checkpoint(tmp_path / "old.safetensors", "hier_cond_transformer", {})
    new = started(path, "hier_cond_transformer", {"dropout": 0.3, "top_t": 2})
    assert all(torch.equal(a, b) for a, b in zip(old.state_dict().values(), new.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    ("old", "name", "new", "message"),
    [
        ("transformer", "cond_transformer", {"context_placement": "replace"}, "--context-placement"),
        ("transformer", "cond_transformer", {"heads": 4}, "--heads"),
        ("transformer", "cond_transformer", {"position": "rope"}, "--position"),
        ("transformer", "hier_transformer", {"position_count": "document"}, "--position-count"),
        ("transformer", "hier_transformer", {"learned_words": True}, "--position"),
        ("hier_transformer", "cond_transformer", {}, "'hier_transformer'.*'cond_transformer'"),
        ("cond_transformer", "cond_transformer", {"levels": 2}, "--levels"),
    ],
)
def test_what_cannot_start_there_is_refused(
    tmp_path: Path, old: str, name: str, new: dict[str, Any], message: str
) -> None:
    path, _ = checkpoint(tmp_path / "old.safetensors", old, {})
    with pytest.raises(UserError, match=message):
        started(path, name, new)


def test_a_run_starts_there_and_resumes_without_it(data: Path, tmp_path: Path) -> None:
    """Two routes to the loss of the start; then a run in two parts, the old one gone, equals a run in one."""
    basic = [str(data), *SMALL.split(), "--max-tokens", "150"]
    assert train([*basic, "--arch", "transformer", "--save-dir", str(tmp_path / "old"), "--max-update", "6"]) == 0
    command = [*basic, "--arch", "hier_cond_transformer", "--finetune-from-model", str(tmp_path / "old")]
    command += ["--finetune-lr-scale", "0.2", "--finetune-freeze", "encoder.*.feed_forward.*"]
    assert train([*command, "--save-dir", str(tmp_path / "start"), "--max-update", "0"]) == 0
    losses = []
    for run in ("old", "start"):
        loaded = load_model(tmp_path / run)
        loaded.task.data_dir = data
        units = loaded.task.dataset("valid", loaded.model)
        with torch.no_grad():
            loss, _, _ = CrossEntropy(label_smoothing=0.0)(loaded.model, units.batch(np.arange(len(units.units))))
        losses.append(float(loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)

    whole, parts = (["--save-dir", str(tmp_path / run), "--max-update"] for run in ("whole", "parts"))
    assert train([*command, *whole, "5"]) == 0
    assert train([*command, *parts, "2"]) == 0
    (tmp_path / "old").rename(tmp_path / "gone")
    assert train([*command, *parts, "5"]) == 0
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)
    recorded = load_checkpoint(tmp_path / "parts" / LAST).header["config"]["training"]
    assert recorded["finetune_from_model"] == str(tmp_path / "old")
    assert f"finetune-from-model: {tmp_path / 'old'}" in (tmp_path / "parts" / "config.yaml").read_text()


def test_what_a_run_cannot_start_from_is_named(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run goes on from where it began; what is not there; and shares of the rate at which nothing would learn."""
    basic = [str(data), *SMALL.split(), "--arch", "transformer", "--max-update", "1", "--save-dir"]
    assert train([*basic, str(tmp_path / "old")]) == 0
    for folder, options, status, named in (
        ("old", ["--finetune-from-model", str(tmp_path)], 2, "--finetune-from-model"),
        ("new", ["--finetune-from-model", str(tmp_path / "nothing")], 1, "nothing"),
        ("new", ["--finetune-lr-scale", "1"], 2, "--finetune-from-model"),
        ("new", ["--finetune-from-model", str(tmp_path / "old"), "--finetune-lr-scale", "0"], 2, "--finetune-lr-scale"),
    ):
        capsys.readouterr()
        assert train([*basic, str(tmp_path / folder), *options]) == status
        assert named in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_new_concatenation_learns_at_the_full_rate(data: Path, tmp_path: Path) -> None:
    """It counted as a part of the sentence model; the run goes on with the same rates, the old one gone."""
    basic = [str(data), *SMALL.split(), "--max-tokens", "150"]
    first = [*basic, "--arch", "transformer", "--position-fusion", "add", "--save-dir", str(tmp_path / "old")]
    assert train([*first, "--max-update", "2"]) == 0
    command = [*basic, "--arch", "cond_transformer", "--position-fusion", "concat", "--finetune-lr-scale", "0"]
    command += ["--finetune-from-model", str(tmp_path / "old"), "--save-dir", str(tmp_path / "new"), "--max-update"]
    assert train([*command, "2"]) == 0
    begun = load_checkpoint(tmp_path / "new" / LAST).group("model")["encoder.embedding.fusion.projection.weight"]
    assert not torch.equal(*begun.split(begun.shape[0], dim=1))  # it began as addition, [I; I]
    (tmp_path / "old").rename(tmp_path / "gone")
    assert train([*command, "3"]) == 0
    moved = load_checkpoint(tmp_path / "new" / LAST).group("model")["encoder.embedding.fusion.projection.weight"]
    assert not torch.equal(moved, begun)


@pytest.mark.parametrize("fusion", ["add", "concat"])
def test_a_model_of_the_same_kind_takes_another_fusion(fusion: str, tmp_path: Path) -> None:
    path, old = checkpoint(tmp_path / "old.safetensors", "transformer", {"position_fusion": fusion})
    given = batch(old, small_system.text(4, 5))
    with torch.no_grad():
        assert torch.equal(started(path, "transformer", {})(given), old(given))


def test_a_model_without_fusion_is_refused_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = checkpoint(tmp_path / "old.safetensors", "transformer", {}, model="numbers")
    monkeypatch.setattr("docnmt.core.training.start.stored_model_config", lambda _: NoOptions())
    with pytest.raises(UserError, match="'numbers'"):
        started(path, "cond_transformer", {})


@pytest.mark.parametrize("arch", ["transformer", "cond_transformer"])
def test_levels_that_a_sentence_model_has_not(
    arch: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their parameters have no numbers: they began no document model, and counted as new."""
    basic = [str(data), *SMALL.split(), "--position", "multi_level", "--max-update", "1", "--save-dir"]
    assert train([*basic, str(tmp_path / "old"), "--arch", "transformer"]) == 0
    capsys.readouterr()
    started = [*basic, str(tmp_path / "new"), "--arch", arch, "--finetune-from-model", str(tmp_path / "old")]
    status = train([*started, "--finetune-lr-scale", "0"])
    assert status == 0 if arch != "transformer" else "nothing would learn" in capsys.readouterr().err


def test_a_start_that_is_not_finite_is_named(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    basic = [str(data), *SMALL.split(), "--arch", "transformer", "--max-update", "1", "--save-dir"]
    assert train([*basic, str(tmp_path / "old")]) == 0
    good = load_checkpoint(tmp_path / "old" / LAST)
    name = next(name for name in good.tensors if name.startswith("model."))
    tensors = {**good.tensors, name: torch.full_like(good.tensors[name], torch.nan)}
    save_checkpoint(tmp_path / "nan.safetensors", good.header, tensors)
    assert train([*basic, str(tmp_path / "new"), "--finetune-from-model", str(tmp_path / "nan.safetensors")]) == 1
    assert "not finite" in capsys.readouterr().err


def test_old_parts_learn_at_a_share_of_the_rate(data: Path, tmp_path: Path) -> None:
    """With 0 they stay bit for bit while the new ones move."""
    basic = [str(data), *SMALL.split(), "--max-tokens", "150", "--finetune-from-model", str(tmp_path / "old")]
    assert train([*basic[:-2], "--arch", "transformer", "--save-dir", str(tmp_path / "old"), "--max-update", "3"]) == 0
    old = load_checkpoint(tmp_path / "old" / LAST).group("model")
    document = [*basic, "--arch", "cond_transformer"]
    frozen = [*document, "--finetune-lr-scale", "0", "--save-dir", str(tmp_path / "frozen"), "--max-update", "4"]
    assert train(frozen) == 0
    new = load_checkpoint(tmp_path / "frozen" / LAST).group("model")
    assert all(torch.equal(new[name], tensor) for name, tensor in old.items())
    assert all(bool((new[name] != 0).any()) for name in new if name.endswith("context.attention.output.weight"))


def test_frozen_parameters_keep_their_values(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others learn as if they were alone; they have no moments."""
    basic = [str(data), *SMALL.split(), "--arch", "transformer", "--max-tokens", "150"]
    assert train([*basic, "--save-dir", str(tmp_path / "old"), "--max-update", "2"]) == 0
    frozen = [*basic, "--finetune-from-model", str(tmp_path / "old"), "--finetune-freeze", "encoder.*", "*.norm.*"]
    assert train([*frozen, "--save-dir", str(tmp_path / "whole"), "--max-update", "2"]) == 0
    old, new = (load_checkpoint(tmp_path / run / LAST) for run in ("old", "whole"))
    stays = {name for name in old.group("model") if name.startswith("encoder.") or ".norm." in name}
    moved = {name for name, tensor in new.group("model").items() if not torch.equal(tensor, old.group("model")[name])}
    assert moved == set(old.group("model")) - stays
    moments = {name.split(".", 2)[2] for name in new.tensors if name.startswith("optimizer.")}
    assert moments == moved
    capsys.readouterr()
    for patterns in (["nothing*"], ["*"]):
        command = [*frozen[:-2], *patterns, "--save-dir", str(tmp_path / "new"), "--max-update", "1"]
        assert train(command) == 2
        assert f"--finetune-freeze {patterns[0]}" in capsys.readouterr().err
