"""Sentence pairs: tables → data folder → batches of both sentences.

`read_pairs` → `words` → `PairDataset` (arrays of a folder) → `PairBatch`: packed first sentences, then the second ones
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batch import plan_batches
from docnmt.core.corpus import RaggedWriter, SplitFolder, TokenArray, offsets_of, write_array
from docnmt.core.read_corpus import TextLines, kind_of_table
from docnmt.core.tables import open_table, text_rows
from docnmt.core.training.criterions import LabelledBatch
from docnmt.layout import Spans
from docnmt.runtime.system import UserError

#: The classes of natural language inference, in the order of the model's outputs.
NLI_LABELS = ("entailment", "neutral", "contradiction")

#: The label of pairs on which annotators did not agree; they are left out, as in all published work.
NO_GOLD_LABEL = "-"


@dataclass
class SentencePairs:
    """The pairs of one or more files."""

    labels: list[int] = field(default_factory=list)  # one per pair, as a place in `NLI_LABELS`
    sentences: list[str] = field(default_factory=list)  # premise, hypothesis, premise, hypothesis, …
    undecided: int = 0  # pairs without a gold label, which are left out


def read_pairs(*paths: Path) -> SentencePairs:
    """Read `.jsonl` (`gold_label`, `sentence1`, `sentence2`: SNLI, MultiNLI) or `.tsv` (`label`, `text`, `text2`)."""
    pairs = SentencePairs()
    for path in paths:
        before = len(pairs.labels)
        published = kind_of_table(path.name) == ".jsonl"
        columns = ("gold_label", "sentence1", "sentence2") if published else ("label", "text", "text2")
        for place, row in text_rows(open_table(path), columns):
            label, *sentences = row.values()
            if label == NO_GOLD_LABEL:
                pairs.undecided += 1
            elif label.lower() not in NLI_LABELS:
                raise UserError(f"{place}: label '{label}' is none of {', '.join(NLI_LABELS)}")
            else:
                pairs.labels.append(NLI_LABELS.index(label.lower()))
                pairs.sentences += sentences
        if len(pairs.labels) == before:
            raise UserError(f"{path}: holds no labelled pairs")
    return pairs


# A data folder has the vocabulary with its vectors, `probability.bin` (the relative frequency of each word in the
# training data) and for each split `SPLIT.tokens.bin` with its offsets (sentence 2i is premise, 2i + 1 its
# hypothesis) and `SPLIT.labels.bin`.


@dataclass(frozen=True, eq=False)
class PackedSentences:
    """Sentences concatenated to one row of tokens (T,), int64, which are rows of the embedding tables."""

    tokens: Tensor
    spans: Spans

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int] | np.ndarray]) -> PackedSentences:
        """Pack sentences given as lists of rows."""
        tokens = np.concatenate([np.asarray(sentence, dtype=np.int64) for sentence in ([], *sentences)])
        offsets = offsets_of(np.array([len(sentence) for sentence in sentences], dtype=np.int64))
        return cls(torch.from_numpy(tokens), Spans(torch.from_numpy(offsets)))

    def to(self, device: torch.device | str) -> PackedSentences:
        """Return the sentences on another device."""
        return PackedSentences(self.tokens.to(device), Spans(self.spans.offsets.to(device)))


#: A batch of B pairs: the text has their B first sentences, then their B second ones.
PairBatch: TypeAlias = LabelledBatch[PackedSentences]


@dataclass(frozen=True, eq=False)
class PairDataset:
    """The pairs of one split. A sentence without words becomes one unknown word."""

    split: str
    sentences: TokenArray  # words of 2U sentences: premise, hypothesis, premise, …
    labels: np.ndarray  # (U,) uint8

    @classmethod
    def open(cls, folder: Path, split: str, files: dict[str, dict[str, Any]]) -> PairDataset:
        """Map the arrays of a split into memory; `files` is the list in `meta.json`."""
        arrays = SplitFolder(folder, split, files)
        labels = arrays.array("labels")
        words = TokenArray(arrays.array("tokens"), arrays.array("tokens.offsets"))
        return cls(split, words, labels)

    def save(self, folder: Path) -> dict[str, dict[str, Any]]:  # Any: entries of `meta.json`
        """Write the arrays that `open` reads; return the files' entries in `meta.json`."""
        words = RaggedWriter(folder, f"{self.split}.tokens", self.sentences.tokens.dtype)
        words.append(self.sentences.tokens, self.sentences.lengths())
        return words.close() | write_array(folder / f"{self.split}.labels.bin", self.labels, "u1")

    @property
    def sizes(self) -> np.ndarray:
        """The number of words (U,) in both sentences of each pair, int64."""
        return np.diff(self.sentences.offsets[::2])

    def batch(self, units: np.ndarray) -> PairBatch:
        """Return the batch of these pairs: first all premises, then all hypotheses."""
        sentences = [self.sentences[2 * unit + side] for side in (0, 1) for unit in units]
        return PairBatch(PackedSentences.of(sentences), torch.from_numpy(self.labels[units].astype(np.int64)))

    def describe(self, units: np.ndarray) -> str:
        """Describe these pairs by their numbers, from 1."""
        return f"{self.split} pairs {', '.join(str(unit + 1) for unit in units[:10])}{', …' if len(units) > 10 else ''}"


def text_lines(path: Path | None) -> Iterator[str]:
    """Return the lines of a file, or of standard input; errors as in `docnmt.core.read_corpus`."""
    return iter(TextLines(sys.stdin.buffer, name="stdin") if path is None else TextLines(path))


def by_length(lengths: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Yield batches of sentences of similar length, as their numbers, given the lengths (S,)."""
    order = np.argsort(lengths, kind="stable")
    for batch in plan_batches(lengths[order], max_tokens, seed=0, epoch=0, shuffle=False):
        yield order[batch]


# Words as in published word vectors: Penn Treebank style, case kept. Tokenised text is unchanged
# (`words(" ".join(words(x))) == words(x)`), so tokenised corpora and raw text share one vocabulary.

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " "})
_ABBREVIATIONS = "mr mrs ms dr st jr sr vs prof gen sen rep gov col inc corp ltd co".replace(" ", "|")
_CLITIC = r"'(?:s|m|d|re|ve|ll)\b"
_WORD = re.compile(
    rf"""
      \.{{2,}} | -{{2,}} | '{{2,}} | `{{2,}}          # ellipsis, dash, PTB quotes
    | (?:[^\W\d_]\.){{2,}}                            # U.S., e.g.
    | (?:{_ABBREVIATIONS})\.(?!\w)
    | \w+?(?=n't\b) | n't\b | {_CLITIC}               # do n't, John 's
    | \w+(?:(?:(?<=\d)[.,:/](?=\d) | [-&] | '(?!(?:s|m|d|re|ve|ll|t)\b))\w+)*   # 1,650  two-thirds  AT&T  o'clock
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Split a text into words; every other character is a word of its own; typographic quotes become ASCII ones."""
    return _WORD.findall(text.translate(_QUOTES))
