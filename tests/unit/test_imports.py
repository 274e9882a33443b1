"""The import order is the one that docs/reference/architecture.md draws, and its drawings show the package as it is."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import drawings  # noqa: E402  (docs/drawings.py)

PAGE = (ROOT / "docs" / "reference" / "architecture.md").read_text(encoding="utf-8")
TABLE = drawings.rows(PAGE)
LEVEL = {name: i for i, (names, _) in enumerate(TABLE) for name in names}

#: Files that import from a room below theirs, and why this is so. Empty is best.
BELOW: dict[tuple[str, str], str] = {}


def test_the_table_has_every_room_once() -> None:
    package = ROOT / "docnmt"
    modules = {drawings.room(str(path.relative_to(package))) for path in package.rglob("*.py")}
    assert set(LEVEL) == {name for name in modules if not name.endswith("__init__")}
    assert sum(len(names) for names, _ in TABLE) == len(LEVEL)


def test_rows_import_from_the_rows_above_only() -> None:
    found = set()
    for file, target in drawings.imports(ROOT / "docnmt"):
        here, there = drawings.room(file), drawings.room(target)
        if not here.endswith("__init__") and here != there and not LEVEL[there] < LEVEL[here]:
            found.add((file, there))
    assert found == set(BELOW)


def test_rooms_import_from_the_rooms_above_only() -> None:
    order = drawings.rooms(PAGE)
    entries = {path.name for path in (ROOT / "docnmt").iterdir()} - {"__init__.py", "__pycache__", "py.typed"}
    assert sorted(order) == sorted(name.removesuffix(".py") for name in entries)
    for file, target in drawings.imports(ROOT / "docnmt"):
        here, there = file.split("/")[0].removesuffix(".py"), target.split(".")[0]
        assert here in ("__init__", there) or order.index(there) < order.index(here), f"{file} imports {target}"


def test_documents_need_nothing_of_docnmt_but_errors_and_languages() -> None:
    targets = {target for file, target in drawings.imports(ROOT / "docnmt") if file.startswith("apps/documents/")}
    own = {target for target in targets if target.startswith("apps.documents")}
    assert targets - own == {"runtime.errors", "runtime.languages"}


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
        kept = (ROOT / "docs" / "pictures" / file).read_text(encoding="utf-8")
        assert kept == content, "run: python docs/drawings.py"
