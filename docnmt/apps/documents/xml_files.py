"""Files of strings that are one tree of XML: TMX, XLIFF 1.2 and 2.x (also of Trados and memoQ), Android, .NET."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial

from lxml import etree

from docnmt.apps.documents.segments import Inline, Segment, Translated
from docnmt.apps.documents.xml import (
    Element,
    Hard,
    Payload,
    Role,
    Unit,
    XmlFile,
    code,
    expect_texts,
    fill,
    local,
    read,
    shown_in,
    text_in,
    unit_in,
)
from docnmt.runtime.languages import check_language, plural_change, same_language
from docnmt.runtime.system import UserError

# TMX: a translation memory, whose units have a variant in each language.

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def _tmx_role(element: Element) -> Role:
    """What an inline element of TMX is; what it holds is code, but for <hi>."""
    name = local(element)
    if name == "hi":
        return Role("format")
    if name in ("bpt", "ept"):
        return Role("format" if name == "bpt" else "end", key=element.get("i") or "")
    return code(text_in(element)) if name == "ph" else Role("fixed")


class Tmx(XmlFile):
    """A translation memory; units without a variant in the target language get one.

    Translated: units without a variant in the target language
    Stays: all variants
    """

    bilingual, form, first = True, "TMX", "tmx"

    def _strings(self) -> Iterator[Unit]:
        languages = set()
        for number, unit in enumerate(self.root.iter("{*}tu")):
            variants = unit.findall("{*}tuv")
            languages |= set(map(_language, variants))
            source, target = (
                next((variant for variant in variants if same_language(_language(variant), language)), None)
                for language in self.languages
            )
            inside = next(unit.iterancestors("{*}seg"), None) is not None  # of a text, of which it is a part
            text = None if inside or source is None else source.find("{*}seg")
            if source is not None and text is not None:
                known = None if target is None else target.find("{*}seg")
                translation = None if known is None else _inner_text(known, _tmx_role)
                place = partial(_variant, unit, source, target, self.languages[1])
                yield unit_in(text, _tmx_role, units=("0", str(number)), translation=translation, place=place)
        if languages and not any(same_language(language, self.languages[0]) for language in languages):
            there = ", ".join(sorted(languages))
            raise UserError(f"{self.name}: has {there}, and the model translates from {self.languages[0]}")


def _variant(unit: Element, source: Element, variant: Element | None, language: str) -> Element:
    """Where the translation of a source goes: a variant behind it, made if there is none."""
    text = source.find("{*}seg")
    assert text is not None  # it was read
    if variant is None:
        variant = etree.Element(source.tag, {_LANG: language})
        variant.tail, variant.text = source.tail, source.text
        unit.insert(unit.index(source) + 1, variant)
    if (inner := variant.find("{*}seg")) is None:
        inner = etree.SubElement(variant, text.tag)
        inner.tail = text.tail
    return inner


def _language(variant: Element) -> str:
    return variant.get(_LANG) or variant.get("lang") or ""


# XLIFF 1.2 and 2.x: units of a source and, perhaps, a target, which is filled where there is none.

_FORMATS = ("g", "mrk", "pc", "hi")
_BEGIN = {"bx": "id", "bpt": "id", "sc": "id"}
_END = {"ex": "id", "ept": "id", "ec": "startRef"}
#: What a file's languages are called in XLIFF 1.2 and 2.x.
_LANGUAGES = (("source-language", "srcLang"), ("target-language", "trgLang"))
_TRANSLATED = "(local-name()='trans-unit' or local-name()='segment') and not(ancestor-or-self::*[@translate='no'])"
#: How many characters a text of XLIFF 2 may have.
_MOST = "{urn:oasis:names:tc:xliff:sizerestriction:2.0}sizeRestriction"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
#: What <x/> with such a type begins or ends.
_LOOKS = ("bold", "italic", "underlined", "link")
_ANGULAR = re.compile(r"(START|CLOSE)_(\w+)")  # how Angular calls what begins and ends an element
#: States of a target that only repeats the source (XLIFF 1.2, 3.2).
_NEW = ("new", "needs-translation")


def _xliff_role(element: Element) -> Role:
    """What an inline element of XLIFF is; what it holds is code."""
    name = local(element)
    said = {etree.QName(key).localname: value for key, value in element.attrib.items()} if name == "mrk" else {}
    if said.get("mtype") == "protected" or said.get("translate") == "no":
        return Role("fixed", shown_in(element))
    if name in _FORMATS:
        return Role("format")
    if name in _BEGIN:
        return Role("format", key=element.get("rid") or element.get(_BEGIN[name]) or "")
    if name in _END:
        return Role("end", key=element.get("rid") or element.get(_END[name]) or "")
    return _standing(element) if name in ("x", "ph") else Role("fixed")


def _standing(element: Element) -> Role:
    """What <x/> or <ph/> is: what the file says to show of it tells, or its code, or its type."""
    kind = element.get("ctype") or element.get("subType") or element.get("type") or ""
    shown = element.get("equiv-text") or element.get("disp") or element.get("equiv") or text_in(element)
    if kind in ("lb", "xlf:lb"):
        return Role("break")
    if kind == "image":
        return Role("fixed", seen="picture")
    if shown:
        return code(shown)
    if (named := _ANGULAR.match(element.get("id", ""))) is not None:
        return Role("format" if named[1] == "START" else "end", key=named[2])
    return Role("fixed", seen="" if kind.startswith("x-") or kind in _LOOKS else "value")


class Xliff(XmlFile):
    """A file of units in two languages.

    Translated: units without a target (XLIFF 1.2 and 2.x), each segment of a `<seg-source>` without one, and in 1.2
    those whose target only repeats the source in the state `new` or `needs-translation`; in 1.2 targets get the state
    `needs-review-translation`
    Stays: other units with a target, `translate="no"`, protected spans. A translation that is longer than `maxwidth`
    (`slr:sizeRestriction` in 2.x) is named
    """

    bilingual, form, first = True, "XLIFF", "xliff"

    def _strings(self) -> Iterator[Unit]:
        for element in self.root.iter("{*}file", "{*}xliff"):
            for names, language in zip(_LANGUAGES, self.languages, strict=True):
                for attribute in names:
                    check_language(element.get(attribute), language, file=self.name, what=attribute)
        expect_texts(self.root, _TRANSLATED, "*[local-name()='source']/text()")
        for number, unit in enumerate(self.root.iter("{*}trans-unit", "{*}segment")):
            source = unit.find("{*}source")
            inside = next(unit.iterancestors("{*}source", "{*}target"), None)  # of a text, of which it is a part
            said = (element.get("translate") for element in (unit, *unit.iterancestors()))
            stays = next(filter(None, said), "yes") == "no"
            if source is not None and inside is None and not stays:
                yield from _units(unit, source, ("0", str(number)))

    def _saved(self, parts: set[str]) -> bytes:
        self.notes = list(_too_long(self.root))
        for element in self.root.iter("{*}file", "{*}xliff"):
            for source, target in zip(*_LANGUAGES, strict=True):
                if element.get(source) and not element.get(target):
                    element.set(target, self.languages[1])
        return super()._saved(parts)


def _too_long(root: Element) -> Iterator[str]:
    """The units whose targets have more characters than the file allows, and how many bounds are not in characters."""
    others = 0
    for unit in root.iter("{*}trans-unit", "{*}unit"):
        targets = list(unit.iter("{*}target"))
        around = [*targets[:1], unit, *unit.iterancestors()]
        most = next((said for element in around if (said := element.get("maxwidth") or element.get(_MOST))), None)
        if most is None or not targets:
            continue
        measure = next((said for element in around if (said := element.get("size-unit"))), "pixel")
        bound = most.rpartition(",")[2].strip()
        length = sum(len(text_in(target)) for target in targets)
        if not bound.isdecimal() or len(bound) > 18 or (local(unit) == "trans-unit" and measure != "char"):
            others += 1
        elif length > int(bound):
            name = unit.get("resname") or unit.get("name") or unit.get("id") or ""
            yield f"unit '{name}' has {length:,} characters, its maxwidth is {int(bound):,}; shorten its translation"
    if others:
        yield f"{others:,} bound(s) of a target's width are not in characters and not checked (maxwidth)"


def _units(unit: Element, source: Element, units: tuple[str, str]) -> Iterator[Unit]:
    """What is to be translated of a unit: its source, or each segment that it is divided into."""
    target, divided = unit.find("{*}target"), unit.find("{*}seg-source")
    known = None if target is None else _inner_text(target)
    parts = [] if divided is None else _segments_in(divided)
    if target is not None and target.get("state") in _NEW and known == _inner_text(source):
        known, target = None, None
    named = len({part.get("mid") for part in parts}) == len(parts)
    if not parts or not named or (known and target is not None and not _segments_in(target)):
        place = partial(_whole, unit)
        yield unit_in(source, _xliff_role, _hard_space(source, unit), units=units, translation=known, place=place)
        return
    there = {} if target is None else {part.get("mid"): part for part in _segments_in(target)}
    assert divided is not None
    targets: dict[str | None, Element] = {}
    for part in parts:
        known = None if (old := there.get(part.get("mid"))) is None else _inner_text(old)
        place = partial(_segment, unit, divided, targets, part.get("mid"))
        yield unit_in(part, _xliff_role, _hard_space(part, unit), units=units, translation=known, place=place)


def _segments_in(element: Element) -> list[Element]:
    """The segments that a text of XLIFF 1.2 is divided into."""
    return [mark for mark in element.iter("{*}mrk") if mark.get("mtype") == "seg"]


def _inner_text(element: Element, role: Callable[[Element], Role] = _xliff_role) -> str:
    """The text of an element without inline elements, in one line."""
    return " ".join(read(deepcopy(element), role).segment().text.split())


def _hard_space(source: Element, *around: Element) -> Hard:
    """What white space is a break: line breaks, where the file says that they count."""
    elements = [source, *around, *(parent for element in around for parent in element.iterancestors())]
    said = next((value for element in elements if (value := element.get(_SPACE))), "default")
    return _wide if said == "preserve" else (lambda space: False)


def _whole(unit: Element) -> Element:
    """The target of a unit, made beside its source if there is none."""
    target = unit.find("{*}target")
    if target is None:
        source, divided = unit.find("{*}source"), unit.find("{*}seg-source")
        before = source if divided is None else divided
        assert before is not None
        target = etree.Element(before.tag.rpartition("}")[0] + "}target" if "}" in before.tag else "target")
        target.tail = before.tail
        unit.insert(unit.index(before) + 1, target)
    if local(unit) == "trans-unit":
        target.set("state", "needs-review-translation")
    return target


def _segment(unit: Element, divided: Element, targets: dict[str | None, Element], mid: str | None) -> Element:
    """The target of a segment; `targets` are those of the unit once one is written, divided like its source."""
    if not targets:
        whole = _whole(unit)
        old = {part.get("mid"): part for part in _segments_in(whole)}
        if any(part.get("mid") not in old for part in _segments_in(divided)):
            copy = deepcopy(divided)
            for part in _segments_in(copy):
                if (known := old.get(part.get("mid"))) is not None:
                    part[:], part.text = list(known), known.text
                elif any(map(str.isalpha, text_in(part))):  # else it is the same in all languages
                    part[:], part.text = [], None
            whole[:], whole.text = list(copy), copy.text
        targets.update((part.get("mid"), part) for part in _segments_in(whole))
    return targets[mid]


# XLIFF of Trados Studio and memoQ: their own marks say that a translation is a machine's draft.

_SDL = "{http://sdl.com/FileTypes/SdlXliff/1.0}"


class ToolXliff(Xliff):
    """XLIFF of a tool that keeps a state of its own for each text; memoQ has a segment in each unit.

    Translated: as in `.xlf`; segments get the state `Draft` (Trados), units `MachineTranslated` (memoQ)
    Stays: as in `.xlf`
    """

    def _strings(self) -> Iterator[Unit]:
        yield from super()._strings()
        self._before = [texts for _, texts in self._targets()]

    def _targets(self) -> Iterator[tuple[Element, dict[str, str]]]:
        """Each unit and what is in its target, by the number of the segment, "" if it has none."""
        for unit in self.root.iter("{*}trans-unit"):
            target = unit.find("{*}target")
            marks = [] if target is None else _segments_in(target)
            texts = {mark.get("mid") or "": text_in(mark) for mark in marks}
            yield unit, texts if texts or target is None else {"": text_in(target)}

    def _saved(self, parts: set[str]) -> bytes:
        for (unit, texts), before in zip(self._targets(), self._before, strict=True):
            new = {number for number, text in texts.items() if text.strip() and not before.get(number, "").strip()}
            for segment in unit.iter(f"{_SDL}seg") if new else ():
                if segment.get("id") in new or "" in new:
                    segment.set("conf", "Draft")
                    segment.set("origin", "mt")
            for name in filter(lambda name: str(name).endswith("}status"), unit.attrib if new else ()):
                unit.set(name, "MachineTranslated")
        return super()._saved(parts)


# Android's strings.xml: strings, arrays and plural forms; names, references and protected parts stay.

_REFERENCE = re.compile(r"\s*[@?](?:\+?[\w.]+:)?[\w.]+/[\w.]+\s*")
#: Space at the ends that counts: by its number, or between quotes.
_SPACE_BEFORE = re.compile(r"\s*(?:\\u0020|\"\s)")
_SPACE_BEHIND = re.compile(r"(?:\\u0020|\s\")\s*\Z")
#: Tags of HTML that stand as text; tools differ in whether quotation marks in CDATA stay, so those in tags do.
_TAG = re.compile(r"(</?[A-Za-z][^<>]*>)")
_ESCAPE = re.compile(rf"{_TAG.pattern}|\\(?:u([0-9A-Fa-f]{{4}})|([\s\S]))|(\")|(\s+)")
_WRITTEN = str.maketrans({"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\t": "\\t"})
_LETTERS = {"n": "\n", "t": "\t"}


class Android(XmlFile):
    """A file of resources, whose strings are read as Android reads them: with escapes, and spaces that are one.

    Translated: of Android: strings, arrays, plural forms
    Stays: names, references (`@string/…`), `translatable="false"`, `<xliff:g>`; other XML is refused
    """

    form, first = "Android's strings", "resources"

    def _strings(self) -> Iterator[Unit]:
        expect_texts(self.root, "self::string and not(@translatable='false')", "text()")
        for number, element in enumerate(self.root.iterchildren("string", "string-array", "plurals")):
            if element.get("translatable") != "false":
                for text in [element] if element.tag == "string" else element.findall("item"):
                    if not _REFERENCE.fullmatch(text_in(text)):
                        yield _android_unit(text, ("0", str(number)))

    def _saved(self, parts: set[str]) -> bytes:
        change = plural_change(*self.languages)
        for plurals in self.root.iterchildren("plurals"):
            if plurals.get("translatable") != "false":
                _change_quantities(plurals, change)
        return super()._saved(parts)


def _change_quantities(plurals: Element, change: tuple[Sequence[str], Sequence[str]]) -> None:
    """Gives plural forms the quantities of the target language; what is new says what `other` says."""
    items = {item.get("quantity"): item for item in plurals.findall("item")}
    other, (added, dropped) = items.get("other"), change
    if other is None:
        return
    for name in added:
        if name not in items:
            item, before = deepcopy(other), other.getprevious()
            item.set("quantity", name)
            item.tail = other.tail if before is None else before.tail
            other.addprevious(item)
    for name in dropped:
        if name in items:
            plurals.remove(items[name])


def _android_unit(element: Element, units: tuple[str, str]) -> Unit:
    plain = deepcopy(element)
    plain.tail = None
    _each_text(plain, _Unescaped())
    inline = read(plain, _android_role, _lines)
    segment = inline.segment(units=units)
    data = not len(element) and b"<![CDATA[" in bytes(etree.tostring(element, with_tail=False))
    return Unit(segment, partial(_fill, element, segment, inline, data=data))


def _lines(space: str) -> bool:
    return "\n" in space or "\t" in space


def _wide(space: str) -> bool:
    return _lines(space) or len(space) > 2


def _android_role(element: Element) -> Role:
    """What stands in a string: `xliff:g` is protected, comments too, and all else is a format."""
    name = local(element)
    return Role("fixed", shown_in(element) if name else "") if name in ("g", "") else Role("format")


def _fill(element: Element, segment: Segment, inline: Inline[Payload], translation: Translated, *, data: bool) -> None:
    source = text_in(element)
    fill(element, segment.marks, inline.payloads, translation)
    _each_text(element, _escaped)
    if _SPACE_BEFORE.match(source):
        element.text = "\\u0020" + (element.text or "").lstrip(" ")
    if _SPACE_BEHIND.search(source):
        at, name = (element[-1], "tail") if len(element) else (element, "text")
        setattr(at, name, (getattr(at, name) or "").rstrip(" ") + "\\u0020")
    if data:
        element.text = etree.CDATA(element.text or "")


def _each_text(parent: Element, change: Callable[[str], str]) -> None:
    for event, element in etree.iterwalk(parent, events=("start", "end")):
        if event == "start" and isinstance(element.tag, str):
            element.text = change(element.text or "") or None
        elif event == "end" and element is not parent:
            element.tail = change(element.tail or "") or None


class _Unescaped:
    """Takes text as Android does: escapes are characters, other space is one, but between quotes."""

    def __init__(self) -> None:
        self._quoted = False

    def __call__(self, text: str) -> str:
        return _ESCAPE.sub(self._one, text)

    def _one(self, match: re.Match[str]) -> str:
        if match[1]:
            return re.sub(r"\s+", " ", match[1])
        if match[2]:
            return chr(int(match[2], 16))
        if match[3]:
            return _LETTERS.get(match[3], match[3])
        if match[4]:
            self._quoted = not self._quoted
            return ""
        return match[5] if self._quoted else " "


def _escaped(text: str) -> str:
    parts = _TAG.split(text)
    out = "".join(part if number % 2 else part.translate(_WRITTEN) for number, part in enumerate(parts))
    return f"\\{out}" if out[:1] in ("@", "?") else out


# RESX of .NET: the values that are strings; names, comments, pictures and the designer's own entries stay.


class Resx(XmlFile):
    """A file of resources.

    Translated: values that are strings
    Stays: names, comments, pictures, the designer's own entries
    """

    form, first = "RESX", "root"

    def _strings(self) -> Iterator[Unit]:
        expect_texts(self.root, "self::data and not(@type or @mimetype)", "value/text()")
        for number, data in enumerate(self.root.iterchildren("data")):
            value, kind = data.find("value"), data.get("type") or "System.String"
            designer = (data.get("name") or "").startswith(">>")  # what a control is called, and its class
            if value is None or data.get("mimetype") or designer or not kind.startswith("System.String"):
                continue
            yield unit_in(value, lambda element: Role("fixed"), _wide, units=("0", str(number)))
