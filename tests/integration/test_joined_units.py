"""Architectures that write several sentences as one sequence: what they read, and as many sentences out as in."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
import torch
from across_batches import NEAR
from small_models import DOCUMENTS, assert_same, batch, build, corpus, translate

from docnmt.core.batch import collate, planned_units, structure_positions
from docnmt.core.corpus import TokenArray
from docnmt.core.scoring.discourse import ForcedExample
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig
from docnmt.core.search.generators import Hypothesis
from docnmt.core.search.scheduler import Job, Scheduler
from docnmt.core.search.translate import (
    SentenceResult,
    Translation,
    forced_scores,
    given_tokens,
    token_log_probs,
    translation,
)
from docnmt.core.tokenizer import BOS, BRK, EOS
from docnmt.core.units import Units, window_units


def test_what_a_joined_document_looks_like() -> None:
    model, data = build("doc_transformer"), corpus()
    units = planned_units(model.reading, data)
    number = next(n for n in range(len(units)) if units.last[n] - units.first[n] > 1)
    one = collate(data, units, np.array([number]), model.reading)
    assert data.target is not None
    sides = [
        [side[s].tolist() for s in range(units.first[number], units.last[number])]
        for side in (data.source, data.target)
    ]
    source, target = ([token for sentence in side for token in [BRK, *sentence]][1:] for side in sides)
    assert one.source.tokens.tolist() == [*source, EOS]
    assert one.target.tokens.tolist() == [BOS, *target]
    assert one.labels.tolist() == [*target, EOS]
    for text, side in ((one.source, sides[0]), (one.target, sides[1])):
        assert text.layout.sentences.lengths.tolist() == [sum(map(len, side)) + len(side)]
        assert text.positions[:, 0].tolist() == [word for sentence in side for word in range(len(sentence) + 1)]
        assert text.positions[:, 1].tolist() == [n for n, sentence in enumerate(side) for _ in range(len(sentence) + 1)]


@pytest.mark.parametrize("position", ["multi_level", "sinusoidal"])
def test_without_breaks_the_source_lacks_them_and_nothing_else(position: str) -> None:
    with_breaks = batch(build("doc_transformer", position=position))
    without = batch(build("doc_transformer", position=position, source_breaks=False))
    kept = with_breaks.source.tokens != BRK
    assert without.source.tokens.equal(with_breaks.source.tokens[kept])
    assert without.target.tokens.equal(with_breaks.target.tokens)
    lengths = without.source.layout.sentences.lengths.tolist()
    assert lengths == [int(part.sum()) for part in kept.split(with_breaks.source.layout.sentences.lengths.tolist())]
    if position == "multi_level":
        assert without.source.positions.equal(with_breaks.source.positions[kept])
    else:
        assert without.source.positions[:, 0].tolist() == [word for n in lengths for word in range(n)]


def test_positions_count_inside_units_from_the_start_or_words_from_there_and_units_inside() -> None:
    """One document, two sections: a paragraph of two sentences; two paragraphs of one and two sentences."""
    one = [["the dog sleeps."] * 5]
    levels = np.array([[0, 0], [0, 0], [1, 0], [1, 1], [1, 1]])
    data = replace(small_system.corpus(one), levels=levels)
    length = int(data.source.offsets[1]) + 1
    for count, words, sentences, paragraphs, sections in (
        ("unit", [0] * 5, [0, 1, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]),
        ("document", [n * length for n in range(5)], [0, 1, 2, 3, 4], [0, 0, 1, 2, 2], [0, 0, 1, 1, 1]),
        ("mixed", [n * length for n in range(5)], [0, 1, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]),
    ):
        positions = structure_positions(data, np.arange(5), count=count)
        assert positions.T.tolist() == [words, sentences, paragraphs, sections]


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (3, 1), (3, 2), (5, 3), (4, 4)])
def test_sliding_windows_keep_every_sentence_once(size: int, stride: int) -> None:
    lengths = [0, 1, 2, 3, 4, 5, 6, 7, 12]
    units = window_units(np.cumsum([0, *lengths]), size, 1, stride)
    kept = [n for a, b in zip(units.kept, units.last, strict=True) for n in range(a, b)]
    assert kept == list(range(sum(lengths)))
    for number, length in enumerate(lengths):
        begin, here = sum(lengths[:number]), units.document == number
        firsts = list(range(begin, begin + max(1, length - size + stride), stride)) if length else []
        assert units.first[here].tolist() == firsts
        assert units.last[here].tolist() == [min(first + size, begin + length) for first in firsts]
        assert units.source_first[here].tolist() == [max(first - 1, begin) for first in firsts]


def test_a_sliding_window_gives_its_last_sentence() -> None:
    """2-to-2 by one: every sentence but the first as if the document were it and the one before it."""
    model = build("concat_transformer", target_window=2, window_stride=1)
    for document in DOCUMENTS:
        pairs = [document[max(0, n - 1) : n + 1] for n in range(len(document))]
        expected = [translate(model, [pair])[-1] for pair in pairs]
        if len(document) > 1:
            expected[0] = translate(model, [document[:2]])[0]
        results = translate(model, [document], batch_size=2)
        assert [result.text for result in results] == [result.text for result in expected]
        scores = [result.nbest[0].score for result in expected]
        assert [result.nbest[0].score for result in results] == pytest.approx(scores, rel=1e-5, abs=1e-5)
    assert [r.number for r in translate(model, DOCUMENTS)] == list(range(sum(map(len, DOCUMENTS))))


# `--context-window N`: at most N sentences before and after are read, in search and in contrastive scoring alike.


DOCUMENTS_OF_CONTEXT = [small_system.text(1, 6, seed=seed)[0] for seed in (3, 5, 8)]
ARCHITECTURES = ["hier_transformer", "cond_transformer", "hier_cond_transformer"]
SEARCH = BeamSearchConfig(beam=2, lenpen=0.0, max_len_a=0.5, max_len_b=4)


def translate_of_context(model: Any, window: int | None, documents: Any = DOCUMENTS_OF_CONTEXT) -> list[SentenceResult]:
    return translate(model, documents, SEARCH, window=window)


@pytest.mark.parametrize(("name", "window"), [*zip(ARCHITECTURES, (0, 1, 2), strict=True), (ARCHITECTURES[2], 0)])
def test_a_sentence_is_what_its_window_alone_gives(name: str, window: int) -> None:
    """Search against one training pass over a batch that holds just the window, cut out by hand."""
    model, corpus = build(name), small_system.corpus(DOCUMENTS_OF_CONTEXT)
    offsets = corpus.document_offsets
    for result in translate_of_context(model, window):
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


@pytest.mark.parametrize(
    ("name", "settings", "window"),
    [("concat_transformer", {"source_context": 3}, window) for window in (0, 2, 5)]
    + [("doc_transformer", {}, 1), ("doc_transformer", {}, 3)]
    + [("concat_transformer", {"source_context": 2, "target_window": 3}, window) for window in (0, 6)],
)
def test_windows_are_as_long_as_asked(name: str, settings: dict[str, Any], window: int) -> None:
    """Read with fewer or more than trained with: as a model whose windows are of that size, and as cut out by hand."""
    model, single = build(name, position="sinusoidal", **settings), list(settings) == ["source_context"]
    other = {"source_context": window} if single else {"source_context": window, "target_window": window + 1}
    same = build("concat_transformer", position="sinusoidal", **other)
    same.load_state_dict(model.state_dict())
    parts = [
        document[max(0, n - window) : n + 1] if single else document[n : n + window + 1]
        for document in DOCUMENTS_OF_CONTEXT
        for n in range(0, len(document), 1 if single else window + 1)
    ]
    kept = slice(-1, None) if single else slice(None)
    alone = [result for part in parts for result in translate_of_context(same, None, [part])[kept]]
    results = translate_of_context(model, window)
    assert_same(results, alone)
    assert_same(results, translate_of_context(same, None))


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
        scores = forced_scores([model], task, [example], context_window=window)
        assert scores == pytest.approx(forced_scores([model], task, [short]), rel=1e-5, abs=1e-4)


# With a context window every sentence is a unit of its own: how many are encoded together changes nothing of what a


DOCUMENTS_OF_WINDOWS = [small_system.text(1, 9, seed=seed)[0] for seed in (3, 8)]
LINES = [line for document in DOCUMENTS_OF_WINDOWS for line in document]
#: For about half of the sentences: single ones, runs of them, beginnings and ends of documents.
DRAW = random.Random(0)
GIVEN = [" ".join(DRAW.choices(small_system.WORDS, k=5)) if DRAW.random() < 0.55 else None for _ in LINES]
GREEDY = GreedyConfig(max_len_a=0.2, max_len_b=3)
OWN = ("cond_transformer_tiny", {"target_context": "conditional"})
COPY: tuple[str, dict[str, Any]] = ("copy_transformer_tiny", {})
SYSTEMS = {"own text": [OWN], "given text": [COPY], "both": [OWN, COPY]}


def models(system: str) -> list[Any]:
    networks = [small_system.model(arch, seed, **options) for seed, (arch, options) in enumerate(SYSTEMS[system])]
    with torch.no_grad():
        for model in networks:
            if model.reading.given_text:  # open, as it is not at first
                model.pointer.gate.bias.fill_(1.0)
    return networks


def translate_of_windows(system: str, window: int | None, max_tokens: int = 8000) -> list[SentenceResult]:
    options = {"window": window, "given": GIVEN, "max_tokens": max_tokens}
    return translate(models(system), DOCUMENTS_OF_WINDOWS, GREEDY, "greedy", **options)


@pytest.mark.parametrize(("system", "window"), [("own text", 1), ("given text", 2), ("both", 50)])
def test_what_is_encoded_together_changes_nothing(system: str, window: int) -> None:
    want = translate_of_windows(system, window)
    assert [result.number for result in want] == [n for n, text in enumerate(GIVEN) if text is None]
    for max_tokens in (1, 30):
        assert_same(translate_of_windows(system, window, max_tokens), want)


@pytest.mark.parametrize(("system", "max_tokens"), [("given text", 30), ("both", 1)])
def test_a_shared_search_waits_for_what_is_read(system: str, max_tokens: int) -> None:
    options = GenerationConfig(generator="greedy", max_tokens=max_tokens)
    corpus = small_system.corpus(DOCUMENTS_OF_WINDOWS)
    task, network = small_system.task(), models(system)
    tokens = given_tokens(GIVEN, corpus.num_sentences, task.target_tokenizer)
    written: dict[int, Translation] = {}

    def deliver(number: int, hypotheses: list[Hypothesis]) -> None:
        written[number] = translation(hypotheses[0], task.target_tokenizer)

    shared = Scheduler(network, options, GREEDY)
    shared.submit(Job(network, task, corpus, options, GREEDY, given=tokens, window=1, deliver=deliver))
    with torch.inference_mode():
        while shared.jobs:
            shared.step()
    assert not shared._encodings
    assert_same([SentenceResult(n, (best,)) for n, best in sorted(written.items())], translate_of_windows(system, 1))


@pytest.mark.across_batches
def test_scores_within_a_window_read_the_other_translations() -> None:
    (network,) = models("given text")

    def scored(window: int | None, targets: list[list[str]]) -> list[float]:
        corpus = replace(small_system.corpus(DOCUMENTS_OF_WINDOWS), target=small_system.corpus(targets).source)
        log_probs = token_log_probs([network], small_system.task(), corpus, max_tokens=100, context_window=window)
        return [float(scores.sum()) for scores in log_probs]

    targets = [[" ".join(reversed(line.split())) for line in document] for document in DOCUMENTS_OF_WINDOWS]
    assert scored(50, targets) == pytest.approx(scored(None, targets), rel=1e-5, abs=1e-4)
    changed = [[f"river {targets[0][0]}", *targets[0][1:]], *targets[1:]]
    for window in (0, 1):
        pairs = zip(scored(window, changed), scored(window, targets), strict=True)
        assert [n for n, (one, other) in enumerate(pairs) if abs(one - other) > NEAR] == [0, 1][: window + 1]
