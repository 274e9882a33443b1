"""Reading of tables of labelled texts: TSV, CSV and JSONL files, read whole, with the place of every row."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docnmt.core.lines import TextLines, half_character, is_blank
from docnmt.core.tables import open_table, text_rows
from docnmt.runtime.errors import UserError

FORMATS = "a .tsv (label, tab, text), .csv (label and text columns) or .jsonl (keys label and text) file"


@dataclass(frozen=True)
class LabelledTexts:
    """The rows of a table of labelled texts.

    Attributes:
        labels, texts: one per row; labels are names, even if they are numbers.
        places: `file:line` at which each row begins, for messages.
    """

    labels: list[str]
    texts: list[str]
    places: list[str]

    def __len__(self) -> int:
        return len(self.texts)


def read_labelled(path: Path) -> LabelledTexts:
    """Read a table of labelled texts in the format of its ending.

    TSV: label, tab, text; a first line `label<TAB>text` is a header. CSV: a header with `label` and `text` among its
    columns, or no header: the label first, the text from the other columns joined by a space (AG News as published).
    JSONL: one object per line with `label` (text or whole number) and `text`. Other columns and keys are ignored.

    Raises:
        UserError: unreadable, not UTF-8, a malformed row, no label, no rows at all; the message names file and line.
    """
    readers = {".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl}
    if path.suffix not in readers:
        raise UserError(f"{path}: expected {FORMATS}")
    table = LabelledTexts([], [], [])
    for place, label, text in readers[path.suffix](path):
        label = label.strip()
        if not label:
            raise UserError(f"{place}: the label is empty")
        if any(character in label for character in "\t\n\r\0"):
            raise UserError(f"{place}: the label {label!r} has a tab, line break or NUL character; remove it")
        if "\0" in text:
            raise UserError(f"{place}: the text has a NUL character; remove it")
        if fault := half_character(label + text):
            raise UserError(f"{place}: {fault}")
        table.labels.append(label)
        table.texts.append(text)
        table.places.append(place)
    if not table.texts:
        raise UserError(f"{path}: has no rows; expected {FORMATS}")
    return table


def read_texts(path: Path | None) -> list[str]:
    """Read texts without labels: the `text` values of a .jsonl file, which may have line breaks, or lines.

    Raises:
        UserError: unreadable, not UTF-8, not an object with a text; the message names file and line.
    """
    if path is not None and path.suffix == ".jsonl":
        return [row["text"] for _, row in text_rows(open_table(path), ["text"])]
    return list(TextLines(sys.stdin.buffer, name="stdin") if path is None else TextLines(path))


def _tsv(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(TextLines(path), 1):
        label, tab, text = line.partition("\t")
        if is_blank(line):
            continue
        if not tab:
            raise UserError(f"{path}:{number}: expected label, tab, text; there is no tab")
        names = [cell.strip().lower() for cell in line.split("\t")] if number == 1 else []
        if "label" not in names:
            yield f"{path}:{number}", label, text
        elif names != ["label", "text"]:
            raise UserError(f"{path}:1: a header must be label, tab, text; got {line[:80]!r}")


def _jsonl(path: Path) -> Iterator[tuple[str, str, str]]:
    for place, row in text_rows(open_table(path), ["label", "text"], numbers=["label"]):
        yield place, row["label"], row["text"]


def _csv(path: Path) -> Iterator[tuple[str, str, str]]:
    csv.field_size_limit(1 << 30)  # whole documents in one cell
    begin = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            places: tuple[int, int] | None = None
            first = True
            for cells in reader:
                names = [cell.strip().lower() for cell in cells] if first else []
                first &= not cells
                if not cells:  # an empty line is no row
                    pass
                elif {"label", "text"} <= set(names):
                    places = names.index("label"), names.index("text")
                elif "label" in names or "text" in names[1:]:
                    raise UserError(f"{path}:1: a header needs the columns label and text, got {', '.join(cells)}")
                elif len(cells) <= max(places or (0, 1)):
                    raise UserError(f"{path}:{begin}: expected a label and a text, got {len(cells)} column(s)")
                elif places:
                    yield f"{path}:{begin}", cells[places[0]], cells[places[1]]
                else:
                    yield f"{path}:{begin}", cells[0], " ".join(cells[1:])
                begin = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}:{begin}: not valid CSV: {error}") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid UTF-8; convert the file, for example with iconv") from error
