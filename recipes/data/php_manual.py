"""PHP's manual: DocBook of two languages → documents of sentence pairs.

    a file of each language ─ blocks: headings, paragraphs, terms, cells ─ pairs of blocks of one kind ─ sentences

Code, synopses and empty entities are left out. Blocks are paired in order, where the kinds of both files agree. A pair
whose sides do not have as many sentences as each other stays one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from zlib import crc32

from lxml import etree

from docnmt.core.split_sentences import split_sentences

#: Elements that hold text, and the kind of block that they are.
_KINDS = {"title": "heading", "subtitle": "heading", "refpurpose": "heading", "titleabbrev": "para", "para": "para"}
_KINDS |= {"simpara": "para", "question": "para", "answer": "para", "attribution": "para", "term": "term"}
_KINDS |= {"entry": "cell", "seg": "cell", "segtitle": "cell", "member": "list"}
#: What a paragraph is inside of these.
_INSIDE = dict.fromkeys(("note", "warning", "caution", "tip", "important"), "note")
_INSIDE |= {"listitem": "list", "entry": "cell"}
#: Elements inside of a paragraph that divide it.
_LISTS = (
    "itemizedlist orderedlist variablelist simplelist note warning caution tip important informaltable table example "
    "informalexample segmentedlist figure procedure blockquote sect1 sect2 sect3 formalpara qandaset"
)
_DIVIDING = {*_LISTS.split(), *_KINDS}
_LEFT_OUT = (
    "programlisting screen synopsis literallayout methodsynopsis classsynopsis fieldsynopsis constructorsynopsis "
    "destructorsynopsis funcsynopsis cmdsynopsis enumsynopsis packagesynopsis classsynopsisinfo mediaobject "
    "inlinemediaobject info include refname indexterm remark authorgroup copyright legalnotice"
)
_CODE = frozenset(_LEFT_OUT.split())
#: Entities that are words of the text; all others of the manual's own are texts that stand elsewhere.
_TYPES = "true false null php.ini array string integer float boolean object resource"
_WORDS = frozenset(_TYPES.split())
_ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;|apos;|#)([\w.:-]+);")
_LETTER = re.compile(r"[^\W\d_]")
Block = tuple[str, str]


def documents(english: Path, other: Path, language: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the name and the sentence pairs of each file that both folders have."""
    for path in sorted(english.rglob("*.xml")):
        name = path.relative_to(english)
        if (other / name).exists():
            pairs = list(_pairs(_blocks(path), _blocks(other / name), language))
            if pairs:
                yield name.as_posix(), pairs


def split_of(name: str) -> str:
    """Return train, or for about three of a hundred documents each dev or test, by a checksum of the name."""
    return {0: "dev", 1: "test"}.get(crc32(name.encode()) % 32, "train")


def _blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if "<!DOCTYPE" in text:
        text = re.sub(r"<!DOCTYPE[^>\[]*(\[.*?\]\s*)?>", "", text, count=1, flags=re.DOTALL)
    text = _ENTITY.sub(lambda entity: entity[1] if entity[1] in _WORDS else "", text)
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    root = etree.fromstring(text.encode(), parser)
    pieces: list[list[str]] = []  # kind, then text
    if root is not None:
        _walk(root, pieces, ())
    texts = ((kind, " ".join("".join(parts).split())) for kind, *parts in pieces)
    return [block for block in texts if block[1]]


def _walk(element: etree._Element, pieces: list[list[str]], path: tuple[str, ...]) -> None:
    """Add the blocks of an element that is none itself, or that divides a block."""
    name = etree.QName(element).localname
    if name in _CODE:
        return
    kind = _KINDS.get(name)
    if kind is None:
        for child in element.iterchildren(tag=etree.Element):
            _walk(child, pieces, (*path, name))
        return
    if kind == "para":
        kind = next((_INSIDE[one] for one in reversed(path) if one in _INSIDE), kind)
    pieces.append([kind, element.text or ""])
    _inline(element, kind, pieces, (*path, name))


def _inline(element: etree._Element, kind: str, pieces: list[list[str]], path: tuple[str, ...]) -> None:
    for child in element.iterchildren(tag=etree.Element):
        name = etree.QName(child).localname
        if name in _CODE:
            pieces[-1].append(" ")
        elif name in _DIVIDING:
            _walk(child, pieces, path)
            pieces.append([kind, ""])
        else:
            pieces[-1].append(child.text or "")
            _inline(child, kind, pieces, path)
        pieces[-1].append(child.tail or "")


def _pairs(english: list[Block], other: list[Block], language: str) -> Iterator[tuple[str, str]]:
    matches = [(0, 0, len(english))]
    if len(english) != len(other):
        kinds = [[kind for kind, _ in side] for side in (english, other)]
        matches = [tuple(match) for match in SequenceMatcher(None, *kinds, autojunk=False).get_matching_blocks()]
    for first, second, length in matches:
        blocks = zip(english[first : first + length], other[second : second + length], strict=True)
        for (_, source), (_, target) in blocks:
            sides = [split_sentences(source, language="en"), split_sentences(target, language=language)]
            if len(sides[0]) != len(sides[1]):
                sides = [[source], [target]]
            for pair in zip(*sides, strict=True):
                if all(map(_LETTER.search, pair)):
                    yield pair
