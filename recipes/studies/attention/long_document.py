"""What a long document costs a whole model: a training step, encoding in one pass, and what `runtime.tune` gains.

    OMP_NUM_THREADS=1 python recipes/studies/attention/long_document.py [--what step encode tune] [--sentences 2000]
    OMP_NUM_THREADS=1 python recipes/studies/attention/long_document.py --what limit [--most 14] [--seconds 120]

An untrained hier_cond_transformer_small with 8,000 subwords reads random ones, 25 a sentence, as many on either side.
Every measurement is a process of its own; memory is the process's peak, Python, torch and the model included. `limit`
doubles one document until a training step of each architecture takes more memory or time than is given. `tune` trains
on documents whose sentences have new lengths at every step, as real ones do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from docnmt.core.batch import PackedText, TranslationBatch
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.core.training.update import peak_memory
from docnmt.layout import DocumentLayout
from docnmt.registry import ARCHITECTURES, MODELS
from docnmt.runtime import device as runtime

sys.path.append(str(Path(__file__).parents[1] / "speed"))
from measuring import check_memory_was_missing, limit_memory

WORDS, VOCABULARY = 25, 8000
FIRST = 125  # sentences that every architecture can read
COMPARED = [
    "transformer",
    "doc_transformer",
    "scaleformer",
    "hier_transformer",
    "cond_transformer",
    "hier_cond_transformer",
]


class Vocabularies(NamedTuple):
    """What a model asks of a task."""

    source_vocabulary_size: int = VOCABULARY
    target_vocabulary_size: int = VOCABULARY
    joined: bool = True


def model_of(arch: str, **options: Any) -> Any:
    architecture = ARCHITECTURES.get(arch)
    measured_with = {"relative_horizon": 16} if architecture.model == "scaleformer" else {}  # the default then
    config = MODELS.config(architecture.model)(**{**architecture.overrides(), **measured_with, **options})
    return MODELS.get(architecture.model).build(config, Vocabularies())


def document(sentences: int, joined: bool = False, varied: bool = False) -> PackedText:
    """One document; `joined`: as the one sequence that models of whole documents read; `varied`: sentences of 1 to
    2 · `WORDS` - 1 words."""
    lengths = torch.randint(1, 2 * WORDS, (sentences,)) if varied else torch.full((sentences,), WORDS)
    sentence = torch.arange(sentences).repeat_interleave(lengths)
    word = torch.arange(len(sentence)) - (lengths.cumsum(0) - lengths)[sentence]
    layout = DocumentLayout.from_lengths([[len(sentence)] if joined else lengths.tolist()])
    positions = torch.stack([word, sentence, torch.zeros_like(word), torch.zeros_like(word)], 1)
    return PackedText(torch.randint(4, VOCABULARY, word.shape), layout, positions)


def training_step(arch: str, sentences: int, checkpoint: bool, varied: bool = False) -> Callable[[], None]:
    """`varied`: every step reads another document."""
    torch.manual_seed(0)
    model = model_of(arch, checkpoint_activations=checkpoint).train()
    optimizer = torch.optim.Adam(model.parameters())
    joined = model.reading.joined and model.reading.whole_documents
    criterion = LabelSmoothedCrossEntropy(label_smoothing=0.1)

    def read() -> TranslationBatch:
        source, target = (document(sentences, joined, varied) for _ in range(2))
        return TranslationBatch(source, target, target.tokens, torch.zeros(1, dtype=torch.int64))

    once = read()

    def step() -> None:
        optimizer.zero_grad()
        loss, tokens, _ = criterion(model, read() if varied else once)
        (loss / tokens).backward()
        optimizer.step()

    return step


def encoding(arch: str, sentences: int) -> Callable[[], None]:
    model, source = model_of(arch).eval(), document(sentences)

    def encode() -> None:
        with torch.no_grad():
            states = model.encoder(source)
        if not bool(torch.isfinite(states).all()):
            raise ValueError("the encoder's states are not finite")

    return encode


class Cost(NamedTuple):
    seconds: float
    gigabytes: float


def cost(make: Callable[..., Callable[[], None]], *arguments: Any, repeats: int = 1, **tuning: bool) -> Cost:
    """Median seconds of a call, and the peak memory of the new process it ran in; `tuning`: of `runtime.tune`."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_cost, (make, arguments, repeats, tuning))


def _cost(make: Callable[..., Callable[[], None]], arguments: tuple[Any, ...], repeats: int, tuning: Any) -> Cost:
    runtime.tune(**tuning)
    torch.set_num_threads(1)
    run, seconds = make(*arguments), []
    for turn in range(repeats + (repeats > 1)):
        begin = time.thread_time()
        run()
        if turn or repeats == 1:  # the first of several warms up
            seconds.append(time.thread_time() - begin)
    return Cost(statistics.median(seconds), peak_memory(torch.device("cpu")) / 1e9)


def print_step(arch: str, sentences: int) -> None:
    costs = cost(training_step, arch, sentences, True, new_shapes=True)
    tokens = sentences * WORDS
    print(f"training step of {arch}, --checkpoint-activations, one document of {sentences:,} sentences, ", end="")
    print(f"{tokens:,} tokens on either side: {costs.seconds:.1f} s, {costs.gigabytes:.2f} GB at its peak")


def print_encoding(arch: str, sentences: int) -> None:
    costs = cost(encoding, arch, sentences)
    print(f"encoding {sentences:,} sentences, {sentences * WORDS:,} tokens, in one pass of {arch}: ", end="")
    print(f"{costs.seconds:.1f} s, {costs.gigabytes:.2f} GB at its peak")


def print_tuning(arch: str, sentences: int, rounds: int = 3) -> None:
    """As in training, with the products of generation, and off; in turns, each in a process of its own."""
    ways = {"as in training": {"new_shapes": True}, "with oneDNN": {"new_shapes": False}, "off": {"enabled": False}}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, tuning in ways.items():
            times[way].append(cost(training_step, arch, sentences, False, True, repeats=8, **tuning).seconds)
    print(f"training step of {arch}, about {sentences * WORDS:,} tokens, another batch every time; runtime.tune()")
    for way, seconds in times.items():
        slower = [b / a for a, b in zip(times["as in training"], seconds, strict=True)]
        spread = f"{statistics.median(slower):.2f}× ({min(slower):.2f} to {max(slower):.2f})"
        print(f"  {way:<15} {statistics.median(seconds) * 1e3:7,.0f} ms  {spread}", flush=True)


def print_limits(archs: list[str], seconds: float, most: float) -> None:
    """A training step of each architecture on documents twice as long each time, until it takes too much."""
    print("| architecture | sentences | words a side | s | GB | twice as long |\n| --- |" + " ---: |" * 4 + " --- |")
    for arch in archs:
        sentences, row = FIRST, "– | – | – | –"
        while True:
            try:
                costs = cost(training_step, arch, sentences, False, new_shapes=True)
            except (MemoryError, RuntimeError) as error:
                check_memory_was_missing(error)
                end = f"more than {most:g} GB"
                break
            if costs.seconds > seconds:
                end = f"{costs.seconds:.1f} s"
                break
            row = f"{sentences:,} | {sentences * WORDS:,} | {costs.seconds:.1f} | {costs.gigabytes:.1f}"
            sentences *= 2
        print(f"| {arch} | {row} | {end} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ["step", "encode", "tune"]
    parser.add_argument("--what", nargs="+", choices=[*every, "limit"], default=every)
    parser.add_argument("--arch", nargs="+", help="[hier_cond_transformer_small; limit: all, in their small size]")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit: that a step may take [120]")
    parser.add_argument("--sentences", type=int, help="[2,000 for a step, 10,000 to encode, 160 to compare tuning]")
    parser.add_argument("--most", type=float, default=14.0, metavar="GB", help="addresses that a process may take")
    options = parser.parse_args()
    limit_memory(options.most)
    if "limit" in options.what:
        print_limits(options.arch or [f"{name}_small" for name in COMPARED], options.seconds, options.most)
    for arch in options.arch or ["hier_cond_transformer_small"]:
        if "step" in options.what:
            print_step(arch, options.sentences or 2000)
        if "encode" in options.what:
            print_encoding(arch, options.sentences or 10_000)
        if "tune" in options.what:
            print_tuning(arch, options.sentences or 160)


if __name__ == "__main__":
    main()
