"""Sentences and documents above the limits: declared, on both sides alike, never silent, never in a test set."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest
from parallel_text import WORDS, ParallelText, translate

from docnmt.core.corpus import ParallelCorpus, renumber
from docnmt.core.preprocess import split_text

Capture = pytest.CaptureFixture[str]
LIMIT = 60
LONG = " ".join(WORDS[:20] * 6)


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """Line 1 of dev and of test and line 6 of train are far too long."""
    text = ParallelText(tmp_path)
    for split, line in (("train", 6), ("dev", 1), ("test", 1)):
        assert text.lines(f"{split}.en")[line - 1]
        text.set_line(f"{split}.en", line, LONG)
        text.set_line(f"{split}.de", line, translate(LONG))
    return text


def run(text: ParallelText, policy: str, *more: str) -> int:
    return text.preprocess("--long-policy", policy, "--max-sentence-tokens", str(LIMIT), *more)


def longest(corpus: ParallelCorpus) -> int:
    assert corpus.target is not None
    return int(max(corpus.source.lengths().max(), corpus.target.lengths().max()))


def sides_agree(corpus: ParallelCorpus) -> bool:
    """Both sides and the structure have equally many sentences, and the raw text still goes together."""
    assert corpus.target is not None
    assert len(corpus.source) == len(corpus.target) == corpus.num_sentences == corpus.document_offsets[-1]
    assert len(corpus.levels) == corpus.num_sentences
    return list(corpus.references[0]) == [translate(line) for line in corpus.source_text]


def test_error_names_the_first_line_and_what_to_do(text: ParallelText, capsys: Capture) -> None:
    assert run(text, "error") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{text.path('train.en')}:6: " in error
    assert "--max-sentence-tokens" in error
    assert not text.data.exists()


@pytest.mark.parametrize("policy", ["error", "split", "truncate", "skip"])
def test_below_the_limits_no_policy_changes_anything(text: ParallelText, policy: str) -> None:
    assert text.preprocess("--long-policy", policy, "--max-sentence-tokens", "5000") == 0
    assert text.preprocess("--max-sentence-tokens", "6000", destdir=text.folder / "plain") == 0
    plain = ParallelCorpus.open(text.folder / "plain", "train")
    np.testing.assert_array_equal(text.corpus("train").source.tokens, plain.source.tokens)


def test_skip_leaves_the_sentence_out_on_both_sides(text: ParallelText, capsys: Capture) -> None:
    assert run(text, "skip") == 0
    corpus = text.corpus("train")
    assert sides_agree(corpus)
    assert list(corpus.source_text) == [line for line in text.lines("train.en") if line and line != LONG]
    assert longest(corpus) <= LIMIT
    assert re.search(rf"train: 1 sentences .*{LIMIT}", capsys.readouterr().err)


def test_truncate_cuts_the_subwords_and_keeps_the_raw_text(text: ParallelText) -> None:
    assert run(text, "truncate") == 0
    corpus = text.corpus("train")
    assert sides_agree(corpus)
    assert list(corpus.source_text) == [line for line in text.lines("train.en") if line]
    assert longest(corpus) == LIMIT


def test_split_makes_equally_many_pieces_on_both_sides(text: ParallelText) -> None:
    assert run(text, "split") == 0
    corpus = text.corpus("train")
    lines = [line for line in text.lines("train.en") if line]
    where = lines.index(LONG)
    pieces = corpus.num_sentences - len(lines) + 1
    assert pieces > 1
    assert longest(corpus) <= LIMIT
    for side, whole in ((corpus.source_text, LONG), (corpus.references[0], translate(LONG))):
        assert " ".join(side[where : where + pieces]) == whole
    assert list(corpus.source_text[where + pieces :]) == lines[where + 1 :]
    assert corpus.target is not None
    assert len(corpus.target) == len(corpus.references[0]) == corpus.num_sentences == corpus.document_offsets[-1]


@pytest.mark.parametrize("policy", ["split", "truncate", "skip"])
def test_test_sets_stay_whole_with_a_warning(text: ParallelText, capsys: Capture, policy: str) -> None:
    assert run(text, policy, "--max-document-tokens", "100") == 0
    corpus = text.corpus("test")
    assert list(corpus.source_text) == [line for line in text.lines("test.en") if line]
    assert longest(corpus) > LIMIT
    warning = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: test:"))
    assert f"the first: {text.path('test.en')}:1" in warning
    assert "kept whole" in warning


def test_documents_are_split_at_sentence_ends(text: ParallelText) -> None:
    rows = ["" if not line else f"{i // 3}\t{i // 2}" for i, line in enumerate(text.lines("train.en"))]
    text.path("train.levels.tsv").write_text("".join(f"{row}\n" for row in rows))
    assert text.preprocess("--long-policy", "split") == 0
    whole = text.corpus("train")
    limit = longest(whole)
    assert text.preprocess("--long-policy", "split", "--max-document-tokens", str(limit), "--overwrite") == 0
    corpus = text.corpus("train")
    assert list(corpus.source_text) == list(whole.source_text)
    assert set(whole.document_offsets) < set(corpus.document_offsets)
    assert corpus.target is not None
    costs = np.maximum(corpus.source.lengths(), corpus.target.lengths())
    assert np.add.reduceat(costs, corpus.document_offsets[:-1]).max() <= limit
    assert corpus.blank_lines.sum() == whole.blank_lines.sum()
    np.testing.assert_array_equal(corpus.levels, renumber(whole.levels, corpus.document_offsets))


@pytest.mark.parametrize("policy", ["skip", "truncate"])
def test_documents_are_left_out_or_cut_off(text: ParallelText, policy: str) -> None:
    assert text.preprocess() == 0
    whole = text.corpus("train")
    assert whole.target is not None
    costs = np.maximum(whole.source.lengths(), whole.target.lengths())
    bounds = list(zip(whole.document_offsets[:-1], whole.document_offsets[1:], strict=True))
    expected = []
    for first, last in bounds:
        kept = first
        while kept < last and costs[first : kept + 1].sum() <= LIMIT:
            kept += 1
        if policy == "truncate":
            expected.append(whole.source_text[first : max(kept, first + 1)])
        elif kept == last:
            expected.append(whole.source_text[first:last])
    assert text.preprocess("--long-policy", policy, "--max-document-tokens", str(LIMIT), "--overwrite") == 0
    corpus = text.corpus("train")
    assert sides_agree(corpus)
    offsets = corpus.document_offsets.tolist()
    assert [corpus.source_text[a:b] for a, b in itertools.pairwise(offsets)] == expected


def test_nothing_left_is_an_error(text: ParallelText, capsys: Capture) -> None:
    for side in ("en", "de"):
        longer = [f"{line} river lamp" if line else "" for line in text.lines(f"train.{side}")]
        text.path(f"train.{side}").write_text("".join(f"{line}\n" for line in longer))
    assert text.preprocess("--long-policy", "skip", "--max-sentence-tokens", "1") == 1
    assert "train:" in capsys.readouterr().err


def test_what_has_no_spaces_cannot_be_split(text: ParallelText, capsys: Capture) -> None:
    text.set_line("train.en", 6, "".join(random.Random(0).choices("abcdefghi", k=400)))
    assert run(text, "split") == 1
    assert f"{text.path('train.en')}:6" in capsys.readouterr().err


def test_splitting_text() -> None:
    assert split_text("a b c d e", 2) == ["a b", "c d e"]
    assert split_text(" a  b ", 2) == ["a", "b"]
