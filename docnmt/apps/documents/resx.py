"""RESX of .NET: the values that are strings; names, comments, pictures and the designer's own entries stay."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial

from docnmt.apps.documents.elements import Role, fill, read
from docnmt.apps.documents.xml_file import local, parse, written
from docnmt.apps.documents.xml_tree import Tree, Unit
from docnmt.runtime.errors import UserError

_FIXED = Role("fixed")


class Resx(Tree):
    """A file of resources."""

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "root":
            raise UserError(f"{self.name}: expected RESX, whose first element is <root>, got <{local(self._root)}>")
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
