"""PowerPoint and Excel: runs of text in their XML parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

from lxml import etree

from docnmt.apps.documents.packages import Related, picture_texts
from docnmt.apps.documents.segments import (
    MOST_MARKS,
    CloseMark,
    FixedMark,
    Inline,
    OpenMark,
    Sections,
    Segment,
    TooLong,
    Translated,
    pieces,
    reading,
)
from docnmt.apps.documents.xml import Element, Unit, empty, expect_texts, local, shown_in, text_in
from docnmt.runtime.languages import base, right_to_left, tag
from docnmt.runtime.system import UserError, printable

# Text in runs, as slides, shapes and cells have it: the look that most of it has is no mark, others are formats.


#: Attributes of a look that do not show.
_UNSEEN = frozenset({"lang", "altLang", "dirty", "err", "noProof", "smtClean", "smtId", "bmk"})
#: What stands before the text of a paragraph or cell, behind it, and what a translation has not: its phonetics.
_BEFORE, _BEHIND, _DROPPED = ("pPr",), ("endParaRPr",), ("rPh", "phoneticPr")
#: About how many bytes the looks of all text may take together.
_MOST = 1 << 30
_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass(frozen=True)
class _Payload:
    """How a mark is written: an element that stays, white space with a meaning, or the look of the text inside."""

    element: Element | None = None
    space: str = ""
    look: Element | None = None


class CopyLimit:
    """Refuses a document whose looks would fill the memory: a translation may have a copy for each of its pieces."""

    def __init__(self, name: str) -> None:
        self._name, self._left = name, _MOST

    def take(self, copies: int, looks: Iterable[Element | None]) -> None:
        """Counts so many copies of the largest of these looks."""
        self._left -= copies * max((_weight(look) for look in looks if look is not None), default=0)
        if self._left < 0:
            raise UserError(f"{self._name}: the formats of its text would fill the memory; it is not read")


def _weight(look: Element) -> int:
    """About how many bytes an element takes."""
    return sum(100 + sum(map(len, each.attrib.values())) for each in look.iter())


class Runs:
    """The text of one paragraph (`a:p`) or cell (`si`, `is`), whose runs (`r` of `rPr` and `t`) are written anew.

    Args:
        changed: hears the element when it has got another text. spaced: whether `t` must say that its spaces count.
        room: what the looks may take.
    """

    def __init__(
        self,
        element: Element,
        *,
        units: tuple[str, str],
        changed: Callable[[Element], None],
        spaced: bool,
        room: CopyLimit,
    ) -> None:
        self._element, self._changed, self._spaced = element, changed, spaced
        self._looks: dict[str, Element | None] = {}
        if len(element) > MOST_MARKS:
            raise TooLong(f"{MOST_MARKS:,} runs")
        sizes: Counter[str] = Counter()
        for run in element.iterchildren("{*}r", "{*}t"):
            look = run.find("{*}rPr")
            sizes[_key(look)] += sum(len(text.text or "") for text in _texts(run))
            self._looks.setdefault(_key(look), look)
        self._base = max(sizes, key=lambda key: sizes[key], default="")
        self._inline: Inline[_Payload] = Inline(lambda text: _Payload(space=text))
        self._read()
        self.segment: Segment = self._inline.segment(units=units)
        room.take(len(self.segment.marks) + 1, self._looks.values())

    def _read(self) -> None:
        inline, now = self._inline, self._base
        for child in self._element:
            name = local(child)
            if name in ("r", "t"):
                key = _key(child.find("{*}rPr"))
                text = "".join(each.text or "" for each in _texts(child))
                if text.strip() and key != now:
                    if now != self._base:
                        inline.close()
                    if key != self._base:
                        look = self._looks[key]
                        inline.open(_Payload(look=_bare(child) if look is None else look))
                    now = key
                inline.text(text, lambda space: _Payload(space=space) if "\n" in space or "\t" in space else None)
            elif name == "br":
                inline.hard(_Payload(child))
            elif name and name not in _BEFORE + _BEHIND + _DROPPED:
                inline.fixed(_Payload(child), shown_in(child, "t"))

    def fill(self, found: Translated) -> None:
        """Puts a translation in the place of the text."""
        element = self._element
        kept = {name: element.find(f"{{*}}{name}") for name in _BEFORE + _BEHIND}
        plain = element.find("{*}t") is not None
        empty(element)
        element.extend(child for name in _BEFORE if (child := kept[name]) is not None)
        looks = [self._looks.get(self._base)]
        prefix = element.tag.rpartition("}")[0] + "}" if "}" in element.tag else ""
        out = _Out(element, prefix, plain=plain, spaced=self._spaced)
        for piece in pieces(self.segment.marks, found):
            if isinstance(piece, str):
                out.text(piece, looks[-1])
                continue
            payload = self._inline.payloads[piece.number]
            if isinstance(piece, OpenMark):
                looks.append(payload.look)
            elif isinstance(piece, CloseMark):
                looks.pop()
            elif isinstance(piece, FixedMark) and payload.element is not None:
                out.element(payload.element)
            else:
                out.text(payload.space, looks[-1])
        element.extend(child for name in _BEHIND if (child := kept[name]) is not None)
        self._changed(element)


class _Out:
    """Writes runs: text of one look in a row is one of them."""

    def __init__(self, parent: Element, prefix: str, *, plain: bool, spaced: bool) -> None:
        self._parent, self._prefix, self._plain, self._spaced = parent, prefix, plain, spaced
        self._last: tuple[Element | None, Element] | None = None  # the look and the text of the last run

    def text(self, text: str, look: Element | None) -> None:
        """Adds text of a look."""
        if self._last is None or self._last[0] is not look:
            run = self._parent if self._plain else etree.SubElement(self._parent, f"{self._prefix}r")
            if look is not None and not self._plain:
                run.append(deepcopy(look))
            self._last = look, etree.SubElement(run, f"{self._prefix}t")
        written = self._last[1]
        written.text = (written.text or "") + text
        if self._spaced and written.text != " ".join(written.text.split()):
            written.set(_XML_SPACE, "preserve")

    def element(self, element: Element) -> None:
        """Adds what stays as it is."""
        element.tail = None
        self._parent.append(element)
        self._last = None


def _texts(run: Element) -> list[Element]:
    return [run] if local(run) == "t" else run.findall("{*}t")


def _bare(run: Element) -> Element:
    """The look of a run that has none, beside others that have."""
    return etree.Element(f"{run.tag.rpartition('}')[0]}}}rPr" if "}" in run.tag else "rPr")


def _key(look: Element | None) -> str:
    """A look as a string, without what does not show."""
    if look is None:
        return ""
    about = sorted((str(name), str(value)) for name, value in look.attrib.items() if name not in _UNSEEN)
    inside = "".join(str(etree.tostring(child, encoding="unicode", with_tail=False)) for child in look)
    return f"{about}{inside}" if about or inside else ""


# PPTX: the paragraphs of slides, slide by slide, each with its notes; and fixed text of layouts and masters.


_PRESENTATION = "ppt/presentation.xml"
#: What is on a slide and has text that is not read, by the address that says what it is.
_LEFT = {"diagram": "a diagram (SmartArt)", "chart": "a chart", "ole": "an embedded object"}


class Pptx(Related):
    """A presentation.

    Translated: slides in their order, each followed by its notes; tables; alternative texts; text of layouts that is no
    placeholder
    Stays: numbers of slides, comments; charts, SmartArt and embedded objects, each of which is named
    """

    def _units(self) -> Iterator[Unit]:
        self._load()
        self._sections, self._room = Sections(), CopyLimit(self.name)
        left: list[str] = []
        slides = list(dict.fromkeys(part for _, part in self._listed(_PRESENTATION, "sldIdLst")))
        seen = set[str]()
        shared = dict.fromkeys(self._behind(slides, "slideLayout"))
        shared |= dict.fromkeys(self._behind(list(shared), "slideMaster"))
        for number, slide in enumerate(slides, start=1):
            self._sections.heading()
            yield from self._paragraphs(slide)
            left += dict.fromkeys(f"slide {number}: {what}" for what in _unread(self._root(slide)))
            for notes in self._behind([slide], "notesSlide"):
                if notes not in seen:
                    yield from self._paragraphs(notes)
                seen.add(notes)
        for part in shared:
            self._sections.heading()
            yield from self._paragraphs(part, placeholders=False)
        self.left = left

    def _behind(self, parts: list[str], kind: str) -> list[str]:
        """The parts of a kind that these refer to."""
        return [found.target for part in parts for found in self._relations(part) if found.kind == kind]

    def _paragraphs(self, part: str, *, placeholders: bool = True) -> Iterator[Unit]:
        """The paragraphs of a part; what only says what to write into a placeholder is never shown."""
        hidden: Element | None = None
        if placeholders:
            expect_texts(self._root(part), "local-name()='p'", "*[local-name()='r']/*[local-name()='t']")
        for event, element in etree.iterwalk(self._root(part), events=("start", "end")):
            name = local(element)
            if hidden is not None:
                hidden = None if element is hidden else hidden
            elif name == "sp" and event == "start" and not placeholders and element.find(".//{*}ph") is not None:
                hidden = element
            elif name in ("tr", "txBody"):
                self._sections.together(begins=event == "start")
            elif name == "p" and event == "start" and "drawingml" in (etree.QName(element).namespace or ""):
                with reading(f"{self.name}: {part}"):
                    yield paragraph(element, part, self._sections, self.languages, self._room)
            elif event == "start":
                yield from picture_texts(element, part, self._sections.units)


def paragraph(element: Element, part: str, sections: Sections, languages: tuple[str, str], room: CopyLimit) -> Unit:
    """A paragraph of a slide or a shape."""
    changed = partial(_speak, languages=languages)
    runs = Runs(element, units=sections.units, changed=changed, spaced=False, room=room)
    sections.paragraph()
    return Unit(runs.segment, runs.fill, part)


def _speak(element: Element, languages: tuple[str, str]) -> None:
    """Says that a paragraph is in the other language, and in which direction it is written."""
    for look in element.iter("{*}rPr", "{*}endParaRPr"):
        if base(look.get("lang", "")) == base(languages[0]):
            look.set("lang", tag(languages[1]))
    if right_to_left(languages[0]) == right_to_left(languages[1]):
        return
    about = element.find("{*}pPr")
    if about is None:
        about = etree.Element(f"{element.tag.rpartition('}')[0]}}}pPr")
        element.insert(0, about)
    to_left = right_to_left(languages[1])
    about.set("rtl", str(int(to_left)))
    if about.get("algn", "l") == "lr"[not to_left]:
        about.set("algn", "lr"[to_left])


def _unread(root: Element) -> Iterator[str]:
    for data in root.iter("{*}graphicData"):
        address = data.get("uri") or ""
        yield from (name for end, name in _LEFT.items() if address.rpartition("/")[2] == end)


# XLSX: the texts of cells, sheet by sheet and row by row, and of shapes; formulas, numbers and dates stay.


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
    """A workbook.

    Translated: texts of cells, sheet by sheet and row by row, and of shapes; alternative texts. A text that several
    cells share is translated once
    Stays: formulas, numbers, dates, names of sheets, comments, charts. Heads of tables and cells whose text a formula
    quotes (`=IF(A1="done", …)`) are named and stay, as formulas find cells by them; so are heads and feet of pages,
    hints for input and texts in formulas. Formulas are calculated when the file is next opened
    """

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
