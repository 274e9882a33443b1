"""Detection of documents of a held-out split that also occur in the training data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from docnmt.core.corpus import SplitFolder, TextArray

#: A document counts as seen if at least this share of its bytes is.
HALF = 0.5
#: Number of sentences compared at once, and of lines read at once.
_TOGETHER, _LINES = 1 << 18, 4096


def overlap_with_training(
    held_out: SplitFolder, training: SplitFolder, side: str, say: Callable[[str], None]
) -> list[str]:
    """Warn about documents of which at least half the text is in the training data (`shares_in_training`)."""
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
    """Return the share (D,) of each document's bytes that is in the training data (`shares_seen`)."""
    return shares_seen(held_out.text(side), held_out.structure().document_offsets, [training.text(side)])


def shares_seen(text: TextArray, offsets: np.ndarray, others: Sequence[TextArray]) -> np.ndarray:
    """Return the share (D,) of each document's bytes that occurs in other texts.

    A sentence counts only if it occurs there next to the same neighbour: sentences that recur by themselves (headings,
    greetings, small vocabularies) are no overlap of documents. A document's only sentence has no neighbour and counts
    by itself. Neither text is held in memory as a whole, not even one number per sentence.
    """
    shares = [np.zeros(0)]
    begin = 0
    while begin < len(offsets) - 1:
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + _TOGETHER, side="right")) - 1)
        shares.append(_shares_seen(text, offsets[begin : end + 1], others))
        begin = end
    return np.concatenate(shares)


def _shares_seen(text: TextArray, offsets: np.ndarray, others: Sequence[TextArray]) -> np.ndarray:
    """Return the shares (D,) of the documents between these `offsets`."""
    sentences = _hashes(text, int(offsets[0]), int(offsets[-1]))
    pairs = _pairs(sentences)  # pair i: sentences i and i + 1
    known, known_pairs = np.zeros(len(sentences), dtype=bool), np.zeros(len(pairs), dtype=bool)
    for other in others:
        for first in range(0, len(other), _TOGETHER):
            there = _hashes(other, first, min(first + _TOGETHER + 1, len(other)))  # one more, for the last pair
            known |= np.isin(sentences, there)
            known_pairs |= np.isin(pairs, _pairs(there))
    begins = offsets - offsets[0]
    first_of, last_of = np.zeros((2, len(sentences)), dtype=bool)
    first_of[begins[:-1]] = last_of[begins[1:] - 1] = True
    seen = first_of & last_of & known
    known_pairs &= ~last_of[:-1]
    seen[:-1] |= known_pairs
    seen[1:] |= known_pairs
    size = np.diff(text.offsets[offsets[0] : offsets[-1] + 1])
    total = np.maximum(np.add.reduceat(size, begins[:-1]), 1)
    share: np.ndarray = np.add.reduceat(size * seen, begins[:-1]) / total
    return share


def _pairs(hashes: np.ndarray) -> np.ndarray:
    """Return a hash of every two neighbours, in order; (S-1,) uint64."""
    mixed: np.ndarray = hashes[:-1] * np.uint64(0x9E3779B97F4A7C15) ^ hashes[1:]
    return mixed


def _hashes(text: TextArray, first: int, last: int) -> np.ndarray:
    """Return a hash of each line's words; (last - first,) uint64."""
    lines = (line for begin in range(first, last, _LINES) for line in text[begin : min(begin + _LINES, last)])
    text.release_pages()
    digests = (hashlib.blake2b(" ".join(line.split()).encode(), digest_size=8).digest() for line in lines)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64, last - first)
