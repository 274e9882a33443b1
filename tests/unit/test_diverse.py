"""Diverse beam search of examples/plugin against its definition in plain lists, and against beam search."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from decoding import A, B, PrefixState, random_model, run, search, stepper

from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.generators import Hypothesis, Slot
from docnmt.core.search.glossary import Glossary, asked_terms
from docnmt.core.tokenizer import BRK, EOS, UNK
from docnmt.options import contradictions
from docnmt.registry import GENERATORS, import_plugins
from docnmt.runtime.system import UsageError

import_plugins(str(Path(__file__).parents[2] / "examples" / "plugin"))
DiverseBeamSearch: Any = GENERATORS.get("diverse_beam_search")
DiverseBeamSearchConfig: Any = GENERATORS.config("diverse_beam_search")
Found = list[tuple[tuple[int, ...], float]]


def diverse(options: Any, slots: list[Slot]) -> list[list[Hypothesis]]:
    generator = DiverseBeamSearch(options)
    return run(stepper(random_model), lambda new: PrefixState(new, generator.width), generator, slots)


def config(beam: int, groups: int | None, strength: float, nbest: int | None = None) -> Any:
    return DiverseBeamSearchConfig(
        beam=beam, nbest=nbest or beam, diverse_beam_groups=groups, diverse_beam_strength=strength
    )


def allowed(slot: Slot, tokens: tuple[int, ...]) -> dict[int, float]:
    """What may follow, and its log-probability; 0 where it is given."""
    place = tokens.count(BRK)
    written = tokens[::-1].index(BRK) if place else len(tokens)
    if place in slot.given:
        return {slot.given[place][written]: 0.0}
    end, scores = EOS if place == len(slot.limits) - 1 else BRK, random_model(slot.number, tokens)
    following = [end] if written + 1 == slot.limits[place] else [UNK, A, B, *[end] * (written > 0)]
    return {token: float(scores[token]) for token in following}


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
                for token, score in allowed(slot, tokens).items():
                    avoided = options.diverse_beam_strength * taken[token] if score else 0.0
                    candidates.append((total + score - avoided, (*tokens, token), total + score))
            candidates = sorted(candidates, reverse=True)[: 2 * size]
            ended = [(tokens, total) for _, tokens, total in candidates[:size] if tokens[-1] == EOS]
            live[group] = [(tokens, total) for _, tokens, total in candidates if tokens[-1] != EOS][:size]
            taken.update(tokens[-1] for tokens, _ in ended + live[group])
            finished[group] += ended
            if len(finished[group]) >= size:
                live[group] = []
    distinct, given = dict(itertools.chain(*finished)), slot.given_tokens
    scored = [(tokens, total / (len(tokens) - given) ** options.lenpen) for tokens, total in distinct.items()]
    return sorted(scored, key=lambda item: -item[1])


@pytest.mark.parametrize(("beam", "groups"), [(4, 2), (6, 3), (6, 2), (3, None), (5, 1)])
@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("nbest", [1, 3])
def test_groups_choose_one_after_the_other(beam: int, groups: int | None, strength: float, nbest: int) -> None:
    options = config(beam, groups, strength, nbest)
    slots = [Slot(number, (3 + number % 5,)) for number in range(12)]
    for slot, found in zip(slots, diverse(options, slots), strict=True):
        expected = by_definition(slot, options)[:nbest]
        assert [h.tokens for h in found] == [tokens for tokens, _ in expected]
        assert [h.score for h in found] == pytest.approx([score for _, score in expected], abs=1e-5)
        for hypothesis in found:  # the model's own, whatever was avoided
            assert sum(hypothesis.token_scores) / len(hypothesis.tokens) == pytest.approx(hypothesis.score, abs=1e-5)


def test_one_group_is_beam_search() -> None:
    slots = [Slot(number, (3, 5)[: 1 + number % 2]) for number in range(8)]
    plain = search(random_model, BeamSearchConfig(beam=4, nbest=4), slots)
    assert diverse(config(4, 1, 9.0), slots) == plain


@pytest.mark.parametrize("strength", [0.5, 50.0])
def test_what_is_given_is_not_avoided(strength: float) -> None:
    """Rows of a group that are inside a given sentence stand beside others that choose."""
    options = config(6, 2, strength)
    slots = [Slot(number, (4, 3, 4), given={1: (A, A, B, A, BRK)}) for number in range(12)]
    for slot, found in zip(slots, diverse(options, slots), strict=True):
        expected = by_definition(slot, options)[:6]
        assert [h.tokens for h in found] == [tokens for tokens, _ in expected]
        assert [h.score for h in found] == pytest.approx([score for _, score in expected], abs=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    assert contradictions(config(6, 3, 0.5)) == []
    assert config(6, None, 0.5).groups == 6
    for groups in (4, 0, -1):
        (found,) = contradictions(config(6, groups, 0.5))
        assert found.startswith("--diverse-beam-groups: ")
    (found,) = contradictions(config(6, 3, -0.5))
    assert found.startswith("--diverse-beam-strength: ")
    with pytest.raises(UsageError, match="--generator"):
        asked_terms(GenerationConfig(generator="diverse_beam_search"), None, Glossary({"a": "b"}))  # type: ignore[arg-type]


def test_a_strength_that_nobody_means_is_refused() -> None:
    for strength in (float("inf"), 1e39, 1001.0):
        (found,) = contradictions(DiverseBeamSearchConfig(diverse_beam_strength=strength))
        assert found.startswith("--diverse-beam-strength: ")
