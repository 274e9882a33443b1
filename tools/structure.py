#!/usr/bin/env python
"""What the package measures: lines, `Any`, and public definitions without a docstring.

    python tools/structure.py [FOLDER] [--list]

The core is the package without `apps/` and `other_tasks/`, which use it. `Any` counts the
lines with `: Any` or `-> Any`. Public definitions are functions and methods, wherever they stand, whose names have no
leading underscore. `--list` names the lines and the definitions.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

ANY = re.compile(r"(:|->) Any\b")
OTHER = re.compile(r"(apps|other_tasks)/")


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods of a module that are public by their own names."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield node


def code_lines(text: str) -> int:
    """Lines of a module without docstrings, comments and empty lines."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        has_body = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if has_body and ast.get_docstring(node):
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    stripped = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in documented]
    return sum(bool(line) and not line.startswith("#") for line in stripped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parents[1] / "docnmt")
    parser.add_argument("--list", action="store_true", help="also name every line and definition that counts")
    arguments = parser.parse_args()
    files = {str(path.relative_to(arguments.folder)): path.read_text() for path in arguments.folder.rglob("*.py")}
    lines = {name: len(text.splitlines()) for name, text in files.items()}
    untyped = [
        f"{name}:{number}: {line.strip()}"
        for name, text in sorted(files.items())
        for number, line in enumerate(text.splitlines(), 1)
        if ANY.search(line)
    ]
    public = [(name, node) for name, text in sorted(files.items()) for node in functions(ast.parse(text))]
    bare = [f"{name}:{node.lineno}: {node.name}" for name, node in public if not ast.get_docstring(node)]
    rows = {
        "entries of the package": len({name.split("/")[0] for name in files} | {"py.typed"}),
        "files": len(files),
        "lines": sum(lines.values()),
        "… of the core": sum(n for name, n in lines.items() if not OTHER.match(name)),
        "… without docstrings, comments and empty lines": sum(map(code_lines, files.values())),
        "lines with `: Any` or `-> Any`": len(untyped),
        "public definitions": len(public),
        "… without a docstring": len(bare),
    }
    print("| | |\n| --- | --- |")
    print("\n".join(f"| {what} | {number:,} |" for what, number in rows.items()))
    if arguments.list:
        print("\n".join(["", *untyped, "", *bare]))


if __name__ == "__main__":
    main()
