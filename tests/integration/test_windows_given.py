"""With a context window every sentence is a unit of its own: how many are encoded together changes nothing of what a
model reads of translations, whether they are given or its own."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from across_batches import NEAR

from docnmt.apps.explain.explain import explain_translations
from docnmt.core.search.config import GenerationConfig, GreedyConfig
from docnmt.core.search.generators import Hypothesis
from docnmt.core.search.scheduler import Job, Scheduler
from docnmt.core.search.translate import (
    SentenceResult,
    Translation,
    given_tokens,
    token_log_probs,
    translate_corpus,
    translation,
)

DOCUMENTS = [small_system.text(1, 9, seed=seed)[0] for seed in (3, 8, 13)]
LINES = [line for document in DOCUMENTS for line in document]
#: For about half of the sentences: single ones, runs of them, beginnings and ends of documents.
DRAW = random.Random(0)
GIVEN = [" ".join(DRAW.choices(small_system.WORDS, k=5)) if DRAW.random() < 0.55 else None for _ in LINES]
GREEDY = GreedyConfig(max_len_a=0.2, max_len_b=3)
OWN = ("cond_transformer_tiny", {"target_context": "conditional"})
COPY: tuple[str, dict[str, Any]] = ("copy_transformer_tiny", {})
SYSTEMS = {"own text": [OWN], "given text": [COPY], "both": [OWN, COPY]}


def models(system: str) -> list[Any]:
    found = [small_system.model(arch, seed, **options) for seed, (arch, options) in enumerate(SYSTEMS[system])]
    with torch.no_grad():
        for model in found:
            if model.reading.given_text:  # open, as it is not at first
                model.pointer.gate.bias.fill_(1.0)
    return found


def translate(system: str, window: int | None, max_tokens: int = 8000) -> list[SentenceResult]:
    options, corpus = GenerationConfig(generator="greedy", max_tokens=max_tokens), small_system.corpus(DOCUMENTS)
    return list(
        translate_corpus(
            models(system), small_system.task(), corpus, options, GREEDY, given=GIVEN, context_window=window
        )
    )


def best(results: list[SentenceResult]) -> dict[int, tuple[str, float]]:
    return {result.number: (result.nbest[0].text, result.nbest[0].score) for result in results}


def assert_same(found: dict[int, tuple[str, float]], want: dict[int, tuple[str, float]]) -> None:
    assert {n: text for n, (text, _) in found.items()} == {n: text for n, (text, _) in want.items()}
    assert [found[n][1] for n in want] == pytest.approx([score for _, score in want.values()], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize(("system", "window"), [("own text", 1), ("given text", 2), ("both", 1), ("both", 50)])
def test_what_is_encoded_together_changes_nothing(system: str, window: int) -> None:
    want = best(translate(system, window))
    assert list(want) == [n for n, text in enumerate(GIVEN) if text is None]
    for max_tokens in (1, 30):
        assert_same(best(translate(system, window, max_tokens)), want)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_window_as_long_as_the_documents_is_none(system: str) -> None:
    assert_same(best(translate(system, 50, 30)), best(translate(system, None)))


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_given_is_read(system: str) -> None:
    one, other = best(translate(system, 1, 30)), best(translate(system, None))
    assert one != other


@pytest.mark.parametrize(("system", "max_tokens"), [("own text", 1), ("given text", 30), ("both", 1)])
def test_a_shared_search_waits_for_what_is_read(system: str, max_tokens: int) -> None:
    options, corpus = GenerationConfig(generator="greedy", max_tokens=max_tokens), small_system.corpus(DOCUMENTS)
    task, network = small_system.task(), models(system)
    tokens = given_tokens(GIVEN, corpus.num_sentences, task.target_tokenizer)
    found: dict[int, Translation] = {}

    def deliver(number: int, hypotheses: list[Hypothesis]) -> None:
        found[number] = translation(hypotheses[0], task.target_tokenizer)

    shared = Scheduler(network, options, GREEDY)
    shared.submit(Job(network, task, corpus, options, GREEDY, given=tokens, window=1, deliver=deliver))
    with torch.inference_mode():
        while shared.jobs:
            shared.step()
    assert not shared._encodings
    assert_same({n: (each.text, each.score) for n, each in found.items()}, best(translate(system, 1)))


def test_what_must_be_translated_in_order_is_one_chain() -> None:
    options, corpus = GenerationConfig(generator="greedy", max_tokens=1), small_system.corpus(DOCUMENTS)
    chains = {}
    for system, network in (("own text", models("own text")), ("given text", models("given text"))):
        work = Job(network, small_system.task(), corpus, options, GREEDY, given={}, window=1, deliver=lambda *_: None)
        assert [each for chain in work.chains() for each in chain] == list(work.ranges())
        chains[system] = [(chain[0][0], chain[-1][1]) for chain in work.chains()]
    ends = corpus.document_offsets.tolist()
    assert chains["own text"] == list(itertools.pairwise(ends))
    assert chains["given text"] == [(n, n + 1) for n in range(len(LINES))]


@pytest.mark.across_batches
def test_scores_within_a_window_read_the_other_translations() -> None:
    (network,) = models("given text")

    def scored(window: int | None, targets: list[list[str]]) -> list[float]:
        corpus = replace(small_system.corpus(DOCUMENTS), target=small_system.corpus(targets).source)
        found = token_log_probs([network], small_system.task(), corpus, max_tokens=100, context_window=window)
        return [float(each.sum()) for each in found]

    targets = [[" ".join(reversed(line.split())) for line in document] for document in DOCUMENTS]
    assert scored(50, targets) == pytest.approx(scored(None, targets), rel=1e-5, abs=1e-4)
    near, far = scored(1, targets), scored(0, targets)
    changed = [[f"river {targets[0][0]}", *targets[0][1:]], *targets[1:]]
    differs = [
        n for n, (one, other) in enumerate(zip(scored(1, changed), near, strict=True)) if abs(one - other) > NEAR
    ]
    assert differs == [0, 1]
    assert [
        n for n, (one, other) in enumerate(zip(scored(0, changed), far, strict=True)) if abs(one - other) > NEAR
    ] == [0]


@pytest.mark.parametrize(
    ("system", "window"), [("given text", 1), ("given text", None), ("both", 0), ("both", 2), ("both", None)]
)
def test_an_explanation_reads_what_search_read(system: str, window: int | None) -> None:
    """Two routes to each score: the search's, and the pass that explains it."""
    found = {result.number: result.nbest[0] for result in translate(system, window)}
    corpus, task = small_system.corpus(DOCUMENTS), small_system.task()
    pieces = [found[n].pieces if n in found else () for n in range(corpus.num_sentences)]
    numbers = np.concatenate([np.arange(len(document)) for document in DOCUMENTS])
    each = explain_translations(
        models(system), task, corpus, pieces, numbers=numbers, given=GIVEN, context_window=window
    )
    for number, best_one in found.items():
        explanation = each[number]
        assert explanation is not None
        assert explanation.log_probs.mean() == pytest.approx(best_one.score, rel=1e-5, abs=1e-4)
        if system == "given text" and window is not None:
            assert all(abs(int(other) - int(numbers[number])) <= window for other in explanation.others)
