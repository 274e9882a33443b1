"""What a translation must leave alone in catalogues and subtitles, by readers that are not docnmt's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import yaml
from translate.storage.properties import javautf8file, propfile, stringsfile, stringsutf8file

JSX = re.compile(r"</?[A-Za-z][^<>{}]*>|^(?:import|export) .*", re.MULTILINE)


def flat(value: Any, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:  # whatever JSON and YAML hold
    """The keys of nested values, with what is no text; a language as the only key may be another one."""
    if isinstance(value, dict):
        alone = not path and len(value) == 1
        return [keys for key, inside in value.items() for keys in flat(inside, (*path, "" if alone else key))]
    if isinstance(value, list):
        return [keys for number, inside in enumerate(value) for keys in flat(inside, (*path, number))]
    return [(*path, None if isinstance(value, str) and path[-1:] != ("@@locale",) else value)]


def of_json(content: bytes) -> object:
    """Keys, order and other values, by Python's reader."""
    return flat(json.loads(content.decode("utf-8-sig")))


def of_yaml(content: bytes) -> object:
    """Keys, order and other values, by PyYAML's constructor, without tags; and what stands between all scalars; nothing
    of what PyYAML does not read."""
    source, position, between = content.decode("utf-8-sig"), 0, list[str]()
    try:
        events = list(yaml.parse(source, yaml.SafeLoader))
    except yaml.YAMLError:
        return None
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            between += source[position : event.start_mark.index].split()
            position = event.end_mark.index
    untagged = re.sub(r"(?<=[:\-] )!{1,2}\w\S*", "", source)
    try:
        values = [flat(value) for value in yaml.load_all(untagged, yaml.SafeLoader)]
    except yaml.YAMLError:  # Python has no such keys
        values = []
    return [*values, *between, *source[position:].split()]


def of_pairs(*stores: Callable[[], Any]) -> Callable[[bytes], object]:  # the toolkit has no types
    """Keys in order, by the Translate Toolkit's first reader that takes a file."""

    def keys(content: bytes) -> object:
        for store in stores:
            opened = store()
            try:
                opened.parse(content)
            except (OSError, ValueError):
                continue
            return [(unit.name, tuple(unit.comments)) for unit in opened.units if unit.name]
        return None

    return keys


def of_strings(content: bytes) -> object:
    """As pairs; the toolkit reads no key of several lines."""
    whole = re.compile(rb'^"(?:[^"\\]|\\.)*"\s*=\s*"(?:[^"\\]|\\.)*"\s*;', re.MULTILINE | re.DOTALL)
    return of_pairs(stringsutf8file, stringsfile)(whole.sub(lambda pair: pair[0].replace(b"\n", b"\\n"), content))


def of_ass(content: bytes) -> object:
    """All lines, of dialogue the fields before its text, as many as the last line of `Format` says."""
    rows, fields = list[object](), 9
    for line in content.decode("utf-8", "replace").splitlines():
        fields = line.count(",") if line.startswith("Format:") else fields
        rows.append(line.split(",")[:fields] if line.startswith("Dialogue:") else line)
    return rows


def of_mdx(content: bytes) -> object:
    """Tags without expressions, imports and exports, in whatever order; fenced code."""
    text = content.decode("utf-8", "replace")
    return [*sorted(JSX.findall(text)), *re.findall(r"^ *```.*?^ *```", text, re.MULTILINE | re.DOTALL)]


CATALOGUES: dict[str, Callable[[bytes], object]] = {
    "json": of_json, "yaml": of_yaml, "properties": of_pairs(javautf8file, propfile), "ass": of_ass, "mdx": of_mdx,
    "strings": of_strings,
}  # fmt: skip
