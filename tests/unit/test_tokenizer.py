"""Subwords: reproducible, reversible, and special symbols that no text can write."""

from __future__ import annotations

import difflib
import random
import re
from typing import Any

import pytest
from subword_lines import LINES, WORDS

from docnmt.core import tokenizer as tokenizer_module
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, UNK, Tokenizer, normalizer
from docnmt.runtime.system import UserError

SIZE = 80


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, SIZE)


def test_the_same_text_gives_the_same_model(tokenizer: Tokenizer) -> None:
    assert Tokenizer.train(iter(LINES), SIZE).to_bytes() == tokenizer.to_bytes()
    assert Tokenizer.train(LINES[::2], SIZE).to_bytes() != tokenizer.to_bytes()


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
    assert all(text[place] == sign for place, sign in zip(places, changed, strict=False) if sign.isalpha())
    assert tokenizer_module._places(text, text) == [*range(len(text) + 1)]


@pytest.mark.parametrize(("one", "other"), [("'a", "’a"), ("-", "–"), ("a ", "a  "), ("ab", "ba"), ("a'", "'a")])
def test_long_texts_are_not_compared_as_a_whole(one: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take the cube of their length."""
    compared, matcher = list[int](), difflib.SequenceMatcher

    def counted(junk: None, first: str, second: str, *, autojunk: bool) -> difflib.SequenceMatcher[str]:
        compared.append(len(first) * len(second))
        return matcher(junk, first, second, autojunk=autojunk)

    monkeypatch.setattr(difflib, "SequenceMatcher", counted)
    size = 20_000
    assert len(tokenizer_module._places(one * size, other * size)) == len(one) * size + 1
    assert sum(compared) < 100 * size


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


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_vocabulary_larger_than_the_text_supports_names_the_largest_that_works(model_type: str) -> None:
    with pytest.raises(UserError) as error:
        Tokenizer.train(LINES, 50_000, model_type=model_type)  # type: ignore[arg-type]
    largest = int(re.findall(r"works is (\d+)", str(error.value))[0])
    assert Tokenizer.train(LINES, largest, model_type=model_type).vocab_size == largest  # type: ignore[arg-type]
    with pytest.raises(UserError):
        Tokenizer.train(LINES, largest + 1, model_type=model_type)  # type: ignore[arg-type]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_at_most_so_many_entries(model_type: str) -> None:
    most = Tokenizer.train(LINES, 50_000, model_type=model_type, exact=False)  # type: ignore[arg-type]
    assert SIZE < most.vocab_size < 50_000
    assert most.decode(most.encode(LINES)[0]) == LINES[0]


def test_a_vocabulary_smaller_than_the_characters_names_the_smallest() -> None:
    with pytest.raises(UserError) as error:
        Tokenizer.train(LINES, 10)
    smallest = int(re.findall(r"alone need (\d+)", str(error.value))[0])
    assert Tokenizer.train(LINES, smallest).vocab_size == smallest
    with pytest.raises(UserError, match="--vocab-size"):
        Tokenizer.train(LINES, 1)


def test_long_lines_are_not_dropped_from_training() -> None:
    tokenizer = Tokenizer.train([*LINES, "word " * 2000 + "ж"], SIZE)
    assert UNK not in tokenizer.encode(["ж"])[0]


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
    foreign = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=foreign, vocab_size=SIZE, minloglevel=2
    )
    with pytest.raises(UserError):
        Tokenizer.from_bytes(foreign.getvalue())


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
