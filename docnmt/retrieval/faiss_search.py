"""The same search by faiss (optional): faster with many threads, but the whole index is copied into memory."""

from __future__ import annotations

import numpy as np

from docnmt.errors import UserError
from docnmt.retrieval.search import unit_rows


def faiss_nearest(queries: np.ndarray, index: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """As `nearest_hamming` for uint8 codes, as `nearest_cosine` for vectors; of equals any may come first.

    Raises:
        UserError: faiss is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError("--backend faiss: not installed: pip install 'docnmt[faiss]', or omit --backend") from error
    top = min(top, len(index))
    if index.dtype == np.uint8:
        flat = faiss.IndexBinaryFlat(8 * index.shape[1])
        flat.add(np.ascontiguousarray(index))
        distances, places = flat.search(np.ascontiguousarray(queries), top)
        return distances, places
    flat = faiss.IndexFlatIP(index.shape[1])
    flat.add(unit_rows(index, "the index"))
    cosines, places = flat.search(unit_rows(queries, "the queries"), top)
    return cosines, places
