"""docnmt-score on tables gives what it gives on plain text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docnmt.cli import score
from docnmt.core.data_options import Columns
from docnmt.core.tables import DocumentStart, side_lines
from docnmt.runtime.system import UserError

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


def written(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.name


@pytest.mark.parametrize("src", [True, False])
def test_rows_without_a_partner_are_not_scored(capsys: pytest.CaptureFixture[str], folder: Path, src: bool) -> None:
    """Nor do they end a document: the table names its documents."""
    lonely = {"document_id": "b", "source": "twelve", "target": None, "hypothesis": "Z"}
    unasked = {"document_id": "b", "source": "", "target": "M", "hypothesis": ""}
    table = written(folder / "more.jsonl", [*ROWS[:3], lonely, *([unasked] if src else []), ROWS[3]])

    def found(table: str) -> dict[str, object]:
        return scores(capsys, folder, ref=table, sys=table, **({"src": table} if src else {}))

    several = found(table)
    assert several.pop("unscored") == 1 + src
    assert several == found("all.jsonl")


def test_a_text_may_lack_what_the_source_lacks(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """docnmt-generate has no line for a target sentence without a source."""
    unasked = {"document_id": "a", "source": "", "target": "M", "hypothesis": ""}
    table = written(folder / "more.jsonl", [ROWS[0], unasked, *ROWS[1:]])
    expected = scores(capsys, folder, ref="ref", sys="sys", src="src")
    assert scores(capsys, folder, ref=table, sys="sys", src=table) == {**expected, "unscored": 1}
    (folder / "short").write_text("A\n\nB\n")
    assert score.main(["--ref", str(folder / table), "--sys", str(folder / "short"), "--src", str(folder / table)]) == 1
    assert "short:" in capsys.readouterr().err


def test_documents_are_matched_by_name_where_an_empty_row_is_missing(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    empty = {"document_id": "a", "source": "s", "target": "", "hypothesis": ""}
    perfect = [{**row, "hypothesis": row["target"]} for row in ROWS]
    ref = written(folder / "ref.jsonl", [*ROWS[:2], empty, *ROWS[2:]])
    sys = written(folder / "sys.jsonl", [*perfect[2:], *perfect[:2]])
    assert scores(capsys, folder, ref=ref, sys=sys)["s-BLEU"] == pytest.approx(100)


def test_what_is_not_scored_keeps_its_number(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    unknown = {"source": "s", "target": "", "hypothesis": "z"}
    rows = [{"document_id": "0", **unknown}, ROWS[0], {"document_id": "a", **unknown}, *ROWS[1:]]
    table = str(folder / written(folder / "more.jsonl", rows))
    options = ["--ref", table, "--sys", table, "--per-sentence", "--per-document"]
    assert score.main([*options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [bool(each) for each in found["of_sentences"]] == [False, True, False, True, True, True]
    assert [bool(each) for each in found["of_documents"]] == [False, True, True]
    assert score.main(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("document\ts-BLEU\td-BLEU\tchrF") + 1] == "1\t-\t-\t-"
    assert lines[lines.index("sentence\tchrF") + 3] == "3\t-"


def test_documents_are_matched_by_name(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    true = scores(capsys, folder, ref="all.jsonl", sys="all.jsonl")
    other = written(folder / "other.jsonl", [*ROWS[2:], *ROWS[:2]])
    assert scores(capsys, folder, ref="all.jsonl", sys=other) == true
    assert scores(capsys, folder, ref=other, sys="all.jsonl", src=other)["s-BLEU"] == pytest.approx(true["s-BLEU"])
    named = written(folder / "named.jsonl", [{**row, "document_id": f"other {row['document_id']}"} for row in ROWS])
    assert scores(capsys, folder, ref="all.jsonl", sys=named) == true  # as they stand: no name is in both


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ("aabc", "sys.jsonl: .*'c' "),
        ("bbbb", "all.jsonl: .*'a' "),
        ("baab", "sys.jsonl: .*'b' "),
    ],
)
def test_documents_of_other_names_are_refused(
    capsys: pytest.CaptureFixture[str], folder: Path, names: str, error: str
) -> None:
    table = written(folder / "sys.jsonl", [{**row, "document_id": name} for row, name in zip(ROWS, names, strict=True)])
    assert score.main(["--ref", str(folder / "all.jsonl"), "--sys", str(folder / table)]) == 1
    assert re.search(f"docnmt-score: error: {folder}/{error}", capsys.readouterr().err)


def test_a_list_is_a_document(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    plain = scores(capsys, folder, ref="all.tsv", sys="all.tsv", src="all.tsv")
    keys = ("source", "target", "hypothesis")
    lists: list[dict[str, object]] = [
        {key: [row[key] for row in rows] for key in keys} for rows in (ROWS[:2], ROWS[2:])
    ]
    table = written(folder / "lists.jsonl", lists)
    assert scores(capsys, folder, ref=table, sys=table, src=table) == plain
    assert list(side_lines(folder / written(folder / "e.jsonl", [{"hyp": []}]), Columns(), "hypothesis")) == [
        DocumentStart(),
        "",
    ]


def test_columns_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = Columns(document=("document_id",), target=("hypothesis",))
    lines = [DocumentStart("a"), "A B C D X F", "G H I J Y", DocumentStart("b"), "", "Q R S T U V"]
    assert list(side_lines(folder / "all.tsv", named, "target")) == lines
    with pytest.raises(UserError):
        list(side_lines(folder / "all.tsv", Columns(target=("target", "source")), "target"))
    (folder / "twice.tsv").write_text("target\ttarget\nA\tB\n")
    with pytest.raises(UserError, match=r"twice\.tsv:1.*'target'"):
        list(side_lines(folder / "twice.tsv", Columns(), "target"))
    (folder / "none.tsv").write_text("source\ttarget\nA\tB\n")
    table = str(folder / "none.tsv")
    assert score.main(["--ref", table, "--sys", table]) == 1
    assert "none.tsv" in capsys.readouterr().err
    assert score.main(["--ref", table, "--sys", table, "--columns", "hypothesis=source"]) == 0
