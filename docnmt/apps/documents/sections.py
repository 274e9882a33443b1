"""Which section and which paragraph, list or row a segment stands in."""

from __future__ import annotations

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
#: What is one unit as a whole.
_TOGETHER = frozenset({"ul", "ol", "dl", "tr"})


class Sections:
    """Counts units while a document is read: a heading opens a section; a list or a table's row is like a paragraph."""

    def __init__(self) -> None:
        self._section = self._paragraph = self._together = 0

    @property
    def units(self) -> tuple[str, str]:
        """Of what is read now."""
        return str(self._section), str(self._paragraph)

    def heading(self) -> None:
        """A heading begins."""
        self._section += 1
        self._paragraph += 1

    def paragraph(self) -> None:
        """A segment has ended."""
        if not self._together:
            self._paragraph += 1

    def together(self, *, begins: bool) -> None:
        """A list or a row begins or ends."""
        self._together = max(0, self._together + (1 if begins else -1))
        if not self._together:
            self._paragraph += 1

    def element(self, tag: str, *, begins: bool) -> None:
        """A block element of HTML."""
        if tag in _HEADINGS and begins:
            self.heading()
        elif tag in _TOGETHER:
            self.together(begins=begins)
