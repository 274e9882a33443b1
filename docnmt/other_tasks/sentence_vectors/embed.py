"""docnmt-embed: lines of text → words → vectors or binary codes, block by block → one `.npy` file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from docnmt.core.lines import TextLines
from docnmt.other_tasks.options import EmbedConfig
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import pick_device
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UsageError, UserError, replacing

#: Number of lines that are read, encoded and written together.
CHUNK = 4096


def text_lines(path: Path | None) -> Iterator[str]:
    """Return the lines of a file, or of standard input; errors as in `docnmt.core.lines`."""
    return iter(TextLines(sys.stdin.buffer, name="stdin") if path is None else TextLines(path))


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
        """Write the header in NumPy's format 1.0: always 128 bytes, so that it can be overwritten."""
        text = repr({"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, self.columns)})
        self.file.write(np.lib.format.magic(1, 0) + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n")


def embed(config: EmbedConfig) -> None:
    """Write vectors, or packed codes, of lines to a `.npy` file, in order; of several ranks each encodes its share."""
    encoder = SentenceEncoder.load(config.path, device=pick_device(config.device), max_tokens=config.max_tokens)
    if ranks.world() > 1 and (config.input is None or not Path(config.input).is_file()):
        raise UsageError(f"--input {config.input or ''}: expected a file, of which every process reads its part")
    if config.codes and not encoder.bits:
        raise UserError("--codes: this model learned none; train one with --hash-bits 256, 1024 or 4096")
    lines = text_lines(None if config.input is None else Path(config.input))

    def _blocks() -> Iterator[np.ndarray]:
        """Yield the rows of `CHUNK` lines at a time, in order: in the first rank all of them, in others nothing."""
        while chunks := [texts for _ in range(ranks.world()) if (texts := [words(t) for t in islice(lines, CHUNK)])]:
            part = chunks[ranks.rank()] if ranks.rank() < len(chunks) else []
            rows = encoder.codes(part) if config.codes else encoder.features(part)
            yield from ranks.gather_rows(rows, list(map(len, chunks)))

    if ranks.rank():
        for _ in _blocks():
            pass
    else:
        columns, dtype = (encoder.bits // 8, np.uint8) if config.codes else (encoder.width, np.float32)
        with (
            replacing(Path(config.output)) as temporary,
            temporary.open("wb") as file,
            Progress(None, "encoding", unit="sentences") as progress,
        ):
            writer = NpyWriter(file, columns, dtype)
            for rows in _blocks():
                writer.append(rows)
                progress.update(len(rows))
            writer.finish()
    unknown, tokens = map(sum, zip(*ranks.exchange([encoder.unknown, encoder.tokens]), strict=True))
    share = 100 * unknown / max(tokens, 1)
    print(f"{unknown:,} of {tokens:,} words ({share:.2f} %) have no vector of any type", file=sys.stderr)
