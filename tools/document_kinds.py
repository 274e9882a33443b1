"""The tables of the kinds of documents, for the docs: `groups` for the guide, `kinds` for the reference.

    python tools/document_kinds.py groups
    python tools/document_kinds.py kinds

What is translated of a kind, and what stays, is said by the class that reads it.
"""

from __future__ import annotations

import inspect
import re
import sys

from docnmt.apps.documents.kinds import KINDS, groups, reader_of


def main(which: str) -> None:
    """Print a table."""
    if which == "groups":
        print("| | kinds |\n| --- | --- |")
        for group, endings in groups().items():
            print(f"| {group} | {' '.join(f'`{ending}`' for ending in endings)} |")
        return
    print("| ending | what it is | what is translated | what stays |\n| --- | --- | --- | --- |")
    places: dict[str, list[str]] = {}
    for ending, kind in KINDS.items():
        places.setdefault(kind.place, []).append(ending)
    for endings in places.values():
        said = " ".join((inspect.getdoc(reader_of(endings[0], name="the docs")) or "").split())
        about = re.search(r"Translated: (.*) Stays: (.*)", said)
        assert about is not None, f"{endings[0]}: the class does not say what is translated, and what stays"
        named = [name for ending in endings for name in (ending, *KINDS[ending].others)]
        titles = ", ".join(dict.fromkeys(KINDS[ending].title for ending in endings))
        print(f"| {' '.join(f'`.{name}`' for name in named)} | {titles} | {about[1]} | {about[2]} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
