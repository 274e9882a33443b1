"""The translations that could stand for a target word, as the training corpus has them: a table for `--alternatives`.

    python alternatives.py DATA OUT.npy [--most 16] [--least .1] [--iterations 5]

Alternatives of a word t are the words t' that translate the same source words: the largest cosines of p(s | t) and
p(s | t'), from IBM model 1 over the subwords of DATA's training split. Words are subwords that begin a word, have a
letter, and end the word in at least a quarter of the cases. OUT.npy (V, most) has the numbers of each word's
alternatives, itself first, −1 where there are no more; a word without alternatives has −1 only.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from docnmt.core.corpus import ParallelCorpus, TokenArray, ranges
from docnmt.core.tokenizer import Tokenizer

LONGEST = 64  # subwords; longer lines teach model 1 little
LINES = 2000  # at a time


def links(source: TokenArray, target: TokenArray, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every source subword with every target subword of its line: both (P,), and which target subword it is (P,)."""
    s_first, s_lengths = source.offsets[lines], source.lengths()[lines]
    t_first, t_lengths = target.offsets[lines], target.lengths()[lines]
    words = ranges(t_first, t_first + t_lengths)  # (N,) target subwords
    line = np.repeat(np.arange(len(lines)), t_lengths)  # (N,)
    number = np.repeat(np.arange(len(words)), s_lengths[line])  # (P,)
    return source.tokens[ranges(s_first[line], (s_first + s_lengths)[line])], target.tokens[words][number], number


def model_1(source: TokenArray, target: TokenArray, size: int, iterations: int) -> np.ndarray:
    """Expected counts (V, V) of source and target subwords that translate each other, after EM from equal chances."""
    s_lengths, t_lengths = source.lengths(), target.lengths()
    kept = np.flatnonzero((s_lengths > 0) & (t_lengths > 0) & (s_lengths <= LONGEST) & (t_lengths <= LONGEST))
    probability = np.full(size * size, 1.0, dtype=np.float32)  # p(t | s)
    counts = np.zeros(size * size, dtype=np.float32)
    for iteration in range(iterations):
        counts[:] = 0
        for first in range(0, len(kept), LINES):
            ours, theirs, number = links(source, target, kept[first : first + LINES])
            cell = ours.astype(np.int64) * size + theirs
            weight = probability[cell]
            weight /= np.bincount(number, weight)[number]  # which source subword each target subword comes from
            np.add.at(counts, cell, weight)
        table = counts.reshape(size, size)
        probability = (table / np.maximum(table.sum(axis=1, keepdims=True), 1e-9)).reshape(-1)
        print(f"iteration {iteration + 1} of {iterations}", file=sys.stderr)
    return counts.reshape(size, size)


def ending(target: TokenArray, begins: np.ndarray) -> np.ndarray:
    """How often each subword ends its word (V,), 0 to 1; `begins` (V,), bool: a word ends before it."""
    ends = np.append(begins[target.tokens[1:]], True)  # (N,)
    ends[target.offsets[1:][target.lengths() > 0] - 1] = True  # so does a line
    every = np.bincount(target.tokens, minlength=len(begins))
    return np.bincount(target.tokens, ends, minlength=len(begins)) / np.maximum(every, 1)


def alternatives(counts: np.ndarray, words: np.ndarray, most: int, least: float) -> np.ndarray:
    """The table (V, most) of words (V,), bool, that have two alternatives or more of at least `least`."""
    origins = counts / np.maximum(np.sqrt((counts**2).sum(axis=0)), 1e-9)  # (V, V), a column a target subword
    origins[:, ~words] = 0
    cosines = origins.T @ origins  # (V, V)
    table = np.full((len(counts), most), -1, dtype=np.int32)
    for word in np.flatnonzero(words & (counts.sum(axis=0) > 0)):
        row = cosines[word]
        row[word] = np.inf  # itself first
        best = np.argsort(-row, kind="stable")[:most]
        best = best[row[best] >= least]
        if len(best) > 1:
            table[word, : len(best)] = best
    return table


def main() -> int:
    """Write the table, and show some of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--most", type=int, default=16)
    parser.add_argument("--least", type=float, default=0.1)
    parser.add_argument("--iterations", type=int, default=5)
    options = parser.parse_args()
    corpus = ParallelCorpus.open(options.data, "train")
    pieces = Tokenizer.from_bytes((options.data / "tokenizer.model").read_bytes()).vocabulary()
    words = np.array([piece[:1] == "▁" and any(map(str.isalpha, piece)) for piece in pieces])
    assert corpus.target is not None
    words &= ending(corpus.target, np.array([not piece[:1].isalnum() for piece in pieces])) >= 0.25
    counts = model_1(corpus.source, corpus.target, len(pieces), options.iterations)
    table = alternatives(counts, words, options.most, options.least)
    np.save(options.out, table)
    tokens, having = counts.sum(axis=0), table[:, 0] >= 0
    share = tokens[having].sum() / tokens.sum()
    print(f"{having.sum():,} of {words.sum():,} words have alternatives, {share:.1%} of all subwords")
    for word in sorted(np.flatnonzero(having), key=lambda word: -tokens[word])[:400:10]:
        print(" ".join(pieces[other].removeprefix("▁") for other in table[word] if other >= 0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
