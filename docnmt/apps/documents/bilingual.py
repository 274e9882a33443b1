"""Bilingual files: XLIFF 1.2 and 2.x, the XLIFF of Trados and memoQ, TMX."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial

from lxml import etree

from docnmt.apps.documents.xml import (
    Element,
    Hard,
    Role,
    Tree,
    Unit,
    code,
    expect_texts,
    fill,
    local,
    parse,
    read,
    shown_in,
    text_in,
    written,
)
from docnmt.runtime.languages import check_language, same_language
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


class Tmx(Tree):
    """A translation memory; units without a variant in the target language get one.

    Translated: units without a variant in the target language
    Stays: all variants
    """

    bilingual = True

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "tmx":
            raise UserError(f"{self.name}: expected TMX, whose first element is <tmx>, got <{local(self._root)}>")
        languages = set()
        for number, unit in enumerate(self._root.iter("{*}tu")):
            variants = unit.findall("{*}tuv")
            languages |= set(map(_language, variants))
            source, target = (
                next((variant for variant in variants if same_language(_language(variant), language)), None)
                for language in self.languages
            )
            inside = next(unit.iterancestors("{*}seg"), None) is not None  # of a text, of which it is a part
            if not inside and source is not None and source.find("{*}seg") is not None:
                yield self._unit(unit, source, target, ("0", str(number)))
        if languages and not any(same_language(language, self.languages[0]) for language in languages):
            there = ", ".join(sorted(languages))
            raise UserError(f"{self.name}: has {there}, and the model translates from {self.languages[0]}")

    def _unit(self, unit: Element, source: Element, target: Element | None, units: tuple[str, str]) -> Unit:
        text = deepcopy(source.find("{*}seg"))
        assert text is not None
        inline = read(text, _tmx_role)
        known = None if target is None else target.find("{*}seg")
        translation = None if known is None else _inner_text(known, _tmx_role)
        segment = inline.segment(translation=translation or None, units=units)

        def place() -> Element:
            """Where the translation goes: a variant behind the source's."""
            variant, own = target, source.find("{*}seg")
            assert own is not None
            if variant is None:
                variant = etree.Element(source.tag, {_LANG: self.languages[1]})
                variant.tail, variant.text = source.tail, source.text
                unit.insert(unit.index(source) + 1, variant)
            if (seg := variant.find("{*}seg")) is None:
                seg = etree.SubElement(variant, own.tag)
                seg.tail = own.tail
            return seg

        return Unit(segment, lambda found: fill(place(), segment.marks, inline.payloads, found))

    def _saved(self, parts: set[str]) -> bytes:
        return written(self._root, self.content)


def _language(variant: Element) -> str:
    return variant.get(_LANG) or variant.get("lang") or ""


# XLIFF 1.2 and 2.x: units of a source and, perhaps, a target, which is filled where there is none.

_FORMATS = ("g", "mrk", "pc", "hi")
_BEGIN = {"bx": "id", "bpt": "id", "sc": "id"}
_END = {"ex": "id", "ept": "id", "ec": "startRef"}
#: What a file's languages are called in XLIFF 1.2 and 2.x.
_LANGUAGES = (("source-language", "srcLang"), ("target-language", "trgLang"))
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


class Xliff(Tree):
    """A file of units in two languages.

    Translated: units without a target (XLIFF 1.2 and 2.x), each segment of a `<seg-source>` without one, and in 1.2
    those whose target only repeats the source in the state `new` or `needs-translation`; in 1.2 targets get the state
    `needs-review-translation`
    Stays: other units with a target, `translate="no"`, protected spans. A translation that is longer than `maxwidth`
    (`slr:sizeRestriction` in 2.x) is named
    """

    bilingual = True

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "xliff":
            raise UserError(f"{self.name}: expected XLIFF, whose first element is <xliff>, got <{local(self._root)}>")
        for element in self._root.iter("{*}file", "{*}xliff"):
            for names, language in zip(_LANGUAGES, self.languages, strict=True):
                for what in names:
                    check_language(element.get(what), language, file=self.name, what=what)
        translated = (
            "(local-name()='trans-unit' or local-name()='segment') and not(ancestor-or-self::*[@translate='no'])"
        )
        expect_texts(self._root, translated, "*[local-name()='source']/text()")
        for number, unit in enumerate(self._root.iter("{*}trans-unit", "{*}segment")):
            source = unit.find("{*}source")
            inside = next(unit.iterancestors("{*}source", "{*}target"), None)  # of a text, of which it is a part
            said = (element.get("translate") for element in (unit, *unit.iterancestors()))
            kept = next(filter(None, said), "yes") == "no"
            if source is not None and inside is None and not kept:
                yield from _units(unit, source, ("0", str(number)))

    def _saved(self, parts: set[str]) -> bytes:
        self.notes = list(_too_long(self._root))
        for element in self._root.iter("{*}file", "{*}xliff"):
            for source, target in zip(*_LANGUAGES, strict=True):
                if element.get(source) and not element.get(target):
                    element.set(target, self.languages[1])
        return written(self._root, self.content)


def _too_long(root: Element) -> Iterator[str]:
    """The units whose targets have more characters than the file allows, and how many bounds are not in characters."""
    others = 0
    for unit in root.iter("{*}trans-unit", "{*}unit"):
        targets = list(unit.iter("{*}target"))
        around = [*targets[:1], unit, *unit.iterancestors()]
        most = next((said for each in around if (said := each.get("maxwidth") or each.get(_MOST))), None)
        if most is None or not targets:
            continue
        measure = next((said for each in around if (said := each.get("size-unit"))), "pixel")
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
        yield _unit(source, _hard_space(source, unit), known, units, partial(_whole, unit))
        return
    there = {} if target is None else {part.get("mid"): part for part in _segments_in(target)}
    assert divided is not None
    segments = _Divided(unit, divided)
    for part in parts:
        old = there.get(part.get("mid"))
        known = None if old is None else _inner_text(old)
        yield _unit(part, _hard_space(part, unit), known, units, partial(segments.target, part.get("mid")))


def _unit(source: Element, hard: Hard, known: str | None, units: tuple[str, str], place: Callable[[], Element]) -> Unit:
    """A source, its translation if it is `known`, and where that goes."""
    inline = read(deepcopy(source), _xliff_role, hard)  # its marks move into the target
    segment = inline.segment(translation=known or None, units=units)
    return Unit(segment, lambda text: fill(place(), segment.marks, inline.payloads, text))


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
    return (lambda space: "\n" in space) if said == "preserve" else (lambda space: False)


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


class _Divided:
    """A unit whose source is divided into segments; its target is divided like it when the first one is written."""

    def __init__(self, unit: Element, divided: Element) -> None:
        self._unit, self._divided = unit, divided
        self._targets: dict[str | None, Element] = {}

    def target(self, mid: str | None) -> Element:
        """Where the translation of segment `mid` goes."""
        if not self._targets:
            whole = _whole(self._unit)
            old = {part.get("mid"): part for part in _segments_in(whole)}
            if any(part.get("mid") not in old for part in _segments_in(self._divided)):
                copy = deepcopy(self._divided)
                for part in _segments_in(copy):
                    if (known := old.get(part.get("mid"))) is not None:
                        part[:], part.text = list(known), known.text
                    elif any(map(str.isalpha, text_in(part))):  # else it is the same in all languages
                        part[:], part.text = [], None
                whole[:], whole.text = list(copy), copy.text
            self._targets = {part.get("mid"): part for part in _segments_in(whole)}
        return self._targets[mid]


# XLIFF of Trados Studio and memoQ: as XLIFF 1.2, and their own marks say that a translation is a machine's draft.

_SDL = "{http://sdl.com/FileTypes/SdlXliff/1.0}"


class _ToolXliff(Xliff):
    """XLIFF of a tool that keeps a state of its own for each text."""

    def _units(self) -> Iterator[Unit]:
        yield from super()._units()
        self._before = [texts for _, texts in self._targets()]

    def _targets(self) -> Iterator[tuple[Element, dict[str, str]]]:
        """Each unit and what is in its target, by the number of the segment, "" if it has none."""
        for unit in self._root.iter("{*}trans-unit"):
            target = unit.find("{*}target")
            marks = [] if target is None else _segments_in(target)
            texts = {mark.get("mid") or "": text_in(mark) for mark in marks}
            yield unit, texts if texts or target is None else {"": text_in(target)}

    def _saved(self, parts: set[str]) -> bytes:
        for (unit, texts), before in zip(self._targets(), self._before, strict=True):
            for number, text in texts.items():
                if text.strip() and not before.get(number, "").strip():
                    self._draft(unit, number)
        return super()._saved(parts)

    @abstractmethod
    def _draft(self, unit: Element, number: str) -> None:
        """Marks a segment of a unit as translated by a machine, for somebody to look at."""


class SdlXliff(_ToolXliff):
    """SDLXLIFF.

    Translated: as in `.xlf`; segments get the state `Draft`
    Stays: as in `.xlf`
    """

    def _draft(self, unit: Element, number: str) -> None:
        for segment in unit.iter(f"{_SDL}seg"):
            if segment.get("id") == number or not number:
                segment.set("conf", "Draft")
                segment.set("origin", "mt")


class MqXliff(_ToolXliff):
    """MQXLIFF; memoQ has a segment in each unit.

    Translated: as in `.xlf`; units get the state `MachineTranslated`
    Stays: as in `.xlf`
    """

    def _draft(self, unit: Element, number: str) -> None:
        for name in unit.attrib:
            if str(name).endswith("}status"):
                unit.set(name, "MachineTranslated")
