"""From subwords that stand for each other to pairs of words, and their lines."""

from __future__ import annotations

from docnmt.apps.commands.output import aligned_lines, pharaoh
from docnmt.apps.documents.projection import project
from docnmt.apps.documents.segments import Mark
from docnmt.apps.explain.attention import AlignedPiece, word_pairs
from docnmt.core.search.translate import SentenceResult, Translation


def test_words_stand_between_white_space() -> None:
    source, target = "the old  dogs", " Hunde, die alten"
    pieces = [
        AlignedPiece((9, 12), (1, 5)),  # dog: Hund
        AlignedPiece((12, 13), (5, 6)),  # s: e
        AlignedPiece((4, 7), (6, 7)),  # old: the comma, which belongs to the word
        AlignedPiece((0, 3), (8, 11)),
        AlignedPiece((9, 9), (12, 12)),  # a subword that is only the space in front of a word
        AlignedPiece((13, 13), (12, 17)),  # one behind the last word
    ]
    assert word_pairs(source, target, pieces) == [(2, 0), (1, 0), (0, 1), (2, 2)]
    assert pharaoh(word_pairs(source, target, pieces)) == "2-0 1-0 0-1 2-2"
    assert word_pairs("", "", []) == []


def test_words_of_a_line_are_counted_through_its_sentences() -> None:
    texts = ["Ein Hund.", "", "Er schläft.", "Ja."]
    results = [SentenceResult(n, (Translation(text, (), 0.0, ()),)) for n, text in enumerate(texts)]
    pairs = [[[(0, 0), (1, 1)]], [[]], [[(1, 0), (0, 1)]], [[(0, 0)]]]
    sources = ["A dog.", "…", "sleeps it", "Yes."]
    found = aligned_lines([3, 0, 1], sources, zip(results, pairs, strict=True))
    assert list(found) == ["Ein Hund. Er schläft. ||| 0-0 1-1 4-2 3-3", "", "Ja. ||| 0-0"]


def test_a_format_covers_characters_of_chinese_and_not_the_whole_clause() -> None:
    """A model names the first character of each subword; those behind it belong to it."""
    source, target = "A big dog runs away.", "一只大狗跑步了。"
    subwords = [(0, 0), (2, 2), (6, 2), (10, 4), (15, 4), (19, 7)]
    ((begin, end),) = project([Mark(2, 9)], source, target, subwords)
    assert target[begin:end] == "大狗"
    ((begin, end),) = project([Mark(2, 4)], target, source, [(j, i) for i, j in subwords])
    assert source[begin:end] == "big dog"
