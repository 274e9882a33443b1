"""YAML: the strings of a catalogue, each in the style that it had; keys, comments, anchors and other values stay.

PyYAML says where each string stands; it is not asked to write the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import yaml

from docnmt.apps.documents.catalogue import Catalogue, CatalogueMessage
from docnmt.apps.documents.plural_keys import MessageKey
from docnmt.runtime.errors import UserError

#: What may stand before a string: an anchor, a tag.
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_HEAD = re.compile(r"[|>][^\n]*\n")
_YAML_ESCAPE = re.compile(r"\\(?:x[89A-Fa-f]|u(?!00[0-7])|U)")
_PLAIN = ("", None)
_TEXT = "tag:yaml.org,2002:str"
#: Values inside of each other; no catalogue has so many.
_DEEPEST = 200
_loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class _String(CatalogueMessage):
    """A string in a style; `flow` if it stands in brackets."""

    style: str = ""
    flow: bool = False


class YamlCatalogue(Catalogue):
    """A catalogue in YAML; with the language as its only key, as in Rails, this is renamed."""

    def _messages(self) -> Iterator[CatalogueMessage]:
        self._changes: list[tuple[int, int, str]] = []
        self._offset = len(self.source) - len(self.source.lstrip("\ufeff"))
        self._ascii = self.source.isascii() and _YAML_ESCAPE.search(self.source) is not None
        roots = list[tuple[int, int, str]]()
        keys: dict[int, MessageKey] = {}  # the last one of each mapping
        try:
            for event, depth, parent, key, flow in self._scalars():
                begin, end = self._span(event)
                if not key:
                    if self._is_text(event):
                        yield _String(event.value, begin, end, keys.get(parent), event.style or "", flow)
                    continue
                keys[parent] = MessageKey(parent, event.value, begin)
                self._siblings.setdefault(parent, []).append(event.value)
                if depth == 1:
                    roots.append((begin, end, event.value))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = " ".join(f"{error.context or ''} {error.problem or ''}".split())
            raise UserError(f"{self.name}:{mark.line + 1 if mark else 1}: is not YAML: {message}") from error
        except yaml.YAMLError as error:  # a character that YAML does not allow
            raise UserError(f"{self.name}: is not YAML: {' '.join(str(error).split())}") from error
        if len(roots) == 1 and (code := self._renamed(roots[0][2])):
            begin, end, name = roots[0]
            self._changes.append((begin, end, self.source[begin:end].replace(name, code)))

    def _scalars(self) -> Iterator[tuple[yaml.ScalarEvent, int, int, bool, bool]]:
        """Every scalar: how deep it stands, where its collection begins, whether it is a key, and whether brackets are
        around it."""
        inside: list[tuple[bool, bool, int]] = []  # of each collection around: a mapping? in brackets? its beginning
        keys = list[bool]()  # whether the next one is a key
        for event in yaml.parse(self.source[self._offset :], _loader):
            if isinstance(event, yaml.CollectionEndEvent):
                inside.pop()
                keys.pop()
            elif isinstance(event, yaml.NodeEvent):
                mapping = bool(inside) and inside[-1][0]
                key = mapping and keys[-1]
                if isinstance(event, yaml.ScalarEvent):
                    yield event, len(inside), inside[-1][2] if inside else -1, key, bool(inside) and inside[-1][1]
                if mapping:
                    keys[-1] = not key
                if isinstance(event, yaml.CollectionStartEvent):
                    if len(inside) == _DEEPEST:
                        raise self._wrong(_place(event.start_mark), "values stand inside of each other without end")
                    begin = _place(event.start_mark)
                    inside.append((isinstance(event, yaml.MappingStartEvent), bool(event.flow_style), begin))
                    keys.append(True)

    def _span(self, event: yaml.ScalarEvent) -> tuple[int, int]:
        """Where a scalar stands, without its anchor and tag."""
        begin, end = (_place(mark) + self._offset for mark in (event.start_mark, event.end_mark))
        properties = _PROPERTIES.match(self.source, begin, end)
        return (properties.end() if properties else begin), end

    @staticmethod
    def _is_text(event: yaml.ScalarEvent) -> bool:
        if event.tag is not None:
            return event.tag == _TEXT
        return event.style not in _PLAIN or _resolved(event.value)

    def _settings(self) -> Iterable[tuple[int, int, str]]:
        return self._changes

    def _between(self, entry: CatalogueMessage, text: str) -> str | None:
        assert isinstance(entry, _String)
        assert entry.key is not None
        if entry.flow:
            return ", "
        begin = self.source.rfind("\n", 0, entry.key.begin) + 1
        indent = self.source[begin : entry.key.begin]
        end = "\r\n" if self.source.endswith("\r\n", 0, begin) else "\n"
        return None if indent.strip() else ("" if text.endswith("\n") else end) + indent

    def _written(self, entry: CatalogueMessage, text: str) -> str:
        assert isinstance(entry, _String)
        raw = self.source[entry.begin : entry.end]
        if entry.style in ("|", ">"):
            return self._block(entry, raw, text)
        if entry.style == "'" and text.isprintable():
            return "'" + text.replace("'", "''") + "'"
        if entry.style in _PLAIN and _reads_plainly(text, flow=entry.flow):
            return text
        return self._double(text)

    def _double(self, text: str) -> str:
        """Text in double quotes, with escapes for what is outside of ASCII if the file has none of that."""
        keep = str.isprintable if not self._ascii else str.isascii
        quoted = json.dumps(text, ensure_ascii=False)
        return "".join(each if keep(each) else _escape(each) for each in quoted)

    def _block(self, entry: _String, raw: str, text: str) -> str:
        """A block: its head stays, and so do the indentation and what follows the last line."""
        head, folded = _HEAD.match(raw), entry.style == ">"
        body = raw[head.end() :] if head else ""
        first = next((line for line in body.split("\n") if line.strip()), "")
        indent = first[: len(first) - len(first.lstrip(" "))]
        if head is None or not indent or re.search(r"\d", head[0].partition("#")[0]) or not _in_lines(text, folded):
            return self._double(text) + ("\n" if raw.endswith("\n") else "")
        text = text.rstrip("\n")
        lines = (re.sub(r"\n+", r"\g<0>\n", text) if folded else text).split("\n")
        end = "\r\n" if "\r\n" in raw else "\n"
        tail = raw[len(raw.rstrip()) :]
        return head[0] + end.join(indent + line if line else "" for line in lines) + tail


class _Mark(Protocol):
    """PyYAML has a class with and one without its C part."""

    index: int


def _place(mark: _Mark | None) -> int:
    """Where a mark stands."""
    assert mark is not None  # events of a stream have them
    return mark.index


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 1 << 16 else f"\\U{code:08X}"


def _in_lines(text: str, folded: bool) -> bool:
    """Whether a block can hold a text; in a folded one, indented lines would be no paragraphs."""
    lines = text.split("\n")
    indented = any(line[:1].isspace() for line in (lines if folded else lines[:1]))
    return not indented and all(line.isprintable() for line in lines)


def _resolved(value: str) -> bool:
    """Whether plain text is a string, no number, date or the like."""
    resolver = yaml.resolver.Resolver()
    return bool(resolver.resolve(yaml.ScalarNode, value, (True, False)) == _TEXT)  # type: ignore[no-untyped-call]


def _reads_plainly(text: str, *, flow: bool) -> bool:
    """Whether text without quotes is read as what it is."""
    if not text.isprintable() or "#" in text or not _resolved(text):
        return False
    try:
        found = yaml.load(f"[{text}]" if flow else f"a: {text}", _loader)
    except (yaml.YAMLError, ValueError):
        return False
    return bool(found == ([text] if flow else {"a": text}))
