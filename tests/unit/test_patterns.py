"""Every regular expression of the package takes time in proportion to the text, whatever the text repeats."""

from __future__ import annotations

import ast
import builtins
import importlib
import pkgutil
import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import docnmt
from docnmt.apps.documents import sentences as placeholders

try:
    from re import _constants as codes
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as codes
    import sre_parse as parser

#: What `re` and its patterns can be asked to do, and how each reads a text: from its beginning or from everywhere.
ANCHORED = {"match": "match", "fullmatch": "fullmatch"}
CALLS = {*ANCHORED, "search", "sub", "subn", "split", "finditer", "findall"}
EVERY = ("match", "fullmatch", "finditer")
#: Characters that a text repeats, beside those that a pattern names.
USUAL = "a1 \n\"'.-<>{}/*:_\\é中"
#: What stands behind the repetitions, so that a match fails late.
TAILS = ("\0", "\n!")
#: Lengths of texts: exponential time shows with `FEW` characters, the square with `MANY` against the same in parts.
FEW, SOME, PARTS = 64, 1_024, 16
#: Seconds of the clock: linear patterns take less than 0.2 ms for `SOME` characters, quadratic ones more than 0.6 ms.
SUSPICIOUS = 0.0005
#: Seconds of processor time: quadratic patterns take more for `SOME * PARTS` characters, and at most so long is waited.
CERTAIN, LIMIT = 0.06, 1.0
#: So many characters at once may take so many times as long as in parts; the square is `PARTS` times.
RATIO = 3
LISTS = (codes.MAX_REPEAT, codes.MIN_REPEAT, getattr(codes, "POSSESSIVE_REPEAT", None))
CATEGORIES: dict[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_NOT_DIGIT: lambda sign: not sign.isdigit(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda sign: not sign.isspace(),
    codes.CATEGORY_WORD: lambda sign: sign.isalnum() or sign == "_",
    codes.CATEGORY_NOT_WORD: lambda sign: not (sign.isalnum() or sign == "_"),
}
Pattern = re.Pattern[Any]
Use = tuple[Pattern, str]
#: Patterns that functions make of what they are given, as they are for typical arguments.
MADE = [placeholders.pattern(flags) for flags in ((), ("c-format", "python-format", "python-brace-format"))]


class Unknown(str):
    """Stands for what a function is given, in an expression that makes a pattern."""

    def __getattr__(self, name: str) -> Unknown:
        return self

    def __call__(self, *given: object, **named: object) -> Unknown:
        return self


class Names(dict[str, Any]):
    """The names of a module; those that only a function has are unknown."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Unknown("ab"))


def within(value: object, depth: int = 0) -> Iterator[Pattern]:
    """The patterns in a value of a module, a class or a container."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from within(item, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        yield from within([*value.values()], depth + 1)
    elif depth < 4 and type(value).__module__.startswith("docnmt"):
        yield from within(getattr(value, "__dict__", {}), depth + 1)
    elif depth < 4 and isinstance(value, type) and value.__module__.startswith("docnmt"):
        yield from within([*vars(value).values()], depth + 1)


def uses(module: ModuleType) -> Iterator[Use]:
    """The patterns of a module and how its code uses them; a pattern that it hands on is used in every way."""
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    names = {name: [*within(value)] for name, value in vars(module).items() if not name.startswith("__")}
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            if isinstance(name, ast.Name) and node.attr in {*CALLS, "pattern"}:
                called.add(name)
                for pattern in within(vars(module).get(name.id)) if node.attr in CALLS else ():
                    yield pattern, ANCHORED.get(node.attr, "finditer")
        if isinstance(node, ast.Compare):
            called.update(name for name in node.comparators if isinstance(name, ast.Name))  # `sign in _ENDS`
        called_as = ast.unparse(node.func).partition(".") if isinstance(node, ast.Call) else ("", "", "")
        if isinstance(node, ast.Call) and called_as[0] == "re" and called_as[2] in {*CALLS, "compile"}:
            for pattern in made(node, module):
                if called_as[2] in CALLS:
                    yield pattern, ANCHORED.get(called_as[2], "finditer")
                elif not any(pattern in patterns for patterns in names.values()):
                    yield from ((pattern, way) for way in EVERY)
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    handed = {node.id for node in loads if node not in called}
    for name, patterns in names.items():
        if name in handed or isinstance(vars(module)[name], type):
            yield from ((pattern, way) for pattern in patterns for way in EVERY)


def made(call: ast.Call, module: ModuleType) -> Iterator[Pattern]:
    """The pattern of a call such as `re.search("a+", text)`, whose first argument may be one of two."""
    names = Names(vars(module))

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "pattern", "eval"), {}, names)

    flags = value(call.args[1]) if len(call.args) == 2 and ast.unparse(call.func) == "re.compile" else 0
    flags = next((value(word.value) for word in call.keywords if word.arg == "flags"), flags)
    first = call.args[0]
    for node in (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,):
        try:
            yield re.compile(value(node), 0 if isinstance(flags, Unknown) else flags)
        except NameError:  # in a comprehension, whose values the module has
            assert any(True for item in vars(module).values() for _ in within(item))


def every_use() -> dict[Use, str]:
    """All patterns of the package and how they are used, with one of the modules that do."""
    known: dict[Use, str] = {(pattern, way): "placeholders" for pattern in MADE for way in EVERY}
    for info in pkgutil.walk_packages(docnmt.__path__, "docnmt."):
        if not info.name.startswith("docnmt.functional.kernels"):  # they need a card
            for use in uses(importlib.import_module(info.name)):
                known.setdefault(use, info.name)
    return known


class Parts:
    """The parts of a pattern: strings that they match, and what stands before each part that repeats."""

    def __init__(self, pattern: Pattern) -> None:
        text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin1")
        flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
        tree = parser.parse(text, flags)
        self.signs = list(dict.fromkeys([*self._literals(tree), *USUAL]))[:28]
        self.before, self.strings = {"": None}, dict[str, None]()
        self._groups: dict[int, str] = defaultdict(str)
        self._seen: dict[int, list[str]] = {}
        self.repeats = False
        self._note(self._sequence(tree, ""))

    def texts(self) -> list[tuple[str, str]]:
        """Pairs of a beginning and of what is repeated behind it."""
        beginnings = [text for text in sorted(self.before, key=len) if len(text) < 80][:8]
        strings = [text for text in sorted([*self.strings, *beginnings], key=len) if 1 < len(text) < 80][:16]
        pairs = ["".join(pair) for pair in product(self.signs[:6], repeat=2)]
        parts = dict.fromkeys([*self.signs, *strings])
        ends = product(("", beginnings[-1]), pairs)
        return [*dict.fromkeys([*product(beginnings, parts), *ends])]

    def _literals(self, tree: Sequence[Any]) -> Iterator[str]:
        for code, value in tree:
            if code in (codes.LITERAL, codes.NOT_LITERAL):
                yield chr(value)
            elif code is codes.RANGE:
                yield from map(chr, value)
            elif code is codes.IN:
                yield from self._literals([item for item in value if item[0] in (codes.LITERAL, codes.RANGE)])
            else:
                for part in self._inside(code, value):
                    yield from self._literals(part)

    @staticmethod
    def _inside(code: Any, value: Any) -> list[Any]:
        """The sequences in a node of the tree."""
        if code in LISTS:
            return [value[2]]
        if code is codes.SUBPATTERN:
            return [value[3]]
        if code is codes.BRANCH:
            return list(value[1])
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            return [value[1]]
        return [part for part in value[1:] if part] if code is codes.GROUPREF_EXISTS else []

    def _sequence(self, tree: Sequence[Any], before: str) -> list[str]:
        """Strings that a sequence matches, without what it looks ahead or back for."""
        strings = [""]
        for code, value in tree:
            strings = ["".join(pair) for pair in islice(product(strings, self._node(code, value, before, strings)), 4)]
        return strings

    def _node(self, code: Any, value: Any, before: str, strings: Sequence[str]) -> list[str]:
        """Strings that a node matches; what it repeats, and the beginnings of that, are noted."""
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            usual = [sign for sign in self.signs if self._matches(code, value, sign)]
            ranges = [chr(item[1][0]) for item in value if item[0] is codes.RANGE] if code is codes.IN else []
            return [*usual[:1], *[sign for sign in usual[1:] if sign in " \n'\"-."][:2]] or ranges[:1] or ["a"]
        if code is codes.GROUPREF:
            return [self._groups[value]]
        parts = [self._sequence(part, before + strings[0]) for part in self._inside(code, value)]
        if code in LISTS:
            least, most, _ = value
            self.repeats |= most is codes.MAXREPEAT or most >= 20
            self.before.update(dict.fromkeys(before + string for string in strings[:2]))
            self._note(parts[0])
            return [*(text * max(least, 1) for text in parts[0][:2]), *([] if least else [""])]
        for part in parts:
            self._note(part)
        if code is codes.SUBPATTERN:
            self._groups[value[0]] = parts[0][0]
            return parts[0]
        return [part[0] for part in parts][:6] if code is codes.BRANCH else [""]

    def _note(self, strings: Sequence[str]) -> None:
        self.strings.update(dict.fromkeys(filter(None, strings)))

    def _matches(self, code: Any, value: Any, sign: str) -> bool:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            return (ord(sign) == value) == (code is codes.LITERAL)
        if code is codes.ANY:
            return sign != "\n"
        negated = value[0][0] is codes.NEGATE
        return negated != any(
            CATEGORIES[item](sign)
            if kind is codes.CATEGORY
            else item[0] <= ord(sign) <= item[1]
            if kind is codes.RANGE
            else kind is codes.LITERAL and item == ord(sign)
            for kind, item in value
        )


class TooLong(BaseException):
    """A pattern has taken all the time that it may."""


def seconds(read: Callable[[Any], object], text: str | bytes, *, times: int = 1, clock: Callable[[], float]) -> float:
    """How long it takes to read a text so many times; `re` heeds signals while it matches, and so can be stopped."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    begun = clock()
    try:
        for _ in range(times):
            read(text)
    except TooLong:
        return LIMIT
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return clock() - begun


def grows(pattern: Pattern, way: str) -> str | None:
    """The first text for which a pattern takes more than linear time."""
    parts = Parts(pattern)
    if not parts.repeats:
        return None

    def read(text: Any) -> object:
        return sum(1 for _ in pattern.finditer(text)) if way == "finditer" else getattr(pattern, way)(text)

    def built(before: str, repeated: str, tail: str, length: int) -> str | bytes:
        text = before + repeated * (length // len(repeated)) + tail
        return text if isinstance(pattern.pattern, str) else text.encode("latin1", "replace")

    for (before, repeated), tail in product(parts.texts(), TAILS):
        few, some = (built(before, repeated, tail, length) for length in (FEW, SOME))
        if all(seconds(read, few, clock=clock) > CERTAIN for clock in (time.perf_counter, time.process_time)):
            return f"{way} of {before!r} + {repeated!r} * n + {tail!r} takes exponential time: {pattern.pattern!r}"
        if any(seconds(read, some, clock=time.perf_counter) < SUSPICIOUS for _ in range(3)):
            continue
        many = built(before, repeated, tail, SOME * PARTS)
        if any(seconds(read, many, clock=time.process_time) < CERTAIN for _ in range(3)):
            continue
        whole = min(seconds(read, many, clock=time.process_time) for _ in range(2))
        parted = min(seconds(read, some, times=PARTS, clock=time.process_time) for _ in range(3))
        if whole >= LIMIT or whole > RATIO * parted:
            told = f"{whole:.2f} s at once and {parted:.2f} s in {PARTS} parts"
            return f"{way} of {before!r} + {repeated!r} * n + {tail!r} takes {told}: {pattern.pattern!r}"
    return None


@pytest.fixture
def stopped() -> Iterator[None]:
    """What takes too long raises `TooLong`."""

    def stop(number: int, frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    yield
    signal.signal(signal.SIGPROF, before)


@pytest.mark.slow  # what finds them, not they
def test_a_pattern_that_backtracks_is_found(stopped: None) -> None:
    """The patterns of this test were the package's own once; the others are linear."""
    comments, lines = re.compile(r"\{(?:\s*/\*.*?\*/)+\s*\}", re.DOTALL), re.compile(r"(\s*\n\s*)")
    assert grows(comments, "fullmatch") is not None
    assert grows(lines, "finditer") is not None
    assert grows(re.compile(rb"Content-Type:[^\"\n]*(?:\"\s*\")?[^\"\n]*?charset=([\w.:-]+)"), "match") is not None
    for linear in (r"[^<&]+|&\w{1,9};?|[<&]", r"(?<!\w)\w+:", '"(?:[^"\\\\]|\\\\.)*"'):
        assert grows(re.compile(linear), "match") is None


@pytest.mark.parametrize("part", range(4))
def test_every_pattern_takes_linear_time(part: int, stopped: None) -> None:
    """In four parts, for as many processes."""
    known = every_use()
    assert len({pattern for pattern, _ in known}) > 150
    mine = list(known.items())[part::4]
    slow = [f"{module}: {text}" for (pattern, way), module in mine if (text := grows(pattern, way))]
    assert not slow, "\n" + "\n".join(slow)
