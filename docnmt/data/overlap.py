"""Documents of a held-out split that stand in the training data, too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from docnmt.data.split_folder import SplitFolder
from docnmt.data.store import TextArray

#: From this share of a document's bytes on, it counts as seen.
HALF = 0.5


def overlap_with_training(
    held_out: SplitFolder, training: SplitFolder, side: str, say: Callable[[str], None]
) -> list[str]:
    """Warn about documents of which at least half the text stands in the training data (`shares_in_training`)."""
    share = shares_in_training(held_out, training, side)
    most, whole = int((share >= HALF).sum()), int((share == 1).sum())
    if not most:
        return []
    note = (
        f"warning: {held_out.split}: {most:,} of {len(share):,} documents stand in the training data, too ({whole:,} "
        f"whole, {most - whole:,} at least by half, by runs of equal {side} sentences; the first is document "
        f"{int(np.argmax(share >= HALF)) + 1}): scores on them say little about new text"
    )
    say(note)
    return [note]


def shares_in_training(held_out: SplitFolder, training: SplitFolder, side: str) -> np.ndarray:
    """(D,) which share of each document's text, by bytes, stands in the training data (`shares_seen`)."""
    return shares_seen(held_out.text(side), held_out.structure().document_offsets, [training.text(side)])


def shares_seen(text: TextArray, offsets: np.ndarray, others: Sequence[TextArray]) -> np.ndarray:
    """(D,) the share of each document's bytes that stands in other texts.

    A sentence stands there if it does so next to the same neighbour: sentences that recur by themselves (headings,
    greetings, small vocabularies) are no overlap of documents. A document's only sentence has no neighbour and must
    stand there by itself.
    """
    hashes = [_hashes(other) for other in others]
    known, known_pairs = np.concatenate(hashes), np.concatenate([_pairs(each) for each in hashes])
    sentences = _hashes(text)
    first, last = np.zeros((2, len(sentences)), dtype=bool)
    first[offsets[:-1]] = last[offsets[1:] - 1] = True
    pairs = np.isin(_pairs(sentences), known_pairs) & ~last[:-1]  # pair i: sentences i and i + 1
    seen = first & last & np.isin(sentences, known)
    seen[:-1] |= pairs
    seen[1:] |= pairs
    size = np.diff(text.offsets)
    share: np.ndarray = np.add.reduceat(size * seen, offsets[:-1]) / np.maximum(np.add.reduceat(size, offsets[:-1]), 1)
    return share


def _pairs(hashes: np.ndarray) -> np.ndarray:
    """(S-1,) uint64, one of every two neighbours, in their order."""
    mixed: np.ndarray = hashes[:-1] * np.uint64(0x9E3779B97F4A7C15) ^ hashes[1:]
    return mixed


def _hashes(text: TextArray) -> np.ndarray:
    """(S,) uint64, one of each line's words."""
    digests = (hashlib.blake2b(" ".join(line.split()).encode(), digest_size=8).digest() for line in text)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64, len(text))
