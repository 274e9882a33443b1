"""FODT: an OpenDocument text in one file of XML."""

from __future__ import annotations

from collections.abc import Iterator

from docnmt.apps.documents.odt import Odt
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
        yield from self._part(self._root, "")

    def _saved(self, parts: set[str]) -> bytes:
        return written(self._root, self.content)
