"""The rule-based sentence splitter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docnmt.formats.sentences import split_sentences

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
