"""Reading of Parquet files, in batches of rows."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from docnmt.core.formats.table_rows import Row, value_of
from docnmt.core.lines import ENDINGS, blocks
from docnmt.runtime.errors import UserError

if TYPE_CHECKING:
    import pyarrow

#: Rows in memory at once.
_BATCH = 1024
#: Bytes of a column read at once, however large its row groups are.
_BUFFER = 1 << 20


class ParquetTable:
    """A Parquet file; one compressed as a whole is first decompressed to a temporary file.

    Raises:
        UserError: it cannot be read, is no Parquet file, or pyarrow is not installed.
    """

    def __init__(self, path: Path, progress: Callable[[int], object] | None = None) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise UserError(f"{path}: reading Parquet files needs an extra: pip install 'docnmt[tables]'") from error
        self.name, self._progress, self._failures = str(path), progress, (pyarrow.ArrowException, OSError)
        self._bytes, self._digest = 0, hashlib.sha256()
        content: Path | IO[bytes] = path
        if path.suffix in ENDINGS:
            content = tempfile.TemporaryFile()  # noqa: SIM115  (it ends with this object)
        for block in blocks(path, self._seen):
            if not isinstance(content, Path):
                content.write(block)
        try:
            self._file = pyarrow.parquet.ParquetFile(content, pre_buffer=False, buffer_size=_BUFFER)
        except self._failures as error:
            raise UserError(f"{path}: not a Parquet file, or damaged: {_line(error)}") from error
        self.names = [name for field in self._file.schema_arrow for name in _parquet_names(field)]

    def _seen(self, block: bytes) -> None:
        self._bytes += len(block)
        self._digest.update(block)

    @property
    def inputs(self) -> dict[str, int | str]:
        """Size and hash for `meta.json` (see `Table.inputs`)."""
        rows = int(self._file.metadata.num_rows)
        return {"bytes": self._bytes, "lines": rows, "sha256": self._digest.hexdigest()}

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield all rows, with these columns (see `Table.rows`)."""
        own = set(self._file.schema_arrow.names)
        needed = sorted({name if name in own else name.partition(".")[0] for name in columns})
        done, share = 0, self._bytes / max(self._file.metadata.num_rows, 1)
        try:
            for batch in self._file.iter_batches(_BATCH, columns=needed):
                for number, row in enumerate(batch.to_pylist(), done + 1):
                    yield Row(f"{self.name}: row {number}", tuple(_value(row, name) for name in columns))
                if self._progress is not None:
                    self._progress(int((done + len(batch)) * share) - int(done * share))
                done += len(batch)
        except self._failures as error:
            raise UserError(f"{self.name}: damaged after row {done}: {_line(error)}") from error


def _value(row: dict[str, object], name: str) -> object:
    """Return the value of a column (see `value_of`), None inside a null column."""
    try:
        return value_of(row, name)
    except KeyError:
        return None


def _parquet_names(field: pyarrow.Field, before: str = "") -> Iterator[str]:
    import pyarrow

    yield before + field.name
    if pyarrow.types.is_struct(field.type):
        for inner in field.type:
            yield from _parquet_names(inner, f"{before}{field.name}.")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
