"""What a trained gate does: its values over positions and over words (figure and Markdown).

Usage: gates.py runs/fusion/novels33/sinusoidal.gate_scalar/seed-0/run data-bin/novels33 --figure gates.png

The gate's mean over features, for every token of the test texts. If it weighs positions, it varies along the text; if
it weighs words, it varies between words and hardly along the text: the shares of its variance that position and word
explain (each alone, adjusted for their number) say which.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from figures import save
from gate_values import GateValues, gate_values
from pyplot import plt
from tables import markdown

from docnmt.cli import command as cli
from docnmt.core.training.checkpoint import load_model
from docnmt.other_tasks.classification import LabelledArrays
from docnmt.runtime.system import UserError


def word_table(values: GateValues, words: tuple[str, ...], rows: int = 12, least: int = 20) -> str:
    """The words with the lowest and the highest mean gate among those that occur `least` times."""
    counts = np.bincount(values.token, minlength=len(words))
    means = np.bincount(values.token, values.gate, minlength=len(words)) / np.maximum(counts, 1)
    frequent = np.flatnonzero(counts >= least)
    order = frequent[np.argsort(means[frequent])]
    rows = min(rows, len(order) // 2)  # no word on both sides
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
    left.set_ylabel("gate: what the word is multiplied by")
    frequency = np.bincount(values.token)
    seen = np.flatnonzero(frequency)
    right.plot(frequency[seen], np.bincount(values.token, values.gate)[seen] / frequency[seen], ".", markersize=1.5)
    right.set_xscale("log")
    right.set_xlabel("how often the word occurs (a dot a word)")
    figure.suptitle(title)
    return figure


def body(argv: list[str]) -> None:
    """Parse, print, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a cell's run folder")
    parser.add_argument("data", type=Path, metavar="DATA", help="the data folder it was trained on")
    parser.add_argument("--texts", type=int, default=200, metavar="N", help="test texts to look at [200]")
    parser.add_argument("--figure", type=Path, default=None, metavar="FILE.png", help="draw the gate there")
    options = parser.parse_args(argv)
    loaded = load_model(options.run)
    fusion = getattr(loaded.model_config, "position_fusion", "none")
    values = gate_values(loaded, LabelledArrays.open(options.data, "test"), options.texts)
    if values is None:
        raise UserError(f"{options.run}: {loaded.arch} with --position-fusion {fusion} has no gate to show")
    shares = values.summary()
    print(
        f"gate {shares['mean']:.3f} ± {shares['sd']:.3f} over {len(values.gate):,} tokens; of its variance "
        f"{100 * shares['words']:.1f} % goes with the word, {100 * shares['places']:.1f} % with the position\n"
    )
    if hasattr(loaded.task.vocabulary, "words"):
        print(word_table(values, loaded.task.vocabulary.words))
    if options.figure is not None:
        save(draw(values, f"{fusion} on {options.data.name}"), options.figure)


if __name__ == "__main__":
    sys.exit(cli.run("gates.py", body))
