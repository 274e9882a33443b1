"""The files of one split in a data folder: reading and writing them by name.

`SPLIT.LANG.tokens.bin` and `SPLIT.LANG.text.bin` with their offsets for each side (further references:
`SPLIT.LANG1.text.bin` …), `SPLIT.labels.text.bin` and `SPLIT.names.text.bin` where these are known, and one
`SPLIT.structure.bin`: document offsets (int64), blank lines and levels (int32), one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from docnmt.core.data.meta import META
from docnmt.core.data.store import (
    ArrayWriter,
    RaggedWriter,
    TextArray,
    TokenArray,
    check_offsets,
    map_array,
)
from docnmt.core.formats.structure import Structure
from docnmt.runtime.errors import UserError


def reference_names(target_lang: str, count: int) -> list[str]:
    """Return the names of a split's references in its files: de, de1, de2 …"""
    return [f"{target_lang}{number or ''}" for number in range(count)]


@dataclass(frozen=True)
class SplitFolder:
    """One split in a folder; `files` is the list of files that the folder's `meta.json` has or will have."""

    folder: Path
    split: str
    files: dict[str, dict[str, Any]]

    def text(self, side: str, *, rows: int | None = None) -> TextArray:
        """Return the raw text of a side (a language), mapped into memory."""
        return TextArray(*self.rows(f"{side}.text", rows=rows))

    def text_if_known(self, side: str, *, rows: int | None = None) -> TextArray | None:
        """Return the text of `labels` or `names`, which only some corpora have, or None."""
        return self.text(side, rows=rows) if f"{self.split}.{side}.text.bin" in self.files else None

    def tokens(self, side: str, *, rows: int | None = None, below: int | None = None) -> TokenArray:
        """Return the subwords of a side, mapped into memory; they are checked to be less than `below`."""
        path = self.folder / f"{self.split}.{side}.tokens.bin"
        return TokenArray.of_file(path, *self.rows(f"{side}.tokens", rows=rows), below)

    def rows(self, name: str, *, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return values and offsets of `SPLIT.NAME.bin`, mapped into memory.

        Raises:
            UserError: the file is missing, or the offsets are not those of `rows` rows.
        """
        values, offsets = self.array(name), self.array(f"{name}.offsets")
        check_offsets(self.folder / f"{self.split}.{name}.offsets.bin", offsets, len(values), rows)
        return values, offsets

    def sentence_rows(self) -> list[str]:
        """Return the names of the arrays that have a row per sentence: `en.text`, `en.tokens`, …"""
        names = [name.removesuffix(".offsets.bin") for name in self.files if name.endswith(".offsets.bin")]
        own = [name.removeprefix(f"{self.split}.") for name in names if name.startswith(f"{self.split}.")]
        return [name for name in own if name != "names.text"]

    def structure(self) -> Structure:
        """Return the document structure, mapped into memory."""
        keys = ("documents", "sentences", "levels")
        path, entry = _entry(self.folder, f"{self.split}.structure", self.files, *keys)
        documents, sentences, levels = entry["documents"], entry["sentences"], entry["levels"]
        offsets = map_array(path, "<i8", documents + 1)
        blank = map_array(path, "<i4", documents + 1, offset=8 * (documents + 1))
        known = map_array(path, "<i4", sentences * levels, offset=12 * (documents + 1))
        check_offsets(path, offsets, sentences, documents)
        if blank.min() < 0 or known.min(initial=0) < -1:
            raise UserError(f"{path}: is damaged: negative numbers; preprocess again")
        return Structure(offsets, blank, known.reshape(sentences, levels))

    def write_structure(self, structure: Structure) -> None:
        """Write the structure file."""
        arrays = ((structure.document_offsets, "<i8"), (structure.blank_lines, "<i4"), (structure.levels, "<i4"))
        name = f"{self.split}.structure.bin"
        writer = ArrayWriter(self.folder / name, "u1")
        for values, dtype in arrays:
            writer.append(np.ascontiguousarray(values, dtype=dtype).reshape(-1).view("u1"))
        entry = {key: value for key, value in writer.close().items() if key not in ("dtype", "length")}
        self.files[name] = {
            "documents": structure.num_documents,
            "sentences": structure.num_sentences,
            "levels": structure.levels.shape[1],
            **entry,
        }

    @contextmanager
    def writer(self, name: str, dtype: np.dtype[Any] | str) -> Iterator[RaggedWriter]:
        """Return a context manager that writes `SPLIT.NAME.bin`, which is complete at the end of the block.

        It may replace an existing file: arrays mapped from the old one stay valid.
        """
        writer = RaggedWriter(self.folder, f"{self.split}.{name}", dtype)
        yield writer
        self.files.update(writer.close())

    def write_lines(self, side: str, lines: Sequence[str]) -> None:
        """Write the raw text of a side at once."""
        with self.writer(f"{side}.text", "u1") as writer:
            writer.append_lines(lines)

    def array(self, name: str) -> np.ndarray:
        """Return `SPLIT.NAME.bin`, mapped into memory."""
        return stored_array(self.folder, f"{self.split}.{name}", self.files)


def stored_array(
    folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], mode: Literal["r", "c"] = "r"
) -> np.ndarray:
    """Map `NAME.bin` into memory as `map_array` does; `files` is the list of files in `meta.json`.

    Raises:
        UserError: the file is missing, or not in the list.
    """
    path, entry = _entry(folder, name, files, "dtype", "length")
    return map_array(path, entry["dtype"], entry["length"], mode=mode)


def _entry(
    folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], *keys: str
) -> tuple[Path, Mapping[str, Any]]:
    """Return a file's path and its entry in `meta.json`."""
    entry = files.get(f"{name}.bin", {})
    if any(entry.get(key) is None for key in keys):
        raise UserError(f"{folder / META}: says nothing of {name}.bin; preprocess again")
    return folder / f"{name}.bin", entry
