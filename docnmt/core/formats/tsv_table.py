"""Tables of texts: TSV files with a header and JSONL files, read row by row with line numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from docnmt.core.formats.text_lines import TextLines, half_character
from docnmt.runtime.errors import UserError


def read_tsv(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and the values of `columns` of every row below the header.

    Raises:
        UserError: invalid UTF-8 text, a missing column, or a row of another width; the message names file and line.
    """
    lines = enumerate(TextLines(path), 1)
    header = next(lines, (1, ""))[1].split("\t")
    if not set(columns) <= set(header):
        raise UserError(
            f"{path}:1: expected a header with the columns {', '.join(columns)}, got {', '.join(header)[:80]}"
        )
    places = [header.index(name) for name in columns]
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise UserError(f"{path}:{number}: expected {len(header)} tab-separated columns, got {len(fields)}")
        yield number, [fields[place] for place in places]


def read_jsonl(path: Path, keys: Sequence[str], *, numbers: Sequence[str] = ()) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of `keys` of the object in every line. All are texts; `numbers` may be whole, too.

    Raises:
        UserError: invalid UTF-8 text, or not such an object; the message names file and line.
    """
    for number, line in enumerate(TextLines(path), 1):
        try:
            row = json.loads(line)
            values = [row[key] for key in keys]
            for key, value in zip(keys, values, strict=True):
                whole = key in numbers and isinstance(value, int) and not isinstance(value, bool)
                if not whole and not isinstance(value, str):
                    raise TypeError(f"'{key}' is {value!r}")
        except json.JSONDecodeError as error:
            raise UserError(f"{path}:{number}: not a JSON object: {error.msg} at column {error.colno}") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            kinds = (f"'{key}' (a text{' or a whole number' if key in numbers else ''})" for key in keys)
            raise UserError(f"{path}:{number}: expected an object with {', '.join(kinds)}: {error}") from error
        texts = [str(value) for value in values]
        if fault := half_character("".join(texts)):
            raise UserError(f"{path}:{number}: {fault}")
        yield number, texts
