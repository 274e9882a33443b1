"""InferLite's gates: how much each embedding type counts for each word, as numbers and as a picture.

head -n 4 reviews.txt | python recipes/studies/inferlite/gates.py --path runs/inferlite --output gates.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from docnmt.other_tasks.sentence_vectors.data import PackedSentences, words
from docnmt.other_tasks.sentence_vectors.encoders import InferLiteEncoder, look_up
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder


@torch.no_grad()
def gate_means(encoder: SentenceEncoder, sentence: Sequence[str]) -> np.ndarray:
    """The mean over features of each type's gate for each word: (K, T), between 0 and 1."""
    inferlite = encoder.model.encoder
    if not isinstance(inferlite, InferLiteEncoder) or inferlite.controllers is None:
        sys.exit("gates.py: error: gates are shown of an inferlite model trained with --gate")
    text = PackedSentences.of([encoder.embeddings.indices(sentence)]).to(encoder.device)
    types = look_up(encoder.model.tables, text.tokens, inferlite.output.weight.dtype)
    means: np.ndarray = inferlite.gates(types, text.spans).mean(-1).cpu().numpy()
    return means


def draw(encoder: SentenceEncoder, sentences: Sequence[Sequence[str]], path: Path) -> None:
    """One strip a sentence: a row for each embedding type, a column for each word; dark is open."""
    from matplotlib.figure import Figure

    strips = [(sentence, gate_means(encoder, sentence)) for sentence in sentences]
    longest = max(len(sentence) for sentence, _ in strips)
    names = [name.rsplit(".", 1)[0] for name in encoder.embeddings.names]
    figure = Figure(figsize=(2 + 0.55 * longest, (0.9 + 0.3 * len(names)) * len(strips)), layout="constrained")
    axes = figure.subplots(len(strips), squeeze=False)[:, 0]
    for axis, (sentence, means) in zip(axes, strips, strict=True):
        picture = axis.imshow(means, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(len(sentence)), sentence, rotation=40, ha="right", fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        for (type_, word), value in np.ndenumerate(means):
            color = "black" if value < 0.6 else "white"
            axis.text(word, type_, f"{value:.2f}", ha="center", va="center", fontsize=6, color=color)
    figure.colorbar(picture, ax=list(axes), label="mean gate", shrink=0.6)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", required=True, help="an inferlite: a checkpoint, or a --save-dir")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.png")
    options = parser.parse_args(argv)
    sentences = [sentence for line in sys.stdin if (sentence := words(line))]
    if not sentences:
        parser.error("there is no text on stdin")
    draw(SentenceEncoder.load(options.path), sentences, options.output)


if __name__ == "__main__":
    main()
