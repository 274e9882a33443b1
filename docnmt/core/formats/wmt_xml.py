"""Reading of the WMT XML format: `<doc id> <src lang> <p> <seg id>`, `<ref lang>`; a `<p>` is a paragraph."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from docnmt.core.corpus import DocumentStart, Event, Facts, Sentence
from docnmt.core.lines import blocks
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import base, joined

_LINE_BREAKS = re.compile(r"(?<!\s)\s*[\n\r]\s*")


def read_xml(
    path: Path, facts: Facts, languages: tuple[str, str], progress: Callable[[int], object] | None = None
) -> Iterator[Event]:
    """Yield the sentences of a WMT file. References that some documents lack are left out, with a note.

    Raises:
        UserError: the file is not well-formed, or a reference's segments differ from its source's.
    """
    source, target = languages
    references = _common_references(path, facts, source, target)
    folded = found = 0
    for document in _documents(path, facts, progress):
        name = _name(document)
        where = f"{path}: document '{name}'"
        translations = _references(document, target)
        elements = [document.find("src"), *(translations[key] for key in references)]
        sides = [_segments(element) for element in elements]
        if any([key for key, _ in side] != [key for key, _ in sides[0]] for side in sides[1:]):
            raise UserError(f"{where}: the segments of a <ref> are not those of <src>, by paragraph and seg id")
        if sides[0]:
            yield DocumentStart(name)
        for rows in zip(*sides, strict=True):
            (paragraph, number), _ = rows[0]
            texts = tuple(joined(line.strip() for line in _LINE_BREAKS.split(text)) for _, text in rows)
            if not any(texts):
                raise UserError(f"{where}, seg {number}: empty; every segment needs text")
            folded += sum(_LINE_BREAKS.search(text.strip()) is not None for _, text in rows)
            found += 1
            yield Sentence(texts, (str(paragraph),), place=f"{where}, seg {number}")
    if not found:
        raise UserError(f"{path}: holds no <doc> with <src> segments")
    facts.levels = True
    if folded:
        facts.notes.append(f"{path}: {folded:,} segments hold line breaks, which are joined")


def _documents(path: Path, facts: Facts, progress: Callable[[int], object] | None = None) -> Iterator[Element]:
    """Yield the `<doc>` elements of a file, one in memory at a time."""
    parser: XMLPullParser[Any] = XMLPullParser(["end"])
    digest, size = hashlib.sha256(), 0
    try:
        for block in blocks(path):
            digest.update(block)
            size += len(block)
            if progress:
                progress(len(block))
            parser.feed(block)
            for _, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                if element.tag == "doc":
                    yield element
                    element.clear()
        parser.close()
    except (LookupError, ValueError) as error:  # an unknown encoding in the first line
        raise UserError(f"{path}: cannot be read as its encoding says: {error}; convert it to UTF-8") from error
    except ParseError as error:
        line, column = error.position
        raise UserError(f"{path}:{line}: not well-formed XML at column {column + 1}: {error}") from error
    facts.inputs[str(path)] = {"bytes": size, "sha256": digest.hexdigest()}


def _name(document: Element) -> str:
    return document.get("id") or document.get("docid") or ""


def _is(element: Element, language: str) -> bool:
    """Return True if an element is in a language, or names none; `de` includes `de-AT`, `de_DE` and `deu`."""
    said = element.get("lang")
    return said is None or base(said) == base(language)


def _references(document: Element, language: str) -> dict[str, Element]:
    """Return a document's references in a language by translator; unnamed or repeated translators are numbered."""
    references: dict[str, Element] = {}
    for number, element in enumerate(e for e in document.findall("ref") if _is(e, language)):
        translator = element.get("translator") or str(number)
        references[translator if translator not in references else f"{translator}.{number}"] = element
    return references


def _common_references(path: Path, facts: Facts, source: str, target: str) -> list[str]:
    """Return the translators who have translated every document, in the file's order.

    Raises:
        UserError: a document has no source or one in another language; or there are references, but none covers all
            documents.
    """
    counts: Counter[str] = Counter()
    documents = foreign = 0
    for document in _documents(path, facts):
        src = document.find("src")
        if src is None:
            raise UserError(f"{path}: document '{_name(document)}' has no <src>")
        if not _is(src, source):
            raise UserError(
                f'{path}: document \'{_name(document)}\': <src lang="{src.get("lang")}">, expected "{source}" by the '
                "file's name; rename the file or take the document out"
            )
        documents += 1
        foreign += sum(not _is(element, target) for element in document.findall("ref"))
        counts.update(_references(document, target).keys())
    if foreign:
        facts.notes.append(f"{path}: {foreign:,} references in another language than '{target}' are left out")
    common = [key for key, count in counts.items() if count == documents]
    partial = [f"'{key}' ({count:,} of {documents:,})" for key, count in counts.items() if count < documents]
    if partial and not common:
        raise UserError(f"{path}: no reference covers all documents: {', '.join(partial)}; split the file")
    if partial:
        facts.notes.append(f"{path}: references that do not cover all documents are left out: {', '.join(partial)}")
    return common


def _segments(side: Element | None) -> list[tuple[tuple[int, str], str]]:
    """Return ((paragraph, seg id), text) of every segment of a `<src>` or `<ref>`."""
    segments: list[tuple[tuple[int, str], str]] = []
    paragraph = -1
    for element in side.iter() if side is not None else ():
        paragraph += element.tag == "p"
        if element.tag == "seg":
            segments.append(((max(paragraph, 0), element.get("id") or ""), "".join(element.itertext())))
    return segments
