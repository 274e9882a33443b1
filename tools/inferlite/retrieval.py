"""Binary codes against float vectors: how many of the true 10 nearest are found, how fast, in how many bytes.

Encodes a text file with one or several hashing models; queries are some of its lines. Ground truth: the 10 rows with
the largest cosine of the same model's float vectors (and of the first model's).
    python tools/inferlite/retrieval.py --text corpus.txt --queries 200 runs/hash256 runs/hash1024 runs/hash4096
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from docnmt.data.words import words
from docnmt.retrieval.codes import BitReport
from docnmt.retrieval.encoder import SentenceEncoder
from docnmt.retrieval.search import nearest_cosine, nearest_hamming
from docnmt.retrieval.stream import open_lines
from docnmt.runtime import tune

TOP = 10


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    """Share of the true nearest among those found, the query itself left out."""
    hits = [len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), truth.tolist(), strict=True)]
    return float(np.mean(hits))


def without_self(places: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The first `TOP` of `TOP` + 1 places that are not the query's own."""
    rows = [[p for p in row if p != query][:TOP] for row, query in zip(places.tolist(), queries.tolist(), strict=True)]
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="checkpoints or --save-dirs of models trained with --hash-bits")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--lines", type=int, default=50_000)
    options = parser.parse_args()
    print(tune())
    with open_lines(options.text) as file:
        lines = list(dict.fromkeys(line for line, _ in zip(file, range(options.lines), strict=False) if line))
    sentences = [words(line) for line in lines]
    queries = np.random.default_rng(1).choice(len(lines), options.queries, replace=False)
    print(f"{len(lines):,} different lines, {len(queries)} queries")
    print("| model | search | bytes a row | encode, rows/s | ms a query | recall@10 of own cosine | dead bits |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in options.models:
        encoder = SentenceEncoder.load(name)
        began = time.perf_counter()
        vectors = encoder.features(sentences)
        rate = len(sentences) / (time.perf_counter() - began)
        began = time.perf_counter()
        truth = without_self(nearest_cosine(vectors[queries], vectors, TOP + 1)[1], queries)
        cosine_ms = 1000 * (time.perf_counter() - began) / len(queries)
        print(f"| {Path(name).name} | cosine | {vectors[0].nbytes:,} | {rate:,.0f} | {cosine_ms:.2f} | 1.000 | |")
        if not encoder.bits:
            continue
        began = time.perf_counter()
        codes = encoder.codes(sentences)
        rate = len(sentences) / (time.perf_counter() - began)
        report = BitReport(encoder.bits)
        report.add(codes)
        began = time.perf_counter()
        found = without_self(nearest_hamming(codes[queries], codes, TOP + 1)[1], queries)
        hamming_ms = 1000 * (time.perf_counter() - began) / len(queries)
        cells = f"{codes.shape[1]:,} | {rate:,.0f} | {hamming_ms:.2f} | {recall(found, truth):.3f} | {len(report.dead)}"
        print(f"| {Path(name).name} | Hamming, {encoder.bits} bits | {cells} |")


if __name__ == "__main__":
    main()
