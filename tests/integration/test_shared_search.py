"""Requests that share one search get what each would get alone, whenever they come and whatever leaves."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import small_system
import torch

from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig, SamplingConfig, SearchConfig
from docnmt.core.search.generators import Hypothesis
from docnmt.core.search.scheduler import Job, Scheduler
from docnmt.core.search.translate import given_tokens, translate_corpus, translation

ARCHITECTURES = [
    "transformer_tiny", "concat_transformer_tiny", "doc_transformer_tiny", "hier_transformer_tiny",
    "cond_transformer_tiny", "hier_cond_transformer_tiny", "scaleformer_tiny", "copy_transformer_tiny",
]  # fmt: skip
#: Untrained models write as long as they may.
SHORT: dict[str, Any] = {"max_len_a": 0.5, "max_len_b": 4}
SEARCHES: dict[str, SearchConfig] = {
    "beam_search": BeamSearchConfig(beam=3, **SHORT), "greedy": GreedyConfig(**SHORT),
    "sampling": SamplingConfig(seed=3, **SHORT), "mbr": SamplingConfig(seed=3, mbr="chrf", mbr_samples=4, **SHORT),
}  # fmt: skip
GENERATOR = {"mbr": "sampling"}
REQUESTS = [small_system.text(1 + n % 3, 2 + n % 5, seed=n) for n in range(5)]


class Asked:
    """A request, and what came back."""

    def __init__(self, models: list[Any], options: GenerationConfig, search: SearchConfig, texts: Any) -> None:
        corpus, task = small_system.corpus(texts), small_system.task()
        self.given = [None] * corpus.num_sentences
        if corpus.num_sentences > 2:
            self.given[1] = "the old dog."  # type: ignore[call-overload]
        self.alone = lambda: {
            result.number: result.nbest[0]
            for result in translate_corpus(models, task, corpus, options, search, given=self.given)
        }
        tokens = given_tokens(self.given, corpus.num_sentences, task.target_tokenizer)
        self.found: dict[int, Any] = {}

        def deliver(number: int, hypotheses: list[Hypothesis]) -> None:
            assert number not in self.found
            self.found[number] = translation(hypotheses[0], task.target_tokenizer)

        self.job = Job(models, task, corpus, options, search, given=tokens, deliver=deliver)


def served(
    models: list[Any], asked: list[Asked], options: GenerationConfig, search: SearchConfig, *, cancel: int = -1
) -> Scheduler:
    """Let the requests come one after the other while others are at work."""
    shared, waiting, steps, rng = Scheduler(models, options, search), list(asked), 0, random.Random(4)
    with torch.inference_mode():
        while waiting or shared.jobs:
            if waiting and (not shared.jobs or rng.random() < 0.3):
                new = waiting.pop(0)
                shared.submit(new.job)
            if cancel >= 0 and steps == 12:
                shared.remove(asked[cancel].job)
            shared.step()
            assert sum(slot.wanted for slot in shared._generator.slots) == shared.slots <= options.batch_size
            steps += 1
    assert not shared._encodings
    assert not shared._states  # it would hold the last encoding until the next request
    return shared


def assert_alone(asked: list[Asked]) -> None:
    """Each request gets what it gets alone."""
    for request in asked:
        alone = request.alone()
        assert {n: best.text for n, best in request.found.items()} == {n: best.text for n, best in alone.items()}
        scores = [best.score for _, best in sorted(request.found.items())]
        assert scores == pytest.approx([best.score for _, best in sorted(alone.items())], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize(
    ("arch", "name", "options"),
    [
        *((arch, name, {}) for arch, name in zip(ARCHITECTURES, itertools.cycle(list(SEARCHES)[:3]), strict=False)),
        ("doc_transformer_tiny", "mbr", {}),
        ("cond_transformer_tiny", "beam_search", {"target_context": "conditional"}),  # waits for its own text
    ],
)
def test_a_request_among_others_is_the_request_alone(arch: str, name: str, options: dict[str, Any]) -> None:
    models, search = [small_system.model(arch, **options)], SEARCHES[name]
    generation = GenerationConfig(generator=GENERATOR.get(name, name), max_tokens=60, batch_size=8)
    asked = [Asked(models, generation, search, texts) for texts in REQUESTS]
    served(models, asked, generation, search)
    assert_alone(asked)


@pytest.mark.parametrize("name", ["beam_search", "mbr"])
def test_a_request_that_leaves_changes_nothing_for_others(name: str) -> None:
    """Here of an ensemble."""
    generation = GenerationConfig(generator=GENERATOR.get(name, name), max_tokens=60, batch_size=4)
    models = [small_system.model("hier_cond_transformer_tiny", seed=seed) for seed in (0, 1)]
    texts = [small_system.text(6, 6, seed=77), *REQUESTS[:3]]
    asked = [Asked(models, generation, SEARCHES[name], text) for text in texts]
    served(models, asked, generation, SEARCHES[name], cancel=0)
    assert_alone(asked[1:])
    assert len(asked[0].found) < asked[0].job.corpus.num_sentences - 1


def test_a_long_request_is_done_while_short_ones_keep_coming() -> None:
    models, options = [small_system.model("transformer_tiny")], GenerationConfig(generator="greedy", batch_size=2)
    shared = Scheduler(models, options, GreedyConfig())
    long, short = (lambda n=n: Asked(models, options, GreedyConfig(), small_system.text(1, n, seed=n)) for n in (9, 1))
    waiting = [short() for _ in range(6)]
    late = long()
    for request in (*waiting, late):
        shared.submit(request.job)
    with torch.inference_mode():
        for _ in range(2_000):
            for n, request in enumerate(waiting):
                if request.job not in shared.jobs:  # its client comes again at once
                    waiting[n] = short()
                    shared.submit(waiting[n].job)
            if late.job not in shared.jobs:
                break
            shared.step()
    assert late.job.left == 0
