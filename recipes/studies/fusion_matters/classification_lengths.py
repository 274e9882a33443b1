"""A training step of the classifier on one text: softmax against linear attention, by the text's length.

    python recipes/studies/fusion_matters/classification_lengths.py [--lengths 1024 2048 4096 8192 16384] \
        [--arch fusion_classifier_arxiv]

Seconds of forward and backward pass on one thread, in turns, median of the repeats, and the memory each takes beyond
the model's; the slope over the length tells what a longer text would cost.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from docnmt.other_tasks.classification import FusionClassifier, LabelledArrays, TextDataset
from docnmt.other_tasks.options import FusionClassifierConfig
from docnmt.registry import ARCHITECTURES
from docnmt.runtime.device import tune

sys.path.append(str(Path(__file__).parents[1] / "speed"))
from measuring import Series, Way, peak_memory

WAYS = ("softmax", "linear")
VOCABULARY, LABELS = 20_000, 11


def step(arch: str, attention: str, length: int) -> Way:
    """A forward and backward pass over one random text."""
    torch.manual_seed(0)
    config: Any = FusionClassifierConfig(**{**ARCHITECTURES.get(arch).overrides(), "attention": attention})
    model = FusionClassifier.build(config, SimpleNamespace(vocabulary_size=VOCABULARY, labels=("",) * LABELS)).train()
    text = np.random.default_rng(0).integers(VOCABULARY, size=length).tolist()
    batch = TextDataset(LabelledArrays.from_texts([[text]], [0], VOCABULARY), None, "document", "random").batch(
        np.array([0])
    )

    def run() -> None:
        model.zero_grad()
        cross_entropy(model(batch), batch.labels).backward()

    return run


def small_and_whole(arch: str, attention: str, length: int) -> tuple[Way, Way]:
    """What `peak_memory` warms up with, and what it measures."""
    return step(arch, attention, 64), step(arch, attention, length)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--arch", default="fusion_classifier_arxiv", help="[fusion_classifier_arxiv]")
    parser.add_argument("--lengths", nargs="+", type=int, default=[1024, 2048, 4096, 8192, 16384], metavar="N")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="[3]")
    parser.add_argument("--limit", type=float, default=60.0, metavar="S", help="leave out what takes longer [60]")
    options = parser.parse_args()
    print(tune())
    torch.set_num_threads(1)
    series = Series(repeats=options.repeats, limit=options.limit)
    print(f"{'tokens':>8}  {'softmax s':>10} {'linear s':>10} {'ratio':>6}   {'softmax MB':>10} {'linear MB':>10}")
    for length in options.lengths:
        series.add(length, {way: step(options.arch, way, length) for way in WAYS})
        memory = [peak_memory(small_and_whole, options.arch, way, length) / 1000 for way in WAYS]
        softmax, linear = (series.of(way).get(length, float("nan")) for way in WAYS)
        times = f"{softmax:10.3f} {linear:10.3f} {softmax / linear:6.1f}"
        print(f"{length:8,}  {times}   {memory[0]:10.0f} {memory[1]:10.0f}", flush=True)
    print("slopes over the length:", ", ".join(f"{way} {series.exponent(way):.2f}" for way in WAYS))


if __name__ == "__main__":
    main()
