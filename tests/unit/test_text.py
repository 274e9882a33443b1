"""Lines of text files: what is ordinary, what is counted, what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt import options
from docnmt.core import preprocess as overlap
from docnmt.core import read_corpus as text
from docnmt.core.corpus import (
    Document,
    ParallelCorpus,
    Structure,
    StructureBuilder,
    TextArray,
    renumber,
    unit_numbers,
    write_meta,
)
from docnmt.core.preprocess import line_hashes, shares_seen
from docnmt.core.read_corpus import TextLines
from docnmt.options import Section, option, read_yaml
from docnmt.other_tasks.classification import read_labelled
from docnmt.runtime.system import (
    Count,
    OpenObject,
    UsageError,
    UserError,
    read_json,
    skipped,
    write_json,
)


def read(data: bytes) -> tuple[list[str], TextLines]:
    lines = TextLines(io.BytesIO(data), name="corpus.en")
    return list(lines), lines


@pytest.mark.parametrize(
    ("data", "expected", "facts"),
    [
        ("a\u2028b\u0085c\x0cd\x1ee\nf\n".encode(), ["a\u2028b\u0085c\x0cd\x1ee", "f"], {"lines": 2}),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"], {"bom": True}),
        (b"a\r\nb\nc\r\n", ["a", "b", "c"], {"crlf": 2}),
        (b"a\nb\n\n", ["a", "b", ""], {"lines": 3}),
        (b"a\nb", ["a", "b"], {"crlf": 0}),
        (b"", [], {}),
    ],
)
def test_what_ends_a_line(data: bytes, expected: list[str], facts: dict[str, object]) -> None:
    lines, noted = read(data)
    assert lines == expected
    assert {name: getattr(noted, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b"a\nbc\rd\n", "corpus.en:2: ", "carriage return"),
        (b"a\nb\r", "corpus.en:2: ", "carriage return"),
        (b"PK\x03\x04\x14\0\0\xff", "corpus.en:1: 0xFF: ", "not valid UTF-8"),
        (b"a\n\n\0b\n", "corpus.en:3: ", "NUL"),
        ("a\nMüller\n".encode("latin-1"), "corpus.en:2: 0xFC: ", "not valid UTF-8"),
        (b"\xef\xbb\xbf\xff\n", "corpus.en:1: 0xFF: ", "not valid UTF-8"),
    ],
)
def test_unclean_bytes_are_refused_with_their_place(data: bytes, where: str, what: str) -> None:
    with pytest.raises(UserError) as error:
        read(data)
    assert where in str(error.value)
    assert what in str(error.value)


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"))), st.integers(1, 9))
def test_any_lines_come_back_whatever_the_block_size(expected: list[str], block: int) -> None:
    expected = [line.removeprefix("\ufeff") if number == 0 else line for number, line in enumerate(expected)]
    data = "".join(line + "\n" for line in expected).encode()
    old, text.BLOCK = text.BLOCK, block
    try:
        lines, facts = read(data)
    finally:
        text.BLOCK = old
    assert lines == expected
    assert (facts.bytes, facts.lines) == (len(data), len(expected))


# Structure above the sentence: labels to indices, documents from empty lines.


def test_structure_of_documents() -> None:
    builder = StructureBuilder()
    assert builder.build().levels.shape == (0, 0)
    for before, labels in ((1, [("7",), ("8",)]), (3, [("7",)])):
        builder.before += before
        builder.add(unit_numbers(labels))
    builder.forget_levels(2)
    builder.before += 2
    structure = builder.build()
    assert structure.document_offsets.tolist() == [0, 2, 3]
    assert structure.blank_lines.tolist() == [1, 3, 2]
    assert structure.levels.tolist() == [[0], [1], [-1]]
    assert builder.build(known=False).levels.shape == (3, 0)


def test_a_document_is_no_bare_text() -> None:
    assert Document.nested([["a"], ["b"]]).units == (("0",), ("1",))
    for parts in ("a", b"a", [b"a"]):
        with pytest.raises(UserError):
            Document.nested(parts)


def build(documents: list[list[tuple[int, int]]]) -> Structure:
    builder = StructureBuilder()
    for document in documents:
        builder.add(unit_numbers([tuple(map(str, labels)) for labels in document]))
    return builder.build()


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=8), min_size=1), st.data()
)
def test_renumbering_a_selection_is_reading_the_selection(
    documents: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    structure = build(documents)
    indices = structure.levels.tolist()
    kept = [sorted(data.draw(st.sets(st.integers(0, len(d) - 1), min_size=1))) for d in documents]
    begins = structure.document_offsets[:-1]
    rows = [begin + i for begin, chosen in zip(begins, kept, strict=True) for i in chosen]
    offsets = np.concatenate([[0], np.cumsum([len(chosen) for chosen in kept])])
    expected = build([[tuple(indices[b + i]) for i in chosen] for b, chosen in zip(begins, kept, strict=True)])
    assert renumber(structure.levels[rows], offsets).tolist() == expected.levels.tolist()


# JSON and YAML that nobody means are refused at once, in a line that names the file.


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@dataclass(frozen=True)
class Folders:
    """Texts that YAML takes for numbers, and a number."""

    one: str = option("", "")
    more: tuple[str, ...] = option((), "")
    seed: int = option(0, "")


def test_a_text_of_yaml_stays_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("one: 010\nmore: [2024_01, 1.10, 1:30, 7]\nseed: 1_000\n")
    resolved = options.build([Section("folders", Folders)], read_yaml(file), {})["folders"]
    assert resolved == Folders("010", ("2024_01", "1.10", "1:30", "7"), 1000)


class Entry(OpenObject):
    count: Count


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("yaml", "[" * 20_000, ""), ("yaml", BOMB, "'b'"), ("yaml", "lr: {a: 1}\n", "'lr'"), ("yaml", "lr: \x00\n", ""),
        ("yaml", "lr: !!python/object:os.system x\n", "os.system"), ("yaml", "lr: 1\n--- \nlr: 2\n", "line 2"),
        ("yaml", "lr: 1\narch: a\nlr: 2\n", "options:3: 'lr'"), ("yaml", "<<: {data: 010}\n", "'<<'"),
        ("json", "{", ""), ("json", "[" * 100_000, ""), ("json", "9" * 10_000, ""), ("json", '"\\ud800"', "ud800"),
        ("json", '{"count": -1}', "'$.count'"), ("json", "{}", "'count'"), ("json", "[]", "'object'"),
    ],
)  # fmt: skip
def test_yaml_and_json_of_something_else(tmp_path: Path, kind: str, text: str, complaint: str) -> None:
    file = tmp_path / "options"
    file.write_text(text)
    with pytest.raises(UsageError if kind == "yaml" else UserError) as caught:
        read_yaml(file) if kind == "yaml" else read_json(file, Entry, "make it again")
    said = str(caught.value)
    assert said.startswith(f"{file}: ") or f"--config {file}" in said
    assert complaint in said
    assert len(said) < 1000
    assert "\n" not in said


@pytest.mark.parametrize(
    "change", [{"files": None}, {"files": []}, {"files": {"a": {"bytes": 1}}}, {"splits": None}, {"splits": ["train"]}]
)
def test_a_forged_list_of_files(tmp_path: Path, change: dict[str, Any]) -> None:
    content = {"source_lang": "en", "target_lang": "de", "splits": {"train": {"references": 1}}}
    meta = write_meta(tmp_path, task="document_translation", files={}, **content) | change
    write_json(tmp_path / "meta.json", {name: value for name, value in meta.items() if value is not None})
    with skipped(), pytest.raises(UserError, match=str(tmp_path)):
        ParallelCorpus.open(tmp_path, "train")


def test_results_are_written_whatever_paths_are_called(tmp_path: Path) -> None:
    write_json(tmp_path / "scores.json", {"data": os.fsdecode(b"test\xff"), "bleu": 1.5})
    assert json.loads((tmp_path / "scores.json").read_text()) == {"data": "test?", "bleu": 1.5}


# Tables of labelled texts: three formats, one content; every fault named with its file and line.


ROWS = [("1", 'He said "no, thanks"'), ("sport", "a\ttab and Ünïcode \u2028 inside"), ("0", "")]


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode(errors="surrogateescape"))
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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "1\tx\nno tab\n", r"a\.tsv:2"),
        ("a.tsv", "\tx\n", r"a\.tsv:1"),
        ("a.tsv", "1\tx\0y\n", r"a\.tsv:1"),
        ("a.jsonl", '{"label": 1, "text": "x"}\n{"label": 1,\n', r"a\.jsonl:2"),
        ("a.jsonl", '{"label": true, "text": "x"}\n', r"a\.jsonl:1.*'label'"),
        ("a.jsonl", '{"label": 1, "text": "x\\ud800"}\n', r"a\.jsonl:1"),
        ("a.tsv", "label\tbody\n1\tx\n", r"a\.tsv:1"),
        ("a.csv", "label,text\n1,x\n2\n", r"a\.csv:3"),
        ("a.csv", "label,text\n1,x\n2,y, and z\n", r"a\.csv:3"),
        ("a.csv", "label,text,more\n1,x\n", r"a\.csv:2"),
        ("a.csv", '1,"never closed\n', r"a\.csv:1"),
        ("a.csv", "label,Text,text\n1,x,y\n", r"a\.csv:1.*two columns"),
        ("a.csv", "1,x\n2,\udce9\n", r"a\.csv:2.*UTF-8"),
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


# Passes over arrays on disk in blocks give what one pass over arrays in memory gives, and hold little.


@settings(max_examples=200)
@given(st.data())
def test_overlap_does_not_depend_on_what_is_compared_together(data: st.DataObject) -> None:
    lines = st.lists(st.sampled_from("abc"), min_size=1, max_size=40)
    text, others = TextArray.from_lines(data.draw(lines)), [TextArray.from_lines(data.draw(lines)) for _ in range(2)]
    cuts = data.draw(st.sets(st.integers(1, len(text))))
    offsets = np.array(sorted({0, len(text)} | cuts))
    whole = shares_seen(text, offsets, line_hashes(*others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_TOGETHER", data.draw(st.integers(1, 10)))
        assert shares_seen(text, offsets, line_hashes(*others)).tolist() == whole.tolist()
    assert whole.tolist() == [share_of(text[a:b], others) for a, b in pairwise(offsets.tolist())]


def share_of(document: list[str], others: list[TextArray]) -> float:
    """The same of one document, by its definition: all its lines have one byte."""
    there = [list(other) for other in others]
    if len(document) == 1:
        return float(any(document[0] in lines for lines in there))
    pairs = {pair for lines in there for pair in pairwise(lines)}
    repeated = [pair in pairs for pair in pairwise(document)]
    seen = [before or after for before, after in zip([False, *repeated], [*repeated, False], strict=True)]
    return sum(seen) / len(seen)
