"""Engine 2: places in a tree. XML read safely, texts with elements inside, and written back."""

from __future__ import annotations

import codecs
import re
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import accumulate, islice
from typing import NamedTuple
from xml.parsers import expat

from lxml import etree

from docnmt.apps.documents.segments import (
    DocumentFile,
    Inline,
    Mark,
    Segment,
    Translated,
    counted,
    expect,
    is_reference,
    matched,
    pieces,
)
from docnmt.apps.documents.text import branches
from docnmt.runtime.system import UserError

# XML that a stranger may have written: no entities are resolved, nothing outside is read, sizes are bounded.

Element = etree._Element
#: Signs that begin tags and attributes, each of which takes about 100 bytes of memory; a long book has a million. An
#: element, looked at by Python, takes 700.
MOST, MOST_ELEMENTS = 1 << 22, 1 << 20
#: As deep as libxml2 goes if it is not told that a file is huge.
DEEPEST = 256
#: Characters that are shown of what stays as it is.
SHOWN = 1000


def parse(content: bytes, name: str) -> Element:
    """The root of a file, which is refused if it is no well-formed XML, declares entities or is too large."""
    if content.count(b"<") + content.count(b"=") > MOST:
        raise UserError(f"{name}: has more than {MOST:,} tags and attributes, which would fill the memory; divide it")
    count_elements([content], name)
    try:
        root = _parsed(content, huge=False)
    except etree.XMLSyntaxError as error:
        raise UserError(f"{name}: is not well-formed XML: {' '.join(error.msg.split())}; was it cut off?") from error
    except ValueError as error:  # an empty file, or great depth
        raise UserError(f"{name}: is not XML: {error}") from error
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):  # type: ignore[attr-defined]  # not in lxml's stubs
        raise UserError(f"{name}: declares entities in its DOCTYPE, which could read files or fill memory; remove them")
    return root


def count_elements(contents: Iterable[bytes], name: str) -> None:
    """Refuse files, before they are read, that have too many elements together."""
    if sum(content.count(b"<") - content.count(b"</") for content in contents) > MOST_ELEMENTS:
        raise UserError(f"{name}: has more than {MOST_ELEMENTS:,} elements, which would fill the memory; divide it")


def expect_texts(root: Element, element: str, text: str) -> None:
    """Count elements that have text before they are read one by one.

    Args:
        element: a condition of XPath for those that are read. text: where in them text stands that each has.
    """
    number = root.xpath(f"count(//*[{element}][{text}[normalize-space()]])")
    assert isinstance(number, float)
    expect(texts=int(number))


def _parsed(content: bytes, *, huge: bool) -> Element:
    """The root; files inside of it (`huge`) may be of any size, but then no DOCTYPE and no great depth is read."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, strip_cdata=False, huge_tree=huge)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        if huge or "huge" not in error.msg.lower() or b"<!DOCTYPE" in content.replace(b"\0", b""):
            raise
        return _parsed(content, huge=True)
    steps = (1 if event == "start" else -1 for event, _ in etree.iterwalk(root, events=("start", "end")))
    if huge and any(depth > DEEPEST for depth in accumulate(steps)):
        raise ValueError(f"elements stand more than {DEEPEST} deep in each other")
    return root


def written(root: Element, original: bytes) -> bytes:
    """A file whose root has changed: what stands before it, declaration, comments and DOCTYPE, stays byte for byte, and
    so do the ends of lines if all are of one kind."""
    encoding = root.getroottree().docinfo.encoding or "UTF-8"
    for mark, codec in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        encoding = codec if original.startswith(mark) else encoding
    try:
        source, begin = original.decode(encoding), _root_at(original)
    except (LookupError, ValueError):  # libxml2 knows one that others do not
        content = etree.tostring(root.getroottree(), xml_declaration=True, encoding=encoding)
        assert isinstance(content, bytes)
        return content
    nodes = [root, *root.itersiblings()]
    text = "\n".join(str(etree.tostring(node, encoding="unicode", with_tail=False)) for node in nodes)
    text += source[len(source.rstrip()) :].replace("\r\n", "\n")
    if source.count("\r\n") == source.count("\n"):
        text = text.replace("\n", "\r\n")
    return original[:begin] + text.encode(encoding, "xmlcharrefreplace")


class _Found(Exception):
    """The root begins at this byte."""


def _root_at(content: bytes) -> int:
    """The byte at which the root of a well-formed file begins; a ValueError if its encoding is not known here."""
    parser = expat.ParserCreate()

    def start(name: str, attributes: object) -> None:
        raise _Found(parser.CurrentByteIndex)

    parser.StartElementHandler = start
    try:
        parser.Parse(content, True)
    except _Found as found:
        return int(found.args[0])
    except expat.ExpatError as error:
        raise ValueError(str(error)) from error
    raise ValueError("no element")


def text_in(element: Element, name: str | None = None) -> str:
    """All text in an element, or that of the elements in it that are called so."""
    return "".join(str(part) for part in (element.itertext() if name is None else element.itertext(f"{{*}}{name}")))


def shown_in(element: Element, name: str | None = None) -> str:
    """The beginning of `text_in`, for what a reader sees of something that stays: fields can stand inside of fields."""
    parts, left = [], SHOWN
    for part in element.itertext() if name is None else element.itertext(f"{{*}}{name}"):
        parts.append(str(part)[:left])
        left -= len(parts[-1])
        if not left:
            break
    return "".join(parts)


def local(element: Element) -> str:
    """An element's name without its namespace; "" of comments and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


# Text with elements inside of it, in XML: read as a segment, and filled with another text.


class Role(NamedTuple):
    """What an element in text is.

    Its `kind` is `format` around text; `fixed`, kept with all that is in it; `space`, white space; `break` of lines; or
    `end` of the format of this `key`. A model sees `shown` of what is fixed, and `seen` is as in `Inline.fixed`. The
    beginning and the end of a format share a `key` if they are elements of their own. A format that `raises` is a link
    or a superscript, which may refer to a note.
    """

    kind: str
    shown: str = ""
    key: str = ""
    seen: str = ""
    raises: str = ""


#: Elements inside of one that refers to a note, at most.
_REFERENCE = 8
#: Code of more characters is not shown to a model.
_CODE = 60
_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*)(?:\s[^<>]*)?(/?)>")
_PICTURES = frozenset({"img", "image", "svg", "hr", "input"})


def code(text: str) -> Role:
    """What an element is that stands for code: tags are formats, anything else a value that a model sees as it is."""
    text = text.strip()
    tag = _TAG.fullmatch(text)
    if tag is None:
        return Role("fixed", text if len(text) <= _CODE else "", seen="value")
    name = tag[2].lower()
    if name == "br":
        return Role("break")
    if tag[3] or name in _PICTURES:
        return Role("fixed", seen="picture")
    return Role("end" if tag[1] else "format", key=f"<{name}>")


class Payload(NamedTuple):
    """What a mark is: an element, with another one that ends it if there is one; or white space."""

    element: Element | None
    end: Element | None = None
    space: str = ""


Hard = Callable[[str], bool]


#: Stands for an element, where a text is looked at as a whole.
_ELEMENT = "\ufffc"


def read(parent: Element, role: Callable[[Element], Role], hard: Hard = lambda space: False) -> Inline[Payload]:
    """The text and marks inside of an element; white space that `hard` says so of is a break of lines, and so is what
    stands around the texts of a message of ICU."""
    return _Reader(parent, role, hard).inline


class _Reader:
    """Goes through an element; `place` is where in its whole text."""

    def __init__(self, parent: Element, role: Callable[[Element], Role], hard: Hard) -> None:
        self.inline: Inline[Payload] = Inline(lambda text: Payload(None, space=text))
        self._role, self._hard, self._place = role, hard, 0
        self._whole = "".join(self._texts(parent))
        self._breaks = deque(branches(self._whole))
        if any(_ELEMENT in self._whole[begin:end] for begin, end in self._breaks):
            self._breaks.clear()
        self._read(parent)

    def _texts(self, parent: Element) -> Iterator[str]:
        yield parent.text or ""
        for child in parent:
            role = self._role(child)
            yield from self._texts(child) if role.kind == "format" and not role.key else [_ELEMENT]
            yield child.tail or ""

    def _text(self, text: str | None) -> None:
        begin, self._place = self._place, self._place + len(text or "")
        while self._breaks and self._breaks[0][1] <= self._place:
            first, last = self._breaks.popleft()
            self._words(self._whole[begin:first])
            self.inline.hard(Payload(None, space=self._whole[first:last]))
            begin = last
        self._words(self._whole[begin : self._place])

    def _words(self, text: str) -> None:
        self.inline.text(text, lambda space: Payload(None, space=space) if self._hard(space) else None)

    def _read(self, parent: Element) -> None:
        self._text(parent.text)
        children = list(parent)
        roles = [self._role(child) for child in children]
        steps = ((1 if role.kind == "format" and role.key else -(role.kind == "end"), role.key) for role in roles)
        ends = matched(steps)
        open_ends: set[int] = set()
        for number, (child, role) in enumerate(zip(children, roles, strict=True)):
            if role.raises and self._refers(child, role.raises == "link"):
                self._place += sum(map(len, self._texts(child)))
                self.inline.fixed(Payload(child))
            elif role.kind == "format" and not role.key:
                self.inline.open(Payload(child))
                self._read(child)
                self.inline.close()
            else:
                self._place += len(_ELEMENT)
                if role.kind == "format" and number in ends:
                    self.inline.open(Payload(child, children[ends[number]]))
                    open_ends.add(ends[number])
                elif number in open_ends:
                    self.inline.close()
                elif role.kind == "space" and len(role.shown) > 1:  # many: a break, or a mark where a text begins
                    (self.inline.hard if self.inline.begun else self.inline.fixed)(Payload(child))
                elif role.kind == "space":
                    self.inline.text(" ")
                elif role.kind == "break":
                    self.inline.hard(Payload(child))
                else:
                    self.inline.fixed(Payload(child), role.shown, role.seen)
            self._text(child.tail)

    def _refers(self, child: Element, link: bool) -> bool:
        roles = [self._role(element) for element in islice(child.iterdescendants(), _REFERENCE)]
        if len(roles) == _REFERENCE or any(role.kind != "format" for role in roles):
            return False
        link = link or any(role.raises == "link" for role in roles)
        return is_reference(self.inline.touched, shown_in(child), link=link)


def fill(parent: Element, marks: Sequence[Mark], payloads: Sequence[Payload], translation: Translated) -> None:
    """Puts a translation into an element, in place of all that is in it."""
    empty(parent)
    stack, waiting = [parent], list[str]()  # text grows here, where that does not copy it each time
    for piece in pieces(marks, translation):
        if isinstance(piece, str):
            waiting.append(piece)
            continue
        payload = payloads[piece.number]
        if payload.element is None:
            waiting.append(payload.space)
            continue
        _append_text(stack[-1], waiting)
        if piece.kind == "close":
            if payload.end is None:
                stack.pop()
            else:
                _append(stack[-1], payload.end)
        else:
            _append(stack[-1], payload.element)
            if piece.kind == "open" and payload.end is None:
                empty(payload.element)
                stack.append(payload.element)
    _append_text(stack[-1], waiting)


def empty(element: Element) -> None:
    """Takes out text and elements; attributes stay."""
    element.text = None
    for child in list(element):
        element.remove(child)


def _append(parent: Element, child: Element) -> None:
    child.tail = None
    parent.append(child)


def _append_text(parent: Element, waiting: list[str]) -> None:
    text = "".join(waiting)
    waiting.clear()
    if not text:
        return
    last = next(parent.iterchildren(reversed=True), None)  # len() would count them all
    if last is None:
        parent.text = (parent.text or "") + text
    else:
        last.tail = (last.tail or "") + text


# Formats that are XML: a document is one tree or several, and segments are places in them.


class Unit(NamedTuple):
    """A segment, what puts a translation in its place, and which part of the document that is in."""

    segment: Segment
    fill: Callable[[Translated], None]
    part: str = ""


def unit_in(
    element: Element,
    role: Callable[[Element], Role],
    hard: Hard = lambda space: False,
    *,
    units: tuple[str, str],
    part: str = "",
    translation: str | None = None,
    place: Callable[[], Element] | None = None,
) -> Unit:
    """The text in an element; its translation takes its place, or goes where `place` says, which then gets copies."""
    inline = read(element if place is None else deepcopy(element), role, hard)
    segment = inline.segment(translation=translation or None, units=units)

    def put(text: Translated) -> None:
        fill(element if place is None else place(), segment.marks, inline.payloads, text)

    return Unit(segment, put, part)


class Tree(DocumentFile):
    """A document whose trees are read again for writing, so that it may be written more than once."""

    def __init__(self, content: bytes, *, name: str, languages: tuple[str, str]) -> None:
        super().__init__(content, name=name, languages=languages)
        self.segments = [unit.segment for unit in self._read()]

    def _read(self) -> list[Unit]:
        self.left = []
        units = counted(self._units(), lambda unit: unit.segment.text)
        return [unit for unit in units if unit.segment.text.strip()]

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        units = self._read()
        for number, text in changed.items():
            units[number].fill(text)
        return self._saved({units[number].part for number in changed})

    @abstractmethod
    def _units(self) -> Iterable[Unit]:
        """Reads the document anew; its segments in order."""

    @abstractmethod
    def _saved(self, parts: set[str]) -> bytes:
        """What `_units` has read, of which these parts have changed."""


class XmlFile(Tree):
    """A file that is one tree; those of this `form` begin with the element `first`."""

    form = first = ""

    def _units(self) -> Iterator[Unit]:
        self.root = parse(self.content, self.name)
        if local(self.root) != self.first:
            expected = f"expected {self.form}, whose first element is <{self.first}>"
            raise UserError(f"{self.name}: {expected}, got <{local(self.root)}>")
        yield from self._strings()

    @abstractmethod
    def _strings(self) -> Iterable[Unit]:
        """The segments in `root`, in order."""

    def _saved(self, parts: set[str]) -> bytes:
        return written(self.root, self.content)
