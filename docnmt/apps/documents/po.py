"""PO and POT files with their header, plural forms and character sets."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from translate.lang import data
from translate.storage import pypo

from docnmt.apps.documents.segments import Translated, expect
from docnmt.apps.documents.sentences import MESSAGE, fixed_spans
from docnmt.apps.documents.text import SegmentPlace, Spliced, branches, display_width, read, render, wrapped
from docnmt.runtime.languages import base, check_language, seam, tag
from docnmt.runtime.system import UserError

# The header of a PO file: its language, its charset, and which plural forms there are.

#: Numbers that are tried to learn which form they take.
_TRIED = 201


class _Header:
    """A header whose text stands at `source[begin:end]`, quoted, of a file that is translated into a language."""

    def __init__(self, source: str, begin: int, end: int, text: str, target: str) -> None:
        self._source, self._begin, self._end, self.text, self._target = source, begin, end, text, target
        said = re.search(r"^Language: *([\w@.-]+)", text, re.MULTILINE)
        self.language = said and said[1]
        forms = re.search(r"nplurals\s*=\s*([1-9])\s*;\s*plural\s*=\s*([^;\n]+)", text)
        short = {"no": "nb"}.get(base(target), base(target))
        regions = (name for name in data.languages if name.startswith(f"{short}_"))  # there is no zh
        names = (tag(target).replace("-", "_"), short, *regions)
        known = next((data.languages[name][1:3] for name in names if name in data.languages), None)
        self.empty = forms is None and known is not None  # as in a template: those of the target are known
        number, rule = forms.groups() if forms else known or (2, "n != 1")
        self.plurals, self._rule = int(number), str(rule)

    @cached_property
    def _numbers(self) -> dict[int, set[int]]:
        """For each form some of the numbers that take it."""
        try:
            which = gettext.c2py(self._rule)
            numbers: dict[int, set[int]] = {}
            for number in range(_TRIED):
                numbers.setdefault(int(which(number)), set()).add(number)
        except (ValueError, ArithmeticError, RecursionError):
            return {}
        return numbers

    def source_of(self, form: int, placeholders: Sequence[Sequence[str]]) -> int:
        """Which of a message's texts, the singular or the plural, a form is translated from."""
        if len(placeholders) < 2:
            return 0
        numbers = self._numbers.get(form, set())
        if self.plurals == 1 or (numbers and 1 not in numbers) or (not numbers and form):
            return 1
        return 0 if numbers <= {1} or placeholders[0] == placeholders[1] else 1  # "one file" lacks the number

    def changes(self, has_plurals: bool) -> Iterator[tuple[int, int, str]]:
        """What a template's header says once it is translated."""
        quoted = self._source[self._begin : self._end]
        new = re.sub(r'(?<="Language:)[ \t]*(?=\\n")', f" {tag(self._target).replace('-', '_')}", quoted)
        new = new.replace("charset=CHARSET", "charset=UTF-8")
        if self.empty:
            line = f"nplurals={self.plurals}; plural={self._rule};"
            new, there = re.subn(r'(?<="Plural-Forms:)[^"]*?(?=\\n")', lambda _: f" {line}", new)
            if has_plurals and not there and self.text:
                new += ("\r\n" if "\r\n" in self._source else "\n") + f'"Plural-Forms: {line}\\n"'
        if new != quoted:
            yield self._begin, self._end, new
            fuzzy = re.search(r"^#, fuzzy\r?\n(?=(?:#[^\n]*\n)*msgid)", self._source[: self._begin], re.MULTILINE)
            if fuzzy is not None:
                yield fuzzy.start(), fuzzy.end(), ""


# PO: messages and their translations; those without one get it, the rest of the file stays byte for byte.

#: What a header says behind `Content-Type:`, in one line of the file or in two.
_CHARSET = re.compile(rb"""[^"\n]*?(?:"\s*"[^"\n]*?)?charset=([\w.:-]+)""")
_LINE = re.compile(
    r'^\ufeff?(?:(msgid|msgctxt)[ \t]*(?=")|msgstr(?:\[(\d{1,9})\])?[ \t]*(?="))?[ \t]*"(?:[^"\\\n]|\\.)*"[ \t]*\r?$',
    re.MULTILINE,
)
_SENTENCE_END = ".!?:;…。！？：；"
#: Messages and contexts of GNOME and KDE that stand for who has translated, which only they can say.
_CREDITS = frozenset(
    {"translator-credits", "translator_credits", "translators-credits", "NAME OF TRANSLATORS", "EMAIL OF TRANSLATORS"}
)


@dataclass(frozen=True)
class _Message(SegmentPlace):
    """A message; `width`: of its lines, if some breaks only fill lines; `before`: what is written before a new form."""

    width: int = 0
    before: str = ""


class Po(Spliced):
    """A file of messages of GNU gettext.

    Translated: messages and plural forms with an empty `msgstr`
    Stays: every other byte; `translator-credits` and the like, which are named; fuzzy messages keep their text and stay
    fuzzy; the header of a template (`.pot`) gets language, charset and plural forms of the target
    """

    bilingual = True

    def _decoded(self) -> str:
        headers = self.content[:8192].split(b"Content-Type:")[1:]
        said = next((match for match in map(_CHARSET.match, headers) if match), None)
        if said and said[1] != b"CHARSET":
            self.encoding = said[1].decode("ascii")
        return super()._decoded()

    def read_places(self) -> Iterator[SegmentPlace]:
        expect(texts=len(re.findall(r"^msgid[ \t]", self.source, re.MULTILINE)) - 1)  # one is the header
        places = list(self._translations())
        units = self._units()
        if len(units) != len(places):
            raise UserError(f"{self.name}: {len(units)} messages, but {len(places)} with a msgstr; was it cut off?")
        headers = [(unit, forms) for unit, forms in zip(units, places, strict=True) if unit.isheader() and 0 in forms]
        text, (begin, end) = (str(headers[0][0].target), headers[0][1][0]) if headers else ("", (0, 0))
        self._header = _Header(self.source, begin, end, text, self.languages[1])
        check_language(self._header.language, self.languages[1], file=self.name, what="Language")
        for number, (unit, forms) in enumerate(zip(units, places, strict=True)):
            if not forms:  # as with two strings in a line
                self.left.append(f"message {number + 1}, whose msgstr is not found")
            elif str(unit.source).strip() in _CREDITS or str(unit.getcontext()).strip() in _CREDITS:
                if not str(unit.target):
                    self.left.append(f"message {number + 1}, which stands for the names of the translators")
            elif not unit.isheader():
                yield from self._message(unit, forms, ("0", str(number)))

    def _message(
        self, unit: pypo.pounit, forms: Mapping[int, tuple[int, int]], units: tuple[str, str]
    ) -> Iterator[_Message]:
        """A message's forms, as many as the file's language has."""
        sources, targets = _strings(unit.source), _strings(unit.target)
        said = (flag.strip() for line in unit.typecomments for flag in line.lstrip("#,").split(","))
        flags = (MESSAGE, *said)
        last = max(end for _, end in forms.values())
        wanted = sorted(forms)
        if len(sources) > 1 and self._header.text:
            has = range(self._header.plurals)
            wanted = [*has] if self._header.empty else sorted({*has, *forms})
        final = max(wanted, key=lambda form: forms.get(form, (last, last)))  # a file may have them in any order
        for form in wanted:
            begin, end = forms.get(form, (last, last))
            before = "" if form in forms else f"{self._line_end}msgstr[{form}] "
            if form == final:
                end = last  # of forms that the language does not have nothing stays
            fixed = [sorted(text[b:e] for b, e in fixed_spans(text, flags)) for text in sources]
            source = sources[self._header.source_of(form, fixed)]
            inline = read(source, _hard, breaks=branches(source))
            translation = read(targets[form] if form < len(targets) else "", _hard).segment().text
            segment = inline.segment(translation=translation or None, units=units, flags=flags)
            soft = source.count("\n") - sum(raw.count("\n") for raw, _ in inline.payloads)
            width = max(map(display_width, source.split("\n"))) if soft > 0 else 0
            yield _Message(segment, begin, end, inline.payloads, width, before)

    def _units(self) -> list[pypo.pounit]:
        source = re.sub(r"(?<=charset=)[\w.:-]+", "UTF-8", self.source, count=1)  # the toolkit reads what it is told
        try:
            store = pypo.pofile.parsestring(source.encode())
        except Exception as error:  # the toolkit raises what it likes
            raise UserError(f"{self.name}: cannot be read as PO: {' '.join(str(error).split())}") from error
        return [unit for unit in store.units if not unit.isobsolete() and (unit.msgid or unit.isheader())]

    def _translations(self) -> Iterator[dict[int, tuple[int, int]]]:
        """For each message the places of its translations, by number: the strings behind `msgstr` or `msgstr[N]`."""
        spans: dict[int, tuple[int, int]] | None = None
        form: int | None = None
        for match in _LINE.finditer(self.source):
            keyword = match[0].split('"')[0].strip("\ufeff \t")
            begin = match.start() + match[0].index('"')
            end = match.start() + len(match[0].rstrip())
            if keyword == "msgid":
                if spans is not None:
                    yield spans
                spans, form = {}, None
            elif keyword == "msgctxt":  # of the next message
                form = None
            elif keyword.startswith("msgstr") and spans is not None:
                form = int(match[2] or 0)
                spans[form] = begin, end
            elif not keyword and spans is not None and form is not None:
                spans[form] = spans[form][0], end
        if spans is not None:
            yield spans

    def _settings(self) -> Iterable[tuple[int, int, str]]:
        return self._header.changes(bool(re.search(r"^msgid_plural", self.source, re.MULTILINE)))

    def _encoded(self, text: str) -> bytes:
        """In the file's encoding, or else in UTF-8, which its header then says."""
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError:
            return text.replace(f"charset={self.encoding}", "charset=UTF-8", 1).encode()

    def rendered(self, place: SegmentPlace, text: Translated) -> str:
        before = ""
        if isinstance(place, _Message):
            before = place.before
            if place.width:
                text = wrapped(text, place.width)
        lines = pypo.quoteforpo(render(place, text, str))
        return before + (self._line_end.join(lines) or '""')

    @cached_property
    def _line_end(self) -> str:
        return "\r\n" if "\r\n" in self.source else "\n"


def _strings(text: object) -> list[str]:
    return [str(string) for string in getattr(text, "strings", [text])]


def _hard(space: re.Match[str]) -> bool:
    """Whether white space has a meaning: at the ends, indented, wide, or a line break that ends more than a line."""
    text, (begin, end) = space.string, space.span()
    if begin == 0 or end == len(text) or "\t" in space[0]:
        return True
    if "\n" not in space[0]:
        return len(space[0]) > 2
    goes_on = text[end].islower() or not seam(text[max(0, begin - 9) : begin], text[end : end + 9])
    return not (space[0] == "\n" and text[begin - 1] not in _SENTENCE_END and goes_on)
