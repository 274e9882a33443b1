"""Reading of structured files (JSON, YAML), checked against a schema before use.

A schema is a type that msgspec supports: a `Struct`, `dict[str, int]`, … A mismatch is one `UserError` that names
the file and the place in it. Size and depth are limited, so that every file is rejected quickly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from docnmt.runtime.errors import UserError

T = TypeVar("T")

#: Types used in several schemas.
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
Name = Annotated[str, Meta(pattern=r"^[^/\\\0]+$", max_length=255)]
Hex = Annotated[str, Meta(pattern="^[0-9a-f]*$")]
Scalar = bool | int | float | str | None
Value = Scalar | list[Scalar]
_VALUE: Any = Value  # mypy has no type for unions

#: Upper bound of our own files' size; those of others that are read whole have limits of their own.
MOST_BYTES = 1 << 28
#: Upper bound of YAML files, of which PyYAML reads 0.2 MB per second.
MOST_YAML = 1 << 17


class OpenObject(msgspec.Struct):
    """The base of schemas for objects that may have further keys."""


def read_limited(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read the content of a file.

    Raises:
        UserError: the file cannot be read, or is larger than `most` bytes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > most:
        raise UserError(f"{path}: is larger than {most:,} bytes, and no such file is; is it another one?")
    return content


def parse_json(text: str | bytes, where: str, advice: str = "") -> object:
    """Parse a JSON text; NaN and infinities are accepted.

    Args:
        where: the file and the place in it, for messages. advice: how to fix it.

    Raises:
        UserError: the text is not valid JSON, not UTF-8, or too deeply nested.
    """
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")  # json would accept lone surrogates
        value = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair, which no file can store
        return value
    except RecursionError:
        raise UserError(f"{where}: not valid JSON: too many brackets inside each other{_then(advice)}") from None
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise UserError(f"{where}: half a character ({half} without its other half); remove it") from None
    except ValueError as error:
        raise UserError(f"{where}: not valid JSON: {_short(error)}{_then(advice)}") from None


def checked(value: object, schema: type[T], where: str, advice: str = "") -> T:
    """Convert a JSON or YAML value to a schema's type.

    Raises:
        UserError: the value does not fit; the message names the place.
    """
    try:
        return msgspec.convert(value, schema)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UserError(f"{where}: {_short(error)}{_then(advice)}") from None


def read_json(path: Path, schema: type[T], advice: str = "", *, most: int = MOST_BYTES) -> T:
    """Read a JSON file as a schema's type.

    Raises:
        UserError: see `read_limited`, `parse_json` and `checked`.
    """
    return checked(parse_json(read_limited(path, most), str(path), advice), schema, str(path), advice)


def read_yaml(path: Path) -> dict[str, Value]:
    """Read a YAML file of options: `name: value` lines, whose values are scalars or lists of them. Dates are texts.

    Raises:
        UserError: unreadable, larger than `MOST_YAML`, not YAML, nested deeper than a list, aliases, or a key given
            twice.
    """
    import yaml  # not at the top: most commands read none

    class Loader(yaml.SafeLoader):
        """A loader that leaves dates as texts, because they may not exist."""

        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    text = read_limited(path, MOST_YAML)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=Loader):  # event by event, so that a bad one ends it early
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > 2 or isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise UserError(f"{path}:{line}: options are numbers, texts or lists of them")
        root = yaml.compose(text, Loader=Loader)
        keys = [key.value for key, _ in root.value] if isinstance(root, yaml.MappingNode) else []
        content = yaml.load(text, Loader=Loader) if root else {}
    except UserError:
        raise
    except Exception as error:  # PyYAML's constructors raise any error of a conversion like `!!bool x`
        raise UserError(f"{path}: not valid YAML: {_short(error)}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected 'option: value' lines, got a {type(content).__name__}")
    if repeated := sorted({str(key) for key in keys if keys.count(key) > 1}):
        raise UserError(f"{path}: '{repeated[0]}' is there twice; keep one of them")
    if nested := [key for key, value in content.items() if isinstance(value, dict)]:
        raise UserError(f"{path}: '{nested[0]}': expected a value, got a section; do not indent its options")
    return {str(key): checked(value, _VALUE, f"{path}: '{key}'") for key, value in content.items()}


def _short(error: Exception) -> str:
    """Return a message of msgspec or json on one line: `Expected `int`, got `str` - at `$.files[...].bytes``."""
    text = " ".join(str(error).split()).replace("`", "'").replace(" - at '$", ", at '$")
    text = text.removeprefix("Expected")
    return (f"expected{text}" if text != str(error) and text.startswith(" ") else text)[:300]


def _then(advice: str) -> str:
    return f"; {advice}" if advice else ""
