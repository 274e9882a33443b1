"""The same search by faiss (optional): faster with many threads, but the whole index is copied into memory."""

from __future__ import annotations

import numpy as np

from docnmt.errors import UserError
from docnmt.sentence_vectors.search import unit_rows

#: Bytes of the index that are in memory twice while it is copied.
BLOCK_BYTES = 1 << 26


class FaissIndex:
    """The rows of an index, copied once: (N, bytes) uint8 codes or (N, d) vectors.

    Raises:
        UserError: faiss is not installed, or a row holds NaN or infinity.
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
            block = rows[begin : begin + step]
            self.flat.add(np.ascontiguousarray(block) if self.binary else unit_rows(block, "the index", begin))

    def nearest(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """As `nearest_hamming` for codes, as `nearest_cosine` for vectors; of equals any may come first."""
        wanted = np.ascontiguousarray(queries) if self.binary else unit_rows(queries, "the queries")
        merits, places = self.flat.search(wanted, min(top, self.flat.ntotal))
        return merits, places
