"""docnmt-score on tables gives what it gives on plain text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docnmt.cli import score
from docnmt.errors import UserError
from docnmt.formats.columns import Columns
from docnmt.formats.side import side_lines

ROWS = [
    {"document_id": "a", "source": "one two three four five", "target": "A B C D E F", "hypothesis": "A B C D X F"},
    {"document_id": "a", "source": "six seven", "target": "G H\nI J K", "hypothesis": "G H I J Y"},
    {"document_id": "b", "source": "eight nine ten", "target": "L M N O P", "hypothesis": ""},
    {"document_id": "b", "source": "eleven", "target": "Q R S T U V", "hypothesis": "Q R S T\n\nU V"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The same rows as JSONL, TSV, Parquet and plain text."""
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    flat = [[" ".join(str(value).split()) for value in row.values()] for row in ROWS]
    (tmp_path / "all.tsv").write_text("".join("\t".join(row) + "\n" for row in [list(ROWS[0]), *flat]))
    for place, name in enumerate(("document", "src", "ref", "sys")):
        lines = [row[place] for row in flat]
        (tmp_path / name).write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")
    return tmp_path


def scores(capsys: pytest.CaptureFixture[str], folder: Path, **files: str) -> dict[str, object]:
    options = [part for name, file in files.items() for part in (f"--{name}", str(folder / file))]
    assert score.main([*options, "--json", "--per-document"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("kind", ["jsonl", "tsv", "parquet"])
def test_tables_score_as_plain_text(capsys: pytest.CaptureFixture[str], folder: Path, kind: str) -> None:
    table = f"all.{kind}"
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), folder / table)
    plain = scores(capsys, folder, ref="ref", sys="sys", src="src", paired="ref")
    assert plain["documents"] == 2
    assert scores(capsys, folder, ref=table, sys=table, src=table, paired="ref") == plain
    assert scores(capsys, folder, ref="ref", sys=table, src="src", paired="ref") == plain
    assert scores(capsys, folder, ref=table, sys="sys", src=table, paired="ref") == plain


def test_rows_without_a_reference_are_not_scored(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    rows = [*ROWS, {"document_id": "b", "source": "twelve", "target": None, "hypothesis": "Z"}]
    (folder / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = scores(capsys, folder, ref="more.jsonl", sys="more.jsonl", src="more.jsonl")
    assert found.pop("unscored") == 1
    assert found == scores(capsys, folder, ref="all.jsonl", sys="all.jsonl", src="all.jsonl")


def test_columns_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = Columns(document=("document_id",), target=("hypothesis",))
    assert list(side_lines(folder / "all.tsv", named, "target")) == ["A B C D X F", "G H I J Y", "", "", "Q R S T U V"]
    with pytest.raises(UserError, match="expected one column, got target=target,source"):
        side_lines(folder / "all.tsv", Columns(target=("target", "source")), "target")
    (folder / "none.tsv").write_text("source\ttarget\nA\tB\n")
    table = str(folder / "none.tsv")
    assert score.main(["--ref", table, "--sys", table]) == 1
    assert "none.tsv: which column is the hypothesis? There are source, target" in capsys.readouterr().err
    assert score.main(["--ref", table, "--sys", table, "--columns", "hypothesis=source"]) == 0
