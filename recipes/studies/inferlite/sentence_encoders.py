"""Sentences a second of each sentence encoder, untrained (weights do not change the time), interleaved.

Every repeat takes lines of its own and encoders that have seen none. The encoder that keeps its words' rows is timed on
the same lines a second time, too: the most that it gains, on text whose words it has all seen.
    python recipes/studies/inferlite/sentence_encoders.py --text corpus.txt --vectors glove.txt --lines 2000
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from docnmt.other_tasks.sentence_vectors.data import NLI_LABELS, Embeddings, build_embeddings, text_lines, words
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder
from docnmt.registry import MODELS
from docnmt.runtime.device import tune

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "inferlite, width 1": ("inferlite", {}),
    "inferlite, width 3": ("inferlite", {"conv_width": 3}),
    "BiLSTM-max": ("bilstm_max", {}),
    "BiLSTM-max of 512, 256 a direction": ("bilstm_max", {"output_dim": 512}),
    "source2token, 2 layers of 512": ("source2token_encoder", {}),
    "bag of words": ("bag_of_words", {}),
}


@dataclass
class Task:
    """What a model's `build` needs."""

    embeddings: Embeddings
    labels: tuple[str, ...] = NLI_LABELS

    @property
    def probability(self) -> np.ndarray:
        return np.full(len(self.embeddings.words), 1e-4, np.float32)


def read_blocks(path: Path, lines: int, repeats: int) -> list[list[list[str]]]:
    """`repeats` times `lines` tokenised lines, no line twice; fewer blocks if the file is too short."""
    sentences = [words(line) for line in islice(text_lines(path), lines * repeats)]
    return [sentences[begin : begin + lines] for begin in range(0, len(sentences) - lines + 1, lines)]


def seconds(encoder: SentenceEncoder, sentences: Sequence[Sequence[str]]) -> float:
    """To encode them."""
    began = time.perf_counter()
    encoder.features(sentences)
    return time.perf_counter() - began


def measure(names: Sequence[str], embeddings: Embeddings, blocks: list[list[list[str]]]) -> dict[str, float]:
    """The median seconds of each case over the blocks."""
    models = {}
    for name in names:
        arch, settings = CASES[name]
        models[name] = MODELS.get(arch).build(MODELS.config(arch)(**settings), Task(embeddings))
    times: dict[str, list[float]] = {}
    for block in blocks:
        for name, model in models.items():
            times.setdefault(name, []).append(seconds(SentenceEncoder(model, embeddings), block))
    return {name: float(np.median(values)) for name, values in times.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, nargs="+", required=True)
    parser.add_argument("--lines", type=int, default=2000, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    options = parser.parse_args(argv)
    print(tune())
    torch.set_num_threads(1)
    blocks = read_blocks(options.text, options.lines, options.repeats)
    if len(blocks) < options.repeats:
        parser.error(f"{options.text}: has too few lines for {options.repeats} repeats of {options.lines}; lower one")
    counts = Counter(word for block in blocks for sentence in block for word in sentence)
    embeddings, _ = build_embeddings(options.vectors, counts, keep_words=0)
    per_sentence = counts.total() / (options.lines * options.repeats)
    print(f"{options.repeats} x {options.lines:,} sentences of {per_sentence:.1f} words, one thread; medians")
    results = measure(options.cases, embeddings, blocks)
    base = results.get("BiLSTM-max")
    for name, median in results.items():
        factor = f", {base / median:.1f} x BiLSTM-max" if base else ""
        print(f"{name:42} {options.lines / median:10,.0f} sentences/s{factor}")


if __name__ == "__main__":
    main()
