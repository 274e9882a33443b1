"""InferLite's gate activations, which weigh each embedding type for each word, as numbers and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from docnmt.other_tasks.sentence_vectors.data import PackedSentences
from docnmt.other_tasks.sentence_vectors.encoder import SentenceEncoder
from docnmt.other_tasks.sentence_vectors.encoders import InferLiteEncoder, look_up
from docnmt.runtime.errors import UserError
from docnmt.runtime.picture import picture_form, write_picture

#: The most lines drawn in a picture, and the most words of each; more would not be readable.
MOST_DRAWN, MOST_WORDS = 20, 60


@torch.no_grad()
def gate_means(encoder: SentenceEncoder, sentence: Sequence[str]) -> np.ndarray:
    """Return the mean over features of each type's gate for each word: (K, T), between 0 and 1.

    Raises:
        UserError: the model is no inferlite, or has no gates.
    """
    inferlite = encoder.model.encoder
    if not isinstance(inferlite, InferLiteEncoder) or inferlite.controllers is None:
        raise UserError("gates are shown of an inferlite model trained with --gate")
    text = PackedSentences.of([encoder.embeddings.indices(sentence)]).to(encoder.device)
    types = look_up(encoder.model.tables, text.tokens, inferlite.output.weight.dtype)
    means: np.ndarray = inferlite.gates(types, text.spans).mean(-1).cpu().numpy()
    return means


def draw_gates(encoder: SentenceEncoder, sentences: Sequence[Sequence[str]], path: Path) -> None:
    """Draw one strip per sentence: a row for each embedding type, a column for each word; dark is open.

    Raises:
        UserError: no sentences or more than a picture can show, one without words or with too many, matplotlib
            is not installed or cannot write this kind of file, or the model has no gates.
    """
    if not 1 <= len(sentences) <= MOST_DRAWN:
        raise UserError(f"--gates: give 1 to {MOST_DRAWN} lines of text, got {'more' if sentences else 'none'}")
    for number, sentence in enumerate(sentences, 1):
        if not 1 <= len(sentence) <= MOST_WORDS:
            raise UserError(f"--gates: line {number} has {len(sentence):,} words, expected 1 to {MOST_WORDS} a line")
    form = picture_form("--gates", path)
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
    write_picture(figure, path, form)
