"""XLSX: the texts of cells, sheet by sheet and row by row, and of shapes; formulas, numbers and dates stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lxml import etree

from docnmt.apps.documents.packages import Related, picture_texts
from docnmt.apps.documents.pptx import paragraph
from docnmt.apps.documents.runs import CopyLimit, Runs
from docnmt.apps.documents.segments import Sections, reading
from docnmt.apps.documents.xml_file import Element, local, text_in
from docnmt.apps.documents.xml_tree import Unit
from docnmt.runtime.errors import UserError, printable

_WORKBOOK = "xl/workbook.xml"
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_WORD = re.compile(r"[^\W\d_]{2}")
#: In heads and feet of pages: what is no text, such as a font or the number of the page.
_CODE = re.compile(r"&(?:\"[^\"]*\"|\d+|K[0-9A-F]{6}|.)")
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3}))?")
#: Heads of tables in a sheet; a row has 16,384 cells.
_MOST_HEADS = 1 << 17
_HINTS = ("promptTitle", "prompt", "errorTitle", "error")
_FORMULAS = ("{*}f", "{*}formula", "{*}formula1", "{*}formula2", "{*}definedName", "{*}calculatedColumnFormula")


class Xlsx(Related):
    """A workbook."""

    def _units(self) -> Iterator[Unit]:
        self._load()
        named = {part: str(entry.get("name")) for entry, part in self._listed(_WORKBOOK, "sheets")}
        sheets = [(name, part) for part, name in named.items()]
        self._strings = next((one.target for one in self._relations(_WORKBOOK) if one.kind == "sharedStrings"), "")
        self._items: Sequence[Element] = self._root(self._strings).findall("{*}si") if self._strings else []
        self._formulas = False
        self._compared = self._quoted([_WORKBOOK, *(part for _, part in sheets)])
        heads = {part: self._heads(part) for _, part in sheets}
        self._kept = {index for _, part in sheets for cell in self._cells(part, heads[part]) if (index := cell[1]) >= 0}
        self._seen, self._said = set[int](), dict[str, None]()
        left: list[str] = []
        drawings, self._room = set[str](), CopyLimit(self.name)
        sections = Sections()
        for name, part in sheets:
            sections.heading()
            found = list(self._relations(part))
            yield from self._texts(part, heads[part], sections)
            if heads[part]:
                left.append(f"sheet {printable(name)}: the heads of its tables, by which formulas know the columns")
            left += [f"sheet {printable(name)}: {what}" for what in self._silent(part)]
            for drawing in (one.target for one in found if one.kind == "drawing"):
                shapes = [] if drawing in drawings else self._root(drawing).iter("{*}p", "{*}cNvPr")
                drawings.add(drawing)
                for element in shapes:
                    with reading(f"{self.name}: {drawing}"):
                        if local(element) == "p":
                            yield paragraph(element, drawing, sections, self.languages, self._room)
                        yield from picture_texts(element, drawing, sections.units)
                left += [f"sheet {printable(name)}: a chart" for one in self._relations(drawing) if one.kind == "chart"]
        if self._said:
            quoted = ", ".join(f"'{printable(text[:40])}'" for text in list(self._said)[:5])
            left.append(f"cells whose text formulas compare with: {quoted}{' …' if len(self._said) > 5 else ''}")
        self.left = left

    def _silent(self, part: str) -> Iterator[str]:
        """What readers of a sheet see and is not read."""
        root = self._root(part)
        if any(_WORD.search(_CODE.sub("", text_in(each))) for each in root.iterfind("{*}headerFooter/*")):
            yield "heads and feet of its pages"
        hints = (each.get(key, "") for each in root.iter("{*}dataValidation") for key in _HINTS)
        if any(map(_WORD.search, hints)):
            yield "hints for input"
        quoted = (text for each in root.iter("{*}f") for text in _QUOTED.findall(each.text or "") if _WORD.search(text))
        if texts := list(dict.fromkeys(quoted)):
            shown = ", ".join(f"'{printable(text[:40])}'" for text in texts[:3])
            yield f"texts in its formulas: {shown}{' …' if len(texts) > 3 else ''}"

    def _texts(self, part: str, heads: set[str], sections: Sections) -> Iterator[Unit]:
        """The texts of a sheet; one that several cells share is read where it stands first."""
        row = ""
        sections.together(begins=True)
        for cell, index, element in self._cells(part):
            if (here := cell.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")) != row:
                row = here
                sections.together(begins=False)
                sections.together(begins=True)
            kept = cell in heads if index < 0 else index in self._kept or index in self._seen
            self._seen.add(index)
            if kept:
                continue
            if (text := text_in(element, "t")) in self._compared:
                self._said[text] = None
            else:
                where = part if index < 0 else self._strings
                with reading(f"{self.name}: {where}"):
                    runs = Runs(element, units=sections.units, changed=self._calculate, spaced=True, room=self._room)
                yield Unit(runs.segment, runs.fill, where)
        sections.together(begins=False)

    def _cells(self, part: str, only: set[str] | None = None) -> Iterator[tuple[str, int, Element]]:
        """The cells of a sheet that have a text: which one, the text's number if cells share it (or -1), and the text.

        Raises:
            UserError: a text is missing.
        """
        for cell in self._root(part).iterfind("{*}sheetData/{*}row/{*}c"):
            place, kind = cell.get("r", ""), cell.get("t")
            if only is not None and place not in only:
                continue
            if kind == "inlineStr" and (inline := cell.find("{*}is")) is not None:
                yield place, -1, inline
            elif kind == "s":
                number = cell.findtext("{*}v") or ""
                if not number.isdecimal() or len(number) > 9 or int(number) >= len(self._items):
                    raise UserError(f"{self.name}: {part}: cell {place} has text {number!r}, which is missing")
                yield place, int(number), self._items[int(number)]

    def _heads(self, sheet: str) -> set[str]:
        """The cells by whose texts tables know their columns; with other texts, Excel takes a file for damaged."""
        tables = [self._root(found.target) for found in self._relations(sheet) if found.kind == "table"]
        areas = {table.get("ref") or "" for table in tables if table.get("headerRowCount") != "0"}
        found = set[str]()
        for area in areas | set(self._sources(sheet)):
            found.update(_first_row(area))
            if len(found) > _MOST_HEADS:
                raise UserError(f"{self.name}: {sheet}: its tables have more than {_MOST_HEADS:,} heads")
        return found

    def _sources(self, sheet: str) -> Iterator[str]:
        """The areas of a sheet that pivot tables sum up."""
        names = {part: entry.get("name") for entry, part in self._listed(_WORKBOOK, "sheets")}
        for relation in self._relations(_WORKBOOK):
            if relation.kind == "pivotCacheDefinition":
                for source in self._root(relation.target).iter("{*}worksheetSource"):
                    if source.get("sheet") == names[sheet]:
                        yield source.get("ref") or ""

    def _quoted(self, parts: Sequence[str]) -> set[str]:
        """The texts that formulas and rules of input compare with; they stay, as do cells that have them."""
        found = set[str]()
        for part in parts:
            for formula in self._root(part).iter(*_FORMULAS):
                self._formulas = True
                for match in _QUOTED.finditer(formula.text or ""):
                    text = match[1].replace('""', '"')
                    choices = text.split(",") if _is_list(formula) else []
                    found |= {text, *map(str.strip, choices)}
        return found

    def _calculate(self, changed: Element) -> None:
        """Lets the formulas be calculated anew when the file is opened."""
        root = self._root(_WORKBOOK)
        if not self._formulas:
            return
        settings = root.find("{*}calcPr")
        if settings is None:
            settings = etree.Element(f"{root.tag.rpartition('}')[0]}}}calcPr")
            before = [child for child in root if local(child) in ("sheets", "externalReferences", "definedNames")]
            before[-1].addnext(settings)
        settings.set("fullCalcOnLoad", "1")

    def _saved(self, parts: set[str]) -> bytes:
        return super()._saved(parts | {_WORKBOOK} if self._formulas else parts)


def _is_list(formula: Element) -> bool:
    """Whether a formula says what may be put into a cell."""
    around = formula.getparent()
    return "formula1" in (local(formula), "" if around is None else local(around))


def _first_row(area: str) -> list[str]:
    """The cells of the first row of an area: `B2:D9` → B2, C2, D2."""
    match = _REFERENCE.match(area)
    if match is None:
        return []
    first, last = _column(match[1]), _column(match[3] or match[1])
    return [f"{_letters(column)}{match[2]}" for column in range(first, last + 1)]


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def _letters(column: int) -> str:
    out = ""
    while column:
        column, rest = divmod(column - 1, 26)
        out = chr(65 + rest) + out
    return out
