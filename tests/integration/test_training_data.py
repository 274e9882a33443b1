"""What training makes of corpora: pieces of several sizes, and several corpora with weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import build
from toy import assert_same_checkpoint, log
from trainings import LAST, SMALL, backwards

from docnmt.cli.train import main as train
from docnmt.core.batch import IGNORE, collate, planned_units
from docnmt.core.corpus import ParallelCorpus, offsets_of
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.translate import token_log_probs
from docnmt.core.training.checkpoint import load_model
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.training.start import start_as_sentence_model
from docnmt.core.translation_task import DocumentTranslation, Mixture, TranslationDataset, foreign_order
from docnmt.core.units import Units, context_units, cut_units, document_units, resolution_units
from docnmt.modules.document_context import ConditionalAttention, tell_update


def rows(units: Any) -> list[tuple[int, ...]]:
    return list(
        zip(
            units.source_first.tolist(), units.first.tolist(), units.last.tolist(), units.document.tolist(), strict=True
        )
    )


@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True))
def test_every_resolution_tiles_every_document(lengths: list[int], resolutions: list[int]) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    expected = set()
    for size in resolutions:
        for document, (begin, length) in enumerate(zip(offsets.tolist(), lengths, strict=False)):
            for first in range(begin, begin + length, size or length or 1):
                last = begin + length if size == 0 else min(first + size, begin + length)
                expected.add((first, first, last, document))
    assert rows(resolution_units(offsets, resolutions)) == sorted(expected)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 25))
def test_cut_pieces_are_full_and_fit(costs: list[int], limit: int) -> None:
    offsets = np.array([0, len(costs) // 2, len(costs)])
    whole = resolution_units(offsets, [0, 3])
    pieces = rows(cut_units(whole, np.array(costs), limit))
    for _, first, last, _ in pieces:
        assert sum(costs[first:last]) <= limit or last == first + 1
    assert sum(last - first for _, first, last, _ in pieces) == sum(last - first for _, first, last, _ in rows(whole))


def corpus(documents: list[list[str]]) -> ParallelCorpus:
    """Documents that are their own translations."""
    source = small_system.corpus(documents)
    return replace(source, target=source.source)


def loss(model: Any, batch: Any) -> tuple[Any, int]:
    """Summed over a batch, and of how many tokens."""
    total, size, _ = CrossEntropy(label_smoothing=0.0)(model, batch)
    return total, size


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("transformer", {}),
        ("hier_cond_transformer", {}),
        ("doc_transformer", {}),
        ("concat_transformer", {"target_window": 2}),
    ],
)
def test_a_batch_of_two_corpora_is_both_of_their_batches(name: str, settings: dict[str, Any]) -> None:
    """Loss, features and search's memory of a mixed batch are those of its parts."""
    model = build(name, **settings).double()
    of = [corpus(small_system.text(3, 4, seed=seed)) for seed in (1, 2)]
    parts = [
        TranslationDataset(data, planned_units(model.reading, data), model.reading, f"corpus {n}")
        for n, data in enumerate(of, 1)
    ]
    mixture = Mixture.draw(parts, [1.0, 2.0], seed=1, epoch=1)
    counts = [len(part.sizes) for part in parts]
    assert mixture.sizes.tolist() == [*parts[0].sizes, *parts[1].sizes, *parts[1].sizes]
    chosen = np.array([counts[0] + 1, 0, counts[0]])  # of the second, of the first, of the second
    mixed = mixture.batch(chosen)
    apart = [parts[0].batch(np.array([0])), parts[1].batch(np.array([1, 0]))]
    with torch.no_grad():
        assert torch.allclose(model(mixed), torch.cat([model(batch) for batch in apart]), atol=1e-12)
        begins = [model.encode(batch.source).begins for batch in (mixed, *apart)]
    last = torch.cat([begin[:, -1:] for begin in begins[1:]])
    assert torch.equal(begins[0][:, :1], torch.cat([begin[:, :1] for begin in begins[1:]]))
    assert torch.equal(begins[0][:, -1:], last)
    assert mixed.labels.tolist() == [token for batch in apart for token in batch.labels.tolist()]
    assert mixture.describe(chosen).startswith("corpus 1: sentences 1-")
    assert "; corpus 2: sentences" in mixture.describe(chosen)


def test_overlapping_windows_count_a_sentence_once_but_in_training(data: Path) -> None:
    """Validation's loss by two routes: the batches', and the log-probabilities that search's windows give."""
    task = DocumentTranslation.load(DocumentTranslationConfig(), data)
    model = small_system.model("concat_transformer_tiny", of=task, source_context=3, target_window=3, window_stride=1)
    corpus = task.corpus("valid")
    parts, labels = task.dataset("valid", model), int(corpus.target.lengths().sum()) + corpus.num_sentences
    batch = parts.batch(np.arange(len(parts.sizes)))
    assert batch.num_tokens == labels
    with torch.no_grad():
        total, _ = loss(model, batch)
        forced = token_log_probs([model], task, corpus, max_tokens=200)
    assert float(total) == pytest.approx(-sum(scores.sum() for scores in forced), rel=1e-5)
    learning = task.dataset("train", model, training=True)
    units = planned_units(model.reading, task.corpus("train"))
    seen = learning.batch(np.arange(len(learning.sizes))).labels
    assert (units.kept > units.first).any()
    lengths = offsets_of(task.corpus("train").target.lengths() + 1)
    assert (seen >= 0).sum() == (lengths[units.last] - lengths[units.first]).sum()


# `--unit-sentences`: a few sentences whose documents are read around them, and single ones in whole documents.


MODELS: list[tuple[str, dict[str, Any]]] = [
    ("hier_transformer", {}),
    ("cond_transformer", {"top_t": 2, "always_own_sentence": True}),
    ("cond_transformer", {"target_context": "conditional", "attention": "linear"}),
    ("hier_cond_transformer", {"summary_input": "embeddings", "position": "relative"}),
    ("hier_transformer", {"target_context": "summaries", "context_sides": "encoder"}),
]


def dataset_of_units(model: Any, size: int, window: int | None = None) -> TranslationDataset:
    of = corpus(small_system.text(2, 6, seed=3))
    return TranslationDataset(of, context_units(document_units(of.document_offsets), window, size), model.reading, "")


def gradient(model: Any, data: TranslationDataset, chosen: list[int]) -> tuple[float, torch.Tensor]:
    """The summed loss of some units, and its gradient in one vector."""
    model.zero_grad()
    total, _ = loss(model, data.batch(np.array(chosen)))
    total.backward()
    return float(total.detach()), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 5), st.none() | st.sampled_from([0, 1, 2, 3, 4, 2**63]))
def test_units_tile_documents_and_read_inside_them(lengths: list[int], size: int, window: int | None) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    expected = []
    for document, (begin, length) in enumerate(zip(offsets.tolist(), lengths, strict=False)):
        end = begin + length
        for first in range(begin, end, size or length or 1):
            last = end if size == 0 else min(first + size, end)
            before, after = (begin, end) if window is None else (max(begin, first - window), min(end, last + window))
            expected.append((before, first, last, after, document, first))
    units = context_units(document_units(offsets), window, size)
    names = ("source_first", "first", "last", "source_last", "document", "kept")
    assert list(zip(*(getattr(units, name).tolist() for name in names), strict=True)) == expected


@pytest.mark.parametrize(("name", "settings"), MODELS)
@pytest.mark.parametrize("size", [1, 3])
def test_units_read_in_their_documents_are_parts_of_the_whole(name: str, settings: dict[str, Any], size: int) -> None:
    """Loss and gradient of all units, in one batch and one by one, are those of one pass over the documents."""
    model = build(name, **settings).double()
    whole, units = dataset_of_units(model, 0), dataset_of_units(model, size)
    total, slope = gradient(model, whole, list(range(len(whole.sizes))))
    assert len(units.sizes) > len(whole.sizes)
    together = gradient(model, units, list(range(len(units.sizes))))
    alone = [gradient(model, units, [unit]) for unit in range(len(units.sizes))]
    for summed, slopes in (together, (sum(one for one, _ in alone), torch.stack([g for _, g in alone]).sum(0))):
        assert summed == pytest.approx(total, rel=1e-12)
        assert torch.allclose(slopes, slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "settings"), MODELS)
def test_a_window_is_the_document_cut_out_by_hand(name: str, settings: dict[str, Any]) -> None:
    """What a unit with one sentence around it loses: a unit of all three, scored where the first one writes."""
    model = build(name, **{**settings, "position": "none"}).double()
    units = dataset_of_units(model, 2, window=1)
    of = units.corpus
    for number in range(len(units.sizes)):
        unit = units.units
        cut = Units.of(unit.source_first, unit.source_last, unit.document)
        hand = TranslationDataset(of, cut, model.reading, "").batch(np.array([number]))
        inside = np.arange(unit.source_first[number], unit.source_last[number])
        written = (unit.first[number] <= inside) & (inside < unit.last[number])
        labels = hand.labels.masked_fill(~torch.from_numpy(written)[hand.target.layout.sentence_of_token], IGNORE)
        with torch.no_grad():
            expected, size = loss(model, replace(hand, labels=labels))
            own, own_size = loss(model, units.batch(np.array([number])))
        assert (float(own), own_size) == (pytest.approx(float(expected), rel=1e-12), size)


# --read-all-updates: every sentence is read in training only, for so many updates, and the same after a resume.


@pytest.mark.parametrize("arch", ["cond_transformer_tiny", "hier_cond_transformer_tiny"])
def test_every_sentence_is_read_at_first_in_training_only(arch: str) -> None:
    model = small_system.model(arch).double()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    contexts = [module for module in model.modules() if isinstance(module, ConditionalAttention)]
    of = corpus(small_system.text(3, 9, seed=3))
    batch = collate(of, document_units(of.document_offsets), np.arange(3), model.reading)

    def output(top_t: int, read_all: int, update: int, training: bool) -> torch.Tensor:
        for context in contexts:
            context.policy, context.read_all_updates = replace(context.policy, top_t=top_t), read_all
        tell_update(model, update)
        torch.manual_seed(0)
        result: torch.Tensor = model.train(training)(batch).detach()
        return result

    every, one = output(9, 0, 0, True), output(1, 0, 0, True)
    assert not torch.allclose(every, one)
    torch.testing.assert_close(output(1, 5, 4, True), every)
    torch.testing.assert_close(output(1, 5, 5, True), one)
    torch.testing.assert_close(output(1, 5, 4, False), output(1, 0, 0, False))


# `docnmt-train` on documents: what the toy task cannot show.


def test_tensorboard_shows_translations_and_options(data: Path, tmp_path: Path) -> None:
    """The same training with and without it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    command = [str(data), "--arch", "transformer", *SMALL.split(), "--max-tokens", "150", "--max-update", "3"]
    board = ["--tensorboard-logdir", str(tmp_path / "board")]
    for name, more in (("with", board), ("without", [])):
        assert train([*command, "--save-dir", str(tmp_path / name), *more]) == 0
    assert_same_checkpoint(tmp_path / "with" / LAST, tmp_path / "without" / LAST)
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    (shown,) = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("translations/text_summary")]
    source = (data.parent / "valid.en").read_text().splitlines()[:5]
    cells = [row.strip("| ").split(" | ") for row in shown.splitlines()]
    assert cells[0] == ["source", "translation", "reference"]
    assert [row[0] for row in cells[2:]] == source
    assert [row[-1] for row in cells[2:]] == [backwards(line)[0] for line in source]
    options = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"optimization.lr" in options
    assert "valid/loss" in events.Tags()["scalars"]


def test_a_loaded_model_has_the_validation_loss_in_the_log(data: Path, tmp_path: Path) -> None:
    """Two routes to one number: the log's, and the loss of the loaded best model on the validation documents."""
    run = tmp_path / "run"
    command = [str(data), "--arch", "hier_cond_transformer", *SMALL.split(), "--max-tokens", "150"]
    assert train([*command, "--save-dir", str(run), "--max-epoch", "2"]) == 0
    model = load_model(run).model
    dataset = DocumentTranslation.load(DocumentTranslationConfig(), data).dataset("valid", model)
    with torch.no_grad():
        parts = [loss(model, dataset.batch(np.array([unit]))) for unit in range(len(dataset.sizes))]
    nll = sum(float(total) for total, _ in parts) / sum(size for _, size in parts)
    logged = min(log(run, ["valid"]), key=lambda line: line["loss"])["nll"]
    assert nll == pytest.approx(logged, rel=1e-5)


# What context is worth: the validation data in foreign documents and without context, at each validation.


READERS: list[tuple[str, dict[str, Any]]] = [
    ("hier_transformer", {}),
    ("cond_transformer", {"target_context": "conditional"}),
    ("hier_cond_transformer", {}),
    ("doc_transformer", {}),
    ("concat_transformer", {"source_context": 2, "target_window": 2}),
]


def mean_nll(model: Any, of: ParallelCorpus, window: int | None = None) -> float:
    units = planned_units(model.reading, of, window=window)
    with torch.no_grad():
        total, size = loss(model, TranslationDataset(of, units, model.reading, "").batch(np.arange(len(units))))
    return float(total) / size


def task(of: ParallelCorpus) -> Any:
    """A translation task whose validation data this is."""
    made = small_system.task()
    made.data_dir = Path("nowhere")
    made._corpora[made.data_dir, "valid"] = of
    return made


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 3))
def test_sentences_change_places_and_stay_as_far_from_the_beginning(lengths: list[int], seed: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    order = foreign_order(offsets, seed)
    assert sorted(order) == list(range(offsets[-1]))
    positions = np.concatenate([[0], *(np.arange(n) for n in lengths)])[1:] + 1
    assert (positions[order] < 2 * positions).all()
    assert (positions < 2 * positions[order]).all()
    assert (order == foreign_order(offsets, seed)).all()


@pytest.mark.parametrize(("name", "settings"), READERS)
def test_no_context_is_every_sentence_as_a_document(name: str, settings: dict[str, Any]) -> None:
    """Two routes: the units of the data set, and a corpus with a document for each sentence."""
    documents = small_system.text(5, 6)
    model = build(name, position="sinusoidal", **settings)
    none = task(corpus(documents)).other_contexts("valid", model)["none"]
    with torch.no_grad():
        total, size = loss(model, none.batch(np.arange(len(none.sizes))))
    apart = mean_nll(model, corpus([[line] for document in documents for line in document]))
    assert float(total) / size == pytest.approx(apart, rel=1e-5)
    assert apart != pytest.approx(mean_nll(model, corpus(documents)), rel=1e-4)


@pytest.mark.parametrize(("name", "settings"), READERS[:3])
def test_context_is_worth_nothing_where_none_is_read(name: str, settings: dict[str, Any]) -> None:
    model = build(name, position="sinusoidal", **settings)
    start_as_sentence_model(model, ())
    of = corpus(small_system.text(5, 6))
    others = task(of).other_contexts("valid", model)
    with torch.no_grad():
        losses = [loss(model, dataset.batch(np.arange(len(dataset.sizes)))) for dataset in others.values()]
    assert [float(total) / size for total, size in losses] == pytest.approx([mean_nll(model, of)] * 2, rel=1e-5)
