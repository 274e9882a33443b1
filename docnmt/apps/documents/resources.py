"""String resources of Android and .NET."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial

from lxml import etree

from docnmt.apps.documents.segments import Inline, Segment, Translated
from docnmt.apps.documents.xml import (
    Element,
    Payload,
    Role,
    Tree,
    Unit,
    expect_texts,
    fill,
    local,
    parse,
    read,
    shown_in,
    text_in,
    written,
)
from docnmt.runtime.languages import plural_change
from docnmt.runtime.system import UserError

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


class Android(Tree):
    """A file of resources, whose strings are read as Android reads them: with escapes, and spaces that are one.

    Translated: of Android: strings, arrays, plural forms
    Stays: names, references (`@string/…`), `translatable="false"`, `<xliff:g>`; other XML is refused
    """

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "resources":
            first = f"whose first element is <resources>, got <{local(self._root)}>"
            raise UserError(f"{self.name}: expected Android's strings, {first}")
        expect_texts(self._root, "self::string and not(@translatable='false')", "text()")
        for number, element in enumerate(self._root.iterchildren("string", "string-array", "plurals")):
            if element.get("translatable") != "false":
                for text in [element] if element.tag == "string" else element.findall("item"):
                    if not _REFERENCE.fullmatch(text_in(text)):
                        yield _unit(text, ("0", str(number)))

    def _saved(self, parts: set[str]) -> bytes:
        change = plural_change(*self.languages)
        for plurals in self._root.iterchildren("plurals"):
            if plurals.get("translatable") != "false":
                _change_quantities(plurals, change)
        return written(self._root, self.content)


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


def _unit(element: Element, units: tuple[str, str]) -> Unit:
    plain = deepcopy(element)
    plain.tail = None
    _each_text(plain, _Unescaped())
    inline = read(plain, _role, lambda space: "\n" in space or "\t" in space)
    segment = inline.segment(units=units)
    data = not len(element) and b"<![CDATA[" in bytes(etree.tostring(element, with_tail=False))
    return Unit(segment, partial(_fill, element, segment, inline, data=data))


def _role(element: Element) -> Role:
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
    """Changes every text in an element, in order."""
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
    """Text as Android's strings have it."""
    parts = _TAG.split(text)
    out = "".join(part if number % 2 else part.translate(_WRITTEN) for number, part in enumerate(parts))
    return f"\\{out}" if out[:1] in ("@", "?") else out


# RESX of .NET: the values that are strings; names, comments, pictures and the designer's own entries stay.

_FIXED = Role("fixed")


class Resx(Tree):
    """A file of resources.

    Translated: values that are strings
    Stays: names, comments, pictures, the designer's own entries
    """

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "root":
            raise UserError(f"{self.name}: expected RESX, whose first element is <root>, got <{local(self._root)}>")
        expect_texts(self._root, "self::data and not(@type or @mimetype)", "value/text()")
        for number, data in enumerate(self._root.iterchildren("data")):
            value, kind = data.find("value"), data.get("type") or "System.String"
            designer = (data.get("name") or "").startswith(">>")  # what a control is called, and its class
            if value is None or data.get("mimetype") or designer or not kind.startswith("System.String"):
                continue
            inline = read(deepcopy(value), lambda element: _FIXED, lambda space: "\n" in space or "\t" in space)
            segment = inline.segment(units=("0", str(number)))
            yield Unit(segment, partial(fill, value, segment.marks, inline.payloads))

    def _saved(self, parts: set[str]) -> bytes:
        return written(self._root, self.content)
