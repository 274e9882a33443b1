"""Imports flow one way: rooms from the rooms above them, chapters in no circle, no torch where it would be slow."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "docnmt"
PAGE = (ROOT / "docs" / "reference" / "architecture.md").read_text(encoding="utf-8")
CHAPTERS = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
#: The rooms in the first table of architecture.md, top first.
ROOMS = [
    re.findall(r"`([^`]+)`", line)[0].strip("/").removesuffix(".py")
    for line in PAGE.partition("| room |")[2].partition("\n\n")[0].splitlines()[2:]
]


@cache
def imported(path: str, *, at_the_top: bool) -> tuple[set[str], set[str]]:
    """The chapters that a chapter imports, and the packages of others; `at_the_top`: when it is imported itself."""
    tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    chapters: set[str] = set()
    packages: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo += node.orelse
            continue
        if at_the_top and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "docnmt":
                chapters |= chapter_of(name)
            else:
                packages.add(name.split(".")[0])
    return chapters - {path}, packages


def chapter_of(name: str) -> set[str]:
    """The chapter in which a dotted name stands."""
    parts = name.split(".")[1:]
    for end in range(len(parts), 0, -1):
        for path in ("/".join(parts[:end]) + ".py", "/".join([*parts[:end], "__init__.py"])):
            if path in CHAPTERS:
                return {path}
    return {"__init__.py"}


def reached(path: str) -> set[str]:
    """The chapters that are imported when a chapter is, with itself if it is in a circle."""
    seen: set[str] = set()
    todo = [path]
    while todo:
        for chapter in imported(todo.pop(), at_the_top=True)[0] - seen:
            seen.add(chapter)
            todo.append(chapter)
    return seen


def room(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def test_the_page_has_every_room_and_every_chapter() -> None:
    assert set(ROOMS) == {room(path) for path in CHAPTERS} - {"__init__", "__main__"}
    table = PAGE.partition("| chapter |")[2].partition("\n\n")[0]
    chapters = {path for path in CHAPTERS if "/" in path and not path.endswith("__init__.py")}
    assert chapters <= set(re.findall(r"^\| `([\w/]+\.py)` \|", table, re.MULTILINE)) <= CHAPTERS


def test_rooms_import_from_the_rooms_above_only() -> None:
    for path in CHAPTERS - {"__init__.py", "__main__.py"}:
        for chapter in imported(path, at_the_top=False)[0] - {"__init__.py"}:
            assert ROOMS.index(room(chapter)) <= ROOMS.index(room(path)), f"{path} imports {chapter}"


def test_no_chapter_is_in_a_circle() -> None:
    assert [path for path in sorted(CHAPTERS) if path in reached(path)] == []


def test_documents_need_nothing_of_docnmt_but_errors_and_languages() -> None:
    documents = {path for path in CHAPTERS if path.startswith("apps/documents/")}
    needed = set().union(*(imported(path, at_the_top=False)[0] for path in documents)) - documents
    assert needed <= {"runtime/system.py", "runtime/languages.py"}


#: What the command line and its --help need: commands answer at once.
AT_ONCE = ("cli/", "options.py", "registry.py", "apps/options.py", "other_tasks/options.py", "core/data_options.py")
CONFIGS = "core/models/config.py", "core/search/config.py", "core/training/config.py", "core/scoring/", "apps/report.py"


def test_no_torch_where_a_command_must_answer_at_once() -> None:
    for path in (path for path in CHAPTERS if path.startswith((*AT_ONCE, *CONFIGS, "apps/documents/"))):
        for chapter in {path, *reached(path)}:
            assert "torch" not in imported(chapter, at_the_top=True)[1], f"{path} imports {chapter}: torch"
