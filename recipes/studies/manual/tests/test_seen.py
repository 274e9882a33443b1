"""What of a test text is in training, against plain loops; and the look-up that answers the discourse corpus."""

from __future__ import annotations

import random
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rapidfuzz")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "discourse"))

import retrieval
import seen

from docnmt.core.corpus import TextArray
from docnmt.core.preprocess import line_hashes, shares_seen


def edits(one: list[str], other: list[str]) -> int:
    """Levenshtein's distance, row by row."""
    row = list(range(len(other) + 1))
    for number, word in enumerate(one, 1):
        above, row = row, [number]
        for column, wanted in enumerate(other):
            row.append(min(row[column] + 1, above[column + 1] + 1, above[column] + (word != wanted)))
    return row[-1]


def test_case_punctuation_and_forms_of_letters_do_not_matter() -> None:
    training = ["The  File, opened.", "\ufb01le (new)", "…"]  # the second begins with the ligature fi
    lines = ["the file opened", "File: new", "a file", "…", "?"]
    assert seen.seen_lines(lines, training).tolist() == [True, True, False, True, False]


def test_nearly_seen_lines_are_those_of_a_similarity_of_nine_tenths() -> None:
    draw = random.Random(3)
    training = [" ".join(draw.choices("abcd", k=draw.randint(1, 24))) for _ in range(60)]
    lines = [line for line in training[:20] for _ in range(3)]
    for n, line in enumerate(lines):  # up to three edits
        words = line.split()
        for _ in range(n % 4):
            words[draw.randrange(len(words))] = draw.choice("abcdx")
        lines[n] = " ".join(words)
    expected = []
    for line in lines:
        own = line.split()
        similar = (1 - edits(own, known.split()) / max(len(own), len(known.split())) for known in training)
        expected.append(line in training or (len(own) >= 10 and max(similar) >= 0.9 - 1e-9))
    assert seen.nearly_seen_lines(lines, training).tolist() == expected
    assert 0 < sum(expected) < len(lines)


def test_the_rule_of_preprocessing_is_counted_alike() -> None:
    draw = random.Random(5)
    training = draw.choices("abcdefgh", k=60)
    lines = [letter * draw.randint(1, 3) for letter in draw.choices("abcdefgh", k=60)]
    lines[10:30] = training[5:25]
    offsets = [0, 1, 4, 10, 18, 19, 30, 45, 60]
    share = shares_seen(TextArray.from_lines(lines), np.array(offsets), line_hashes(TextArray.from_lines(training)))
    assert seen.below_half_by_runs(lines, offsets, training).tolist() == (share < 0.5).tolist()
    known = seen.seen_lines(lines, training)
    new = [sum(known[begin:end]) < 0.1 * (end - begin) for begin, end in pairwise(offsets)]
    assert seen.new_documents(known, offsets).tolist() == new


def test_a_look_up_finds_the_sentence_with_the_rarest_shared_word() -> None:
    choose = retrieval.most_similar(["Anna saw it.", "He saw it.", "He saw Ben.", "It was he."])
    assert choose("Anna saw him.", ["Anna slept.", "He saw it.", "He was it."]) == [0]
    assert choose("Anna.", ["Anna slept.", "Anna sat."]) == [1]  # of equals the nearest
    assert choose("Anna.", []) == []
    table = retrieval.Table()
    for context, target in (("a", "x"), ("b", "y")):
        table.add({context}, {target})
    assert table.score({"a"}, {"x"}) > table.score({"a"}, {"y"})
