"""Text that has to be divided into sentences, and its translation put together as it was."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise

import pytest
import small_system
from hypothesis import given
from hypothesis import strategies as st

from docnmt.apps.commands.output import sentences_of_lines, write_lines
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import parse_columns
from docnmt.core.read_corpus import TextLines
from docnmt.core.split_sentences import RunningText, of_documents, of_sentences, of_table, split_sentences, whole_lines
from docnmt.runtime.system import UserError


def lines(text: str) -> TextLines:
    return TextLines(io.BytesIO(text.encode()), name="stdin")


def parts(text: str, kind: str, *columns: str) -> Iterator[RunningText]:
    return of_table(lines(text), kind, parse_columns(columns)[0], "en", split_sentences)


def table(text: str, kind: str, *columns: str) -> RunningText:
    return RunningText.together(parts(text, kind, *columns))


def sentences(text: RunningText) -> list[list[str]]:
    return [list(document.sentences) for document in text.documents]


def echoed(text: RunningText) -> list[str]:
    """The output of a translation into capitals."""
    return list(text.joined(sentence.upper() for document in sentences(text) for sentence in document))


def closed(form: Callable[[TextLines], Iterator[RunningText]], blocks: Sequence[str]) -> list[tuple[int, list[str]]]:
    """What is written for each part, and how many blocks of the input had been read when it was closed."""
    read = 0

    def arriving() -> Generator[bytes, None, None]:
        nonlocal read
        for block in blocks:
            read += 1
            yield block.encode()

    return [(read, echoed(part)) for part in form(TextLines(arriving(), name="stdin"))]


def jsonl(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_row_a_line() -> None:
    text = RunningText.of([2, 0, 1])
    assert list(text.joined(iter(["IT RAINED.", "WE LEFT.", "BYE."]))) == ["IT RAINED. WE LEFT.", "", "BYE."]
    assert list(RunningText.of([]).joined(iter([]))) == []


def test_lines_of_scripts_without_spaces_are_joined_by_nothing() -> None:
    text = RunningText.of([3, 2, 2, 2])
    found = ["下雨了。", "", "我们走吧！", "雨だ。", "Rain.", "Rain.", "雨だ。", "ฝนตก", "ไปกัน"]
    assert list(text.joined(iter(found))) == ["下雨了。我们走吧！", "雨だ。Rain.", "Rain. 雨だ。", "ฝนตกไปกัน"]
    rows = [{"source": "下雨了。\n我们走吧！"}]
    out = [json.loads(line)["hypothesis"] for line in echoed(table(jsonl(rows), "jsonl"))]
    assert out == ["下雨了。\n我们走吧！"]
    written = io.StringIO()
    write_lines([2, 1], iter(found[:1] + found[2:4]), written)
    assert written.getvalue() == "下雨了。我们走吧！\n雨だ。\n"


def test_whole_documents_a_line() -> None:
    found = of_documents(lines("A title\\n\\nIt rained. We left.\n\nBye.\n"), split_sentences)
    text = RunningText.together(found)
    assert sentences(text) == [["A title", "It rained.", "We left."], [], ["Bye."]]
    assert echoed(text) == ["A TITLE\\n\\nIT RAINED. WE LEFT.", "", "BYE."]


def test_rows_of_wmt24pp() -> None:
    """Segments of several sentences and lines; those of one document are read together."""
    rows = [
        {"document_id": "d1", "segment_id": 1, "source": "A title", "target": "x", "is_bad_source": False},
        {"document_id": "d1", "segment_id": 2, "source": "It rained. We left.\n\nBye — ü.", "target": None},
        {"document_id": "d2", "segment_id": 3, "source": "", "target": "y"},
    ]
    text = table(jsonl(rows), "jsonl")
    assert sentences(text) == [["A title", "It rained.", "We left.", "Bye — ü."], []]
    out = [json.loads(line) for line in echoed(text)]
    assert [{**row, "hypothesis": None} for row in out] == [{**row, "hypothesis": None} for row in rows]
    assert [row["hypothesis"] for row in out] == ["A TITLE", "IT RAINED. WE LEFT.\n\nBYE — Ü.", ""]
    assert "Ü" in echoed(text)[1]


def test_documents_without_names() -> None:
    """One up to a row without text, as in docnmt-preprocess; a row with a list is one by itself."""
    rows = [{"src": text} for text in ("a", "b", "", "c")]
    assert sentences(table(jsonl(rows), "jsonl")) == [["a", "b"], ["c"]]
    rows[2]["src"] = " \t"
    assert sentences(table(jsonl(rows), "jsonl")) == [["a", "b"], ["c"]]
    whole = table(jsonl([{"src": ["a", "Bed. Cat."]}, {"src": ["d"]}]), "jsonl")
    assert sentences(whole) == [["a", "Bed.", "Cat."], ["d"]]
    assert [json.loads(line)["hypothesis"] for line in echoed(whole)] == ["A\nBED. CAT.", "D"]


def test_tsv_with_and_without_a_header() -> None:
    bare = table("d1\tOne. Two.\tx\nd2\tThree.\ty\n", "tsv")
    assert sentences(bare) == [["One.", "Two."], ["Three."]]
    assert echoed(bare) == ["d1\tOne. Two.\tx\tONE. TWO.", "d2\tThree.\ty\tTHREE."]
    headed = table("text\tid\nOne.\t1\n\nTwo.\t1\n", "tsv", "source=text", "document=id")
    assert sentences(headed)[0] == ["One."]
    assert echoed(headed) == ["text\tid\thypothesis", "One.\t1\tONE.", "", "Two.\t1\tTWO."]


def test_a_document_is_there_as_soon_as_its_end_has_come() -> None:
    corpus = ["a.\nb", ".\n\n", "\nc.\n", "<p>\nd.\n", "\n", "e.\n"]
    assert closed(of_sentences, corpus) == [(2, ["A.", "B.", ""]), (3, [""]), (5, ["C.", "D.", ""]), (6, ["E."])]
    marked = ["<d>\na.\n", "<d>\n<d>\n", "b.\n", "<d>\n"]
    assert closed(of_sentences, marked) == [(2, ["A.", ""]), (4, ["B.", ""])]
    whole = partial(of_documents, split=split_sentences)
    assert closed(whole, ["a.\\nb.\n", "\n", "c"]) == [(1, ["A.\\nB."]), (2, [""]), (3, ["C"])]
    of_tsv = partial(of_table, kind="tsv", given=parse_columns([])[0], language="en", split=split_sentences)
    rows = ["doc\tsrc\n", "1\ta\n", "1\tb\n2\tc\n", "\n", "2\td\n"]
    assert closed(of_tsv, rows) == [
        (1, ["doc\tsrc\thypothesis"]), (3, ["1\ta\tA", "1\tb\tB"]), (4, ["2\tc\tC"]), (5, [""]), (5, ["2\td\tD"])
    ]  # fmt: skip
    of_jsonl = partial(of_table, kind="jsonl", given=parse_columns([])[0], language="en", split=split_sentences)
    found = closed(of_jsonl, [jsonl([{"src": [text]}]) for text in "ab"])
    assert [(read, json.loads(out[0])["hypothesis"]) for read, out in found] == [(1, "A"), (2, "B")]


def test_a_long_line_of_a_corpus_is_cut_and_written_as_one() -> None:
    text = f"a.\n{'b ' * 999}b\n\nc.\n"
    (first, second) = of_sentences(lines(text), whole_lines())
    assert [len(sentence) for sentence in first.documents[0].sentences] == [2, 1499, 499]
    assert second.documents[0].sentences == ("c.",)
    assert list(first.joined(iter(["A", "B", "B2", "C"]))) == ["A", "B B2", ""]


def test_paragraphs_are_known_from_the_first_document_that_has_them() -> None:
    text = "a.\nb.\n\n<p>\nc.\n<p>\nd.\n\ne.\n"
    documents = RunningText.together(of_sentences(lines(text))).documents
    assert [len(set(document.units)) for document in documents] == [0, 2, 1]


@given(st.lists(st.sampled_from(["a.", "b c.", "", " ", "<p>"]), max_size=12), st.booleans(), st.integers(1, 5))
def test_the_plain_form_is_that_of_a_corpus(rows: list[str], marks: bool, size: int) -> None:
    """By the reader of data folders, which sees all at once; and in whatever blocks it comes."""
    text = "".join(f"{row}\n" for row in (["<p>", *rows] if "<p>" in rows else rows))
    text = text.replace("\n\n", "\n<d>\n").replace(" \n", "<d>\n") if marks else text
    try:
        corpus = small_system.corpus_of_text(lines(text))
    except UserError:
        return  # two ways of marking documents
    found = RunningText.together(of_sentences(lines(text)))
    documents = [list(corpus.source_text[a:b]) for a, b in pairwise(corpus.document_offsets.tolist())]
    assert sentences(found) == documents
    assert [counts[0] for counts in found.rows] == sentences_of_lines(corpus)
    own = ParallelCorpus.from_documents(found.documents, small_system.tokenizer())
    assert own.levels.tolist() == corpus.levels.tolist()
    blocks = [text[n : n + size] for n in range(0, len(text), size)]
    assert [line for _, part in closed(of_sentences, blocks) for line in part] == echoed(found)


def test_faults_name_the_line() -> None:
    with pytest.raises(UserError, match=":2:"):
        table('{"src": "a"}\n{"src": 5}\n', "jsonl")
    with pytest.raises(UserError, match=r":2:.*'hypothesis'"):
        table('{"source": "A."}\n{"source": "B.", "hypothesis": ""}\n', "jsonl")
    with pytest.raises(UserError, match=r":1:.*'hypothesis'"):
        table("source\thypothesis\nA.\tB.\n", "tsv")
    with pytest.raises(UserError, match="stdin:"):
        table('{"a": "b"}\n', "jsonl")


@given(st.lists(st.lists(st.text(alphabet="ab. \n", max_size=12), max_size=3), min_size=1, max_size=5))
def test_nothing_is_lost(documents: list[list[str]]) -> None:
    rows = [{"doc": n, "src": text} for n, document in enumerate(documents) for text in document]
    if not rows:
        return
    out = [json.loads(line)["hypothesis"] for line in echoed(table(jsonl(rows), "jsonl"))]
    for row, found in zip(rows, out, strict=True):
        assert [part.split() for part in found.split("\n")] == [
            part.upper().split() for part in str(row["src"]).split("\n")
        ]


def test_a_json_row_stays_as_it_was_written() -> None:
    row = r'{"src": "a\u00e9", "weight": 1.10, "n": 1e400, "n": 12345678901234567890.5 }'
    (line,) = echoed(table(f"  {row}  \n", "jsonl"))
    assert line == f"  {row[:-2]}, " + '"hypothesis": "AÉ"}'
