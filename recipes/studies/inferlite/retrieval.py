"""Binary codes against float vectors: how many of the true 10 nearest are found, how fast, in how many bytes.

Encodes a text file with one or several hashing models; queries are some of its lines, which do not find themselves.
Ground truth are the 10 rows with the largest cosine of the same model's float vectors, and with --truth those of
another model, trained without codes. Of equal distances the earlier line counts.
    python recipes/studies/inferlite/retrieval.py --text corpus.txt --truth runs/plain runs/hash256 runs/hash1024 \\
        runs/hash4096
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from docnmt.other_tasks.sentence_vectors.data import text_lines, words
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder
from docnmt.runtime.device import tune

TOP = 10
#: Repetitions of a search of all queries, and queries searched one at a time; medians are shown.
REPEATS, ALONE = 3, 20

Search = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def nearest_cosine(queries: np.ndarray, index: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """The `top` largest cosines of each query (Q, d) with the rows of `index` (N, d), and their row numbers."""
    lengths = [np.maximum(np.linalg.norm(rows, axis=1), 1e-30) for rows in (queries, index)]
    return best(-(queries @ index.T) / lengths[0][:, None] / lengths[1], top)


def nearest_hamming(queries: np.ndarray, index: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """The `top` smallest numbers of differing bits of each code (Q, bytes) from those of `index`, and their rows."""
    words, rows = (np.pad(codes, ((0, 0), (0, -codes.shape[1] % 8))).view(np.uint64) for codes in (queries, index))
    return best(np.stack([np.bitwise_count(rows ^ word).sum(axis=1, dtype=np.int32) for word in words]), top)


def best(distances: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """The `top` smallest of each row, and their places, ties in order."""
    order = np.argsort(distances, axis=1, kind="stable")[:, :top]
    return np.take_along_axis(distances, order, 1), order


def bit_report(codes: np.ndarray) -> tuple[int, float]:
    """Bits that are the same in all codes (N, bytes), and the entropy of a code if its bits were independent."""
    p = np.unpackbits(codes, axis=1).mean(0, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.nan_to_num(-(p * np.log2(p) + (1 - p) * np.log2(1 - p))).sum()
    return int(((p == 0) | (p == 1)).sum()), float(entropy)


def recall(retrieved: np.ndarray, truth: np.ndarray) -> float:
    """The share of the true nearest that is among those found: (Q, TOP) row numbers each."""
    hits = [len(set(a) & set(b)) / len(b) for a, b in zip(retrieved.tolist(), truth.tolist(), strict=True)]
    return float(np.mean(hits))


def without_self(places: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The first `TOP` of `TOP` + 1 places that are not the query's own."""
    rows = [[p for p in row if p != query][:TOP] for row, query in zip(places.tolist(), queries.tolist(), strict=True)]
    return np.array(rows)


def nearest(search: Search, index: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """(Q, TOP): the rows nearest to the rows `queries` of the index."""
    return without_self(search(index[queries], index, TOP + 1)[1], queries)


def milliseconds(search: Search, index: np.ndarray, queries: np.ndarray) -> tuple[float, float]:
    """Of a query: all of them searched together, and one alone."""

    def seconds(chosen: np.ndarray) -> float:
        began = time.perf_counter()
        search(index[chosen], index, TOP)
        return time.perf_counter() - began

    together = np.median([seconds(queries) for _ in range(REPEATS)]) / len(queries)
    return 1000 * float(together), 1000 * float(np.median([seconds(query) for query in queries[:ALONE, None]]))


def rows(name: str, sentences: Sequence[Sequence[str]], queries: np.ndarray, other: np.ndarray | None) -> list[str]:
    """The table's rows of one model: by the cosine of its vectors, and by its codes."""
    encoder = SentenceEncoder.load(name)
    vectors = encoder.features(sentences)
    truth = nearest(nearest_cosine, vectors, queries)

    def row(how: str, search: Search, index: np.ndarray, bits: str) -> str:
        retrieved = nearest(search, index, queries)
        together, alone = milliseconds(search, index, queries)
        second = "" if other is None else f" {recall(retrieved, other):.3f} |"
        cells = f"{index[0].nbytes:,} | {together:.2f} | {alone:.1f} | {recall(retrieved, truth):.3f} |{second} {bits}"
        return f"| {Path(name).name} | {how} | {cells} |"

    lines = [row("cosine", nearest_cosine, vectors, " | ")]
    del vectors
    if encoder.bits:
        codes = encoder.codes(sentences)
        dead, entropy = bit_report(codes)
        bits = f"{dead} | {entropy:.0f}"
        lines.append(row(f"Hamming, {encoder.bits} bits", nearest_hamming, codes, bits))
    return lines


def read_sentences(path: Path, count: int) -> list[list[str]]:
    """The first `count` lines, tokenised, without those that come again or are empty."""
    lines = (" ".join(words(line)) for line in islice(text_lines(path), count))
    return [line.split(" ") for line in dict.fromkeys(lines) if line]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="checkpoints or --save-dirs of models trained with --hash-bits")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--truth", help="checkpoint or --save-dir whose vectors tell the truth as well")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--lines", type=int, default=50_000)
    options = parser.parse_args(argv)
    print(tune())
    sentences = read_sentences(options.text, options.lines)
    if len(sentences) <= max(TOP, options.queries):
        parser.error(f"{options.text}: {len(sentences)} different lines are too few for {options.queries} queries")
    queries = np.random.default_rng(1).choice(len(sentences), options.queries, replace=False)
    other = None
    if options.truth:
        other = nearest(nearest_cosine, SentenceEncoder.load(options.truth).features(sentences), queries)
    print(f"{len(sentences):,} different lines, {len(queries)} queries\n")
    second = f" recall@{TOP} of {Path(options.truth).name}'s cosine |" if options.truth else ""
    together = f"ms a query, {len(queries)} together | ms a query alone"
    print(f"| model | search | bytes a row | {together} | recall@{TOP} of own cosine |{second} dead bits | entropy |")
    print(f"|---|---|{'---:|' * (7 if options.truth else 6)}")
    for name in options.models:
        print("\n".join(rows(name, sentences, queries, other)), flush=True)


if __name__ == "__main__":
    main()
