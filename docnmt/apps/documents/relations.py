"""Packages whose parts refer to each other, as those of Office Open XML do."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from docnmt.apps.documents.package import Package
from docnmt.apps.documents.xml_file import Element, count_elements, parse, written
from docnmt.apps.documents.xml_tree import Tree
from docnmt.runtime.errors import UserError


class Relation(NamedTuple):
    """A reference from a part to another one: its `id`, its `kind` (`slide`, `chart` …) and the part's name."""

    id: str
    kind: str
    target: str


class Related(Package, Tree):
    """A package whose parts are found from its main part."""

    def _load(self) -> None:
        """Unpacks every part, for `_root` and `_relations`."""
        with self._opened() as package:
            self._contents = {info.filename: content for info, content in self._unpacked(package)}
        texts = (content for name, content in self._contents.items() if name.endswith((".xml", ".rels")))
        count_elements(texts, self.name)
        self._roots: dict[str, Element] = {}

    def _root(self, part: str) -> Element:
        """The tree of a part; the same one each time.

        Raises:
            UserError: it is missing or damaged.
        """
        if part not in self._roots:
            self._roots[part] = parse(self._whole(part), f"{self.name}: {part}")
        return self._roots[part]

    def _whole(self, part: str) -> bytes:
        if part not in self._contents:
            raise UserError(f"{self.name}: its part {part} is missing; was it cut off, or is it of another kind?")
        return self._contents[part]

    def _relations(self, part: str) -> Iterator[Relation]:
        """What a part refers to inside of the package."""
        folder, name = posixpath.split(part)
        file = posixpath.join(folder, "_rels", f"{name}.rels")
        if file not in self._contents:
            return
        for element in self._root(file).iterfind("{*}Relationship"):
            if element.get("TargetMode") != "External":
                kind = (element.get("Type") or "").rpartition("/")[2]
                yield Relation(element.get("Id") or "", kind, within(folder, element.get("Target") or ""))

    def _listed(self, part: str, name: str) -> Iterator[tuple[Element, str]]:
        """The entries of a list in a part (slides, sheets), each with the part that it stands for."""
        targets = {relation.id: relation.target for relation in self._relations(part)}
        for entry in self._root(part).iterfind(f"{{*}}{name}/*"):
            key = next((str(value) for name, value in entry.attrib.items() if str(name).endswith("}id")), "")
            if key not in targets:
                raise UserError(f"{self.name}: {part} names '{key}', and no part belongs to it; was it damaged?")
            yield entry, targets[key]

    def _saved(self, parts: set[str]) -> bytes:
        return self._copied({part: written(self._roots[part], self._contents[part]) for part in parts})


def within(folder: str, target: str) -> str:
    """The name of a part that another one in this folder refers to."""
    return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
