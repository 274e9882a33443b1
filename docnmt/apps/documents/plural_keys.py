"""Plural forms that are keys beside each other: `one:` and `other:` of Rails, `key_one` and `key_other` of i18next."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from docnmt.runtime.languages import PLURALS

_FORM = re.compile(rf"(.+)_({'|'.join(PLURALS)})", re.DOTALL)


@dataclass(frozen=True)
class MessageKey:
    """The key of a message: the number of the object that it stands in, its text, and where it begins as written."""

    parent: int
    name: str
    begin: int


def missing_forms(
    keys: Sequence[MessageKey | None], siblings: Mapping[int, Collection[str]], added: Iterable[str]
) -> Iterator[tuple[int, list[str]]]:
    """The messages, by number, that are the form `other`, each with those of `added` that are not beside it.

    Keys that are categories themselves count only where all keys of the object are.

    Args:
        keys: the key of each message. siblings: all keys of each object, those of other values, too.
    """
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
