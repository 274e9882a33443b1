"""PowerPoint and Excel: runs of text in their XML parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial, reduce

from lxml import etree

from docnmt.apps.documents.packages import Package, picture_texts
from docnmt.apps.documents.runs import BEFORE, BEHIND, CopyLimit, RunPayload, Runs, Step, look_key, namespace
from docnmt.apps.documents.segments import Sections, reading, renamed, turned
from docnmt.apps.documents.xml import Element, Unit, expect_texts, local, shown_in, text_in
from docnmt.runtime.system import UserError, printable

# The text of paragraphs and cells.

#: What does not stand in the text: properties, and what a translation has not: its phonetics.
_NO_TEXT = (BEFORE, BEHIND, "rPh", "phoneticPr")


def _steps(element: Element) -> list[Step]:
    steps, looks = list[Step](), dict[str, Element | None]()
    for child in element:
        name = local(child)
        if name in ("r", "t"):
            look = child.find("{*}rPr")
            text = "".join(part.text or "" for part in ([child] if name == "t" else child.iterfind("{*}t")))
            steps.append(Step("text", text, key := look_key(look), looks.setdefault(key, look)))
        elif name == "br":
            steps.append(Step("break", elements=[child]))
        elif name and name not in _NO_TEXT:
            steps.append(Step("fixed", shown_in(child, "t"), elements=[child]))
    return steps


class _Paragraph(Runs):
    """The text of a paragraph of a slide or a shape (`a:p`)."""

    def add(self, text: str) -> None:
        self.inline.text(text, lambda space: RunPayload(space) if "\n" in space or "\t" in space else None)


class _Cell(_Paragraph):
    """The text of a cell (`si`, `is`)."""

    def spaced(self, text: str) -> bool:
        return text != " ".join(text.split())


# PPTX: the paragraphs of slides, slide by slide, each with its notes; and fixed text of layouts and masters.

_PRESENTATION = "ppt/presentation.xml"
#: What is on a slide and has text that is not read, by the address that says what it is.
_LEFT = {"diagram": "a diagram (SmartArt)", "chart": "a chart", "ole": "an embedded object"}


class Pptx(Package):
    """A presentation.

    Translated: slides in their order, each followed by its notes; tables; alternative texts; text of layouts that is no
    placeholder
    Stays: numbers of slides, comments; charts, SmartArt and embedded objects, each of which is named
    """

    def _units(self) -> Iterator[Unit]:
        self._load()
        self._count_all()
        self._sections = Sections()
        slides = list(dict.fromkeys(part for _, part in self._listed(_PRESENTATION, "sldIdLst")))
        seen = set[str]()
        shared = dict.fromkeys(self._behind(slides, "slideLayout"))
        shared |= dict.fromkeys(self._behind(list(shared), "slideMaster"))
        for number, slide in enumerate(slides, start=1):
            self._sections.heading()
            yield from self._paragraphs(slide)
            kinds = ((data.get("uri") or "").rpartition("/")[2] for data in self._root(slide).iter("{*}graphicData"))
            self.left += dict.fromkeys(f"slide {number}: {_LEFT[kind]}" for kind in kinds if kind in _LEFT)
            for notes in self._behind([slide], "notesSlide"):
                if notes not in seen:
                    yield from self._paragraphs(notes)
                seen.add(notes)
        for part in shared:
            self._sections.heading()
            yield from self._paragraphs(part, placeholders=False)

    def _behind(self, parts: list[str], kind: str) -> list[str]:
        return [relation.target for part in parts for relation in self._relations(part) if relation.kind == kind]

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
    runs = _Paragraph(element, _steps, units=sections.units, changed=partial(_speak, languages=languages), room=room)
    sections.paragraph()
    return Unit(runs.segment, runs.fill, part)


def _speak(element: Element, languages: tuple[str, str]) -> None:
    """Says that a paragraph is in the other language, and in which direction it is written."""
    for look in element.iter("{*}rPr", "{*}endParaRPr"):
        if code := renamed(look.get("lang", ""), languages):
            look.set("lang", code)
    if side := turned(languages):
        about = element.find("{*}pPr")
        if about is None:
            about = etree.Element(f"{namespace(element)}pPr")
            element.insert(0, about)
        about.set("rtl", "1" if side == "rtl" else "0")
        if about.get("algn", "l") == ("l" if side == "rtl" else "r"):
            about.set("algn", side[0])


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


class Xlsx(Package):
    """A workbook.

    Translated: texts of cells, sheet by sheet and row by row, and of shapes; alternative texts. A text that several
    cells share is translated once
    Stays: formulas, numbers, dates, names of sheets, comments, charts. Heads of tables and cells whose text a formula
    quotes (`=IF(A1="done", …)`) are named and stay, as formulas find cells by them; so are heads and feet of pages,
    hints for input and texts in formulas. Formulas are calculated when the file is next opened
    """

    def _units(self) -> Iterator[Unit]:
        self._load()
        self._count_all()
        named = {part: str(entry.get("name")) for entry, part in self._listed(_WORKBOOK, "sheets")}
        sheets = [(name, part) for part, name in named.items()]
        self._strings = next((one.target for one in self._relations(_WORKBOOK) if one.kind == "sharedStrings"), "")
        self._items: Sequence[Element] = self._root(self._strings).findall("{*}si") if self._strings else []
        self._formulas = False
        self._compared = self._quoted([_WORKBOOK, *(part for _, part in sheets)])
        heads = {part: self._heads(part) for _, part in sheets}
        self._kept = {index for _, part in sheets for cell in self._cells(part, heads[part]) if (index := cell[1]) >= 0}
        self._seen, self._said = set[int](), dict[str, None]()
        drawings, sections = set[str](), Sections()
        for name, part in sheets:
            sections.heading()
            sheet = f"sheet {printable(name)}"
            relations = list(self._relations(part))
            yield from self._texts(part, heads[part], sections)
            if heads[part]:
                self.left.append(f"{sheet}: the heads of its tables, by which formulas know the columns")
            self.left += [f"{sheet}: {silent}" for silent in self._silent(part)]
            for drawing in (one.target for one in relations if one.kind == "drawing"):
                shapes = [] if drawing in drawings else self._root(drawing).iter("{*}p", "{*}cNvPr")
                drawings.add(drawing)
                for element in shapes:
                    with reading(f"{self.name}: {drawing}"):
                        if local(element) == "p":
                            yield paragraph(element, drawing, sections, self.languages, self._room)
                        yield from picture_texts(element, drawing, sections.units)
                self.left += [f"{sheet}: a chart" for one in self._relations(drawing) if one.kind == "chart"]
        if self._said:
            quoted = ", ".join(f"'{printable(text[:40])}'" for text in list(self._said)[:5])
            self.left.append(f"cells whose text formulas compare with: {quoted}{' …' if len(self._said) > 5 else ''}")

    def _silent(self, part: str) -> Iterator[str]:
        """What readers of a sheet see and is not read."""
        root = self._root(part)
        if any(_WORD.search(_CODE.sub("", text_in(node))) for node in root.iterfind("{*}headerFooter/*")):
            yield "heads and feet of its pages"
        hints = (node.get(key, "") for node in root.iter("{*}dataValidation") for key in _HINTS)
        if any(map(_WORD.search, hints)):
            yield "hints for input"
        quoted = (text for node in root.iter("{*}f") for text in _QUOTED.findall(node.text or "") if _WORD.search(text))
        if texts := list(dict.fromkeys(quoted)):
            shown = ", ".join(f"'{printable(text[:40])}'" for text in texts[:3])
            yield f"texts in its formulas: {shown}{' …' if len(texts) > 3 else ''}"

    def _texts(self, part: str, heads: set[str], sections: Sections) -> Iterator[Unit]:
        """The texts of a sheet; one that several cells share is read where it stands first."""
        row = ""
        sections.together(begins=True)
        for cell, index, element in self._cells(part):
            if (number := cell.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")) != row:
                row = number
                sections.together(begins=False)
                sections.together(begins=True)
            stays = cell in heads if index < 0 else index in self._kept or index in self._seen
            self._seen.add(index)
            if stays:
                continue
            if (text := text_in(element, "t")) in self._compared:
                self._said[text] = None
            else:
                where = part if index < 0 else self._strings
                with reading(f"{self.name}: {where}"):
                    runs = _Cell(element, _steps, units=sections.units, changed=self._calculate, room=self._room)
                yield Unit(runs.segment, runs.fill, where)
        sections.together(begins=False)

    def _cells(self, part: str, only: set[str] | None = None) -> Iterator[tuple[str, int, Element]]:
        """The cells of a sheet that have a text: which, the text's number if cells share it (or -1), and the text."""
        for cell in self._root(part).iterfind("{*}sheetData/{*}row/{*}c"):
            address, kind = cell.get("r", ""), cell.get("t")
            if only is not None and address not in only:
                continue
            if kind == "inlineStr" and (inline := cell.find("{*}is")) is not None:
                yield address, -1, inline
            elif kind == "s":
                number = cell.findtext("{*}v") or ""
                if not number.isdecimal() or len(number) > 9 or int(number) >= len(self._items):
                    raise UserError(f"{self.name}: {part}: cell {address} has text {number!r}, which is missing")
                yield address, int(number), self._items[int(number)]

    def _heads(self, sheet: str) -> set[str]:
        """The cells by whose texts tables and pivot tables know their columns: with others, Excel finds damage."""
        tables = [self._root(heads.target) for heads in self._relations(sheet) if heads.kind == "table"]
        areas = {table.get("ref") or "" for table in tables if table.get("headerRowCount") != "0"}
        names = {part: entry.get("name") for entry, part in self._listed(_WORKBOOK, "sheets")}
        for relation in self._relations(_WORKBOOK):
            if relation.kind == "pivotCacheDefinition":
                sources = self._root(relation.target).iter("{*}worksheetSource")
                areas |= {source.get("ref") or "" for source in sources if source.get("sheet") == names[sheet]}
        heads = set[str]()
        for area in areas:
            heads.update(_first_row(area))
            if len(heads) > _MOST_HEADS:
                raise UserError(f"{self.name}: {sheet}: its tables have more than {_MOST_HEADS:,} heads")
        return heads

    def _quoted(self, parts: Sequence[str]) -> set[str]:
        """The texts that formulas and rules of input compare with; they stay, as do cells that have them."""
        texts = set[str]()
        for part in parts:
            for formula in self._root(part).iter(*_FORMULAS):
                self._formulas = True
                for match in _QUOTED.finditer(formula.text or ""):
                    text = match[1].replace('""', '"')
                    around = formula.getparent()  # which says that this is what may be put into a cell
                    is_list = "formula1" in (local(formula), "" if around is None else local(around))
                    texts |= {text, *map(str.strip, text.split(",") if is_list else ())}
        return texts

    def _calculate(self, changed: Element) -> None:
        """Lets the formulas be calculated anew when the file is opened."""
        root = self._root(_WORKBOOK)
        if not self._formulas:
            return
        settings = root.find("{*}calcPr")
        if settings is None:
            settings = etree.Element(f"{namespace(root)}calcPr")
            before = [child for child in root if local(child) in ("sheets", "externalReferences", "definedNames")]
            before[-1].addnext(settings)
        settings.set("fullCalcOnLoad", "1")

    def _saved(self, parts: set[str]) -> bytes:
        return super()._saved(parts | {_WORKBOOK} if self._formulas else parts)


def _first_row(area: str) -> Iterator[str]:
    """The cells of the first row of an area: `B2:D9` → B2, C2, D2."""
    if (match := _REFERENCE.match(area)) is not None:
        names = (match[1], match[3] or match[1])
        first, last = (reduce(lambda number, sign: number * 26 + ord(sign) - 64, name, 0) for name in names)
        for number in range(first, last + 1):
            letters = ""
            while number:
                number, rest = divmod(number - 1, 26)
                letters = chr(65 + rest) + letters
            yield letters + match[2]
