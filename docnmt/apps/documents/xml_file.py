"""XML that a stranger may have written: no entities are resolved, nothing outside is read, sizes are bounded."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from xml.parsers import expat

from lxml import etree

from docnmt.runtime.errors import UserError

Element = etree._Element
#: Signs that begin tags and attributes, each of which takes about 100 bytes of memory; a long book has a million. An
#: element, looked at by Python, takes 700.
MOST, MOST_ELEMENTS = 1 << 22, 1 << 20
#: As deep as libxml2 goes if it is not told that a file is huge.
DEEPEST = 256
#: Characters that are shown of what stays as it is.
SHOWN = 1000


def parse(content: bytes, name: str) -> Element:
    """The root of a file.

    Raises:
        UserError: it is no well-formed XML, it declares entities, or it is too large.
    """
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
    if dtd is not None and _entities(dtd):
        raise UserError(f"{name}: declares entities in its DOCTYPE, which could read files or fill memory; remove them")
    return root


def count_elements(contents: Iterable[bytes], name: str) -> None:
    """Refuse files, before they are read, that have too many elements together.

    Raises:
        UserError: they have.
    """
    if sum(content.count(b"<") - content.count(b"</") for content in contents) > MOST_ELEMENTS:
        raise UserError(f"{name}: has more than {MOST_ELEMENTS:,} elements, which would fill the memory; divide it")


def _parsed(content: bytes, *, huge: bool) -> Element:
    """The root; files inside of it (`huge`) may be of any size, but then no DOCTYPE and no great depth is read."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, strip_cdata=False, huge_tree=huge)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        if huge or "huge" not in error.msg.lower() or b"<!DOCTYPE" in content.replace(b"\0", b""):
            raise
        return _parsed(content, huge=True)
    if huge and _deep(root):
        raise ValueError(f"elements stand more than {DEEPEST} deep in each other")
    return root


def _deep(root: Element) -> bool:
    depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > DEEPEST:
            return True
    return False


def _entities(dtd: etree.DTD) -> bool:
    """Whether a DOCTYPE declares any."""
    return any(True for _ in dtd.iterentities())  # type: ignore[attr-defined]  # lxml's stubs do not know of them


def written(root: Element, original: bytes) -> bytes:
    """A file whose root has changed: what stands before it, declaration, comments and DOCTYPE, stays byte for byte, and
    so do the ends of lines if all are of one kind."""
    info = root.getroottree().docinfo
    encoding = info.encoding or "UTF-8"
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
    """The byte at which the root of a well-formed file begins.

    Raises:
        ValueError: its encoding is not known here.
    """
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
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
