"""FODT: an OpenDocument text in one file of XML."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from docnmt.apps.documents.odt import Odt, Styles
from docnmt.apps.documents.xml_file import local, parse, written
from docnmt.apps.documents.xml_tree import Unit
from docnmt.runtime.errors import UserError


class Fodt(Odt):
    """As `Odt`, without a package around."""

    def _units(self) -> Iterator[Unit]:
        self._root = parse(self.content, self.name)
        if local(self._root) != "document":
            raise UserError(
                f"{self.name}: expected FODT, whose first element is <office:document>, got <{local(self._root)}>"
            )
        self._left = []
        yield from self._part(self._root, "")
        self.left = self._left

    @cached_property
    def _styles(self) -> Styles:
        styles = Styles()
        styles.add(self._root)
        return styles

    def _saved(self, parts: set[str]) -> bytes:
        return written(self._root, self.content)
