"""Parallel corpora in tables: every kind gives what plain text gives, and faults are named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from parallel_text import Read, documents, read_all, translate

from docnmt.core.data_options import parse_columns
from docnmt.core.read_corpus import Reading, find_split
from docnmt.runtime.system import UserError


def read(path: Path | str, *columns: str, one_sided: Any = None) -> Read:
    parsed, problems = parse_columns(columns)
    assert problems == []
    return read_all(find_split(str(path), Reading(("en", "de"), parsed, one_sided)))


def problem(path: Path, *columns: str, one_sided: Any = None) -> str:
    with pytest.raises(UserError) as error:
        read(path, *columns, one_sided=one_sided)
    return str(error.value).replace(f"{path.parent}/", "")


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def jsonl(path: Path, rows: Sequence[Any]) -> Path:
    return write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def parquet(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=7)
    return path


def tsv(path: Path, rows: Sequence[dict[str, Any]], *, header: bool = True) -> Path:
    lines = ["\t".join(rows[0])] * header + ["\t".join(map(str, row.values())) for row in rows]
    return write(path, "".join(f"{line}\n" for line in lines))


CORPUS = documents(40, seed=4)
ROWS = [
    {"docid": f"d{n}", "par": i // 2, "src": line, "ref": translate(line)}
    for n, document in enumerate(CORPUS)
    for i, line in enumerate(document)
]


@pytest.fixture
def plain(tmp_path: Path) -> Read:
    """The same corpus in plain text."""
    for side, change in (("en", str), ("de", translate)):
        text = "\n\n".join("\n".join(map(change, document)) for document in CORPUS)
        write(tmp_path / f"plain.{side}", text + "\n")
    rows = "\n\n".join("\n".join(str(i // 2) for i in range(len(document))) for document in CORPUS)
    write(tmp_path / "plain.levels.tsv", rows + "\n")
    return read(tmp_path / "plain")


@pytest.mark.parametrize("kind", ["tsv", "bare.tsv", "jsonl", "parquet", "tsv.gz", "jsonl.zst", "parquet.gz"])
def test_every_kind_gives_what_plain_text_gives(tmp_path: Path, plain: Read, kind: str) -> None:
    path = tmp_path / f"corpus.{kind.removesuffix('.gz').removesuffix('.zst')}"
    columns = ["document=docid", "paragraph=par", "source=src", "target=ref"]
    if path.suffix == ".tsv":
        tsv(path, ROWS, header="bare" not in kind)
        columns = ["document=1", "paragraph=2", "source=3", "target=4"] if "bare" in kind else columns
    else:
        {".jsonl": jsonl, ".parquet": parquet}[path.suffix](path, ROWS)
    if kind.endswith(".gz"):  # of two members, as pigz and cat make it
        data = path.read_bytes()
        path = write(path.with_name(path.name + ".gz"), gzip.compress(data[:99]) + gzip.compress(data[99:]))
    if kind.endswith(".zst"):
        path = write(path.with_name(path.name + ".zst"), pytest.importorskip("zstandard").compress(path.read_bytes()))
    texts, structure, facts, names = read(path, *columns)
    assert texts == plain[0]
    for name in ("document_offsets", "blank_lines", "levels"):
        assert getattr(structure, name).tolist() == getattr(plain[1], name).tolist()
    assert names == [f"d{n}" for n in range(len(CORPUS))]
    assert facts.inputs[str(path)]["bytes"] == path.stat().st_size


LINK = {"src": ["s1"], "tgt": ["t1"], "aligner-score": 0.5}
HPLT = {
    "src_doc_id": "a", "tgt_doc_id": "b", "lang_pair": "en-de",
    "src_doc": {"ids": ["s1", "s2", "s3", "s4"], "sentences": ["one", "two", "three", "four"]},
    "tgt_doc": {"ids": ["t1", "t2", "t3", "t4"], "sentences": ["eins", "zwei", "drei", "vier"]},
    "alignment": [LINK, {"src": ["s3", "s4"], "tgt": ["t3"]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "columns", "texts", "offsets"),
    [
        # sacrebleu -t wmt20 -l en-de --echo docid src ref
        ("echo.tsv", "d1\ta\tA\nd1\tb\tB\nd2\tc\tC\n", [], "aA bB cC", [0, 2, 3]),
        # News Commentary: two columns, empty rows between documents
        ("news.tsv", "a\tA\nb\tB\n\t\nc\tC\n\nd\tD\n", [], "aA bB cC dD", [0, 2, 3, 4]),
        # Europarl v10
        ("ep.tsv", "a\tA\tep-1\t1\tX\nb\tB\tep-1\t2\t\nc\tC\tep-2\t2\t\n",
         ["source=1", "target=2", "document=3,4"], "aA bB cC", [0, 1, 2, 3]),
        # ParaDocs, what its script prints
        ("pd.tsv.gz", "7+1\ta\tA\t.5\n7+1\tb\tB\t.5\n7+2\tc\tC\t1\n",
         ["document=1", "source=2", "target=3"], "aA bB cC", [0, 2, 3]),
        # WMT24++
        ("en-de_DE.jsonl", [{"lp": "en-de_DE", "document_id": d, "segment_id": 1, "is_bad_source": False, "source": s,
                             "target": s.upper(), "original_target": "x"} for d, s in ("1a", "1b", "2c")],
         [], "aA bB cC", [0, 2, 3]),
        # Hugging Face
        ("hf.jsonl", [{"id": s, "translation": {"en": s, "de": s.upper()}} for s in "ab"], [], "aA bB", [0, 2]),
        # WMT25: a document a row, paragraphs in it
        ("wmt25.jsonl", [{"doc_id": "x", "src_text": "a\n\nb", "tgt_text": {"refA": "A\n\nB"}},
                         {"doc_id": "y", "src_text": "c", "tgt_text": {"refA": "C"}}],
         ["target=tgt_text.refA"], "aA bB cC", [0, 2, 3]),
        # a document a row, in lists
        ("lists.jsonl", [{"src": ["a", "b"], "tgt": ["A", "B"]}, {"src": ["c"], "tgt": ["C"]}],
         [], "aA bB cC", [0, 2, 3]),
        # MaCoCu and ParaCrawl
        ("web.tsv", "src_url\ttrg_url\tsrc_text\ttrg_text\nu\tv\ta\tA\nu\tw\tb\tB\n", [], "aA bB", [0, 1, 2]),
    ],
)  # fmt: skip
def test_known_layouts(
    tmp_path: Path, name: str, content: Any, columns: list[str], texts: str, offsets: list[int]
) -> None:
    if isinstance(content, str):
        path = write(tmp_path / name, gzip.compress(content.encode()) if name.endswith(".gz") else content)
    else:
        path = jsonl(tmp_path / name, content)
    pairs, structure, _, _ = read(path, *columns)
    assert [one + other for one, other in pairs] == texts.split()
    assert structure.document_offsets.tolist() == offsets


def test_opus_files_with_documents(tmp_path: Path) -> None:
    write(tmp_path / "Corpus.de-en.en", "a\nb\nc\n")
    write(tmp_path / "Corpus.de-en.de.gz", gzip.compress(b"A\nB\nC\n"))
    write(
        tmp_path / "Corpus.de-en.ids",
        "de/1.xml\ten/1.xml\t1\t1\nde/1.xml\ten/1.xml\t2\t2 3\nde/2.xml\ten/2.xml\t1\t1\n",
    )
    texts, structure, _, names = read(tmp_path / "Corpus.de-en")
    assert texts == [("a", "A"), ("b", "B"), ("c", "C")]
    assert structure.document_offsets.tolist() == [0, 2, 3]
    assert names == ["de/1.xml en/1.xml", "de/2.xml en/2.xml"]
    ids = tmp_path / "Corpus.de-en.ids"
    write(tmp_path / "Corpus.de-en.ids.gz", gzip.compress(ids.read_bytes()))
    ids.unlink()
    assert read(tmp_path / "Corpus.de-en")[3] == names
    (tmp_path / "Corpus.de-en.ids.gz").unlink()
    write(tmp_path / "Corpus.de-en.ids", "x\nx\nx\n")
    assert "Corpus.de-en.ids:1" in problem(tmp_path / "Corpus.de-en")
    write(tmp_path / "Corpus.de-en.ids", "x\ty\nx\ty\n")
    assert "Corpus.de-en" in problem(tmp_path / "Corpus.de-en")


@pytest.mark.parametrize("form", ["jsonl", "text", "xml"])
def test_sentences_without_a_partner(tmp_path: Path, form: str) -> None:
    rows = [("a", "A"), ("b", ""), ("", "C"), ("d", "D")]
    path = tmp_path / {"jsonl": "c.jsonl", "text": "c", "xml": "c"}[form]
    if form == "jsonl":
        jsonl(path, [{"src": one or None, "tgt": other} for one, other in rows])
    elif form == "text":
        write(tmp_path / "c.en", "".join(f"{one}\n" for one, _ in rows))
        write(tmp_path / "c.de", "".join(f"{other or ' '}\n" for _, other in rows))
    else:
        src, ref = ("".join(f"<seg id='{n}'>{row[k]}</seg>" for n, row in enumerate(rows)) for k in (0, 1))
        xml = f"<d><doc id='x'><src lang='en'>{src}</src><ref lang='de'>{ref}</ref></doc></d>"
        write(tmp_path / "c.en-de.xml", xml)
    assert read(path, one_sided="read")[0] == [("a", "A"), ("b", ""), ("d", "D")]
    assert read(path, one_sided="skip")[0] == [("a", "A"), ("d", "D")]
    assert read(path, one_sided="read")[1].document_offsets.tolist() == [0, 3]
    if form == "jsonl":
        assert read(path)[0] == read(path, one_sided="read")[0]
        assert "--one-sided" in problem(path, one_sided="error")
    else:
        assert {"text": "c.de:2", "xml": "seg 1"}[form] in problem(path)


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.tsv", "x\ty\nz\n", ["source=1", "target=2"], "a.tsv:2"),
        ("a.tsv", "a\tb\n", ["source=src"], "--columns"),
        ("a.tsv", "", [], "a.tsv"),
        ("a.jsonl", '{"src": "a"}\n{"tgt": "b"}\n', [], "a.jsonl:2"),
        ("a.jsonl", '{"src": "a"}\n{"src": \n', [], "a.jsonl:2"),
        ("a.jsonl", '{"src": "\\ud800"}\n', [], "a.jsonl:1"),
        ("a.jsonl", '{"src": "a\\u0000"}\n', [], "a.jsonl:1"),
        ("a.jsonl", '{"src": ["a"], "tgt": ["A", "B"]}\n', [], "a.jsonl:1"),
        ("a.jsonl", json.dumps({**HPLT, "alignment": [LINK, LINK]}), [], "a.jsonl:1"),
        ("a.jsonl", "x" * 5000, [], "a.jsonl:1"),
        ("a.jsonl", "[" * 100_000, [], "a.jsonl:1"),
        ("a.tsv.zst", "no no no no", [], "a.tsv.zst"),
    ],
)  # fmt: skip
def test_faults_are_named(tmp_path: Path, name: str, content: str, columns: list[str], message: str) -> None:
    if ".parquet" in name:
        pytest.importorskip("pyarrow")
    if ".zst" in name:
        pytest.importorskip("zstandard")
    assert message in problem(write(tmp_path / name, content), *columns)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_file_that_is_cut_off_is_no_shorter_corpus(tmp_path: Path, ending: str) -> None:
    text = "".join(f"d\t{n}\t{n * n}\n" for n in range(3000)).encode()
    data = gzip.compress(text) if ending == ".gz" else pytest.importorskip("zstandard").compress(text)
    path = write(tmp_path / f"c.tsv{ending}", data[: len(data) // 2])
    assert f"c.tsv{ending}" in problem(path)


def test_a_row_of_parquet_is_named_by_its_number(tmp_path: Path) -> None:
    """Counted from 1, also behind the first group of rows."""
    rows = [{"src": "a", "tgt": "A"}] * 8 + [{"src": "a\0", "tgt": "A"}]
    assert "a.parquet: row 9" in problem(parquet(tmp_path / "a.parquet", rows), "source=src", "target=tgt")


@pytest.mark.parametrize("kind", [jsonl, parquet])
def test_linked_documents(tmp_path: Path, kind: Any) -> None:
    """DocHPLT: several sentences of a link become one, those of no link have no partner."""
    path = kind(tmp_path / f"hplt.{kind.__name__}", [HPLT, {**HPLT, "src_doc_id": "c"}])
    texts, structure, _, names = read(path)
    assert texts == [("one", "eins"), ("two", ""), ("three four", "drei")] * 2
    assert structure.document_offsets.tolist() == [0, 3, 6]
    assert names == ["a b", "c b"]
    backwards = ["source=tgt_doc", "target=src_doc"]
    assert read(path, *backwards)[0][:4] == [("eins", "one"), ("zwei", ""), ("drei", "three four"), ("vier", "")]
