"""The command `docnmt-embed`: write vectors or codes of text, search for the nearest of them, draw gates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np

from docnmt.other_tasks.options import EmbedConfig
from docnmt.other_tasks.sentence_vectors.bit_report import BitReport
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.encoder import SentenceEncoder
from docnmt.other_tasks.sentence_vectors.gates import MOST_DRAWN, draw_gates
from docnmt.other_tasks.sentence_vectors.line_reader import StoredLines, text_lines
from docnmt.other_tasks.sentence_vectors.nearest_rows import FaissIndex, nearest_cosine, nearest_hamming
from docnmt.runtime import ranks
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import replacing
from docnmt.runtime.progress import Progress
from docnmt.runtime.tuning import pick_device

#: Number of lines that are read, encoded and written together.
CHUNK = 4096
#: Number of queries that are searched together, unless they come from a terminal.
QUERIES = 256


def embed(config: EmbedConfig, out: TextIO) -> None:
    """Carry out the options; results go to `out`, reports to stderr.

    Raises:
        UserError: there is no sentence encoder at the path, or text or index cannot be read or do not fit it.
    """
    encoder = SentenceEncoder.load(config.path, device=pick_device(config.device), max_tokens=config.max_tokens)
    if ranks.world() > 1:
        if config.input is None or not config.output:
            raise UsageError("several processes encode a file into a file: give --input and --output")
        if not Path(config.input).is_file():
            raise UsageError(f"--input {config.input}: expected a file, of which every process reads its part")
    lines = text_lines(None if config.input is None else Path(config.input))
    if config.output:
        write(encoder, lines, Path(config.output), codes=config.codes)
    elif config.search:
        rows = read_index(Path(config.search), encoder)
        texts = None if config.texts is None else _open_texts(Path(config.texts), len(rows))
        at_once = 1 if config.input is None and sys.stdin.isatty() else QUERIES
        search(encoder, lines, rows, config.top, config.backend, out, texts=texts, at_once=at_once)
    elif config.gates:
        draw_gates(encoder, [words(line) for line in islice(lines, MOST_DRAWN + 1)], Path(config.gates))


class NpyWriter:
    """Appends rows to an `.npy` file whose number of rows is known only at the end."""

    def __init__(self, file: BinaryIO, columns: int, dtype: type[np.generic]) -> None:
        self.file, self.columns, self.dtype, self.rows = file, columns, np.dtype(dtype), 0
        self._header()

    def append(self, rows: np.ndarray) -> None:
        """Append rows (n, columns)."""
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).tobytes())
        self.rows += len(rows)

    def finish(self) -> None:
        """Write the number of rows into the header."""
        self.file.seek(0)
        self._header()

    def _header(self) -> None:
        """Write the header in NumPy's format 1.0, always 128 bytes long, so that it can be overwritten."""
        text = repr({"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, self.columns)})
        self.file.write(np.lib.format.magic(1, 0) + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n")


def write(encoder: SentenceEncoder, lines: Iterator[str], output: Path, *, codes: bool) -> None:
    """Write vectors, or packed codes, of any number of lines to one `.npy` file, in order; a report goes to stderr.

    With several ranks, each encodes its share of the lines, and the first one writes.

    Raises:
        UserError: codes are requested and the model learned none, or the file cannot be written.
    """
    if codes and not encoder.bits:
        raise UserError("--codes: this model learned none; train one with --hash-bits 256, 1024 or 4096")
    report, blocks = BitReport(encoder.bits), encoded(encoder, lines, codes=codes)
    if ranks.rank():
        for _ in blocks:
            pass
    else:
        with (
            replacing(output) as temporary,
            temporary.open("wb") as file,
            Progress(None, "encoding", unit="sentences") as progress,
        ):
            writer = NpyWriter(file, encoder.bits // 8 if codes else encoder.width, np.uint8 if codes else np.float32)
            for rows in blocks:
                writer.append(rows)
                if codes:
                    report.add(rows)
                progress.update(len(rows))
            writer.finish()
    unknown, tokens = map(sum, zip(*ranks.exchange([encoder.unknown, encoder.tokens]), strict=True))
    share = 100 * unknown / max(tokens, 1)
    print(f"{unknown:,} of {tokens:,} words ({share:.2f} %) have no vector of any type", file=sys.stderr)
    if codes:
        print(report, file=sys.stderr)


def encoded(encoder: SentenceEncoder, lines: Iterator[str], *, codes: bool) -> Iterator[np.ndarray]:
    """Yield vectors or codes of `CHUNK` lines at a time, in order: in the first rank all of them, in others nothing."""
    while chunks := [chunk for _ in range(ranks.world()) if (chunk := [words(line) for line in islice(lines, CHUNK)])]:
        own = chunks[ranks.rank()] if ranks.rank() < len(chunks) else []
        yield from ranks.gather_rows(encoder.codes(own) if codes else encoder.features(own), list(map(len, chunks)))


def search(
    encoder: SentenceEncoder, lines: Iterator[str], index: np.ndarray, top: int, backend: str, out: TextIO,
    *, texts: StoredLines | None = None, at_once: int = QUERIES,
) -> None:  # fmt: skip
    """Print the nearest rows of `index` for each line: query, rank, cosine or distance, row, and its text from `texts`.

    Args:
        at_once: number of lines to wait for before they are answered.
    """
    binary, done = index.dtype == np.uint8, 0
    nearest: Callable[..., tuple[np.ndarray, np.ndarray]] = (
        FaissIndex(index).nearest
        if backend == "faiss"
        else partial(nearest_hamming if binary else nearest_cosine, index=index)
    )
    for block in _blocks(lines, at_once):
        chunk = [words(line) for line in block]
        merits, places = nearest(encoder.codes(chunk) if binary else encoder.features(chunk), top=top)
        for query, (row_merits, row_places) in enumerate(zip(merits.tolist(), places.tolist(), strict=True), done):
            for rank, (merit, place) in enumerate(zip(row_merits, row_places, strict=True)):
                shown = f"{merit:.4f}" if isinstance(merit, float) else str(merit)
                tail = "" if texts is None else f"\t{texts[place]}"
                print(f"{query}\t{rank}\t{shown}\t{place}{tail}", file=out)
        out.flush()
        done += len(chunk)


def _blocks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Yield lines that are answered together; if a line cannot be read, those before it come before the error."""
    block: list[str] = []
    refused: UserError | None = None
    try:
        for line in lines:
            block.append(line)
            if len(block) == size:
                yield block
                block = []
    except UserError as error:
        refused = error
    if block:
        yield block
    if refused is not None:
        raise refused


def map_npy(path: Path) -> np.ndarray:
    """Map an `.npy` file into memory.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        # Copy on write: torch expects a writable array, but only reads it.
        array: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # NumPy raises many kinds for damage, shapes beyond memory and malformed headers
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path}: cannot be read as an .npy file: {reason}") from error
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path}: cannot be read as an .npy file: it is an archive of several (.npz)")
    return array


def read_index(path: Path, encoder: SentenceEncoder) -> np.ndarray:
    """Map a file of `write` into memory.

    Raises:
        UserError: it is no such file, or not of this encoder's width.
    """
    rows = map_npy(path)
    width = {"uint8": encoder.bits // 8, "float32": encoder.width}.get(rows.dtype.name, 0)
    if rows.ndim == 2 and not len(rows):
        raise UserError(f"--search {path}: holds no rows; write them with --output, of a text that is not empty")
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
