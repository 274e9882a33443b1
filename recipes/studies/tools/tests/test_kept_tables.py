"""The tables of the pages are made again from what was measured and kept."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import kept_tables
from measured import rows

from docnmt.runtime.system import UserError

ROOT = Path(__file__).parents[4]
STUDIES = ROOT / "recipes" / "studies"
COMMAND = "    python tools/any.py \\\n        FILE   # a note"
OUTPUT = "## A\n\n| a |\n| --- |\n| 1 |\n\nb\n\n| c |\n| --- |\n| 2 |\n"


@pytest.mark.parametrize("page", ["docmix", "scale"])
def test_a_page_has_what_is_kept_and_a_changed_digit_is_found(page: str, tmp_path: Path) -> None:
    copy = Path(shutil.copy(STUDIES / page / "README.md", tmp_path))
    text = copy.read_text(encoding="utf-8")
    assert kept_tables.main(["--check", str(copy)]) == 0
    row = next(n for n, line in enumerate(text.splitlines()) if line.startswith("| ") and any(map(str.isdigit, line)))
    lines = text.splitlines()
    lines[row] = lines[row].translate(str.maketrans("123456789", "234567891"))
    copy.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert kept_tables.main(["--check", str(copy)]) == 1
    assert copy.read_text(encoding="utf-8") != text  # a check mends nothing
    assert kept_tables.main([str(copy)]) == 0
    assert copy.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("page", ["reference/documents.md", "guide/your-documents.md"])
def test_the_tables_of_kinds_are_those_of_the_package(page: str) -> None:
    assert kept_tables.main(["--check", str(ROOT / "docs" / page)]) == 0


def test_marks_take_the_tables_that_they_name() -> None:
    page = f"{COMMAND}\n\n<!-- tables 2 1 -->\nold\n<!-- end -->\nx\n<!-- tables -->\n<!-- end -->\n"
    page += "<!-- output -->\n<!-- end -->\n"
    asked = []

    def run(command: str) -> str:
        asked.append(command)
        return OUTPUT.strip()

    made = kept_tables.filled(page, "page.md", run)
    first, second = kept_tables.tables(OUTPUT)
    assert [part.strip("\n") for part in made.split("<!-- end -->")] == [
        f"{COMMAND}\n\n<!-- tables 2 1 -->\n\n{second}\n\n{first}",
        f"x\n<!-- tables -->\n\n{first}\n\n{second}",
        f"<!-- output -->\n\n{OUTPUT.strip()}",
        "",
    ]
    assert kept_tables.filled(made, "page.md", run) == made
    assert set(asked) == {"python tools/any.py FILE   # a note"}


@pytest.mark.parametrize(
    "page",
    [
        "<!-- tables -->\n<!-- end -->",
        f"{COMMAND}\n<!-- tables -->",
        f"{COMMAND}\n<!-- tables 3 -->\n<!-- end -->",
        "<!-- kept scale.jsonl absent -->\n<!-- end -->",
        "a\n<!-- = rnn -->33<!-- / -->",
    ],
)
def test_marks_that_cannot_be_filled_are_named(page: str) -> None:
    with pytest.raises(UserError, match=r"page\.md|scale\.jsonl"):
        kept_tables.filled(page, "page.md", lambda command: OUTPUT)


def test_every_kept_table_stands_on_a_page() -> None:
    marks = {mark for page in kept_tables.pages() for mark in page.read_text(encoding="utf-8").splitlines()}
    for path in sorted(STUDIES.glob("*/*.jsonl")):
        if path.name == "dialogue.jsonl":  # a line is a translation that was scored
            continue
        for name, row in rows(path).items():
            if isinstance(row.get("json"), dict) and set(row["json"]) == {"columns", "right", "rows"}:
                assert f"<!-- kept {path.name} {name.removesuffix('.json')} -->" in marks


def test_the_sums_of_the_statements_are_those_of_their_rows() -> None:
    """claims.md: what became of each statement, counted."""
    tables = kept_tables.tables((STUDIES / "claims.md").read_text(encoding="utf-8"))
    cells = [[[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]] for table in tables]
    sums, statements, pages, today = cells
    for then, mended, again, gone, total in sums[1:-1]:
        rows = [row[4] for row in statements if row[3] == then]
        assert [int(mended or 0), int(again or 0), int(gone or 0), int(total)] == [
            *map(rows.count, ("mended", "made again", "gone")), len(rows)
        ]  # fmt: skip
    assert int(sums[-1][-1]) == int(sums[0][-1]) + len(statements)
    assert all(int(sums[-1][n]) == sum(int(row[n] or 0) for row in sums[1:-1]) for n in (1, 2, 3))
    verdicts = "holds", "holds, copied output", "mended", "gone", "not checked"
    for page, *counts, total in pages:
        of_page = [row[2] for row in today if page in ("**all**", row[0])]
        assert [int(count or 0) for count in counts] == [of_page.count(verdict) for verdict in verdicts], page
        assert int(total) == len(of_page)
