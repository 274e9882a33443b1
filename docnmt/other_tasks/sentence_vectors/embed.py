"""docnmt-embed: sentences → vectors or binary codes, and the nearest of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import numpy as np

from docnmt.core.lines import TextLines
from docnmt.other_tasks.options import EmbedConfig
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.use import MOST_DRAWN, SentenceEncoder, draw_gates
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import pick_device
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UsageError, UserError, replacing

# A report on how well the bits of binary codes are used.


class BitReport:
    """Counts how often each bit is 1, over all codes so far."""

    def __init__(self, bits: int) -> None:
        self.ones = np.zeros(bits, np.int64)
        self.codes = 0

    def add(self, codes: np.ndarray) -> None:
        """Count more codes, (N, B / 8) uint8."""
        self.ones += np.unpackbits(codes, axis=1).sum(axis=0, dtype=np.int64)
        self.codes += len(codes)

    @property
    def dead(self) -> np.ndarray:
        """The bits that are the same in all codes, so that they carry no information."""
        return np.flatnonzero((self.ones == 0) | (self.ones == self.codes))

    @property
    def balance(self) -> np.ndarray:
        """The share of ones (B,) of each bit; 0.5 is best."""
        return np.asarray(self.ones / max(self.codes, 1))

    @property
    def entropy(self) -> float:
        """The information of a code in bits if its bits were independent; at most B."""
        p = self.balance
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
        return float(np.nan_to_num(terms).sum())

    def __str__(self) -> str:
        bits, dead = len(self.ones), len(self.dead)
        low, middle, high = np.percentile(self.balance, [5, 50, 95])
        return (
            f"{self.codes:,} codes of {bits} bits: {dead} dead ({100 * dead / bits:.1f} %), share of ones "
            f"{low:.2f} / {middle:.2f} / {high:.2f} (5 / 50 / 95 % of the bits), entropy {self.entropy:.0f} bits"
        )


# Lines of text for `docnmt-embed`, read as they arrive, or in any order without being kept in memory.


class LineByLine:
    """A binary stream whose `read` returns one line, so that a terminal is answered line by line."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines = lines

    def read(self, size: int) -> bytes:
        """Return the next line, whatever its size; b"" at the end."""
        return next(self.lines, b"")


def text_lines(path: Path | None) -> Iterator[str]:
    """Return the lines of a file, or of standard input one by one; errors as in `docnmt.core.lines`."""
    if path is not None:
        return iter(TextLines(path))
    return iter(TextLines(cast(BinaryIO, LineByLine(iter(sys.stdin.buffer))), name="stdin"))


class StoredLines:
    """The lines of a file, each read when needed; takes 8 bytes of memory per line.

    Raises:
        UserError: the file cannot be read, or only once and from the beginning, or is malformed text.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        if path.exists() and not path.is_file():
            raise UserError(f"{name}: is a folder or a pipe, expected a file, whose lines are read in any order")
        self._ends: list[np.ndarray] = []
        lines = TextLines(self._blocks(), name=name)
        for _ in lines:  # checks each line
            pass
        self.begins = np.concatenate([np.zeros(1, np.int64), *self._ends])[: lines.lines]

    def _blocks(self) -> Generator[bytes, None, None]:
        """Yield the file's blocks and record where lines end."""
        at = 0
        try:
            with self.path.open("rb") as file:
                while block := file.read(1 << 16):
                    self._ends.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + at + 1)
                    at += len(block)
                    yield block
        except OSError as error:
            raise UserError(f"{self.name}: cannot be read: {error.strerror or error}") from error

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, place: int) -> str:
        with self.path.open("rb") as file:
            file.seek(int(self.begins[place]))
            line = file.readline()
        return line.decode("utf-8" if place else "utf-8-sig").removesuffix("\n").removesuffix("\r")


# Search for the nearest rows of an index: by cosine, or by Hamming distance between codes.
#
# NumPy reads the index block by block, so it may be larger than memory. faiss (optional) copies it into memory whole
# and
# is faster with many threads.


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
            raise UserError("--backend faiss: not installed: pip install faiss-cpu, or omit --backend") from error
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


# The command `docnmt-embed`: write vectors or codes of text, search for the nearest of them, draw gates.


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
