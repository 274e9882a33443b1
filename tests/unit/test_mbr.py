"""Minimum Bayes risk against a double loop over sacreBLEU's own sentence chrF."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import sacrebleu.metrics.helpers
import small_system
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, SamplingConfig
from docnmt.core.search.generators import Hypothesis, chrf_of_pairs, mean_utilities, ranking
from docnmt.options import contradictions

SAMPLES = ["the old dog sees it.", "the old dog", "an old dog sees it", "the old dog sees it.", "", "aaaa aaa a", "x"]


def naive(texts: list[str]) -> list[float]:
    """The mean chrF of each text against the others."""
    others = [[other for m, other in enumerate(texts) if m != n] for n in range(len(texts))]
    metric = CHRF()
    return [
        math.fsum(metric.sentence_score(text, [other]).score for other in each) / len(each)
        for text, each in zip(texts, others, strict=True)
    ]


@settings(max_examples=60)
@given(st.lists(st.text("ab .ß日", max_size=12), min_size=2, max_size=6))
def test_scores_are_sacrebleus_to_the_last_bit(texts: list[str]) -> None:
    metric = CHRF()
    expected = [[metric.sentence_score(text, [other]).score for other in texts] for text in texts]
    assert chrf_of_pairs(texts).tolist() == expected
    assert mean_utilities(texts) == naive(texts)


def test_real_sentences_and_their_order() -> None:
    texts = [line for document in small_system.text(8, 6, seed=3) for line in document] + SAMPLES
    found = mean_utilities(texts)
    assert found == naive(texts)
    assert mean_utilities(texts[::-1]) == found[::-1]
    assert mean_utilities(["", ""]) == [0.0, 0.0]


def test_each_text_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    extract = sacrebleu.metrics.helpers.extract_all_char_ngrams

    def counting(text: str, *rest: int) -> list[Counter[str]]:
        seen[text] += 1
        return extract(text, *rest)

    monkeypatch.setattr(sacrebleu.metrics.helpers, "extract_all_char_ngrams", counting)
    mean_utilities(SAMPLES)
    assert seen == dict.fromkeys(SAMPLES, 1)


def test_the_most_useful_come_first_and_of_equal_ones_the_first() -> None:
    tokenizer = small_system.tokenizer()
    hypotheses = [
        Hypothesis((*tokens, 2), -float(n), (0.0,) * (len(tokens) + 1))
        for n, tokens in enumerate(tokenizer.encode(["he", "the old dog.", "the old dog sees.", "the old dog sees."]))
    ]
    utilities = naive([hypothesis.text(tokenizer) for hypothesis in hypotheses])
    assert utilities[2] == utilities[3] > utilities[1] > utilities[0]
    search = SamplingConfig(mbr="chrf", mbr_samples=4, nbest=3)
    assert ranking(search, tokenizer)(hypotheses) == [hypotheses[2], hypotheses[3], hypotheses[1]]
    for other in (SamplingConfig(nbest=4), BeamSearchConfig()):
        assert ranking(other, tokenizer)(hypotheses) == hypotheses


def test_what_does_not_fit_is_refused() -> None:
    assert contradictions(SamplingConfig(mbr="chrf", nbest=50)) == []
    for config, option in [
        (SamplingConfig(mbr_samples=9), "--mbr-samples needs --mbr"),
        (SamplingConfig(mbr="chrf", mbr_samples=1), "--mbr-samples: "),
        (SamplingConfig(mbr="chrf", mbr_samples=1001), "--mbr-samples: "),
        (SamplingConfig(mbr="chrf", nbest=51), "--nbest: "),
    ]:
        (found,) = contradictions(config)
        assert found.startswith(option)


def test_many_hypotheses_leave_room_for_few_texts() -> None:
    options = GenerationConfig(batch_size=64)
    assert [options.texts_at_once(width) for width in (1, 5, 16, 50, 500, 5000)] == [64, 64, 64, 20, 2, 1]
