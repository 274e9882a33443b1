"""What a trained gate does: its values over positions and over words (figure and Markdown).

Usage: gates.py runs/fusion/novels33/sinusoidal.gate_scalar/seed-0/run data-bin/novels33 --figure gates.png

The gate's mean over features, for every token of the test texts. If it weighs positions, it varies along the text; if
it weighs words, it varies between words and hardly along the text: the shares of its variance that position and word
explain (each alone) say which.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from figures import save
from tables import markdown

from docnmt.data.batching import plan_batches
from docnmt.data.labelled import LabelledArrays
from docnmt.errors import UserError
from docnmt.modules.fusion import Gate, Normed
from docnmt.tasks.text_classification import TextDataset
from docnmt.training.loading import LoadedModel, load_model


@dataclass(frozen=True)
class GateValues:
    """For every token of the texts read: the gate's mean over features, the token and its place in the text."""

    gate: np.ndarray
    token: np.ndarray
    place: np.ndarray


@torch.no_grad()
def gate_values(loaded: LoadedModel, arrays: LabelledArrays, texts: int) -> GateValues:
    """Gates of the first `texts` test texts.

    Raises:
        UserError: the model's fusion has no gate.
    """
    model: Any = loaded.model
    fusion = model.embedding.fusion.fusion if isinstance(model.embedding.fusion, Normed) else model.embedding.fusion
    if not isinstance(fusion, Gate):
        raise UserError(
            f"{loaded.arch} with --position-fusion {loaded.model_config.position_fusion} has no gate to show"
        )
    data = TextDataset(arrays, loaded.task.config.max_length, model.position_count, "test")
    gates, tokens, places = [], [], []
    for units in plan_batches(data.sizes[:texts], 16_384, seed=0, epoch=0, shuffle=False):
        text = data.batch(units).text
        e = model.embedding.tokens(text.tokens) * model.embedding.scale
        gate = fusion.gate(e, model.embedding.position(text.positions), text.layout.sentence_offsets)
        gates.append(gate.mean(-1).numpy())
        tokens.append(text.tokens.numpy())
        places.append(text.positions[:, 0].numpy())
    return GateValues(np.concatenate(gates), np.concatenate(tokens), np.concatenate(places))


def explained(values: np.ndarray, groups: np.ndarray) -> float:
    """The share of the variance of `values` (N,) that lies between groups (N,) of them; 0 without variance."""
    if not values.var():
        return 0.0
    counts = np.bincount(groups)
    means = np.bincount(groups, values) / np.maximum(counts, 1)
    return float((counts * (means - values.mean()) ** 2).sum() / (len(values) * values.var()))


def word_table(values: GateValues, words: tuple[str, ...], rows: int = 12, least: int = 20) -> str:
    """The words with the lowest and the highest mean gate among those that occur `least` times."""
    counts = np.bincount(values.token, minlength=len(words))
    means = np.bincount(values.token, values.gate, minlength=len(words)) / np.maximum(counts, 1)
    frequent = np.flatnonzero(counts >= least)
    order = frequent[np.argsort(means[frequent])]
    low, high = order[:rows], order[::-1][:rows]
    cell = lambda i: [f"`{words[i]}`", f"{means[i]:.3f}", f"{counts[i]:,}"]  # noqa: E731
    return markdown(
        ["lowest", "gate", "times", "highest", "gate", "times"],
        [[*cell(a), *cell(b)] for a, b in zip(low, high, strict=True)],
    )


def draw(values: GateValues, title: str) -> Any:
    """The gate along the text, and against how often a word occurs."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
    counts = np.bincount(values.place)
    left.plot(np.bincount(values.place, values.gate) / counts, linewidth=1)
    left.set_xlabel("position in the text")
    left.set_ylabel("gate (1: all word, 0: all position)")
    frequency = np.bincount(values.token)
    seen = np.flatnonzero(frequency)
    right.plot(frequency[seen], np.bincount(values.token, values.gate)[seen] / frequency[seen], ".", markersize=1.5)
    right.set_xscale("log")
    right.set_xlabel("how often the word occurs")
    figure.suptitle(title)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a cell's run folder")
    parser.add_argument("data", type=Path, metavar="DATA", help="the data folder it was trained on")
    parser.add_argument("--texts", type=int, default=200, metavar="N", help="test texts to look at [200]")
    parser.add_argument("--figure", type=Path, default=None, metavar="FILE.png", help="draw the gate there")
    options = parser.parse_args()
    try:
        loaded = load_model(options.run)
        values = gate_values(loaded, LabelledArrays.open(options.data, "test"), options.texts)
        print(
            f"gate {values.gate.mean():.3f} ± {values.gate.std():.3f} over {len(values.gate):,} tokens; of its "
            f"variance {100 * explained(values.gate, values.token):.1f} % lies between words, "
            f"{100 * explained(values.gate, values.place):.1f} % between positions\n"
        )
        if hasattr(loaded.task.vocabulary, "words"):
            print(word_table(values, loaded.task.vocabulary.words))
        if options.figure is not None:
            save(draw(values, f"{loaded.model_config.position_fusion} on {options.data.name}"), options.figure)
    except UserError as error:
        print(f"gates.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
