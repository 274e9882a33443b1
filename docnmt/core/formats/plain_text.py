"""Reading of plain text: one sentence per line, an empty line or `<d>` between documents."""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterator, Sequence

from docnmt.core.corpus import Blank, DocumentStart, Event, Facts, Sentence
from docnmt.core.lines import TextLines, is_blank
from docnmt.runtime.errors import UserError

#: What other toolkits put between the sentences of a document, or around them, if a line is a whole document.
_SEPARATOR = re.compile(r"(?i)(?<!\S)(?:_(?:eos|sep|brk)|<(?:sep|eos|brk|beg|end|/?s)>|\[(?:sep|eos)\])(?!\S)")


def separator(line: str) -> str:
    """Return the first sign of a line that separates sentences for other toolkits, "" if there is none."""
    found = _SEPARATOR.search(line) if "_" in line or "<" in line or "[" in line else None
    return found[0] if found else ""


def note_separators(name: str, lines: int, first: str) -> str:
    """Return the note on a text with separators in so many lines, of which `first` is one with its place."""
    return (
        f"{name}: {lines:,} lines have a sign between sentences ({first}): they look like whole documents, and are "
        "read as one sentence each; give each sentence a line, and put an empty line between documents"
    )


def read_text(
    sides: Sequence[TextLines],
    facts: Facts,
    *,
    levels: TextLines | None = None,
    ids: TextLines | None = None,
    strict: bool = True,
) -> Iterator[Event]:
    """Yield the sentences of plain text files: the source, then the references.

    Args:
        levels: the rows of levels.tsv. ids: those of the .ids file of OPUS, where a new pair of names begins a
            document.
        strict: True if a line that is empty on some sides only is an error; else it is a sentence without a partner.
    """
    rows, documents = LevelRows(levels) if levels else None, _Documents(ids) if ids else None
    lockstep = _Lockstep([*sides, *(file for file in (levels, ids) if file)])
    seen, paragraph = set[str](), 0
    separated, first = [0] * len(sides), [""] * len(sides)
    for number, lines in enumerate(lockstep, 1):
        place, texts = f"{sides[0].name}:{number}", lines[: len(sides)]
        kinds = {kind_of_line(text) for text in texts}
        if len(kinds) > 1 and (strict or kinds != {"", "text"}):
            raise UserError(lockstep.unequal(texts, number))
        kind = "text" if len(kinds) > 1 else kinds.pop()
        if kind not in seen:
            seen.add(kind)
            facts.levels |= kind == "<p>"
            _check_kinds(seen, kind, place, levels, ids)
        if documents is not None and (mark := documents.begins(lines[-1], number)) is not None:
            yield mark
        if kind == "text":
            for side, text in enumerate(texts):
                if sign := separator(text):
                    separated[side] += 1
                    first[side] = first[side] or f"'{sign}' in line {number:,}"
            units, labels = rows.parse(lines[len(sides)], number) if rows else ((str(paragraph),), "")
            facts.labels = rows is not None and rows.columns > rows.units
            yield Sentence(tuple("" if is_blank(text) else text for text in texts), units, labels, place)
            continue
        if rows and not is_blank(lines[len(sides)]):
            raise UserError(f"{rows.name}:{number}: expected an empty row, as {place} is empty")
        paragraph += 1
        if kind != "<p>":
            yield Blank() if kind == "" else DocumentStart()
    _describe(lockstep.files, facts)
    for side, count in enumerate(separated):
        if count:
            facts.notes.append(note_separators(sides[side].name, count, first[side]))
    facts.levels |= rows is not None


def _describe(files: Sequence[TextLines], facts: Facts) -> None:
    """Add sizes, hashes and notes of the files read to `facts`."""
    for file in files:
        facts.inputs[file.name] = {"bytes": file.bytes, "lines": file.lines, "sha256": file.sha256}
        if file.crlf:
            facts.notes.append(f"{file.name}: {file.crlf:,} of {file.lines:,} lines end in CRLF, which is taken off")
        if file.bom:
            facts.notes.append(f"{file.name}: begins with a byte order mark, which is taken off")


def kind_of_line(line: str) -> str:
    """Return "text" for a line of text, or the mark that it is: "", "<p>", "<d>"."""
    bare = line.strip()
    return bare if bare in ("", "<p>", "<d>") else "text"


def _check_kinds(seen: set[str], kind: str, here: str, levels: TextLines | None, ids: TextLines | None) -> None:
    """Check that the kind of the line at `here` is compatible with the kinds `seen` so far.

    Raises:
        UserError: there are two sources of structure at once.
    """
    here += ": two sources of structure at once:"
    if {"", "<d>"} <= seen:
        raise UserError(f"{here} <d> lines and empty lines; keep one of them to mark documents")
    if kind in ("<p>", "<d>") and levels is not None:
        raise UserError(f"{here} {kind} lines and {levels.name}; keep one of them")
    if kind in ("", "<d>") and ids is not None:
        raise UserError(f"{here} {kind or 'empty'} lines and {ids.name}; keep one of them")


class _Lockstep:
    """Reads several files line by line."""

    def __init__(self, files: Sequence[TextLines]) -> None:
        self.files = files
        self._streams = [iter(file) for file in files]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the lines of all files with the same number.

        Raises:
            UserError: the files have different numbers of lines.
        """
        for number, lines in enumerate(itertools.zip_longest(*self._streams), 1):
            if None in lines:
                told = self._told(lines, number)
                raise UserError(f"expected the same number of lines on all sides: {told}; lines: {self._counts()}")
            yield lines

    def _told(self, texts: Sequence[str | None], number: int) -> str:
        """Describe line `number` of each file."""
        files = zip(self.files, texts, strict=False)  # the last one is levels.tsv, which may be missing
        return ", but ".join(f"{file.name}:{number} {_described(text)}" for file, text in files)

    def _counts(self) -> str:
        for stream in self._streams:
            collections.deque(stream, maxlen=0)  # to the end, so that the lines are counted
        return ", ".join(f"{file.name} has {file.lines:,}" for file in self.files)

    def unequal(self, texts: Sequence[str], number: int) -> str:
        """Describe the error of a line that is empty, or a mark, on some sides only."""
        problem = f"documents must break at the same lines on all sides: {self._told(texts, number)}"
        if {kind_of_line(text) for text in texts} == {"", "text"}:
            problem += " (for sentences without a partner give --one-sided)"
        counts = self._counts()
        return problem if len({file.lines for file in self.files}) == 1 else f"{problem}; lines: {counts}"


def _described(text: str | None) -> str:
    if text is None:
        return "is missing"
    kind = kind_of_line(text)
    return {"text": f"reads '{text[:40]}'", "": "is empty"}.get(kind, f"is {kind}")


class _Documents:
    """Reads the rows of an .ids file: the documents of both sides, then the sentences' numbers."""

    def __init__(self, lines: TextLines) -> None:
        self._name = lines.name
        self._open: list[str] = []

    def begins(self, row: str, number: int) -> DocumentStart | None:
        """Return the mark of a document that begins with this row, or None.

        Raises:
            UserError: the row does not name two documents.
        """
        names = row.split("\t")[:2]
        if len(names) < 2:
            raise UserError(f"{self._name}:{number}: expected a document of each side and a tab, got '{row[:40]}'")
        if names == self._open:
            return None
        self._open = names
        return DocumentStart(" ".join(names))


class LevelRows:
    """Parses the rows of a levels.tsv: leading columns of whole numbers are units, all others are labels."""

    def __init__(self, lines: TextLines) -> None:
        self.name = lines.name
        self.columns = self.units = 0

    def parse(self, row: str, number: int) -> tuple[tuple[str, ...], str]:
        """Return the labels of the units, outermost first, and the other columns.

        Raises:
            UserError: the row is empty or unlike the first.
        """
        if is_blank(row):
            raise UserError(f"{self.name}:{number}: empty row, but there is a sentence in this line of the text")
        values = row.split("\t")
        if not self.columns:
            self.columns = len(values)
            self.units = next((i for i, value in enumerate(values) if not _is_whole(value)), len(values))
            if not self.units:
                raise UserError(f"{self.name}:{number}: expected a number in the first column, got '{values[0]}'")
        if len(values) != self.columns:
            raise UserError(f"{self.name}:{number}: {len(values)} columns, expected {self.columns} as in the first row")
        units = tuple(values[: self.units])
        for column, value in enumerate(units, 1):
            if not _is_whole(value):
                raise UserError(
                    f"{self.name}:{number}: column {column} is '{value}', expected a whole number as in the first row"
                )
        return units, "\t".join(values[self.units :])


def _is_whole(value: str) -> bool:
    return value.isascii() and value.removeprefix("-").isdigit()
