"""Subwords: reproducible, reversible, and special symbols that no text can write."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docnmt.core import tokenizer as tokenizer_module
from docnmt.core.data_options import TranslationPreprocessConfig
from docnmt.core.subword_sampling import SubwordSampler
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, UNK, Preparation, Tokenizer, normalizer
from docnmt.runtime.system import UserError

SIZE = 80
TEXT = """letter bicycle lamp window garden river station market winter summer question answer teacher doctor carpet
neighbour orchestra newspaper telegram mountain harbour lighthouse journey kitchen breakfast umbrella photograph
Müller's remembers forgot listening wandered carefully quietly yesterday tomorrow beautiful dangerous ordinary"""
WORDS = TEXT.split()
LINES = [f"{a} {b} , {c} ." for i, a in enumerate(WORDS) for b in WORDS[i % 5 :: 5] for c in WORDS[i % 7 :: 7]]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, SIZE)


@pytest.mark.parametrize("text", ["abc de " * 20, "x" * 95, "x" * 10])
def test_pieces_of_a_line_are_cut_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Line(str):
        def __getitem__(self, cut: Any) -> str:
            part = super().__getitem__(cut)
            assert len(part) <= 10
            return part

    monkeypatch.setattr(tokenizer_module, "LONGEST_LINE", 10)
    assert "".join(tokenizer_module.pieces(Line(text))) == text


def test_text_comes_back(tokenizer: Tokenizer) -> None:
    for line, ids in zip(LINES, tokenizer.encode(LINES), strict=True):
        assert tokenizer.decode(ids) == line
        assert "".join(tokenizer.pieces(ids)).replace("▁", " ").strip() == line


@pytest.mark.parametrize("space", ["", "  ", "\t ", "\u3000"])
def test_subwords_stand_where_their_text_does(tokenizer: Tokenizer, space: str) -> None:
    line = f"{space}{WORDS[0]} {WORDS[1]}"
    (ids,) = tokenizer.encode([line])
    pieces = [piece.replace("▁", "") for piece in tokenizer.pieces(ids)]
    assert [line[begin:end] for begin, end in tokenizer.spans(line)] == pieces


def test_special_symbols_have_their_numbers_and_leave_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary()[:5] == ["<unk>", "<s>", "</s>", "<brk>", "<mask>"]
    assert len(tokenizer.vocabulary()) == tokenizer.vocab_size == SIZE
    (ids,) = tokenizer.encode(["river"])
    assert tokenizer.decode([BOS, *ids, BRK, MASK, EOS]) == "river"


def test_text_cannot_write_special_symbols() -> None:
    lines = [*LINES, "<s> </s> <brk> <mask> <unk> in a text with < and > and /"]
    tokenizer = Tokenizer.train(lines, SIZE)
    for line in [lines[-1], *tokenizer.vocabulary()[:5]]:
        (ids,) = tokenizer.encode([line])
        assert not {UNK, BOS, EOS, BRK, MASK} & set(ids)
        assert tokenizer.decode(ids) == line


def test_bytes_stand_for_unknown_characters_on_request(tokenizer: Tokenizer) -> None:
    spelled = Tokenizer.train(LINES, SIZE + 256, byte_fallback=True)
    assert UNK in tokenizer.encode(["日"])[0]
    (ids,) = spelled.encode(["日"])
    assert UNK not in ids
    assert spelled.decode(ids) == "日"


def test_what_is_no_model_is_refused(tokenizer: Tokenizer) -> None:
    import io

    import sentencepiece

    assert Tokenizer.from_bytes(tokenizer.to_bytes()).vocabulary() == tokenizer.vocabulary()
    with pytest.raises(UserError):
        Tokenizer.from_bytes(tokenizer.to_bytes()[:200])
    with pytest.raises(UserError, match="damaged"):
        Tokenizer.from_bytes(b"")
    foreign = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=foreign, vocab_size=SIZE, minloglevel=2
    )
    with pytest.raises(UserError):
        Tokenizer.from_bytes(foreign.getvalue())
    stored = tokenizer.prepared(Preparation(punctuation="de")).to_bytes()
    for text in (tokenizer.vocabulary()[5].encode(), b'"punctuation"'):  # a piece, and how text is prepared
        with pytest.raises(UserError, match="damaged"):
            Tokenizer.from_bytes(stored.replace(text, b"\xff" + text[1:], 1))


def test_every_line_is_trained_on() -> None:
    assert "▅" not in (vocabulary := Tokenizer.train(["▅ river", "lamp"], 20, exact=False).vocabulary())
    assert set("riverlamp") <= set(vocabulary)
    with pytest.raises(UserError, match="no characters"):
        Tokenizer.train(["", " ▅"], 20)


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_user_defined_symbols_are_never_cut(model_type: str) -> None:
    symbols = ["<2de>", "<formal>"]
    tagged = Tokenizer.train(LINES, SIZE, model_type=model_type, user_defined_symbols=symbols)  # type: ignore[arg-type]
    assert tagged.vocabulary()[5:7] == symbols
    assert tagged.vocab_size == SIZE
    line = "<2de> river <formal>lamp"
    (ids,) = tagged.encode([line])
    assert [piece for piece in tagged.pieces(ids) if piece in symbols] == symbols
    assert tagged.decode(ids) == line
    with pytest.raises(UserError, match="--user-defined-symbols"):
        Tokenizer.train(LINES, SIZE, user_defined_symbols=["<brk>"])
    options = {"source_lang": "en", "target_lang": "de", "destdir": "d", "trainpref": ("t",)}
    for symbol in ("▁", "a▁b", "a b", ""):  # the first two would be spaces in what is decoded
        (problem,) = TranslationPreprocessConfig(**options, user_defined_symbols=(symbol,)).problems()  # type: ignore[arg-type]
        assert repr(symbol) in problem


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
@pytest.mark.parametrize("options", [{}, {"byte_fallback": True}, {"user_defined_symbols": ["<x>"]}])
@pytest.mark.parametrize("lines", [["a cat", "dogs ran off"], ["abcdefghijklmnopqrstuvwxyz"], ["漢字と仮名", "b 1"]])
def test_both_limits_of_the_size_work_and_nothing_beyond_them(
    model_type: Any, options: dict[str, Any], lines: list[str]
) -> None:
    def limit(size: int, words: str) -> int:
        with pytest.raises(UserError) as error:
            Tokenizer.train(lines, size, model_type=model_type, **options)
        return int(re.findall(rf"{words} (\d+)", str(error.value))[0])

    smallest, largest = limit(6, "need"), limit(5000, "is")
    assert smallest <= largest
    for size in (smallest, largest):
        assert Tokenizer.train(lines, size, model_type=model_type, **options).vocab_size == size
    assert limit(smallest - 1, "need") == smallest
    assert limit(largest + 1, "is") == largest


# Drawn subwords: the exact distribution, the same with every version of SentencePiece, by seed and place alone.


LINES_OF_SAMPLING = LINES[::5]
DRAWS = 10_000
KINDS = ("unigram", "bpe")
Distribution = dict[tuple[int, ...], float]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer_of_sampling(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(LINES_OF_SAMPLING, 80, model_type=request.param)


def rows(tokenizer: Tokenizer, lines: list[str], alpha: float, seed: int = 1, first: int = 0) -> list[list[int]]:
    return [row.tolist() for row in SubwordSampler(tokenizer, alpha).draw(lines, first, [seed])]


def frequencies(drawn: list[list[int]]) -> Distribution:
    return {tuple(row): count / len(drawn) for row, count in Counter(map(tuple, drawn)).items()}


def distance(one: Distribution, other: Distribution) -> float:
    """Total variation, in [0, 1]."""
    return sum(abs(one.get(row, 0.0) - other.get(row, 0.0)) for row in one.keys() | other.keys()) / 2


def by_enumeration(processor: Any, line: str, alpha: float) -> Distribution:
    """Of a unigram model: every segmentation that SentencePiece finds, weighed by its score."""
    segmentations = processor.nbest_encode_as_ids(line, 512)  # the most that it gives
    assert len(segmentations) < 512
    weights = {tuple(row): math.exp(alpha * sum(map(processor.get_score, row))) for row in segmentations}
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
    tokenizer = Tokenizer.train(LINES_OF_SAMPLING, 80, model_type=kind)  # type: ignore[arg-type]
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
    tokenizer = Tokenizer.train(LINES_OF_SAMPLING, 80)
    line = "lamp of"
    exact = by_enumeration(tokenizer._processor, line, 0.3)
    ours = frequencies(rows(tokenizer, [line] * DRAWS, 0.3))
    assert distance(ours, exact) < sum(math.sqrt(p * (1 - p) / DRAWS) for p in exact.values())
    first = frequencies(rows(tokenizer, ["lamp"] * DRAWS, 0.3))
    assert distance(first, by_enumeration(tokenizer._processor, "lamp", 0.3)) < 0.03


@pytest.mark.parametrize("spelled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_without_chance_it_is_the_best_segmentation(kind: str, spelled: bool) -> None:
    """Unknown characters, which are one run or bytes, and characters that normalisation changes among it."""
    tokenizer = Tokenizer.train(LINES_OF_SAMPLING, 80 + 256 * spelled, model_type=kind, byte_fallback=spelled)  # type: ignore[arg-type]
    odd = ["日本 river 日", "日", "  two   lamps ", "ﬁnal ½", "🙂🙂\u200b lamp", "", "e\u0301 ▁ x"]
    certain = {"unigram": 1e4, "bpe": 0.0}[kind]
    drawn = rows(tokenizer, [*LINES_OF_SAMPLING[::7], *odd], certain)
    best = tokenizer.encode([*LINES_OF_SAMPLING[::7], *odd])
    assert drawn == best


def test_a_line_is_drawn_alike_whatever_is_drawn_with_it(
    tokenizer_of_sampling: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rows(tokenizer_of_sampling, LINES_OF_SAMPLING, 0.2)
    firsts = range(0, len(LINES_OF_SAMPLING), 37)
    assert [
        row for a in firsts for row in rows(tokenizer_of_sampling, LINES_OF_SAMPLING[a : a + 37], 0.2, first=a)
    ] == whole
    monkeypatch.setattr("docnmt.core.subword_sampling._MOST_CHOICES", 50)
    sampler = SubwordSampler(tokenizer_of_sampling, 0.2)
    assert [sampler.draw([line], n, [1])[0].tolist() for n, line in enumerate(LINES_OF_SAMPLING)] == whole


def test_a_long_word_is_merged_in_linear_time() -> None:
    class Counted(dict[str, float]):
        asked = 0

        def get(self, pair: str, default: Any = None) -> Any:
            self.asked += 1
            return super().get(pair, default)

    words: Any = SubwordSampler(Tokenizer.train(LINES_OF_SAMPLING, 80, model_type="bpe"), 0.2)._words
    word = "▁" + "winterlamp" * 100
    scores = words._scores = Counted(words._scores)
    words.draw([word], np.zeros(1, np.int64), np.zeros(1, np.int64), [1])
    assert scores.asked < 4 * len(word)


def test_every_version_of_sentencepiece_draws_this() -> None:
    model = Path(__file__).parents[1] / "compat" / "v1" / "data" / "tokenizer.model"
    tokenizer = Tokenizer.from_bytes(model.read_bytes())
    drawn = [
        " ".join(tokenizer.pieces(row)) for row in rows(tokenizer, ["the old cat sleeps.", "a river sleeps ½"], 0.1)
    ]
    assert drawn == ["▁the ▁ o l d ▁cat ▁sleeps .", "▁ a ▁river ▁ s l e e p s ▁ <unk>"]


# What a model does not know is said before it is translated.


PARTS = ("river", "„lamp“", "«cup»", "1 000,5", "…", "–", "—", "  ", "’s", "a", "B.", "?", " !", "( x )", "10 %")


@pytest.mark.parametrize("seed", range(20))
def test_places_of_a_text_with_other_punctuation(seed: int) -> None:
    """Letters stand where the same letters stood, and all else in order between them."""
    draw = random.Random(seed)
    text = "".join(draw.choice(PARTS) + draw.choice(["", " "]) for _ in range(14))
    changed = normalizer("de")(text)
    places = tokenizer_module._places(changed, text)
    assert len(places) == len(changed) + 1
    assert places == sorted(places)
    assert places[-1] == len(text)
    assert all(text[position] == sign for position, sign in zip(places, changed, strict=False) if sign.isalpha())
    assert tokenizer_module._places(text, text) == [*range(len(text) + 1)]
