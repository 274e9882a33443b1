"""Catalogues of keys and texts: JSON, YAML, .properties, .strings, and the forms of plural keys.
Each reader yields places (begin, end, text, key); `text` splices translations into the source.
"""

from __future__ import annotations

import codecs
import json
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from docnmt.apps.documents import icu
from docnmt.apps.documents.segments import Translated, counted
from docnmt.apps.documents.sentences import MESSAGE
from docnmt.apps.documents.text import SegmentPlace, Spliced, branches, read, replaced
from docnmt.runtime.languages import PLURALS, base, plural_change, tag
from docnmt.runtime.system import UserError

# Plural forms that are keys beside each other: `one:` and `other:` of Rails, `key_one` and `key_other` of i18next.

_FORM = re.compile(rf"(.+)_({'|'.join(PLURALS)})", re.DOTALL)


@dataclass(frozen=True)
class _MessageKey:
    """The key of a message: the number of the object that it stands in, its text, and where it begins as written."""

    parent: int
    name: str
    begin: int


def _missing_forms(
    keys: Sequence[_MessageKey | None], siblings: Mapping[int, Collection[str]], added: Iterable[str]
) -> Iterator[tuple[int, list[str]]]:
    """The messages, by number, that are the form `other`, each with those of `added` that are not beside it."""
    # keys that are categories themselves count only where all keys of the object are
    only_forms = {parent for parent, names in siblings.items() if set(names) <= set(PLURALS)}
    groups: dict[tuple[int, str], dict[str, int]] = {}
    for number, key in enumerate(keys):
        if key is None:
            continue
        match = _FORM.fullmatch(key.name)
        if key.parent in only_forms:
            groups.setdefault((key.parent, ""), {})[key.name] = number
        elif match and not match[1].endswith("_ordinal"):
            groups.setdefault((key.parent, match[1]), {})[match[2]] = number
    for forms in groups.values():
        new = [name for name in added if name not in forms]
        if new and "other" in forms and len(forms) > 1:
            yield forms["other"], new


# Catalogues: files of messages, each a string with escapes that is replaced where it stands.

#: A key that ends so, and what stands before its value.
_OTHER = re.compile(r"(.*)other([\"']?\s*:\s*)", re.DOTALL)


@dataclass(frozen=True)
class _Message:
    """A message, where it stands as it is written: `source[begin:end]`, and its key if it has one."""

    text: str
    begin: int
    end: int
    key: _MessageKey | None = None
    doubled: bool = False  # Java reads it as a format, in which apostrophes are doubled
    style: str = ""  # the sign with which YAML writes it
    flow: bool = False  # it stands in brackets of YAML


@dataclass(frozen=True)
class _Text(SegmentPlace):
    """A message or a branch of one, and the number of its entry."""

    branch: icu.Branch = field(default_factory=icu.Branch)
    entry: int = 0


class Catalogue(Spliced):
    """A file of messages; what else changes with the language is written when a message has changed."""

    def read_places(self) -> Iterator[SegmentPlace]:
        self._changes: list[tuple[int, int, str]] = []
        self._siblings: dict[int, list[str]] = {}  # the keys of each object
        self._entries = list(counted(self._messages(), lambda entry: entry.text))
        self._roots: dict[int, icu.Branch] = {}
        for number, entry in enumerate(self._entries):
            try:
                self._roots[number] = icu.read(entry.text)
            except icu.NoMessage:
                self.left.append(self.line(entry.begin))
                continue
            for branch in self._roots[number].all():
                several = branches(branch.text, pipes=True) if branch is self._roots[number] else []
                inline = read(branch.text, _means_something, breaks=several)
                segment = inline.segment(units=("0", str(number)), flags=(MESSAGE,))
                yield _Text(segment, entry.begin, entry.end, inline.payloads, branch, number)

    def _write(self, changed: Mapping[int, Translated]) -> bytes:
        texts: dict[int, dict[int, str]] = {}
        for number, text in changed.items():
            part = self.places[number]
            assert isinstance(part, _Text)
            texts.setdefault(part.entry, {})[id(part.branch)] = self.rendered(part, text)
        changes, change = [*self._changes], plural_change(*self.languages)
        written: dict[int, str] = {}
        for number, branch_texts in texts.items():
            entry = self._entries[number]
            written[number] = self._written(entry, self._roots[number].written(branch_texts, change))
            changes.append((entry.begin, entry.end, written[number]))
        for number, names in _missing_forms([entry.key for entry in self._entries], self._siblings, change[0]):
            entry = self._entries[number]
            assert entry.key is not None  # it says that this is a form
            other = written.get(number, self.source[entry.begin : entry.end])  # the text of new forms
            match = _OTHER.fullmatch(self.source, entry.key.begin, entry.begin)
            between = self._between(entry, other)
            if match and between is not None:
                forms = (f"{match[1]}{name}{match[2]}{other}{between}" for name in names)
                changes.append((entry.key.begin, entry.key.begin, "".join(forms)))
        return self._encoded(replaced(self.source, sorted(changes)))

    def _renamed(self, name: str) -> str | None:
        """What the source's language, if this is its code, is called in the translation."""
        code = re.fullmatch(r"[A-Za-z]{2,3}([-_])?[A-Za-z0-9]*", name)
        if code is None or base(name) != base(self.languages[0]):
            return None
        return tag(self.languages[1]).replace("-", code[1] or "-")

    @abstractmethod
    def _messages(self) -> Iterable[_Message]:
        """The messages in order."""

    def _between(self, entry: _Message, text: str) -> str | None:
        """What separates the key of a message from one with this text that is put before it; None: it cannot be."""
        return None

    @abstractmethod
    def _written(self, entry: _Message, text: str) -> str:
        """A message as the file has it."""


def _means_something(space: re.Match[str]) -> bool:
    """Whether white space of a message has a meaning: at the ends, wide, or lines and tabs."""
    return space.start() == 0 or space.end() == len(space.string) or len(space[0]) > 2 or not space[0].isprintable()


def _unescaped(raw: str, escape: re.Pattern[str], letters: Mapping[str, str], errors: str) -> str:
    """A string without its escapes: of a character by its number, of a letter, or, with neither, of nothing."""

    def character(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else letters.get(match[2], match[2] or "")

    return escape.sub(character, raw).encode("utf-16", "surrogatepass").decode("utf-16", errors)  # pairs are one


# Strings of macOS and iOS: `"key" = "value";` with comments, in UTF-8 or UTF-16.

#: Each alternative matches in one way only, so that what does not fit is known at once.
_SPACE = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|//[^\r\n]*(?![^\r\n]))"
_WORD = r"[\w.$:-]+"
_STRINGS_STRING = r'"[^"\\]*(?:\\[\s\S][^"\\]*)*"'
_PAIR = re.compile(
    rf"{_SPACE}*(?:{_STRINGS_STRING}|{_WORD}){_SPACE}*(?:={_SPACE}*(?P<value>{_STRINGS_STRING}|{_WORD}){_SPACE}*)?;"
)
_REST = re.compile(rf"{_SPACE}*")
_STRINGS_ESCAPE = re.compile(r"\\(?:[Uu]([0-9A-Fa-f]{4})|([\s\S]))")
_STRINGS_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_STRINGS_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_ENCODINGS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class AppleStrings(Catalogue):
    """A table of strings.

    Translated: values
    Stays: keys, comments; UTF-8 and UTF-16
    """

    def _decoded(self) -> str:
        self.encoding = next((name for mark, name in _ENCODINGS if self.content.startswith(mark)), "utf-8")
        if self.encoding != "utf-8":
            with suppress(UnicodeDecodeError):  # refused as any text is
                return self.content.decode(self.encoding)
        return super()._decoded()

    def _messages(self) -> Iterator[_Message]:
        index = len(self.source) - len(self.source.lstrip("\ufeff"))
        while match := _PAIR.match(self.source, index):
            if (value := match["value"]) is not None and value[0] == '"':
                text = _unescaped(value[1:-1], _STRINGS_ESCAPE, _STRINGS_LETTERS, "replace")
                yield _Message(text, match.start("value") + 1, match.end("value") - 1)
            index = match.end()
        rest = _REST.match(self.source, index)
        end = rest.end() if rest else index
        if end < len(self.source):
            raise self.refused(end, 'expected "key" = "value"; was it cut off?')

    def _written(self, entry: _Message, text: str) -> str:
        raw = self.source[entry.begin : entry.end]
        lines = "\n" in raw and "\\n" not in raw  # it has its line breaks as they are
        return text.translate({**_STRINGS_WRITTEN, 10: "\n", 13: "\r"} if lines else _STRINGS_WRITTEN)


# JSON: the strings of a catalogue, whatever they stand in; keys, order, indentation and other values stay.

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
    """A catalogue in JSON, also with comments; with a `message` or the like in every entry, only these are messages.

    Translated: every string, in arrays, too; where each entry has a `message`, `defaultMessage` or `translation`, only
    that. Comments are allowed
    Stays: keys, order, indentation, other values, how letters are escaped; keys that begin with `@` or `$` and all
    below them
    """

    def _messages(self) -> Iterator[_Message]:
        self._begin = len(self.source) - len(self.source.lstrip("\ufeff"))
        self._bare = self.source
        values = self._parsed()
        entries = list(values.values() if isinstance(values, dict) else values if isinstance(values, list) else ())
        only = next((name for name in _MESSAGES if entries and all(_holds(entry, name) for entry in entries)), None)
        alone = isinstance(values, dict) and len(values) == 1 and isinstance(entries[0], dict | list)
        self._ascii = self.source.isascii() and _HIGH.search(self.source) is not None
        keys: dict[int, _MessageKey] = {}  # the last one of each object
        for match, path, parent in self._strings():
            name = match[0][1:-1]
            if _AFTER.match(self._bare, match.end()):
                keys[parent] = _MessageKey(parent, name, match.start())
                self._siblings.setdefault(parent, []).append(name)
                if alone and not path and (code := self._renamed(name)):
                    self._changes.append((match.start() + 1, match.end() - 1, code))
            elif len(path) == 1 and path[0] in _LOCALES and (code := self._renamed(name)):
                self._changes.append((match.start() + 1, match.end() - 1, code))
            elif not any(key[:1] in ("@", "$") for key in path) and (only is None or path[1:2] == (only,)):
                key = keys.get(parent) if only is None or len(path) > 2 else None
                text = json.loads(match[0], strict=False)  # half a surrogate pair is no text
                whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                yield _Message(whole, *match.span(), key)

    def _parsed(self) -> object:
        try:
            return json.loads(self._bare[self._begin :], parse_int=str)
        except RecursionError as error:
            raise UserError(f"{self.name}: values stand inside of each other without end") from error
        except json.JSONDecodeError as error:
            if self._bare is self.source and (bare := _without_comments(self.source)) != self.source:
                self._bare = bare
                return self._parsed()
            raise self.refused(self._begin + error.pos, f"is not JSON: {error.msg}; was it cut off?") from error

    def _strings(self) -> Iterator[tuple[re.Match[str], tuple[str, ...], int]]:
        """Every string, keys included, the keys that lead to it, "" in arrays, and the number of the object, or 0."""
        path: list[str] = []
        objects: list[int] = []
        for match in _TOKEN.finditer(self._bare, self._begin):
            sign = match[0]
            if sign in "{[":
                if len(path) == _DEEPEST:
                    raise self.refused(match.start(), "values stand inside of each other without end")
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

    def _between(self, entry: _Message, text: str) -> str:
        assert entry.key is not None
        end = begin = entry.key.begin
        while self._bare[begin - 1].isspace():  # an object has begun before it
            begin -= 1
        return "," + self.source[begin:end]

    def _written(self, entry: _Message, text: str) -> str:
        out = json.dumps(text, ensure_ascii=self._ascii)
        raw = self.source[entry.begin : entry.end]
        return out.replace("/", "\\/") if 0 < raw.count("/") == raw.count("\\/") else out


def _without_comments(source: str) -> str:
    """The same with spaces for comments, and for commas behind which nothing follows, so that nothing moves."""
    out, comma, index = list(source), -1, 0
    while sign := _SIGN.search(source, index):
        begin, index = sign.span()
        if sign[0] in ("//", "/*"):
            end = source.find("\n" if sign[0] == "//" else "*/", index)
            if end < 0 and sign[0] == "/*":
                break
            index = len(source) if end < 0 else end + 2 * (sign[0] == "/*")
            out[begin:index] = (char if char.isspace() else " " for char in source[begin:index])
        elif sign[0] == ",":
            comma = begin if comma == -1 else -2  # two in a row are a mistake
        else:
            if comma >= 0 and sign[0] in "}]":
                out[comma] = " "
            comma = -1
            if sign[0] == '"':
                rest = _JSON_STRING.match(source, index)
                if rest is None:
                    break
                index = rest.end()
    return "".join(out)


def _holds(entry: object, name: str) -> bool:
    value = entry.get(name) if isinstance(entry, dict) else None
    return isinstance(value, str) or (name == "translation" and isinstance(value, dict))


# Properties of Java: the values; keys, comments, continued lines and the file's way with other letters stay.

_LINE = re.compile(
    r"""\ufeff?[ \t\f]*(?:
        [\#!][^\r\n]*                                                   # a comment
        | (?P<key>(?:\\(?:\r\n|.|\n)|[^\\\s=:])+)[ \t\f]*[=:]?[ \t\f]*(?:\\(?:\r\n|\r|\n)[ \t\f]*)*
          (?P<value>[^\\\r\n]*(?:\\(?:\r\n|[\s\S])[^\\\r\n]*)*)(?:\\\Z)?
        | [=:][^\r\n]*
        )?(?:\r\n|\r|\n|\Z)""",
    re.VERBOSE,
)
_PROPERTIES_ESCAPE = re.compile(r"\\(?:u+([0-9A-Fa-f]{4})|(?:\r\n|\r|\n)[ \t\f]*|([^u]))")
_PROPERTIES_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_PROPERTIES_WRITTEN = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f"})
_ARGUMENT = re.compile(r"\{\d+[},]")


class Properties(Catalogue):
    r"""A bundle of resources, in UTF-8 or, as before Java 9, in Latin 1 with escapes.

    Translated: values
    Stays: keys, comments; UTF-8, Latin 1 and `\u00fc` as the file has it
    """

    def _decoded(self) -> str:
        try:
            self.content.decode()
        except UnicodeDecodeError:
            self.encoding = "latin-1"
        return super()._decoded()

    def _messages(self) -> Iterator[_Message]:
        index = 0
        while index < len(self.source):
            match = _LINE.match(self.source, index)
            if match is None:
                raise self.refused(index, "expected 'key = value'")
            if match["value"]:
                text = self._read(match["value"], match.start("value"))
                doubled = _ARGUMENT.search(text) is not None and "'" not in text.replace("''", "")
                shown = text.replace("''", "'") if doubled else text
                yield _Message(shown, *match.span("value"), doubled=doubled)
            index = match.end()

    def _read(self, raw: str, begin: int) -> str:
        if wrong := re.search(r"(?<!\\)(?:\\\\)*\\u(?!u*[0-9A-Fa-f]{4})", raw):
            raise self.refused(begin + wrong.start(), "expected four hexadecimal digits behind \\u")
        try:
            return _unescaped(raw, _PROPERTIES_ESCAPE, _PROPERTIES_LETTERS, "strict")
        except UnicodeDecodeError as error:
            raise self.refused(begin, "half of a character: a \\ud… without its second half") from error

    def _written(self, entry: _Message, text: str) -> str:
        out = (text.replace("'", "''") if entry.doubled else text).translate(_PROPERTIES_WRITTEN)
        if out[:1].isspace():
            out = f"\\{out}"
        encoding = "latin-1" if self.encoding == "latin-1" else "ascii" if self.source.isascii() else "utf-8"
        try:
            out.encode(encoding)
        except UnicodeEncodeError:
            small = re.search(r"\\u[0-9A-F]*[a-f]", self.source) is not None
            return "".join(_escaped(char, encoding, "04x" if small else "04X") for char in out)
        return out


def _escaped(character: str, encoding: str, form: str) -> str:
    """A character, by its number where the encoding does not have it."""
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at] << 8 | units[at + 1]:{form}}" for at in range(0, len(units), 2))
    return character


# YAML: the strings of a catalogue, each in the style that it had; keys, comments, anchors and other values stay.

#: What may stand before a string: an anchor, a tag, comments behind them.
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+(?:#[^\n]*\n\s*)*)*")
_HEAD = re.compile(r"[|>][^\n]*\n")
_YAML_ESCAPE = re.compile(r"\\(?:x[89A-Fa-f]|u(?!00[0-7])|U)")
_TEXT = "tag:yaml.org,2002:str"
_loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlCatalogue(Catalogue):
    """A catalogue in YAML; with the language as its only key, as in Rails, this is renamed.

    Translated: every string, in the style that it has: plain, quoted, in a block
    Stays: keys, order, comments, anchors, other values (`yes`, `42`), strings with tags of their own
    """

    def _messages(self) -> Iterator[_Message]:
        self._offset = len(self.source) - len(self.source.lstrip("\ufeff"))
        self._ascii = self.source.isascii() and _YAML_ESCAPE.search(self.source) is not None
        roots = list[tuple[int, int, str]]()
        keys: dict[int, _MessageKey] = {}  # the last one of each mapping
        try:
            for event, depth, parent, key, flow in self._scalars():
                begin, end = (_place(mark) + self._offset for mark in (event.start_mark, event.end_mark))
                if properties := _PROPERTIES.match(self.source, begin, end):  # an anchor, a tag
                    begin = properties.end()
                if not key:
                    plain = event.style in ("", None)
                    if event.tag == _TEXT or (event.tag is None and (not plain or _resolved(event.value))):
                        entry = _Message(event.value, begin, end, keys.get(parent))
                        yield replace(entry, style=event.style or "", flow=flow)
                    continue
                keys[parent] = _MessageKey(parent, event.value, begin)
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
        """Every scalar: how deep it stands, where its collection begins, whether it is a key, has brackets around."""
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
                        raise self.refused(_place(event.start_mark), "values stand inside of each other without end")
                    begin = _place(event.start_mark)
                    inside.append((isinstance(event, yaml.MappingStartEvent), bool(event.flow_style), begin))
                    keys.append(True)

    def _between(self, entry: _Message, text: str) -> str | None:
        assert entry.key is not None
        if entry.flow:
            return ", "
        begin = self.source.rfind("\n", 0, entry.key.begin) + 1
        indent = self.source[begin : entry.key.begin]
        end = "\r\n" if self.source.endswith("\r\n", 0, begin) else "\n"
        return None if indent.strip() else ("" if text.endswith("\n") else end) + indent

    def _written(self, entry: _Message, text: str) -> str:
        raw = self.source[entry.begin : entry.end]
        if entry.style in ("|", ">"):
            return self._block(entry, raw, text)
        if entry.style == "'" and text.isprintable():
            return "'" + text.replace("'", "''") + "'"
        if not entry.style and _reads_plainly(text, flow=entry.flow):
            return text
        return self._double(text)

    def _double(self, text: str) -> str:
        """Text in double quotes, with escapes for what is outside of ASCII if the file has none of that."""
        keep = str.isprintable if not self._ascii else str.isascii
        quoted = json.dumps(text, ensure_ascii=False)
        escapes = {char: f"\\u{ord(char):04X}" if char <= "\uffff" else f"\\U{ord(char):08X}" for char in set(quoted)}
        return "".join(char if keep(char) else escapes[char] for char in quoted)

    def _block(self, entry: _Message, raw: str, text: str) -> str:
        """A block: its head stays, and so do the indentation and what follows the last line."""
        head, folded, lines = _HEAD.match(raw), entry.style == ">", text.split("\n")
        indented = any(line[:1].isspace() for line in (lines if folded else lines[:1]))  # no paragraphs in `>`
        fits = not indented and all(map(str.isprintable, lines))
        body = raw[head.end() :] if head else ""
        first = next((line for line in body.split("\n") if line.strip()), "")
        indent = first[: len(first) - len(first.lstrip(" "))]
        if head is None or not indent or re.search(r"\d", head[0].partition("#")[0]) or not fits:
            return self._double(text) + ("\n" if raw.endswith("\n") else "")
        text = text.rstrip("\n")
        lines = (re.sub(r"\n+", r"\g<0>\n", text) if folded else text).split("\n")
        end = "\r\n" if "\r\n" in raw else "\n"
        tail = raw[len(raw.rstrip()) :]
        return head[0] + end.join(indent + line if line else "" for line in lines) + tail


def _place(mark: Any) -> int:
    """Where a mark of PyYAML stands, which has a class with and one without its C part."""
    return int(mark.index)


def _resolved(value: str) -> bool:
    """Whether plain text is a string, no number, date or the like."""
    resolver = yaml.resolver.Resolver()
    return bool(resolver.resolve(yaml.ScalarNode, value, (True, False)) == _TEXT)  # type: ignore[no-untyped-call]


def _reads_plainly(text: str, *, flow: bool) -> bool:
    """Whether text without quotes is read as what it is."""
    if not text.isprintable() or "#" in text or not _resolved(text):
        return False
    try:
        value = yaml.load(f"[{text}]" if flow else f"a: {text}", _loader)
    except (yaml.YAMLError, ValueError):
        return False
    return bool(value == ([text] if flow else {"a": text}))
