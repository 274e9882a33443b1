"""What `docnmt-embed` does once its options are resolved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from docnmt.errors import UserError
from docnmt.sentence_vectors.encoder import SentenceEncoder
from docnmt.sentence_vectors.faiss_search import FaissIndex
from docnmt.sentence_vectors.gates import draw_gates
from docnmt.sentence_vectors.search import nearest_cosine, nearest_hamming
from docnmt.sentence_vectors.stream import StoredLines, embed_stream
from docnmt.sentence_vectors.words import words

#: Lines whose gates are drawn at most; more would not be readable.
MOST_DRAWN = 20
#: Queries that are searched together, where nobody waits for the first.
QUERIES = 256


def write(encoder: SentenceEncoder, lines: Iterator[str], output: Path, *, codes: bool) -> None:
    """Vectors or codes of every line into a file, with a report on stderr."""
    if codes and not encoder.bits:
        raise UserError("--codes: this model learned none; train one with --hash-bits 256, 1024 or 4096")
    report = embed_stream(encoder, lines, output, codes=codes)
    share = 100 * encoder.unknown / max(encoder.tokens, 1)
    print(
        f"{encoder.unknown:,} of {encoder.tokens:,} words ({share:.2f} %) have no vector of any type", file=sys.stderr
    )
    if report is not None:
        print(report, file=sys.stderr)


def search(
    encoder: SentenceEncoder,
    lines: Iterator[str],
    index: Path,
    *,
    texts: Path | None,
    top: int,
    backend: str,
    out: TextIO,
    at_once: int = QUERIES,
) -> None:
    """Print the nearest rows of `index` for each line: query, rank, cosine or distance, row and its text.

    Args:
        at_once: lines that are waited for before they are answered.

    Raises:
        UserError: the index is not one of this model, or the texts do not fit it.
    """
    rows = read_index(index, encoder)
    known = None if texts is None else _open_texts(texts, len(rows))
    binary, done = rows.dtype == np.uint8, 0
    nearest = _searcher(rows, top, backend)
    while chunk := [words(line) for line in islice(lines, at_once)]:
        queries = encoder.codes(chunk) if binary else encoder.features(chunk)
        merits, places = nearest(queries)
        for query, (row_merits, row_places) in enumerate(zip(merits.tolist(), places.tolist(), strict=True), done):
            for rank, (merit, place) in enumerate(zip(row_merits, row_places, strict=True)):
                shown = f"{merit:.4f}" if isinstance(merit, float) else str(merit)
                tail = "" if known is None else f"\t{known[place]}"
                print(f"{query}\t{rank}\t{shown}\t{place}{tail}", file=out)
        out.flush()
        done += len(chunk)


def _searcher(rows: np.ndarray, top: int, backend: str) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Queries → merits and places of the nearest rows; what is made of the index is made here, once."""
    if backend == "faiss":
        return partial(FaissIndex(rows).nearest, top=top)
    return partial(nearest_hamming if rows.dtype == np.uint8 else nearest_cosine, index=rows, top=top)


def draw(encoder: SentenceEncoder, lines: Iterator[str], picture: Path) -> None:
    """Draw the gates of a few lines.

    Raises:
        UserError: no lines, or more than can be read in a picture.
    """
    sentences = [words(line) for line in islice(lines, MOST_DRAWN + 1)]
    if not any(sentences) or len(sentences) > MOST_DRAWN:
        raise UserError(f"--gates: give 1 to {MOST_DRAWN} lines of text, got {len(sentences) or 'none'}")
    draw_gates(encoder, sentences, picture)


def read_index(path: Path, encoder: SentenceEncoder) -> np.ndarray:
    """A file of `--output`, mapped into memory.

    Raises:
        UserError: not such a file, or not of this encoder's width.
    """
    try:
        rows: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"--search {path}: cannot be read as an .npy file: {error}") from error
    width = {"uint8": encoder.bits // 8, "float32": encoder.width}.get(rows.dtype.name, 0)
    if rows.ndim != 2 or rows.shape[1] != width or not width:
        raise UserError(
            f"--search {path}: holds {rows.dtype.name} of shape {rows.shape}, expected float32 (rows, {encoder.width})"
            + (f" or uint8 (rows, {encoder.bits // 8})" if encoder.bits else "")
            + "; is it of another model?"
        )
    return rows


def _open_texts(path: Path, rows: int) -> StoredLines:
    lines = StoredLines(path, f"--texts {path}")
    if len(lines) != rows:
        raise UserError(
            f"{lines.name}: has {len(lines):,} lines, the index {rows:,} rows; give the text that it was made of"
        )
    return lines
