"""What a model does not know is said before it is translated."""

from __future__ import annotations

import pytest
import small_system

from docnmt.core.corpus import UnknownText, unknown_characters


def test_unknown_subwords_are_counted_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    known = small_system.corpus([["the dog sees.", "a cat."]])
    UnknownText(small_system.tokenizer()).add(known)
    assert capsys.readouterr().err == ""
    corpus = small_system.corpus([["the dog 漢字 sees.", "a cat.", "a 字 \x1b."]])
    UnknownText(small_system.tokenizer()).add(corpus)
    said = capsys.readouterr().err
    unknown = sum(int(token == 0) for token in corpus.source.tokens)
    assert f"warning: {unknown} of {len(corpus.source.tokens)} subwords, in 2 of 3 sentences, are unknown" in said
    assert "(漢 字" in said
    assert "\x1b" not in said


def test_characters_that_no_entry_has() -> None:
    assert unknown_characters(["the 漢 dog 漢 字"], small_system.tokenizer()) == ["漢", "字"]
    assert unknown_characters(["<the> dog/"], small_system.tokenizer()) == ["<", ">", "/"]  # `</s>` is no text
