"""The rule-based sentence splitter."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docnmt.core.formats.split_sentences import cut_long, split_sentences, splitter, whole_lines

#: Each case: language and the sentences that must come back from them joined by a space.
CASES = [
    ("en", ["It rained.", "We stayed in."]),
    ("en", ["Mr. Smith met Dr. Jones on Jan. 3 in St. Ives.", "They talked."]),
    ("en", ["See Fig. 3 and No. 7 on pp. 12 ff. of the book.", "Then go on."]),
    ("en", ["J. R. R. Tolkien wrote it."]),
    ("en", ["He lives in the U.S. now.", "Really?", "Yes!"]),
    ("en", ["Bring pens, e.g. Two blue ones."]),
    ("en", ['"Is it?" she asked.', '"It is."', "He left."]),
    ("en", ["Wait… what?", "(No.)", "Version 2.5 costs 3.50 dollars."]),
    ("en", ["So do I.", "- No.", "- Why not?!", "Oh."]),
    ("en", ["It was 1984.", "Nobody knew."]),
    ("en", ["Pears, plums, etc.", "He ate them all."]),
    ("de", ["Am 3. Mai kam Prof. Müller.", "Er blieb bis zum 12. Juni."]),
    ("de", ["Das gilt z.B. für Äpfel bzw. Birnen.", "Vgl. Abb. 3 auf S. 5.", "Gut."]),
    ("de", ["Das gilt z. B. für Äpfel."]),
    ("de", ["„Kommst du?“", "„Ja.“", "Sie ging."]),
    ("de", ["Es war 1984.", "Niemand wusste es."]),
    ("zh", ["你好。", "再见！"]),
    ("", ["Ἐν ἀρχῇ ἦν ὁ λόγος.", "Καὶ ὁ λόγος ἦν πρὸς τὸν θεόν."]),
]


@pytest.mark.parametrize(("language", "sentences"), CASES)
def test_sentences_are_found(language: str, sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences), language) == sentences


def test_a_blank_line_has_none() -> None:
    assert split_sentences("") == split_sentences(" \t ") == []


def test_regional_codes_are_their_language() -> None:
    assert len(split_sentences("Am 3. Mai.", "de-AT")) == 1


@given(st.text(alphabet=st.sampled_from("aB3 .!?…\"')(„“。\t-"), max_size=60), st.sampled_from(["", "en", "de"]))
def test_nothing_is_lost(line: str, language: str) -> None:
    assert "".join("".join(split_sentences(line, language)).split()) == "".join(line.split())


@pytest.mark.parametrize("text", [".", ". ", '."', ". (", "a. b", "x. y ", "?!", "。", '". '])
def test_runs_of_marks_take_linear_time(text: str) -> None:
    begun = time.process_time()
    split_sentences(text * (300_000 // len(text)), "en")
    assert time.process_time() - begun < 3  # it was minutes


def test_spaces_behind_a_mark_take_linear_time() -> None:
    begun = time.process_time()
    assert split_sentences("Yes." + " " * 300_000, "en") == ["Yes."]
    assert time.process_time() - begun < 3


def test_long_sentences_are_cut_and_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(f"word{n}{',' * (n % 7 == 0)}" for n in range(1000))
    pieces = cut_long(words, 200)
    assert " ".join(pieces) == words
    assert max(map(len, pieces)) <= 200
    assert all(piece.endswith(",") for piece in pieces[:-1])
    assert "".join(cut_long("x" * 1000, 300)) == "x" * 1000
    assert cut_long("short", 300) == ["short"]
    split = splitter("rules", "en")
    assert " ".join(split(words)) == words
    split(words)
    said = capsys.readouterr().err
    assert said.count("pieces") == 1
    assert "word" not in said  # services do not log texts
    assert split("A dog. A cat.") == ["A dog.", "A cat."]
    whole = whole_lines()
    assert whole("A dog. A cat.") == ["A dog. A cat."]
    assert " ".join(whole(words)) == words
    assert len(whole(words)) > 1
