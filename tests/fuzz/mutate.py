"""Damaged and hostile inputs from good ones. Input N of a reader is the same in every run."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

#: What bytes are replaced by: ends of types, encodings, brackets, and words that formats give a meaning.
TOKENS = [
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\r",
    b"\n\n",
    b"\t",
    b"\x1b[2J",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"99999999999999999999999",
    b"[" * 3000,
    b"{" * 300,
    b'"',
    b"'",
    b"\\ud800",
    b"null",
    b"<p>",
    b"<d>",
    b"</doc>",
    b"&x;",
    b'<!DOCTYPE a [<!ENTITY x "y">]>',
    b'encoding="utf-7"',
    b'encoding="utf-16"',
    b"*a",
    b"&a [",
    b"!!bool x",
    b"2024-02-30",
    b"? ",
    b": ",
    b"- ",
    b"|",
    b"%YAML 9",
    b"<<: ",
    b"\xe2\x80\xa8",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"2 1000000000",
]
#: What a value of JSON is replaced by.
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    10**9,
    10**30,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[2J",
    "../../etc/passwd",
    "\ud800",
    "a" * 5000,
    [],
    [[]],
    [1, 2],
    {},
    {"a": {}},
    [None],
]


def damaged(good: bytes, draw: random.Random) -> bytes:
    """A few random changes to bytes; half of the time, of what is JSON, to its values."""
    if good[:1] in b"{[" and draw.random() < 0.6:
        try:
            value = json.loads(good)
        except ValueError:
            lines = good.split(b"\n")
            number = draw.randrange(len(lines))
            lines[number] = _json(lines[number], draw)
            return b"\n".join(lines)
        return json.dumps(_changed(value, draw)).encode()
    content = good
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        content = _bytes(content, draw)
    return content


def _json(line: bytes, draw: random.Random) -> bytes:
    try:
        return json.dumps(_changed(json.loads(line), draw)).encode()
    except ValueError:
        return _bytes(line, draw)


def _changed(value: Any, draw: random.Random) -> Any:
    """The value with one to three of its parts replaced, taken out, doubled or renamed."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return draw.choice(VALUES)
        container, key = draw.choice(places)
        kind = draw.random()
        if kind < 0.6:
            container[key] = copy.deepcopy(draw.choice(VALUES))
        elif kind < 0.8:
            del container[key]
        elif isinstance(container, list):
            container.insert(key, container[key])
        else:
            container[draw.choice(("", "x", "../x", "a" * 300, key + " "))] = container.pop(key)
    return value


def _places(value: Any) -> Any:
    """Every (container, key) inside of a value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _bytes(content: bytes, draw: random.Random) -> bytes:
    a, b = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    b = min(b, a + draw.choice((1, 2, 8, 100, 100_000)))
    kind = draw.randrange(6)
    if kind == 0 and a < len(content):
        return content[:a] + bytes([content[a] ^ 1 << draw.randrange(8)]) + content[a + 1 :]
    if kind == 1:
        return content[:a] + content[b:]
    if kind == 2:
        return content[:b] + content[a:b] * draw.choice((1, 2, 50)) + content[b:]
    if kind == 3:
        return content[:a]
    if kind == 4:
        return content[:a] + draw.randbytes(draw.choice((1, 4, 9))) + content[b:]
    return content[:a] + draw.choice(TOKENS) + content[b if draw.random() < 0.5 else a :]
