"""Sentences a second of each sentence encoder, untrained (weights do not change the time), interleaved.

python tools/bench/sentence_encoders.py --text corpus.txt --vectors glove.npz --lines 2000
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from docnmt import builtin  # noqa: F401  (registers every component)
from docnmt.data.embeddings import Embeddings, build_embeddings
from docnmt.data.pairs import NLI_LABELS
from docnmt.data.words import words
from docnmt.registry import MODELS
from docnmt.retrieval.encoder import SentenceEncoder
from docnmt.retrieval.stream import open_lines
from docnmt.runtime import tune

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "inferlite, width 1": ("inferlite", {}),
    "inferlite, width 1, no rows kept": ("inferlite", {}),
    "inferlite, width 3": ("inferlite", {"conv_width": 3}),
    "BiLSTM-max": ("bilstm_max", {}),
    "source2token, 2 layers of 512": ("source2token_encoder", {}),
    "bag of words": ("bag_of_words", {}),
}


@dataclass
class Task:
    """What a model's `build` needs."""

    embeddings: Embeddings
    labels: tuple[str, ...] = NLI_LABELS

    @property
    def vectors(self) -> Any:
        return self.embeddings.vectors

    @property
    def probability(self) -> np.ndarray:
        return np.full(len(self.embeddings.words), 1e-4, np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, nargs="+", required=True)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    print(tune())
    torch.set_num_threads(1)
    with open_lines(options.text) as file:
        sentences = [words(line) for line, _ in zip(file, range(options.lines), strict=False)]
    embeddings, _ = build_embeddings(options.vectors, Counter(w for s in sentences for w in s), keep_words=0)
    task = Task(embeddings)
    encoders = {}
    for name in options.cases:
        arch, settings = CASES[name]
        model = MODELS.get(arch).build(MODELS.config(arch)(**settings), task)
        encoders[name] = SentenceEncoder(model, embeddings, cache_words=0 if "no rows" in name else 20_000)
    times: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(options.repeats):
        for name, encoder in encoders.items():
            began = time.perf_counter()
            encoder.features(sentences)
            times[name].append(time.perf_counter() - began)
    tokens = sum(map(len, sentences))
    print(
        f"{len(sentences):,} sentences, {tokens / len(sentences):.1f} words on average, one thread; median of the runs"
    )
    slowest = {name: np.median(values) for name, values in times.items()}
    base = slowest.get("BiLSTM-max")
    for name, seconds in slowest.items():
        factor = f", {base / seconds:.1f} x BiLSTM-max" if base else ""
        first = f" (first run {len(sentences) / times[name][0]:,.0f})" if "width 1" in name else ""
        print(f"{name:36} {len(sentences) / seconds:10,.0f} sentences/s{factor}{first}")


if __name__ == "__main__":
    main()
