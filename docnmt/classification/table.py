"""Tables of labelled texts: TSV, CSV and JSONL files, read whole, with the place of every row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docnmt.errors import UserError
from docnmt.formats.text import TextLines, half_character

FORMATS = "a .tsv (label, tab, text), .csv (label and text columns) or .jsonl (keys label and text) file"


@dataclass(frozen=True)
class LabelledTexts:
    """Rows of a table.

    Attributes:
        labels, texts: one a row; labels are names, numbers too.
        lines: the line (from 1) at which each row begins.
        path: the file.
    """

    labels: list[str]
    texts: list[str]
    lines: list[int]
    path: Path

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, row: int) -> str:
        """`file:line` of a row, for messages."""
        return f"{self.path}:{self.lines[row]}"


def read_labelled(path: Path) -> LabelledTexts:
    """Read a table of labelled texts; the ending of its name says how.

    TSV: label, tab, text; a first line `label<TAB>text` is a header. CSV: a header with `label` and `text` among its
    columns, or no header: the label first, the text from the other columns joined by a space (AG News as published).
    JSONL: an object a line with `label` (text or whole number) and `text`. Other columns and keys are ignored.

    Raises:
        UserError: naming the file and line: cannot be read, not UTF-8, a malformed row, no label, no rows at all.
    """
    readers = {".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl}
    if path.suffix not in readers:
        raise UserError(f"{path}: expected {FORMATS}")
    labels, texts, lines = [], [], []
    try:
        for line, label, text in readers[path.suffix](path):
            if fault := _fault(label, text):
                raise UserError(f"{path}:{line}: {fault}")
            labels.append(label)
            texts.append(text)
            lines.append(line)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid UTF-8; convert the file, for example with iconv") from error
    if not texts:
        raise UserError(f"{path}: has no rows; expected {FORMATS}")
    return LabelledTexts(labels, texts, lines, path)


def read_texts(path: Path) -> list[str]:
    """Texts without labels: of a .jsonl file each object's `text`, which may have line breaks, else the file's lines.

    Raises:
        UserError: naming the file and line: cannot be read, not UTF-8, not an object with a text.
    """
    if path.suffix != ".jsonl":
        return list(TextLines(path))
    return [row["text"] for _, row in _objects(path, "a string 'text'")]


def _fault(label: str, text: str) -> str | None:
    """What is wrong with a row, if anything."""
    if not label:
        return "the label is empty"
    if any(character in label for character in "\t\n\r\0"):
        return f"the label {label!r} has a tab, line break or NUL character; remove it"
    if "\0" in text:
        return "the text has a NUL character; remove it"
    return half_character(label + text)


def _tsv(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(TextLines(path), 1):
        label, tab, text = line.partition("\t")
        if not tab:
            raise UserError(f"{path}:{number}: expected label, tab, text; there is no tab")
        names = [cell.strip().lower() for cell in line.split("\t")] if number == 1 else []
        if names == ["label", "text"]:
            continue
        if "label" in names:
            raise UserError(f"{path}:1: a header must be label, tab, text; got {line[:80]!r}")
        yield number, label.strip(), text


def _jsonl(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, row in _objects(path, "'label' and a string 'text'"):
        label = row.get("label")
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            raise UserError(f"{path}:{number}: expected 'label' to be a text or a whole number, got {label!r}")
        yield number, str(label).strip(), row["text"]


def _objects(path: Path, keys: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects, all with a text; `keys` says in an error what is expected of them."""
    for number, line in enumerate(TextLines(path), 1):
        try:
            row: Any = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}:{number}: not a JSON object: {error.msg} at column {error.colno}") from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise UserError(f"{path}:{number}: expected an object with {keys}")
        yield number, row


def _csv(path: Path) -> Iterator[tuple[int, str, str]]:
    csv.field_size_limit(1 << 30)  # whole documents in one cell
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        columns: tuple[int, int] | None = None
        begin = 1
        try:
            for cells in reader:
                names = [cell.strip().lower() for cell in cells]
                if begin == 1 and {"label", "text"} <= set(names):
                    columns = names.index("label"), names.index("text")
                elif begin == 1 and ("label" in names or "text" in names[1:]):
                    raise UserError(f"{path}:1: a header needs the columns label and text, got {', '.join(cells)}")
                elif len(cells) < 2 or (columns is not None and len(cells) <= max(columns)):
                    raise UserError(f"{path}:{begin}: expected a label and a text, got {len(cells)} column(s)")
                elif columns is not None:
                    yield begin, cells[columns[0]].strip(), cells[columns[1]]
                else:
                    yield begin, cells[0].strip(), " ".join(cells[1:])
                begin = reader.line_num + 1
        except csv.Error as error:
            raise UserError(f"{path}:{begin}: not valid CSV: {error}") from error
