"""What Office Open XML says in attributes and readers see or hear: alternative texts, WordArt, watermarks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from docnmt.apps.documents.inline import Inline
from docnmt.apps.documents.segment import Translated
from docnmt.apps.documents.xml_file import Element, local
from docnmt.apps.documents.xml_tree import Unit

#: Elements, and their attributes: pictures and shapes; in VML, which is older, alternative texts and text along a path.
_SEEN = {
    "docPr": ("title", "descr"),
    "cNvPr": ("title", "descr"),
    "textpath": ("string",),
    **dict.fromkeys(("shape", "rect", "oval", "roundrect", "line", "polyline", "group"), ("alt",)),
}


def picture_texts(element: Element, part: str, units: tuple[str, str]) -> Iterator[Unit]:
    """The texts in the attributes of one element, if it is a picture or the like."""
    for name in _SEEN.get(local(element), ()):
        inline: Inline[str] = Inline()
        inline.text(element.get(name, ""))
        yield Unit(inline.segment(units=units), partial(_put, element, name), part)


def _put(element: Element, name: str, found: Translated) -> None:
    element.set(name, found.text)
