"""Search for the nearest rows of an index: by cosine, or by Hamming distance between codes.

NumPy reads the index block by block, so it may be larger than memory. faiss (optional) copies it into memory whole and
is faster with many threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from docnmt.runtime.errors import UserError

#: Bytes of distances and of the index in memory at once, or twice while faiss copies the index.
BLOCK_BYTES = 1 << 26

_ONES_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, dtype=np.uint8)


def nearest_cosine(queries: np.ndarray, index: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the `top` rows of `index` (N, d) with the largest cosine to each query (Q, d), ties in order.

    Returns:
        Cosines and row numbers, (Q, min(top, N)) each, best first. A zero vector has cosine 0 with everything.

    Raises:
        UserError: a row has NaN or infinity, which would disturb the order of all others; the message names it.
    """
    scaled = unit_rows(queries, "the queries")

    def _scores(block: np.ndarray, begin: int) -> np.ndarray:
        block = np.asarray(block, dtype=np.float32)
        cosines: np.ndarray = scaled @ block.T
        cosines /= _lengths(block, "the index", begin)  # cheaper than a copy of the block in unit length
        return cosines

    return _nearest(_scores, index, len(queries), top)


def nearest_hamming(queries: np.ndarray, index: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the `top` codes of `index` (N, bytes), uint8, that differ in fewest bits from each query, ties in order.

    Returns:
        Distances in bits and row numbers, (Q, min(top, N)) each, best first.
    """
    wide = _words(queries)

    def _scores(block: np.ndarray, begin: int) -> np.ndarray:
        rows = _words(block)
        distances = np.empty((len(wide), len(rows)), np.int32)
        for query, out in zip(wide, distances, strict=True):
            _ones(rows ^ query).sum(axis=1, dtype=np.int32, out=out)
        return -distances

    best, places = _nearest(_scores, index, len(queries), top)
    return -best, places


class FaissIndex:
    """A copy of an index in faiss: (N, bytes) uint8 codes or (N, d) vectors.

    Raises:
        UserError: faiss is not installed, or a row has NaN or infinity.
    """

    def __init__(self, rows: np.ndarray) -> None:
        try:
            import faiss
        except ImportError as error:
            raise UserError("--backend faiss: not installed: pip install 'docnmt[faiss]', or omit --backend") from error
        self.binary = rows.dtype == np.uint8
        width = rows.shape[1]
        self.flat = faiss.IndexBinaryFlat(8 * width) if self.binary else faiss.IndexFlatIP(width)
        step = max(1, BLOCK_BYTES // (width * rows.itemsize))
        for begin in range(0, len(rows), step):
            self.flat.add(self._ready(rows[begin : begin + step], "the index", begin))

    def nearest(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Search like `nearest_hamming` for codes, or `nearest_cosine` for vectors; ties come in any order."""
        merits, places = self.flat.search(self._ready(queries, "the queries"), min(top, self.flat.ntotal))
        return merits, places

    def _ready(self, rows: np.ndarray, name: str, begin: int = 0) -> np.ndarray:
        return np.ascontiguousarray(rows) if self.binary else unit_rows(rows, name, begin)


def unit_rows(rows: np.ndarray, name: str, begin: int = 0) -> np.ndarray:
    """Scale rows to length 1, (N, d) float32; zero rows stay zero. They are rows `begin` … of the input called `name`.

    Raises:
        UserError: a row has NaN or infinity.
    """
    rows = np.asarray(rows, dtype=np.float32)
    return np.asarray(rows / _lengths(rows, name, begin)[:, None])


def _lengths(rows: np.ndarray, name: str, begin: int) -> np.ndarray:
    """Return the lengths (N,), 1 for a zero row."""
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    if len(broken := np.flatnonzero(~np.isfinite(lengths))):
        row = begin + int(broken[0])
        raise UserError(f"--search: row {row} (from 0) of {name} holds values that are not finite; encode it anew")
    return np.where(lengths == 0, 1, lengths)


def _words(codes: np.ndarray) -> np.ndarray:
    """Pack (N, bytes) into (N, words), uint64, padded with zeros."""
    return np.ascontiguousarray(np.pad(codes, ((0, 0), (0, -codes.shape[1] % 8)))).view(np.uint64)


def _ones(values: np.ndarray) -> np.ndarray:
    """Count the ones in each uint64 (N, words), or in each of its bytes if NumPy is older than 2."""
    return np.asarray(
        np.bitwise_count(values) if hasattr(np, "bitwise_count") else _ONES_OF_BYTE[values.view(np.uint8)]
    )


def _nearest(
    scores: Callable[[np.ndarray, int], np.ndarray], index: np.ndarray, queries: int, top: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the `top` largest scores over all blocks of the index, each passed with its first row, and their rows."""
    rows = max(1, BLOCK_BYTES // max(8 * queries, index.shape[1] * 4))
    best, places = np.zeros((queries, 0)), np.zeros((queries, 0), np.int64)
    for begin in range(0, len(index), rows):
        new = scores(np.asarray(index[begin : begin + rows]), begin)
        numbers = np.broadcast_to(np.arange(begin, begin + new.shape[1]), new.shape)
        new, numbers = _largest(new, numbers, top)
        if begin:
            new, numbers = np.hstack([best, new]), np.hstack([places, numbers])
        best, places = _largest(new, numbers, top)
    return best, places


def _largest(scores: np.ndarray, numbers: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the `top` largest of each row, sorted, ties by the lowest number."""
    if scores.shape[1] > 4 * top:  # discard most first, without losing a tie for the last place
        last = np.partition(scores, -top, axis=1)[:, -top]
        width = int((scores >= last[:, None]).sum(1).max())
        if width <= 4 * top:
            chosen = np.argpartition(-scores, width - 1, axis=1)[:, :width]
            scores, numbers = np.take_along_axis(scores, chosen, 1), np.take_along_axis(numbers, chosen, 1)
    order = np.lexsort((numbers, -scores), axis=1)[:, :top]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)
