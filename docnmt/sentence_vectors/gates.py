"""What the controller does: how much each embedding type counts for each word (InferLite's gate activations)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from docnmt.errors import UserError
from docnmt.files import replacing
from docnmt.sentence_vectors.encoder import SentenceEncoder
from docnmt.sentence_vectors.models.sentence_pair import PackedSentences
from docnmt.sentence_vectors.modules.inferlite import InferLiteEncoder, look_up


@torch.no_grad()
def gate_means(encoder: SentenceEncoder, sentence: Sequence[str]) -> np.ndarray:
    """The mean over features of each type's gate for each word: (K, T), between 0 and 1.

    Raises:
        UserError: the model is no inferlite, or one without gates.
    """
    inferlite = encoder.model.encoder
    if not isinstance(inferlite, InferLiteEncoder) or inferlite.controllers is None:
        raise UserError("gates are shown of an inferlite model trained with --gate")
    text = PackedSentences.of([encoder.embeddings.indices(sentence)]).to(encoder.device)
    types = look_up(encoder.model.tables, text.tokens, inferlite.output.weight.dtype)
    means: np.ndarray = inferlite.gates(types, text.spans).mean(-1).cpu().numpy()
    return means


def draw_gates(encoder: SentenceEncoder, sentences: Sequence[Sequence[str]], path: Path) -> None:
    """One strip a sentence: a row for each embedding type, a column for each word; dark is open.

    Raises:
        UserError: matplotlib is not installed or cannot write this kind of file, or the model has no gates.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("pictures need matplotlib: pip install 'docnmt[plot]'") from error
    form = path.suffix.lstrip(".").lower() or "png"
    if form not in (forms := Figure().canvas.get_supported_filetypes()):
        raise UserError(f"--gates {path}: there is no picture form .{form}; there are {', '.join(forms)}")
    strips = [(sentence, gate_means(encoder, sentence)) for sentence in sentences if sentence]
    longest = max((len(sentence) for sentence, _ in strips), default=1)
    names = [name.rsplit(".", 1)[0] for name in encoder.embeddings.names]
    figure = Figure(figsize=(2 + 0.55 * longest, (0.9 + 0.3 * len(names)) * max(len(strips), 1)), layout="constrained")
    axes = figure.subplots(len(strips), squeeze=False)[:, 0]
    for axis, (sentence, means) in zip(axes, strips, strict=True):
        picture = axis.imshow(means, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(len(sentence)), sentence, rotation=40, ha="right", fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        for (type_, word), value in np.ndenumerate(means):
            axis.text(
                word,
                type_,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=6,
                color="black" if value < 0.6 else "white",
            )
    figure.colorbar(picture, ax=list(axes), label="mean gate", shrink=0.6)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=form, dpi=150)
