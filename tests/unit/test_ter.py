"""TER's edits are those of sacreBLEU's own search, which knows nothing of bits and bounds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import TER
from sacrebleu.metrics.lib_ter import translation_edit_rate

from docnmt.core.scoring import metrics as ter
from docnmt.core.scoring.metrics import FastTER, edits

few_words = st.lists(st.sampled_from("abcd"), max_size=14)


@given(few_words, few_words)
@settings(max_examples=300, deadline=None)
def test_edits_are_sacrebleus(hypothesis: list[str], reference: list[str]) -> None:
    assert edits(hypothesis, reference) == translation_edit_rate(hypothesis, reference)[0]


def scrambled(rng: random.Random, words: list[str]) -> list[str]:
    """A reference with blocks moved, words dropped and words replaced."""
    changed = [word if rng.random() > 0.1 else "x" for word in words if rng.random() > 0.1]
    for _ in range(3):
        begin, length = rng.randrange(len(changed)), rng.randint(1, 5)
        block = changed[begin : begin + length]
        del changed[begin : begin + length]
        to = rng.randint(0, len(changed))
        changed[to:to] = block
    return changed


@pytest.mark.parametrize("length", [12, 30, 60])
def test_moved_blocks_are_found_as_sacrebleu_finds_them(length: int) -> None:
    rng = random.Random(length)
    for _ in range(240 // length):
        reference = [rng.choice("abcdefghijklmnopqrstuvw") for _ in range(length)]
        hypothesis = scrambled(rng, reference)
        assert edits(hypothesis, reference) == translation_edit_rate(hypothesis, reference)[0]


def test_ways_that_leave_the_band_are_sacrebleus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty words are to be deleted before any matches: forty off the diagonal, and the band is 25 wide."""
    same = [f"w{number}" for number in range(60)]
    hypothesis, reference = [f"n{number}" for number in range(60)] + same, [*same, *(f"r{n}" for n in range(20))]
    asked = []

    def sacrebleus(words: list[str], others: list[str]) -> tuple[int, int]:
        asked.append(words)
        return translation_edit_rate(words, others)

    monkeypatch.setattr(ter, "translation_edit_rate", sacrebleus)
    assert edits(hypothesis, reference) == translation_edit_rate(hypothesis, reference)[0]
    assert asked == [hypothesis]


def test_too_many_moves_end_the_search_where_sacrebleus_ends() -> None:
    """Of forty equal words nearly every block has many partners; sacreBLEU stops at a thousand moves."""
    reference = ["a"] * 40 + ["b"] * 3
    hypothesis = ["b"] * 3 + ["a"] * 36 + ["c"]
    assert edits(hypothesis, reference) == translation_edit_rate(hypothesis, reference)[0]


@pytest.mark.parametrize("references", [1, 2])
def test_the_metric_is_sacrebleus(references: int) -> None:
    rng = random.Random(3)
    texts = [
        [" ".join(rng.choices("abcdef,.", k=rng.randint(0, 12))) for _ in range(20)] for _ in range(1 + references)
    ]
    ours, theirs = FastTER(), TER()
    assert vars(ours.corpus_score(texts[0], texts[1:])) == vars(theirs.corpus_score(texts[0], texts[1:]))
    assert str(ours.get_signature()) == str(theirs.get_signature())
