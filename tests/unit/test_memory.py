"""A translation memory: what it finds, and how it stands before a document."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from docnmt.core.corpus import ParallelCorpus, TextArray, TokenArray, offsets_of
from docnmt.core.search.translate import TranslationMemory, with_memory


def corpus(documents: list[list[list[int]]], name: str) -> ParallelCorpus:
    """Sentences given as subwords; their text is `name` and their number."""
    sentences = [sentence for document in documents for sentence in document]
    lengths = np.array([len(document) for document in documents])
    texts = [f"{name}{n}" for n in range(len(sentences))]
    return ParallelCorpus(
        document_offsets=offsets_of(lengths),
        blank_lines=np.ones(len(documents) + 1, dtype=np.int32),
        levels=np.tile(np.arange(len(sentences), dtype=np.int32)[:, None], (1, 2)),
        source=TokenArray.from_lists(sentences, 100),
        target=None,
        source_text=TextArray.from_lines(texts),
        references=[TextArray.from_lines(text.upper() for text in texts)],
    )


def weights(sentence: list[int], documents: Counter[object], size: int) -> dict[object, float]:
    """tf-idf of subwords and pairs of them."""
    counts = Counter([*sentence, *itertools.pairwise(sentence)])
    return {run: (1 + np.log(n)) * np.log1p(size / documents[run]) for run, n in counts.items() if documents[run]}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_similar_sentences_are_those_of_largest_cosine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sentences = [rng.integers(0, 40, rng.integers(1, 9)).tolist() for _ in range(60)]
    memory = TranslationMemory(corpus([sentences], "m"), count=3)
    runs = Counter(run for s in sentences for run in {*s, *itertools.pairwise(s)})
    for _ in range(20):
        asked = rng.integers(0, 40, 6).tolist()
        ours = {run: np.log1p(60 / runs[run]) for run in {*asked, *itertools.pairwise(asked)} if runs[run]}
        ours = {run: value for run, value in ours.items() if runs[run] <= 10}  # frequent ones are not looked up
        scores = []
        for n, sentence in enumerate(sentences):
            theirs = weights(sentence, runs, 60)
            common = ours.keys() & theirs.keys()
            norm = sum(value**2 for value in theirs.values()) ** 0.5
            if common:
                scores.append((-sum(ours[run] * theirs[run] for run in common) / norm, n))
        expected = [n for _, n in sorted((round(score, 9), n) for score, n in scores)[:3]]
        assert memory.similar(np.array(asked)) == expected


def test_memory_stands_before_each_document_and_is_given() -> None:
    memory = TranslationMemory(corpus([[[50, 51], [60, 61]], [[70, 71]]], "m"), count=1)
    text = corpus([[[50, 51, 2], [3, 4]], [[60, 61], [70, 71]]], "s")
    joined, given, numbers = with_memory(text, ["S0", None, None, None], memory)
    assert numbers.tolist() == [-1, 0, 1, -1, -1, 2, 3]
    assert given == ["M0", "S0", None, "M2", "M1", None, None]
    assert joined.document_offsets.tolist() == [0, 3, 7]
    assert joined.levels[:, 0].tolist() == [-1, 0, 1, -1, -1, 2, 3]
    assert [joined.source[n].tolist() for n in (0, 1)] == [[50, 51], [50, 51, 2]]
    foreign = with_memory(text, None, replace(memory, foreign=True))
    assert foreign[1] == ["M2", "M1", None, None, "M0", None, None]


def test_nothing_similar_leaves_a_document_as_it_is() -> None:
    memory = TranslationMemory(corpus([[[50, 51]]], "m"))
    text = corpus([[[1, 2]], [[]]], "s")
    joined, given, numbers = with_memory(text, None, memory)
    assert numbers.tolist() == [0, 1]
    assert given == [None, None]
    assert joined.document_offsets.tolist() == [0, 1, 2]


def test_a_memory_without_translations_finds_nothing() -> None:
    bare = corpus([[[50, 51], [60, 61]]], "m")
    memory = TranslationMemory(replace(bare, references=[TextArray.from_lines(["", ""])]))
    assert memory.similar(np.array([50, 51])) == []
    assert with_memory(corpus([[[50, 51]]], "s"), None, memory)[1] == [None]
    assert TranslationMemory(corpus([[]], "m")).similar(np.array([50])) == []
