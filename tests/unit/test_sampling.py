"""Drawn subwords: the exact distribution, the same with every version of SentencePiece, by seed and place alone."""

from __future__ import annotations

import io
import itertools
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from subword_lines import LINES as ALL_LINES

from docnmt.core.subword_sampling import SubwordSampler
from docnmt.core.tokenizer import SPECIAL, UNK, Tokenizer
from docnmt.runtime.system import UserError

LINES = ALL_LINES[::5]
DRAWS = 10_000
KINDS = ("unigram", "bpe")
Distribution = dict[tuple[int, ...], float]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(LINES, 80, model_type=request.param)


def trained(**options: Any) -> Tokenizer:
    """A model with SentencePiece's own options."""
    model, own = io.BytesIO(), {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1, "control_symbols": [*SPECIAL[3:]]}
    options |= {**own, "vocab_size": 90, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, **options)
    return Tokenizer.from_bytes(model.getvalue())


def rows(tokenizer: Tokenizer, lines: list[str], alpha: float, seed: int = 1, first: int = 0) -> list[list[int]]:
    return [row.tolist() for row in SubwordSampler(tokenizer, alpha).draw(lines, first, [seed])]


def frequencies(drawn: list[list[int]]) -> Distribution:
    return {tuple(row): count / len(drawn) for row, count in Counter(map(tuple, drawn)).items()}


def distance(one: Distribution, other: Distribution) -> float:
    """Total variation, in [0, 1]."""
    return sum(abs(one.get(row, 0.0) - other.get(row, 0.0)) for row in one.keys() | other.keys()) / 2


def by_enumeration(processor: Any, line: str, alpha: float) -> Distribution:
    """Of a unigram model: every segmentation that SentencePiece finds, weighed by its score."""
    found = processor.nbest_encode_as_ids(line, 512)  # the most that it gives
    assert len(found) < 512
    weights = {tuple(row): math.exp(alpha * sum(map(processor.get_score, row))) for row in found}
    return {row: weight / sum(weights.values()) for row, weight in weights.items()}


def by_recursion(processor: Any, word: str, dropout: float) -> Distribution:
    """Of a BPE model: both ways at each pair whose turn it is, with pairs known by where they begin, meet and end."""
    result: Distribution = defaultdict(float)

    def go(cuts: tuple[int, ...], over: frozenset[tuple[int, ...]], p: float) -> None:
        spans = [cuts[i : i + 3] for i in range(len(cuts) - 2)]
        numbers = {span: processor.piece_to_id(word[span[0] : span[2]]) for span in spans if span not in over}
        known = [(-processor.get_score(number), span) for span, number in numbers.items() if number != UNK]
        if not known:
            result[tuple(processor.piece_to_id(word[a:b]) for a, b in itertools.pairwise(cuts))] += p
            return
        _, turn = min(known)
        go(cuts, over | {turn}, p * dropout)
        go(tuple(cut for cut in cuts if cut != turn[1]), over, p * (1 - dropout))

    go(tuple(range(len(word) + 1)), frozenset(), 1.0)
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_draws_have_the_exact_distribution_and_so_have_those_of_sentencepiece(kind: str, alpha: float) -> None:
    tokenizer = Tokenizer.train(LINES, 80, model_type=kind)  # type: ignore[arg-type]
    processor, word = tokenizer._processor, "winter"
    exact = (by_enumeration if kind == "unigram" else by_recursion)(
        processor, word if kind == "unigram" else tokenizer.normalize([word])[0], alpha
    )
    ours = frequencies(rows(tokenizer, [word] * DRAWS, alpha))
    theirs = [processor.encode(word, enable_sampling=True, alpha=alpha, nbest_size=-1) for _ in range(DRAWS)]
    assert len(exact) > 5
    assert sum(exact.values()) == pytest.approx(1)
    expected = sum(math.sqrt(p * (1 - p) / DRAWS) for p in exact.values()) / 2  # at most, of that many true draws
    assert distance(ours, exact) < 1.5 * expected
    assert distance(frequencies(theirs), exact) < 2 * expected
    assert ours.keys() <= exact.keys()


def test_words_of_a_line_are_drawn_independently() -> None:
    tokenizer = Tokenizer.train(LINES, 80)
    line = "lamp of"
    exact = by_enumeration(tokenizer._processor, line, 0.3)
    ours = frequencies(rows(tokenizer, [line] * DRAWS, 0.3))
    assert distance(ours, exact) < sum(math.sqrt(p * (1 - p) / DRAWS) for p in exact.values())
    first = frequencies(rows(tokenizer, ["lamp"] * DRAWS, 0.3))
    assert distance(first, by_enumeration(tokenizer._processor, "lamp", 0.3)) < 0.03


def test_pieces_with_spaces_inside() -> None:
    tokenizer = trained(split_by_whitespace=False)
    assert any("▁" in piece[1:] for piece in tokenizer.vocabulary())
    line = "a ."
    exact = by_enumeration(tokenizer._processor, line, 0.2)
    assert distance(frequencies(rows(tokenizer, [line] * DRAWS, 0.2)), exact) < 0.05


@pytest.mark.parametrize("spelled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_without_chance_it_is_the_best_segmentation(kind: str, spelled: bool) -> None:
    """Unknown characters, which are one run or bytes, and characters that normalisation changes among it."""
    tokenizer = Tokenizer.train(LINES, 80 + 256 * spelled, model_type=kind, byte_fallback=spelled)  # type: ignore[arg-type]
    odd = ["日本 river 日", "日", "  two   lamps ", "ﬁnal ½", "🙂🙂\u200b lamp", "", "e\u0301 ▁ x"]
    certain = {"unigram": 1e4, "bpe": 0.0}[kind]
    drawn = rows(tokenizer, [*LINES[::7], *odd], certain)
    best = tokenizer.encode([*LINES[::7], *odd])
    same = sum(one == other for one, other in zip(drawn, best, strict=True))
    assert drawn[-len(odd) :] == best[-len(odd) :]
    assert same == len(best)


def test_text_comes_back_and_epochs_differ(tokenizer: Tokenizer) -> None:
    first = rows(tokenizer, LINES, 0.2)
    assert [tokenizer.decode(row) for row in first] == LINES
    assert rows(tokenizer, LINES, 0.2) == first
    assert rows(tokenizer, LINES, 0.2, seed=2) != first
    assert tokenizer.encode(LINES) != first


def test_a_line_is_drawn_alike_whatever_is_drawn_with_it(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(tokenizer, LINES, 0.2)
    firsts = range(0, len(LINES), 37)
    assert [row for a in firsts for row in rows(tokenizer, LINES[a : a + 37], 0.2, first=a)] == whole
    monkeypatch.setattr("docnmt.core.subword_sampling._MOST_CHOICES", 50)
    sampler = SubwordSampler(tokenizer, 0.2)
    assert [sampler.draw([line], n, [1])[0].tolist() for n, line in enumerate(LINES)] == whole


def test_every_version_of_sentencepiece_draws_this() -> None:
    model = Path(__file__).parents[1] / "compat" / "v1" / "data" / "tokenizer.model"
    tokenizer = Tokenizer.from_bytes(model.read_bytes())
    drawn = [
        " ".join(tokenizer.pieces(row)) for row in rows(tokenizer, ["the old cat sleeps.", "a river sleeps ½"], 0.1)
    ]
    assert drawn == ["▁the ▁ o l d ▁cat ▁sleeps .", "▁ a ▁river ▁ s l e e p s ▁ <unk>"]


def test_other_models_are_refused() -> None:
    for options in ({"model_type": "char"}, {"user_defined_symbols": ["lamp"]}):
        with pytest.raises(UserError, match="--subword-sampling"):
            SubwordSampler(trained(**options), 0.1)
