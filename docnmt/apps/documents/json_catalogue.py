"""JSON: the strings of a catalogue, whatever they stand in; keys, order, indentation and other values stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from docnmt.apps.documents.catalogue import Catalogue, CatalogueMessage
from docnmt.apps.documents.plural_keys import MessageKey
from docnmt.runtime.errors import UserError

_TOKEN = re.compile(r'"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?\Z)|[{}\[\],:]')
_AFTER = re.compile(r"\s*:")
_HIGH = re.compile(r"\\u(?!00[0-7])")
#: Values inside of each other; no catalogue has so many.
_DEEPEST = 200
#: Members that hold the text where each message is an object, as in extensions of browsers, in FormatJS and in go-i18n.
_MESSAGES = ("message", "defaultMessage", "translation")
#: Keys at the top whose value is the language.
_LOCALES = frozenset({"@@locale", "locale", "lang", "language", "languageCode", "language_code", "sourceLocale"})
#: What JSON with comments has between values, and how a string goes on.
_SIGN, _JSON_STRING = re.compile(r'"|//|/\*|\S'), re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"')


class JsonCatalogue(Catalogue):
    """A catalogue in JSON, also with comments; with a `message` or the like in every entry, only these are messages."""

    def _messages(self) -> Iterator[CatalogueMessage]:
        self._changes: list[tuple[int, int, str]] = []
        self._begin = len(self.source) - len(self.source.lstrip("\ufeff"))
        self._bare = self.source
        found = self._parsed()
        entries = list(found.values() if isinstance(found, dict) else found if isinstance(found, list) else ())
        only = next((name for name in _MESSAGES if entries and all(_holds(entry, name) for entry in entries)), None)
        alone = isinstance(found, dict) and len(found) == 1 and isinstance(entries[0], dict | list)
        self._ascii = self.source.isascii() and _HIGH.search(self.source) is not None
        keys: dict[int, MessageKey] = {}  # the last one of each object
        for match, path, parent in self._strings():
            name = match[0][1:-1]
            if _AFTER.match(self._bare, match.end()):
                keys[parent] = MessageKey(parent, name, match.start())
                self._siblings.setdefault(parent, []).append(name)
                if alone and not path and (code := self._renamed(name)):
                    self._changes.append((match.start() + 1, match.end() - 1, code))
            elif len(path) == 1 and path[0] in _LOCALES and (code := self._renamed(name)):
                self._changes.append((match.start() + 1, match.end() - 1, code))
            elif not any(key[:1] in ("@", "$") for key in path) and (only is None or path[1:2] == (only,)):
                key = keys.get(parent) if only is None or len(path) > 2 else None
                yield CatalogueMessage(json.loads(match[0], strict=False), *match.span(), key)

    def _parsed(self) -> object:
        try:
            return json.loads(self._bare[self._begin :], parse_int=str)
        except RecursionError as error:
            raise UserError(f"{self.name}: values stand inside of each other without end") from error
        except json.JSONDecodeError as error:
            if self._bare is self.source and (bare := _without_comments(self.source)) != self.source:
                self._bare = bare
                return self._parsed()
            raise self._wrong(self._begin + error.pos, f"is not JSON: {error.msg}; was it cut off?") from error

    def _strings(self) -> Iterator[tuple[re.Match[str], tuple[str, ...], int]]:
        """Every string, keys included, the keys that lead to it, "" in arrays, and the number of the object, or 0."""
        path: list[str] = []
        objects: list[int] = []
        for match in _TOKEN.finditer(self._bare, self._begin):
            sign = match[0]
            if sign in "{[":
                if len(path) == _DEEPEST:
                    raise self._wrong(match.start(), "values stand inside of each other without end")
                objects.append(match.end() if sign == "{" else 0)
                path.append("")
            elif sign in "}]":
                objects.pop()
                path.pop()
            elif sign[0] == '"':
                if objects and objects[-1] and _AFTER.match(self._bare, match.end()):
                    yield match, tuple(path[:-1]), objects[-1]
                    path[-1] = sign[1:-1]
                else:
                    yield match, tuple(path), objects[-1] if objects else 0

    def _settings(self) -> Iterable[tuple[int, int, str]]:
        return self._changes

    def _between(self, entry: CatalogueMessage, text: str) -> str:
        assert entry.key is not None
        end = begin = entry.key.begin
        while self._bare[begin - 1].isspace():  # an object has begun before it
            begin -= 1
        return "," + self.source[begin:end]

    def _written(self, entry: CatalogueMessage, text: str) -> str:
        out = json.dumps(text, ensure_ascii=self._ascii)
        raw = self.source[entry.begin : entry.end]
        return out.replace("/", "\\/") if 0 < raw.count("/") == raw.count("\\/") else out


def _without_comments(source: str) -> str:
    """The same with spaces for comments, and for commas behind which nothing follows, so that nothing moves."""
    out, comma, place = list(source), -1, 0
    while sign := _SIGN.search(source, place):
        begin, place = sign.span()
        if sign[0] in ("//", "/*"):
            end = source.find("\n" if sign[0] == "//" else "*/", place)
            if end < 0 and sign[0] == "/*":
                break
            place = len(source) if end < 0 else end + 2 * (sign[0] == "/*")
            out[begin:place] = (each if each.isspace() else " " for each in source[begin:place])
        elif sign[0] == ",":
            comma = begin if comma == -1 else -2  # two in a row are a mistake
        else:
            if comma >= 0 and sign[0] in "}]":
                out[comma] = " "
            comma = -1
            if sign[0] == '"':
                rest = _JSON_STRING.match(source, place)
                if rest is None:
                    break
                place = rest.end()
    return "".join(out)


def _holds(entry: object, name: str) -> bool:
    held = entry.get(name) if isinstance(entry, dict) else None
    return isinstance(held, str) or (name == "translation" and isinstance(held, dict))
