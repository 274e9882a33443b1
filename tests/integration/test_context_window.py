"""`--context-window N`: at most N sentences before and after are read, in search and in contrastive scoring alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from commands import SHORT
from small_models import assert_same, build
from small_models import translate as translated

from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import TokenArray
from docnmt.core.scoring.discourse import ForcedExample
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.search.translate import forced_scores
from docnmt.core.units import Units, context_units, document_units

DOCUMENTS = [small_system.text(1, 6, seed=seed)[0] for seed in (3, 5, 8)]
ARCHITECTURES = ["hier_transformer", "cond_transformer", "hier_cond_transformer"]
SEARCH = BeamSearchConfig(beam=2, lenpen=0.0, max_len_a=0.5, max_len_b=4)


def translate(models: Any, window: int | None, documents: list[list[str]] = DOCUMENTS, **options: Any) -> Any:
    return translated(models, documents, SEARCH, window=window, **options)


THREES = {"source_context": 2, "target_window": 3}


def test_windows_stay_in_their_documents() -> None:
    units = context_units(document_units(np.array([0, 4, 4, 5])), 1)
    found = [getattr(units, name).tolist() for name in ("source_first", "first", "last", "source_last", "document")]
    assert found == [[0, 0, 1, 2, 4], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [2, 3, 4, 4, 5], [0, 0, 0, 0, 2]]


@pytest.mark.parametrize(("name", "window"), [*zip(ARCHITECTURES, (0, 1, 2), strict=True), (ARCHITECTURES[2], 0)])
def test_a_sentence_is_what_its_window_alone_gives(name: str, window: int) -> None:
    """Search against one training pass over a batch that holds just the window, cut out by hand."""
    model, corpus = build(name), small_system.corpus(DOCUMENTS)
    offsets = corpus.document_offsets
    for result in translate(model, window):
        number = result.number
        document = int(np.searchsorted(offsets, number, side="right")) - 1
        first, last = max(number - window, offsets[document]), min(number + window + 1, offsets[document + 1])
        pieces = small_system.tokenizer().vocabulary()
        tokens = [[pieces.index(p) for p in result.nbest[0].pieces] if n == number else [5] for n in range(offsets[-1])]
        whole = replace(corpus, target=TokenArray.from_lists(tokens, 45))
        unit = Units.of(np.array([first]), np.array([last]), np.array([document]))
        data = collate(whole, unit, np.array([0]), model.reading)
        with torch.no_grad():
            log_probs = model.output(model(data)).log_softmax(-1)
        begin, end = data.target.layout.sentence_offsets[number - first : number - first + 2].tolist()
        score = log_probs[range(begin, end), data.labels[begin:end]].sum()
        assert result.nbest[0].score == pytest.approx(float(score), rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_window_as_long_as_the_document_is_the_document(name: str) -> None:
    model = build(name)
    assert_same(translate(model, 9), translate(model, None))


def test_what_lies_outside_changes_nothing_and_what_lies_inside_does() -> None:
    model, sentences = build("cond_transformer", top_t=3), ["the old dog.", "a cat.", "he walks.", "the river.", "it."]

    def changed(place: int, window: int) -> list[bool]:
        other = [line if n != place else "under a new tree." for n, line in enumerate(sentences)]
        before, after = translate(model, window, [sentences]), translate(model, window, [other])
        return [abs(a.nbest[0].score - b.nbest[0].score) > 1e-5 for a, b in zip(before, after, strict=True)]

    assert changed(2, 0) == [False, False, True, False, False]
    assert changed(2, 1) == [False, True, True, True, False]
    assert changed(0, 2) == [True, True, True, False, False]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_batches_change_nothing(name: str) -> None:
    model = build(name)
    many = translate(model, 1, max_tokens=10_000)
    assert_same(many, translate(model, 1, max_tokens=1, batch_size=1))
    assert_same(many, translate(model, 1, max_tokens=90, batch_size=5))
    assert_same(many, [result for document in DOCUMENTS for result in translate(model, 1, [document])])


def test_models_without_context_are_as_they_are() -> None:
    sentence, pair = build("transformer"), build("concat_transformer")
    assert_same(translate(sentence, 1), translate(sentence, None))
    assert_same(translate(pair, 1), translate(pair, None))
    both = [sentence, build("hier_cond_transformer")]
    assert_same(translate(both, 9), translate(both, None))
    assert_same(translate(both, 1), translate(both, 1, max_tokens=30, batch_size=2))


def assert_alone(model: Any, window: int, parts: list[list[str]], kept: slice) -> None:
    """What a window of a document gives, cut out by hand, is what `window` gives; `kept` of each part's sentences."""
    alone = [result for part in parts for result in translate(model, None, [part])[kept]]
    assert_same(translate(model, window), alone)


@pytest.mark.parametrize("window", [0, 2, 5])
def test_windows_that_write_one_sentence_read_so_many_before_it(window: int) -> None:
    """Trained with 3 before it, read with fewer and with more: as a model whose windows are of that size."""
    model = build("concat_transformer", source_context=3)
    parts = [document[max(0, n - window) : n + 1] for document in DOCUMENTS for n in range(len(document))]
    other = build("concat_transformer", source_context=window)
    other.load_state_dict(model.state_dict())
    assert_alone(other, window, parts, slice(-1, None))
    assert_same(translate(model, window), translate(other, None))


@pytest.mark.parametrize(
    ("name", "settings", "window"),
    [("doc_transformer", {}, 1), ("doc_transformer", {}, 3), ("concat_transformer", THREES, 0),
     ("concat_transformer", THREES, 6)],
)  # fmt: skip
def test_texts_of_several_sentences_hold_so_many_and_one_more(name: str, settings: dict[str, Any], window: int) -> None:
    model = build(name, position="sinusoidal", **settings)
    size = window + 1
    parts = [document[n : n + size] for document in DOCUMENTS for n in range(0, len(document), size)]
    other = build("concat_transformer", position="sinusoidal", source_context=window, target_window=size)
    other.load_state_dict(model.state_dict())
    assert_alone(other, window, parts, slice(None))
    assert_same(translate(model, window), translate(other, None))


def test_sliding_windows_overlap_by_as_much_as_in_training() -> None:
    model = build("concat_transformer", source_context=2, target_window=3, window_stride=2)
    for window, stride in ((0, 1), (1, 1), (2, 2), (4, 4)):
        other = build("concat_transformer", source_context=window, target_window=window + 1, window_stride=stride)
        other.load_state_dict(model.state_dict())
        assert_same(translate(model, window), translate(other, None))


def test_windows_of_a_whole_document_are_cut_at_its_token_limit_too() -> None:
    model, corpus = build("doc_transformer"), small_system.corpus(DOCUMENTS)
    whole, pieces = (planned_units(model.reading, corpus, limit=limit, window=3) for limit in (10_000, 12))
    assert (whole.last - whole.first).max() == 4
    assert (pieces.last - pieces.first).max() < 4
    assert set(whole.first) < set(pieces.first)


CONTEXT = (("a dog.", "the tree.", "he sleeps."), ("the cat.", "a house.", "they find."))


@pytest.mark.parametrize("name", [*ARCHITECTURES, "doc_transformer", "concat_transformer"])
def test_contrastive_scores_read_the_last_sentences_only(name: str) -> None:
    """With positions that begin anew in every sentence, the windowed example is the shortened example."""
    settings = {"source_context": 3, "target_window": 3} if name == "concat_transformer" else {}
    model, task = build(name, position="none", **settings), small_system.task()
    example = ForcedExample(CONTEXT[0], "the old river.", CONTEXT[1], "a new river.")
    for window in range(5):
        short = replace(
            example, source_context=CONTEXT[0][max(0, 3 - window) :], target_context=CONTEXT[1][max(0, 3 - window) :]
        )
        found = forced_scores([model], task, [example], context_window=window)
        assert found == pytest.approx(forced_scores([model], task, [short]), rel=1e-5, abs=1e-4)


def test_the_commands_take_it(run: Callable[..., tuple[int, str, str]], folder: Path) -> None:
    options = ["generate", "data", "--path", "run", *SHORT]
    whole, window, none = (
        [line.split("\t")[1] for line in run(*options, *more)[1].splitlines() if line.startswith("D-")]
        for more in ([], ["--context-window", "1", "--results-path", "windowed"], ["--context-window", "0"])
    )
    assert len(whole) == len(window) == len(none)
    assert whole != window != none
    assert json.loads((folder / "windowed" / "scores.json").read_text())["settings"]["context_window"] == 1
    source = (folder / "test.en").read_bytes()
    stream = ["translate", "--path", "run", "--input-format", "corpus", "--context-window", "1", *SHORT]
    assert run(*stream, stdin=source)[1] == (folder / "windowed" / "hypotheses.txt").read_text(encoding="utf-8")
    status, _, err = run(*options, "--context-window", "-1")
    assert status == 2
    assert "--context-window" in err
