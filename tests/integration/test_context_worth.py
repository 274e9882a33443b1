"""What context is worth: the validation data in foreign documents and without context, at each validation."""

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
from trainings import LAST, SMALL

from docnmt.cli.train import main as train
from docnmt.core.batch import planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.training.start import start_as_sentence_model
from docnmt.core.translation_task import TranslationDataset, foreign_order, in_foreign_documents

READERS: list[tuple[str, dict[str, Any]]] = [
    ("hier_transformer", {}),
    ("cond_transformer", {"target_context": "conditional"}),
    ("hier_cond_transformer", {}),
    ("doc_transformer", {}),
    ("concat_transformer", {"source_context": 2, "target_window": 2}),
]


def corpus(documents: list[list[str]]) -> ParallelCorpus:
    """Documents that are their own translations."""
    source = small_system.corpus(documents)
    return replace(source, target=source.source)


def mean_nll(model: Any, of: ParallelCorpus, window: int | None = None) -> float:
    units = planned_units(model.reading, of, window=window)
    with torch.no_grad():
        batch = TranslationDataset(of, units, model.reading, "").batch(np.arange(len(units)))
        loss, size, _ = CrossEntropy(label_smoothing=0.0)(model, batch)
    return float(loss) / size


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
    place = np.concatenate([[0], *(np.arange(n) for n in lengths)])[1:] + 1
    assert (place[order] < 2 * place).all()
    assert (place < 2 * place[order]).all()
    assert (order == foreign_order(offsets, seed)).all()


def test_most_of_what_is_read_is_of_other_documents() -> None:
    document = np.repeat(np.arange(30), 10)[foreign_order(np.arange(0, 310, 10))].reshape(30, 10)
    others = [(row[:, None] != row)[~np.eye(10, dtype=bool)].mean() for row in document]
    assert np.mean(others) > 0.9


def test_a_sentence_model_is_the_same_everywhere() -> None:
    """Every sentence is there once, with its own translation: what it reads has changed, and nothing else."""
    of, model = corpus(small_system.text(9, 6)), build("transformer", position="none")
    foreign = in_foreign_documents(of)
    assert mean_nll(model, foreign) == pytest.approx(mean_nll(model, of), rel=1e-6)
    assert not np.array_equal(foreign.source.tokens, of.source.tokens)
    assert task(of).other_contexts("valid", model) == {}


@pytest.mark.parametrize(("name", "settings"), READERS)
def test_no_context_is_every_sentence_as_a_document(name: str, settings: dict[str, Any]) -> None:
    """Two routes: the units of the data set, and a corpus with a document for each sentence."""
    documents = small_system.text(5, 6)
    model = build(name, position="sinusoidal", **settings)
    none = task(corpus(documents)).other_contexts("valid", model)["none"]
    with torch.no_grad():
        loss, size, _ = CrossEntropy(label_smoothing=0.0)(model, none.batch(np.arange(len(none.sizes))))
    apart = mean_nll(model, corpus([[line] for document in documents for line in document]))
    assert float(loss) / size == pytest.approx(apart, rel=1e-5)
    assert apart != pytest.approx(mean_nll(model, corpus(documents)), rel=1e-4)


@pytest.mark.parametrize(("name", "settings"), READERS[:3])
def test_context_is_worth_nothing_where_none_is_read(name: str, settings: dict[str, Any]) -> None:
    model = build(name, position="sinusoidal", **settings)
    start_as_sentence_model(model, ())
    of = corpus(small_system.text(5, 6))
    others = task(of).other_contexts("valid", model)
    with torch.no_grad():
        batches = [each.batch(np.arange(len(each.sizes))) for each in others.values()]
        found = [CrossEntropy(label_smoothing=0.0)(model, batch) for batch in batches]
    assert [float(loss) / size for loss, size, _ in found] == pytest.approx([mean_nll(model, of)] * 2, rel=1e-5)


def test_one_document_has_no_foreign_ones() -> None:
    assert list(task(corpus(small_system.text(1, 6))).other_contexts("valid", build("doc_transformer"))) == ["none"]


def test_a_run_says_it_and_trains_as_without_it(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed and logged at each validation; the same in a resumed run; weights and best scores do not know of it."""
    command = [str(data), *SMALL.split(), "--arch", "cond_transformer", "--max-tokens", "150", "--log-interval", "2"]
    runs = {"whole": ["6"], "parts": ["2", "6"], "off": ["6"]}
    for run, limits in runs.items():
        more = ["--no-context-worth"] if run == "off" else []
        for limit in limits:
            every = ["--validate-interval-updates", "2", "--max-update", limit, *more]
            assert train([*command, "--save-dir", str(tmp_path / run), *every]) == 0
        said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("context is worth")]
        logged = log(tmp_path / run, ["valid"])
        assert len(logged) == 3
        names = ("nll", "nll_foreign", "nll_none")
        if more:
            assert said == []
            assert all("nll_none" not in line for line in logged)
        else:
            expected = [[f"{line[name]:.4f}" for name in names] for line in logged]
            assert [line.split("(")[1] for line in said] == [
                f"true {true}, foreign {foreign}, none {none})" for true, foreign, none in expected
            ]
            assert said[-1].startswith(f"context is worth {logged[-1]['nll_none'] - logged[-1]['nll']:.4f} nats")
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    for other in ("parts", "off"):
        assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / other / LAST)


def test_a_model_of_sentences_says_nothing(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(data), *SMALL.split(), "--arch", "transformer", "--max-update", "1", "--save-dir"]
    assert train([*command, str(tmp_path / "run")]) == 0
    assert "context is worth" not in capsys.readouterr().err
    assert [line.keys() & {"nll_foreign", "nll_none"} for line in log(tmp_path / "run", ["valid"])] == [set()]
