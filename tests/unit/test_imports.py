"""The import order is the one that docs/architecture.md draws, and its drawings show the package as it is."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import drawings  # noqa: E402  (docs/drawings.py)

TABLE = drawings.rows((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
LEVEL = {name: i for i, (names, _) in enumerate(TABLE) for name in names}

#: Files that import from a room below theirs, and why this is so. Empty is best.
BELOW: dict[tuple[str, str], str] = {}


def test_the_table_has_every_room_once() -> None:
    package = ROOT / "docnmt"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    rooms = folders | {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert set(LEVEL) == rooms
    assert sum(len(names) for names, _ in TABLE) == len(LEVEL)


def test_rows_import_from_the_rows_above_only() -> None:
    found = set()
    for file, target in drawings.imports(ROOT / "docnmt"):
        here, there = drawings.room(file).removesuffix(".py"), drawings.room(target)
        if here != "__init__" and here != there and not LEVEL[there] < LEVEL[here]:
            found.add((file, there))
    assert found == set(BELOW)


@pytest.mark.parametrize(("names", "torch"), TABLE, ids=["+".join(names) for names, _ in TABLE])
def test_torch_is_imported_where_the_table_says(names: list[str], torch: str) -> None:
    files = [ROOT / "docnmt" / f"{name}.py" for name in names]
    for name in names:
        files += sorted((ROOT / "docnmt" / name).rglob("*.py"))
    importing = [path for path in files if path.exists() and "torch" in top_level_imports(path)]
    assert bool(importing) == (torch == "yes"), importing


def top_level_imports(path: Path) -> set[str]:
    """The packages that a module imports when it is imported itself."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_the_drawings_are_up_to_date() -> None:
    for file, content in drawings.drawings().items():
        assert (ROOT / "docs" / file).read_text(encoding="utf-8") == content, "run: python docs/drawings.py"
