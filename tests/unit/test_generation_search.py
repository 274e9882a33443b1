"""Search against models small enough to be checked by hand or by trying everything."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import small_system
import torch
from decoding import VOCABULARY, A, B, Distribution, random_model, search
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from docnmt.core.search.config import BeamSearchConfig, GreedyConfig, SamplingConfig, SearchConfig
from docnmt.core.search.generators import (
    BeamSearch,
    Greedy,
    Hypothesis,
    Sampling,
    Slot,
    best_continuations,
    chrf_of_pairs,
    mean_utilities,
    ranking,
    truncate,
)
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, UNK
from docnmt.registry import GENERATORS, import_plugins


def scripted(script: dict[tuple[int, ...], dict[int, float]]) -> Distribution:
    """Probabilities by prefix; what is not named has none."""

    def distribution(_: int, prefix: tuple[int, ...]) -> Tensor:
        probabilities = torch.zeros(VOCABULARY)
        for token, probability in script.get(prefix, {EOS: 1.0}).items():
            probabilities[token] = probability
        return probabilities.log()

    return distribution


SCRIPT = {
    (): {A: 0.6, B: 0.4},
    (A,): {A: 0.45, B: 0.35, EOS: 0.2},
    (B,): {A: 0.05, B: 0.05, EOS: 0.9},
    (A, A): {A: 0.5, EOS: 0.5},
    (A, B): {EOS: 0.8, B: 0.2},
}


def test_greedy_follows_the_best_token() -> None:
    hypotheses = search(scripted(SCRIPT), Greedy(GreedyConfig(lenpen=0.0)), [Slot(0, (3,))])[0]
    assert [h.tokens for h in hypotheses] == [(A, A, EOS)]  # A A, then closed by its limit of three tokens
    assert hypotheses[0].score == pytest.approx(math.log(0.6 * 0.45 * 0.5), abs=1e-6)


def repeats(words: Sequence[int], size: int) -> bool:
    """Whether a sequence of `size` words occurs twice."""
    grams = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
    return bool(size) and len(set(grams)) < len(grams)


def penalised(slot: Slot, sentences: Sequence[Sequence[int]], penalty: float) -> list[float]:
    """The score of every token, 0 of what is given: a loop over sentences and their tokens."""
    before: tuple[int, ...] = ()
    scores = []
    for number, sentence in enumerate(sentences):
        for i, token in enumerate(sentence):
            free = number in slot.given or (i == 0 and token == slot.tag)
            score = 0.0 if free else float(random_model(slot.number, before)[token])
            scores.append(score * (penalty if token in sentence[:i] else 1.0))
            before = (*before, token)
    return scores


def everything(slot: Slot, options: BeamSearchConfig) -> list[tuple[float, tuple[int, ...], list[float]]]:
    """(score, tokens, scores of tokens) of every text that a slot may hold, best first: plain enumeration."""
    tag, end = [slot.tag] * (slot.tag >= 0), len(slot.limits) - 1
    written = [
        [slot.given[n]]
        if n in slot.given
        else [
            (*tag, *words, EOS if n == end else BRK)
            for length in range(options.min_len - len(tag), limit - len(tag))
            for words in itertools.product([UNK, A, B], repeat=length)
        ]
        for n, limit in enumerate(slot.limits)
    ]
    scored = []
    for parts in itertools.product(*written):
        if not any(repeats(part, options.no_repeat_ngram_size) for n, part in enumerate(parts) if n not in slot.given):
            scores = penalised(slot, parts, options.repetition_penalty)
            own = sum(len(part) for n, part in enumerate(parts) if n not in slot.given)
            scored.append((sum(scores) / own**options.lenpen, tuple(itertools.chain(*parts)), scores))
    return sorted(scored, key=lambda item: -item[0])


PLAIN = [{"lenpen": 0.0, "min_len": 0}, {"lenpen": 1.0}, {"lenpen": 1.7, "min_len": 0}]
REPEATING: list[dict[str, Any]] = [{"no_repeat_ngram_size": size} for size in (1, 2, 3)]
REPEATING += [{"repetition_penalty": 1.5}, {"no_repeat_ngram_size": 2, "repetition_penalty": 4.0}]


@pytest.mark.parametrize(
    ("slot", "options"),
    [
        *((Slot(3, limits), options) for limits in ((4,), (2, 3), (2, 2, 2)) for options in PLAIN),
        (Slot(3, (3, 4), given={0: (A, B, A, B, BRK)}), PLAIN[1]),
        (Slot(3, (3, 2), given={1: (UNK, EOS)}), PLAIN[0]),
        (Slot(3, (2, 2, 2), given={1: (BRK,)}), PLAIN[1]),
        (Slot(3, (1, 3, 1), given={0: (B, BRK), 2: (A, EOS)}), PLAIN[0]),
        *((Slot(3, (5,)), options) for options in REPEATING),
        *((Slot(3, (5,), tag=A), {**options, "min_len": 2}) for options in REPEATING[1:]),
        *((slot, options) for slot in (Slot(3, (3, 3)), Slot(3, (2, 4), given={0: (A, B, A, B, A, B, BRK)}))
          for options in REPEATING[1:]),
    ],
    ids=str,
)  # fmt: skip
def test_a_wide_beam_finds_the_best_of_all_texts(slot: Slot, options: dict[str, Any]) -> None:
    """None in which a sentence repeats words; sums and lengths are of what it writes itself; what is given may be
    longer than the limit, and repeat."""
    config = BeamSearchConfig(beam=300, nbest=3, **options)
    best, hypotheses = everything(slot, config)[:3], search(random_model, config, [slot, Slot(8, (4,))])[0]
    assert [h.tokens for h in hypotheses] == [text for _, text, _ in best]
    assert [h.score for h in hypotheses] == pytest.approx([score for score, _, _ in best], abs=1e-5)
    if config.repetition_penalty == 1:
        assert hypotheses[0].token_scores == pytest.approx(best[0][2], abs=1e-5)


@pytest.mark.parametrize("beam", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("lenpen", [0.0, 1.0])
def test_what_a_model_is_sure_of_is_not_lost_to_texts_that_end_before_it(beam: int, lenpen: float) -> None:
    text = (A, B, B, A, UNK, B, A, EOS)

    def sure(_: int, prefix: tuple[int, ...]) -> Tensor:
        """Whoever leaves the text ends at once."""
        probabilities = torch.full((VOCABULARY,), 1e-6)
        probabilities[text[len(prefix)] if prefix == text[: len(prefix)] else EOS] = 1.0
        return (probabilities / probabilities.sum()).log()

    config = BeamSearchConfig(beam=beam, lenpen=lenpen)
    assert [hypotheses[0].tokens for hypotheses in search(sure, config, [Slot(0, (9,)), Slot(1, (12,))])] == [text] * 2


@pytest.mark.parametrize("how", [BeamSearchConfig(beam=3, nbest=2), Sampling(SamplingConfig(nbest=2, top_p=0.9))])
def test_specials_are_never_written(how: Any) -> None:
    def loves_specials(number: int, prefix: tuple[int, ...]) -> Tensor:
        scores = random_model(number, prefix).clone()
        scores[[BOS, MASK, BRK]] += 10.0
        return scores

    for hypotheses in search(loves_specials, how, [Slot(n, (7,)) for n in range(10)]):
        assert all(not {BOS, MASK, BRK} & set(h.tokens) and h.tokens[-1] == EOS for h in hypotheses)


@pytest.mark.parametrize(
    "options",
    [
        BeamSearchConfig(beam=3, nbest=3),
        GreedyConfig(),
        SamplingConfig(nbest=2, top_k=3),
        BeamSearchConfig(beam=3, nbest=3, no_repeat_ngram_size=2, repetition_penalty=1.3),
        GreedyConfig(no_repeat_ngram_size=1),
        SamplingConfig(nbest=2, no_repeat_ngram_size=2, repetition_penalty=2.0),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("capacity", [3, 12])
def test_neighbours_change_nothing(options: SearchConfig, order: int, capacity: int) -> None:
    classes = {BeamSearchConfig: BeamSearch, GreedyConfig: Greedy, SamplingConfig: Sampling}

    def results(slots: list[Slot], capacity: int) -> dict[int, list[Hypothesis]]:
        generator = classes[type(options)](options)  # type: ignore[arg-type]
        ranked = search(random_model, generator, slots, capacity)
        return {slot.number: hypotheses for slot, hypotheses in zip(slots, ranked, strict=True)}

    slots = [Slot(n, (3 + n % 5,) * (1 + n % 3)) for n in range(12)]
    alone = {n: hypotheses for slot in slots for n, hypotheses in results([slot], 1).items()}
    assert results(slots[::order], capacity) == alone


def test_scores_that_are_no_numbers_are_refused() -> None:
    for generator in (BeamSearch(BeamSearchConfig()), Sampling(SamplingConfig())):
        with pytest.raises(ValueError, match="NaN"):
            search(lambda *_: torch.full((VOCABULARY,), math.nan), generator, [Slot(0, (4,))])


def test_samples_follow_the_distribution_and_the_seed() -> None:
    slots = [Slot(n, (4,)) for n in range(400)]

    def samples(seed: int) -> list[tuple[int, ...]]:
        generator = Sampling(SamplingConfig(seed=seed, min_len=0))
        drawn = search(scripted(SCRIPT), generator, slots)
        for [h] in drawn:
            prefixes = [scripted(SCRIPT)(0, h.tokens[:length]) for length in range(len(h.tokens))]
            assert list(h.token_scores) == pytest.approx([float(p[t]) for p, t in zip(prefixes, h.tokens, strict=True)])
        return [h.tokens for [h] in drawn]

    first = samples(1)
    assert samples(1) == first
    assert samples(2) != first
    share = sum(tokens == (B, EOS) for tokens in first) / len(first)
    assert share == pytest.approx(0.36, abs=4 * math.sqrt(0.36 * 0.64 / 400))


def test_truncation_keeps_the_most_probable() -> None:
    log_probs = torch.tensor([[0.05, 0.4, 0.3, 0.25]]).log()
    assert truncate(log_probs, 0, 1.0).tolist()[0] == pytest.approx([0.05, 0.4, 0.3, 0.25])
    assert truncate(log_probs, 2, 1.0).tolist()[0] == pytest.approx([0, 4 / 7, 3 / 7, 0])
    assert truncate(log_probs, 0, 0.7).tolist()[0] == pytest.approx([0, 4 / 7, 3 / 7, 0])
    assert truncate(log_probs, 0, 0.71).tolist()[0] == pytest.approx([0, 0.4 / 0.95, 0.3 / 0.95, 0.25 / 0.95])
    assert truncate(log_probs, 0, 0.01).tolist()[0] == pytest.approx([0, 1, 0, 0])


@pytest.mark.parametrize("vocabulary", [5, 64, 130, 200])
@pytest.mark.parametrize("width", [1, 3])
def test_the_best_continuations_are_those_of_a_whole_sort(vocabulary: int, width: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    log_probs = torch.randn(4 * width, vocabulary, generator=generator).log_softmax(1)
    totals = torch.randn(4 * width, generator=generator)
    totals[1 :: 2 * width] = -torch.inf
    log_probs[0, : vocabulary // 2] = -torch.inf
    rows, tokens, scores, total = best_continuations(log_probs, totals, width)
    every = (totals[:, None] + log_probs).view(4, -1)
    most = min(2 * width, width * vocabulary)
    expected = every.sort(dim=1, descending=True).values[:, :most]
    assert torch.equal(total, expected)
    assert torch.equal(scores, log_probs[rows, tokens])
    assert torch.equal(total, totals[rows] + scores)
    assert torch.equal(rows // width, torch.arange(4)[:, None].expand_as(rows))


# Diverse beam search of examples/plugin against its definition in plain lists, and against beam search.


import_plugins(str(Path(__file__).parents[2] / "examples" / "plugin"))
DiverseBeamSearch: Any = GENERATORS.get("diverse_beam_search")
DiverseBeamSearchConfig: Any = GENERATORS.config("diverse_beam_search")
Found = list[tuple[tuple[int, ...], float]]


def diverse(options: Any, slots: list[Slot]) -> list[list[Hypothesis]]:
    return search(random_model, DiverseBeamSearch(options), slots)


def config(beam: int, groups: int | None, strength: float, nbest: int | None = None) -> Any:
    return DiverseBeamSearchConfig(
        beam=beam, nbest=nbest or beam, diverse_beam_groups=groups, diverse_beam_strength=strength
    )


def by_definition(slot: Slot, options: Any) -> Found:
    """(tokens, score) of all that the groups finish, best first: at each step one group after the other."""
    size = options.beam // options.groups
    live: list[Found] = [[((), 0.0)] for _ in range(options.groups)]
    finished: list[Found] = [[] for _ in range(options.groups)]
    while any(live):
        taken: Counter[int] = Counter()
        for group in range(options.groups):
            candidates = []
            for tokens, total in live[group]:
                may_end = [EOS] * (len(tokens) > 0)
                for token in [EOS] if len(tokens) + 1 == slot.limits[0] else [UNK, A, B, *may_end]:
                    score = float(random_model(slot.number, tokens)[token])
                    avoided = options.diverse_beam_strength * taken[token]
                    candidates.append((total + score - avoided, (*tokens, token), total + score))
            candidates = sorted(candidates, reverse=True)[: 2 * size]
            ended = [(tokens, total) for _, tokens, total in candidates[:size] if tokens[-1] == EOS]
            live[group] = [(tokens, total) for _, tokens, total in candidates if tokens[-1] != EOS][:size]
            taken.update(tokens[-1] for tokens, _ in ended + live[group])
            finished[group] += ended
            if len(finished[group]) >= size:
                live[group] = []
    scored = [(tokens, total / len(tokens)) for tokens, total in dict(itertools.chain(*finished)).items()]
    return sorted(scored, key=lambda item: -item[1])


@pytest.mark.parametrize(("beam", "groups"), [(4, 2), (6, 3), (6, 2), (3, None), (5, 1)])
@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("nbest", [1, 3])
def test_groups_choose_one_after_the_other(beam: int, groups: int | None, strength: float, nbest: int) -> None:
    options = config(beam, groups, strength, nbest)
    slots = [Slot(number, (3 + number % 5,)) for number in range(12)]
    for slot, hypotheses in zip(slots, diverse(options, slots), strict=True):
        expected = by_definition(slot, options)[:nbest]
        assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score in expected], abs=1e-5)
        for hypothesis in hypotheses:  # the model's own, whatever was avoided
            assert sum(hypothesis.token_scores) / len(hypothesis.tokens) == pytest.approx(hypothesis.score, abs=1e-5)


def test_one_group_is_beam_search() -> None:
    slots = [Slot(number, (3, 5)[: 1 + number % 2]) for number in range(8)]
    plain = search(random_model, BeamSearchConfig(beam=4, nbest=4), slots)
    assert diverse(config(4, 1, 9.0), slots) == plain


# Minimum Bayes risk against a double loop over sacreBLEU's own sentence chrF.


def naive(texts: list[str]) -> list[float]:
    """The mean chrF of each text against the others."""
    others = [[other for m, other in enumerate(texts) if m != n] for n in range(len(texts))]
    metric = CHRF()
    return [
        math.fsum(metric.sentence_score(text, [other]).score for other in rest) / len(rest)
        for text, rest in zip(texts, others, strict=True)
    ]


@settings(max_examples=60)
@given(st.lists(st.text("ab .ß日", max_size=12), min_size=2, max_size=6))
def test_scores_are_sacrebleus_to_the_last_bit(texts: list[str]) -> None:
    metric = CHRF()
    expected = [[metric.sentence_score(text, [other]).score for other in texts] for text in texts]
    assert chrf_of_pairs(texts).tolist() == expected
    assert mean_utilities(texts) == naive(texts)


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


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_raises_probabilities_to_its_inverse(temperature: float) -> None:
    slots = [Slot(n, (4,)) for n in range(400)]
    generator = Sampling(SamplingConfig(temperature=temperature))
    drawn = search(scripted({(): {A: 0.8, B: 0.2}}), generator, slots)
    weights = [probability ** (1 / temperature) for probability in (0.8, 0.2)]
    expected = weights[0] / sum(weights)
    share = sum(hypothesis.tokens == (A, EOS) for [hypothesis] in drawn) / len(drawn)
    assert share == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 400))
    assert {round(h.token_scores[0], 4) for [h] in drawn} == {round(math.log(p), 4) for p in (0.8, 0.2)}  # the model's


def test_the_unknown_penalty_keeps_unk_out() -> None:
    script = {(): {UNK: 0.8, A: 0.2}}
    assert search(scripted(script), BeamSearchConfig(beam=2), [Slot(0, (3,))])[0][0].tokens == (UNK, EOS)
    assert search(scripted(script), BeamSearchConfig(beam=2, unkpen=5.0), [Slot(0, (3,))])[0][0].tokens == (A, EOS)
