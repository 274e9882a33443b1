"""Documents of a held-out split that stand in the training data, too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from docnmt.data.split_folder import SplitFolder
from docnmt.data.store import TextArray

#: From this share of a document's bytes on, it counts as seen.
_HALF = 0.5


def overlap_with_training(
    held_out: SplitFolder, training: SplitFolder, side: str, say: Callable[[str], None]
) -> list[str]:
    """Warn about documents of which whole sentences, at least half of the text by bytes, are training sentences.

    Weighing sentences by their length keeps headings and greetings from counting as overlap.
    """
    text = held_out.text(side)
    seen = np.isin(_hashes(text), np.unique(_hashes(training.text(side))))
    offsets = held_out.structure().document_offsets
    size = np.diff(text.offsets)
    share = np.add.reduceat(size * seen, offsets[:-1]) / np.maximum(np.add.reduceat(size, offsets[:-1]), 1)
    most, whole = int((share >= _HALF).sum()), int((share == 1).sum())
    if not most:
        return []
    note = (
        f"warning: {most:,} of {len(share):,} documents of {held_out.split} stand in the training data at least by "
        f"half, {whole:,} of them whole ({side} side; the first is document {int(np.argmax(share >= _HALF)) + 1})"
    )
    say(note)
    return [note]


def _hashes(text: TextArray) -> np.ndarray:
    """(S,) uint64, one of each line's words."""
    hashes = np.empty(len(text), dtype=np.uint64)
    for first in range(0, len(text), 4096):
        for i, line in enumerate(text[first : first + 4096], first):
            digest = hashlib.blake2b(" ".join(line.split()).encode(), digest_size=8).digest()
            hashes[i] = int.from_bytes(digest, "little")
    return hashes
