"""Tables of labelled texts: three formats, one content; every fault named with its file and line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from docnmt.other_tasks.classification import read_labelled, read_texts
from docnmt.runtime.system import UserError

ROWS = [("1", 'He said "no, thanks"'), ("sport", "a\ttab and Ünïcode \u2028 inside"), ("0", "")]


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def test_formats_agree(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.tsv", "".join(f"{label}\t{text}\n" for label, text in ROWS)),
        write(tmp_path / "b.tsv", "label\ttext\r\n" + "".join(f"{label}\t{text}\r\n" for label, text in ROWS)),
        write(tmp_path / "c.jsonl", "".join(json.dumps({"id": 7, "label": a, "text": b}) + "\n" for a, b in ROWS)),
    ]
    for name, header in (("d.csv", ["text", "more", "label"]), ("e.csv", None)):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if header:
                writer.writerow(header)
            writer.writerows([text, "x", label] if header else [label, text] for label, text in ROWS)
        files.append(tmp_path / name)
    for path in files:
        table = read_labelled(path)
        assert list(zip(table.labels, table.texts, strict=True)) == ROWS, path.name


def test_ag_news_as_published(tmp_path: Path) -> None:
    table = read_labelled(write(tmp_path / "train.csv", '"3","Wall St.","Short-sellers\nare back"\n"4","b","c"\n'))
    assert table.labels == ["3", "4"]
    assert table.texts == ["Wall St. Short-sellers\nare back", "b c"]
    assert table.places[1].endswith("train.csv:3")


@pytest.mark.parametrize(("name", "content"), [("a.csv", "label,text\r\n1,x\r\n"), ("a.tsv", "label\ttext\n1\tx\n")])
def test_byte_order_marks_are_no_part_of_the_header(tmp_path: Path, name: str, content: str) -> None:
    assert read_labelled(write(tmp_path / name, "\ufeff" + content)).labels == ["1"]


def test_a_class_may_be_called_text(tmp_path: Path) -> None:
    for name, content in (("a.csv", "text,a b\nimage,c\n"), ("a.tsv", "text\ta b\nimage\tc\n")):
        assert read_labelled(write(tmp_path / name, content)).labels == ["text", "image"]


def test_whole_number_labels_of_json_are_names(tmp_path: Path) -> None:
    assert read_labelled(write(tmp_path / "a.jsonl", '{"label": 3, "text": "x"}\n')).labels == ["3"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "1\tx\n", r"a\.txt"),
        ("a.tsv", "1\tx\nno tab\n", r"a\.tsv:2"),
        ("a.tsv", "\tx\n", r"a\.tsv:1"),
        ("a.tsv", "", r"a\.tsv"),
        ("a.tsv", "label\ttext\n", r"a\.tsv"),
        ("a.tsv", "1\tx\0y\n", r"a\.tsv:1"),
        ("a.jsonl", '{"label": 1, "text": "x"}\n{"label": 1,\n', r"a\.jsonl:2"),
        ("a.jsonl", '{"label": 1}\n', r"a\.jsonl:1.*'text'"),
        ("a.jsonl", '{"label": true, "text": "x"}\n', r"a\.jsonl:1.*'label'"),
        ("a.jsonl", '{"text": "x"}\n', r"a\.jsonl:1.*'label'"),
        ("a.jsonl", '{"label": "a\\tb", "text": "x"}\n', r"a\.jsonl:1"),
        ("a.jsonl", '{"label": 1, "text": "x\\ud800"}\n', r"a\.jsonl:1"),
        ("a.tsv", "text\tlabel\nx\t1\n", r"a\.tsv:1"),
        ("a.tsv", "label\tbody\n1\tx\n", r"a\.tsv:1"),
        ("a.csv", "label,body\n1,x\n", r"a\.csv:1"),
        ("a.csv", "class,text\n1,x\n", r"a\.csv:1"),
        ("a.csv", "label,text\n1,x\n2\n", r"a\.csv:3"),
        ("a.csv", '1,"never closed\n', r"a\.csv:1"),
    ],
)
def test_faults_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_labelled(write(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "row"), [("a.tsv", "1\tx\n"), ("a.csv", "1,x\n"), ("a.jsonl", '{"label": 1, "text": "x"}\n')]
)
@pytest.mark.parametrize("content", ["{0}\n", "{0}\r\n\n", "\n{0}{0}\n", "{0}\n{0}"], ids=repr)
def test_empty_lines_are_no_rows(tmp_path: Path, name: str, row: str, content: str) -> None:
    table = read_labelled(write(tmp_path / name, content.format(row)))
    assert table.texts == ["x"] * content.count("{0}")
    lines = (tmp_path / name).read_text().splitlines()
    assert table.places == [f"{tmp_path / name}:{number}" for number, line in enumerate(lines, 1) if line]


@pytest.mark.parametrize("begin", ["", "\n", "\n\n"])
def test_a_header_is_the_first_row_of_csv(tmp_path: Path, begin: str) -> None:
    table = read_labelled(write(tmp_path / "a.csv", f"{begin}text,label\nx,1\n\n"))
    assert (table.labels, table.texts) == (["1"], ["x"])


def test_an_empty_file_has_no_texts_but_an_empty_object_is_refused(tmp_path: Path) -> None:
    assert read_texts(write(tmp_path / "a.jsonl", "")) == []
    with pytest.raises(UserError, match=r"b\.jsonl:1.*'text'"):
        read_texts(write(tmp_path / "b.jsonl", '{}\n{"text": "x"}\n'))


def test_missing_file_and_wrong_encoding(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.tsv"):
        read_labelled(tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes("1\tcafé\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.tsv:1"):
        read_labelled(tmp_path / "latin.tsv")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(suffix=".csv", content=b"a,b")
@given(suffix=st.sampled_from([".tsv", ".csv", ".jsonl"]), content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"fuzz{suffix}"
    path.write_bytes(content)
    try:
        rows = len(read_labelled(path).texts)
    except UserError as error:
        rows = str(error).count(str(path))
    assert rows > 0
