"""Every regular expression of the package takes time in proportion to the text, whatever the text repeats."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import pkgutil
import re
import signal
import time
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

import docnmt
from docnmt.apps.documents import sentences as placeholders

#: How a pattern reads a text: from its beginning or from everywhere.
ANCHORED, CALLS = ("match", "fullmatch"), ("search", "sub", "subn", "split", "finditer", "findall")
EVERY = (*ANCHORED, "finditer")
#: Characters that a text repeats, beside those that a pattern names.
USUAL = "a1 \n\"'.-<>{}/*:_\\é中"
#: What stands behind the repetitions, so that a match fails late.
TAILS = ("\0", "\n!")
#: Lengths of texts: the square shows with `PARTS` times `SOME` characters against as many in parts.
SOME, PARTS = 1_024, 8
#: Seconds of the clock: linear patterns take less than 0.2 ms for `SOME` characters, quadratic ones more than 0.6 ms.
SUSPICIOUS = 0.0005
#: Seconds of processor time: quadratic patterns take more for `SOME * PARTS` characters, and at most so long is waited.
CERTAIN, LIMIT = 0.02, 1.0
#: So many characters at once may take so many times as long as in parts; the square is `PARTS` times.
RATIO = 3
Pattern = re.Pattern[Any]
Use = tuple[Pattern, str]
#: Patterns that functions make of what they are given, as they are for typical arguments.
FLAGS = ("message", "c-format", "python-format", "python-brace-format")
MADE = [placeholders.pattern(FLAGS), re.compile(placeholders._PERCENTS, re.VERBOSE)]


class Names(dict[str, Any]):
    """The names of a module; what only a function is given is `ab`."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, "ab")


def within(value: object, depth: int = 0) -> Iterator[Pattern]:
    """The patterns in a value of a module, a class or a container."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset, dict)) and depth < 4:
        for item in value.values() if isinstance(value, dict) else value:
            yield from within(item, depth + 1)
    elif (value if isinstance(value, type) else type(value)).__module__.startswith("docnmt") and depth < 4:
        yield from within([*getattr(value, "__dict__", {}).values()], depth + 1)


def uses(module: ModuleType) -> Iterator[Use]:
    """The patterns of a module and how its code uses them; one that it hands on, or has in a class, in every way."""
    nodes = [*ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8")))]
    called, named = {}, {*within([*vars(module).values()])}

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "pattern", "eval"), {}, Names(vars(module)))

    for node in nodes:
        if isinstance(node, ast.Attribute):
            called[node.value.value if isinstance(node.value, ast.Subscript) else node.value] = node.attr
        if isinstance(node, ast.Compare):
            called |= dict.fromkeys(node.comparators, "pattern")  # `sign in _ENDS`
        room, _, way = ast.unparse(node.func).partition(".") if isinstance(node, ast.Call) else ("", "", "")
        if isinstance(node, ast.Call) and room == "re" and way in (*EVERY, *CALLS, "compile"):
            first, more = node.args[0], node.args[1:] if way == "compile" else []
            more = [*more, *(word.value for word in node.keywords if word.arg == "flags")]
            for text in (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,):
                with contextlib.suppress(NameError, AttributeError, TypeError):  # made of an object
                    pattern = re.compile(value(text), *map(value, more))
                    ways = (way,) if way in ANCHORED else ("finditer",) if way in CALLS else EVERY
                    yield from product([pattern] if way != "compile" or pattern not in named else [], ways)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            way = called.get(node, "any")
            ways = (way,) if way in ANCHORED else ("finditer",) if way in CALLS else () if way == "pattern" else EVERY
            yield from product(within(vars(module).get(node.id)), ways)
    for value in vars(module).values():
        if isinstance(value, type):
            yield from product(within(value), EVERY)


def every_use() -> dict[Use, str]:
    """All patterns of the package and how they are used, with one of the modules that do."""
    known: dict[Use, str] = dict.fromkeys(product(MADE, EVERY), "placeholders")
    for info in pkgutil.walk_packages(docnmt.__path__, "docnmt."):
        if not info.name.startswith("docnmt.functional.kernels"):  # they need a card
            for use in uses(importlib.import_module(info.name)):
                known.setdefault(use, info.name)
    return known


class Parts:
    """The parts of a pattern: strings that they match, and what stands before each part that repeats."""

    def __init__(self, pattern: Pattern) -> None:
        text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin1")
        self.flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
        self.tree = parser.parse(text, self.flags)
        self.signs = list(dict.fromkeys([*self._literals(self.tree), *USUAL]))[:28]
        self.before, self.strings, self.groups, self.repeats = {"": None}, dict[str, None](), dict[Any, Any](), False
        self.strings |= dict.fromkeys(self._sequence(self.tree, ""))

    def texts(self) -> list[tuple[str, str]]:
        """Pairs of a beginning and of what is repeated behind it."""
        beginnings = [text for text in sorted(self.before, key=len) if len(text) < 80][:8]
        strings = [text for text in sorted([*self.strings, *beginnings], key=len) if 1 < len(text) < 80][:16]
        pairs = ["".join(pair) for pair in product(self.signs[:6], repeat=2)]
        parts = dict.fromkeys([*self.signs, *strings])
        return [*dict.fromkeys([*product(beginnings, parts), *product(("", beginnings[-1]), pairs)])]

    def _literals(self, part: Any) -> Iterator[str]:
        if isinstance(part, tuple) and part and part[0] in (codes.LITERAL, codes.NOT_LITERAL, codes.RANGE):
            yield from map(chr, part[1] if part[0] is codes.RANGE else part[1:])
        elif isinstance(part, (tuple, list, parser.SubPattern)):
            for inside in part:
                yield from self._literals(inside)

    def _sequence(self, tree: Any, before: str) -> list[str]:
        """Strings that a sequence matches, without what it looks ahead or back for."""
        strings = [""]
        for node in tree:
            strings = ["".join(pair) for pair in islice(product(strings, self._node(*node, before, strings)), 4)]
        return strings

    def _node(self, code: Any, value: Any, before: str, strings: list[str]) -> list[str]:
        """Strings that a node matches; what it repeats, and the beginnings of that, are noted."""
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            one = compiler.compile(parser.SubPattern(self.tree.state, [(code, value)]), self.flags)
            usual = [sign for sign in self.signs if one.fullmatch(sign)]
            return [*usual[:1], *[sign for sign in usual[1:] if sign in " \n'\"-."][:2]] or ["a"]
        values = value if isinstance(value, tuple) else ()
        inside = [part for entry in values for part in (entry if isinstance(entry, list) else [entry])]
        parts = [self._sequence(p, before + strings[0]) for p in inside if isinstance(p, parser.SubPattern)]
        for part in parts:
            self.strings |= dict.fromkeys(part)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, _ = value
            self.repeats |= most is codes.MAXREPEAT or most >= 20
            self.before |= dict.fromkeys(before + string for string in strings[:2])
            return [*(text * max(least, 1) for text in parts[0][:2]), *([] if least else [""])]
        if code is codes.SUBPATTERN:
            self.groups[value[0]] = parts[0][:1]
            return parts[0]
        if code is codes.GROUPREF:
            return self.groups[value]
        return [part[0] for part in parts][:6] if code is codes.BRANCH else [""]


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

    def read(text: Any) -> object:
        return sum(1 for _ in pattern.finditer(text)) if way == "finditer" else getattr(pattern, way)(text)

    def built(length: int) -> str | bytes:
        text = before + repeated * (length // len(repeated)) + tail
        return text if isinstance(pattern.pattern, str) else text.encode("latin1", "replace")

    for (before, repeated), tail in product(parts.texts() if parts.repeats else (), TAILS):
        some, many = built(SOME), built(SOME * PARTS)
        if any(seconds(read, some, clock=time.perf_counter) < SUSPICIOUS for _ in range(2)):
            continue
        for _ in range(3):  # what else the machine does may disturb one of them
            whole = seconds(read, many, clock=time.process_time)
            if whole < CERTAIN or whole < min(LIMIT, RATIO * seconds(read, some, times=PARTS, clock=time.process_time)):
                break
        else:
            return f"{way} of {before!r} + {repeated!r} * n + {tail!r} takes {whole:.2f} s: {pattern.pattern!r}"
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


@pytest.mark.parametrize("part", range(2))
def test_every_pattern_takes_linear_time(part: int, stopped: None) -> None:
    """In two parts, for as many processes."""
    known = every_use()
    assert len({pattern for pattern, _ in known}) > 150
    mine = list(known.items())[part::2]
    slow = [f"{module}: {text}" for (pattern, way), module in mine if (text := grows(pattern, way))]
    assert not slow, "\n" + "\n".join(slow)
