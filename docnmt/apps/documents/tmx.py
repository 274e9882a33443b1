"""TMX: a translation memory, whose units have a variant in each language."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial

from lxml import etree

from docnmt.apps.documents.elements import Payload, Role, code, fill, read
from docnmt.apps.documents.inline import Inline
from docnmt.apps.documents.segment import Segment, Translated
from docnmt.apps.documents.xml_file import Element, local, parse, text_in, written
from docnmt.apps.documents.xml_tree import Tree, Unit
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import same_language

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def tmx_role(element: Element) -> Role:
    """What an inline element of TMX is; what it holds is code, but for <hi>."""
    name = local(element)
    if name == "hi":
        return Role("format")
    if name in ("bpt", "ept"):
        return Role("format" if name == "bpt" else "end", key=element.get("i") or "")
    return code(text_in(element)) if name == "ph" else Role("fixed")


class Tmx(Tree):
    """A translation memory; units without a variant in the target language get one."""

    bilingual = True

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "tmx":
            raise UserError(f"{self.name}: expected TMX, whose first element is <tmx>, got <{local(self._root)}>")
        found = set()
        for number, unit in enumerate(self._root.iter("{*}tu")):
            variants = unit.findall("{*}tuv")
            found |= set(map(_language, variants))
            source, target = (
                next((variant for variant in variants if same_language(_language(variant), language)), None)
                for language in self.languages
            )
            if next(unit.iterancestors("{*}seg"), None) is not None:
                continue  # it is a part of a text
            if source is not None and source.find("{*}seg") is not None:
                yield self._unit(unit, source, target, ("0", str(number)))
        if found and not any(same_language(language, self.languages[0]) for language in found):
            there = ", ".join(sorted(found))
            raise UserError(f"{self.name}: has {there}, and the model translates from {self.languages[0]}")

    def _unit(self, unit: Element, source: Element, target: Element | None, units: tuple[str, str]) -> Unit:
        text = deepcopy(source.find("{*}seg"))
        assert text is not None
        inline = read(text, tmx_role)
        known = None if target is None else target.find("{*}seg")
        translation = None if known is None else " ".join(read(deepcopy(known), tmx_role).segment().text.split())
        segment = inline.segment(translation=translation or None, units=units)
        return Unit(segment, partial(self._fill, unit, source, target, segment, inline))

    def _fill(
        self,
        unit: Element,
        source: Element,
        target: Element | None,
        segment: Segment,
        inline: Inline[Payload],
        found: Translated,
    ) -> None:
        """Writes a variant behind the source's."""
        if target is None:
            target = etree.Element(source.tag, {_LANG: self.languages[1]})
            target.tail, target.text = source.tail, source.text
            unit.insert(unit.index(source) + 1, target)
        seg, own = target.find("{*}seg"), source.find("{*}seg")
        assert own is not None
        if seg is None:
            seg = etree.SubElement(target, own.tag)
            seg.tail = own.tail
        fill(seg, segment.marks, inline.payloads, found)

    def _saved(self, parts: set[str]) -> bytes:
        return written(self._root, self.content)


def _language(variant: Element) -> str:
    return variant.get(_LANG) or variant.get("lang") or ""
