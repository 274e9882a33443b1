"""XLIFF 1.2 and 2.x: units of a source and, perhaps, a target, which is filled where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial

from lxml import etree

from docnmt.apps.documents.elements import Payload, Role, empty, fill, read
from docnmt.apps.documents.inline import Inline
from docnmt.apps.documents.languages import check_language
from docnmt.apps.documents.segment import Segment, Translated
from docnmt.apps.documents.xml_file import Element, local, parse, text_in, written
from docnmt.apps.documents.xml_tree import Tree, Unit
from docnmt.runtime.errors import UserError

_FORMATS = ("g", "mrk", "pc", "hi")
_BEGIN = {"bx": "id", "bpt": "id", "sc": "id"}
_END = {"ex": "id", "ept": "id", "ec": "startRef"}
#: What a file's languages are called in XLIFF 1.2 and 2.x.
_LANGUAGES = (("source-language", "srcLang"), ("target-language", "trgLang"))
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
#: States of a target that only repeats the source (XLIFF 1.2, 3.2).
_NEW = ("new", "needs-translation")


def role(element: Element) -> Role:
    """What an inline element of XLIFF is; what it holds is code."""
    name = local(element)
    if name in _FORMATS:
        return Role("format")
    if name in _BEGIN:
        return Role("format", key=element.get("rid") or element.get(_BEGIN[name]) or "")
    if name in _END:
        return Role("end", key=element.get("rid") or element.get(_END[name]) or "")
    return Role("fixed")


class Xliff(Tree):
    """A file of units in two languages."""

    bilingual = True

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "xliff":
            raise UserError(f"{self.name}: expected XLIFF, whose first element is <xliff>, got <{local(self._root)}>")
        for element in self._root.iter("{*}file", "{*}xliff"):
            for names, language in zip(_LANGUAGES, self.languages, strict=True):
                for what in names:
                    check_language(element.get(what), language, file=self.name, what=what)
        for number, unit in enumerate(self._root.iter("{*}trans-unit", "{*}segment")):
            source = unit.find("{*}source")
            inside = next(unit.iterancestors("{*}source", "{*}target"), None)  # of a text, of which it is a part
            if source is not None and inside is None and not _kept(unit):
                yield _unit(unit, source, ("0", str(number)))

    def _saved(self, parts: set[str]) -> bytes:
        for element in self._root.iter("{*}file", "{*}xliff"):
            for source, target in zip(*_LANGUAGES, strict=True):
                if element.get(source) and not element.get(target):
                    element.set(target, self.languages[1])
        return written(self._root, self.content)


def _unit(unit: Element, source: Element, units: tuple[str, str]) -> Unit:
    source = deepcopy(source)  # its marks move into the target
    inline = read(source, role, hard_space(source, unit))
    target = unit.find("{*}target")
    translation = None if target is None else inner_text(target)
    bare = inline.segment()
    if target is not None and target.get("state") in _NEW and translation == " ".join(bare.text.split()):
        translation = None
    segment = Segment(bare.text, bare.marks, translation or None, units)
    return Unit(segment, partial(_fill, unit, segment, inline, text_in(source)))


def inner_text(element: Element) -> str:
    """The text of an element without inline elements, in one line."""
    return " ".join(read(deepcopy(element), role).segment().text.split())


def hard_space(source: Element, *around: Element) -> Callable[[str], bool]:
    """What white space is a break: line breaks, where the file says that they count."""
    elements = [source, *around, *(parent for element in around for parent in element.iterancestors())]
    said = next((value for element in elements if (value := element.get(_SPACE))), "default")
    return (lambda space: "\n" in space) if said == "preserve" else (lambda space: False)


def _kept(unit: Element) -> bool:
    """Whether a unit says, or one around it, that it is not to be translated."""
    said = (element.get("translate") for element in (unit, *unit.iterancestors()))
    return next((value for value in said if value), "yes") == "no"


def _fill(unit: Element, segment: Segment, inline: Inline[Payload], raw: str, found: Translated) -> None:
    """Writes the target beside its source."""
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
    put(target, segment, inline, raw, found)


def put(target: Element, segment: Segment, inline: Inline[Payload], raw: str, found: Translated) -> None:
    """Fills a target, with the white space around the source, which was `raw`."""
    empty(target)
    fill(target, segment.marks, inline.payloads, found)
    begin, end = raw[: len(raw) - len(raw.lstrip())], raw[len(raw.rstrip()) :]
    if "\n" not in segment.text[:1]:
        target.text = begin + (target.text or "")
    if "\n" not in segment.text[-1:]:
        if len(target):
            target[-1].tail = (target[-1].tail or "") + end
        else:
            target.text = (target.text or "") + end
