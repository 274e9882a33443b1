"""Text that has to be divided into sentences, and its translation put together as it was."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docnmt.errors import UserError
from docnmt.formats.columns import parse_columns
from docnmt.formats.running_text import RunningText, of_documents, of_table
from docnmt.formats.sentences import split_sentences, splitter
from docnmt.formats.text import TextLines


def lines(text: str) -> TextLines:
    return TextLines(io.BytesIO(text.encode()), name="stdin")


def table(text: str, kind: str, *columns: str) -> RunningText:
    return of_table(lines(text), kind, parse_columns(columns)[0], "en", split_sentences)


def echoed(text: RunningText) -> list[str]:
    """The output of a translation into capitals."""
    return list(text.joined(sentence.upper() for document in text.documents for sentence in document))


def jsonl(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_row_a_line() -> None:
    text = RunningText.of([2, 0, 1])
    assert list(text.joined(iter(["IT RAINED.", "WE LEFT.", "BYE."]))) == ["IT RAINED. WE LEFT.", "", "BYE."]
    assert list(RunningText.of([]).joined(iter([]))) == []


def test_whole_documents_a_line() -> None:
    text = of_documents(lines("A title\\n\\nIt rained. We left.\n\nBye.\n"), split_sentences)
    assert text.documents == [["A title", "It rained.", "We left."], [], ["Bye."]]
    assert echoed(text) == ["A TITLE\\n\\nIT RAINED. WE LEFT.", "", "BYE."]


def test_rows_of_wmt24pp() -> None:
    """Segments of several sentences and lines; those of one document are read together."""
    rows = [
        {"document_id": "d1", "segment_id": 1, "source": "A title", "target": "x", "is_bad_source": False},
        {"document_id": "d1", "segment_id": 2, "source": "It rained. We left.\n\nBye — ü.", "target": None},
        {"document_id": "d2", "segment_id": 3, "source": "", "target": "y"},
    ]
    text = table(jsonl(rows), "jsonl")
    assert text.documents == [["A title", "It rained.", "We left.", "Bye — ü."], []]
    out = [json.loads(line) for line in echoed(text)]
    assert [{**row, "hypothesis": None} for row in out] == [{**row, "hypothesis": None} for row in rows]
    assert [row["hypothesis"] for row in out] == ["A TITLE", "IT RAINED. WE LEFT.\n\nBYE — Ü.", ""]
    assert "Ü" in echoed(text)[1]


def test_documents_without_names() -> None:
    """One up to a row without text, as in docnmt-preprocess; a row with a list is one by itself."""
    rows = [{"src": text} for text in ("a", "b", "", "c")]
    assert table(jsonl(rows), "jsonl").documents == [["a", "b"], ["c"]]
    whole = table(jsonl([{"src": ["a", "Bed. Cat."]}, {"src": ["d"]}]), "jsonl")
    assert whole.documents == [["a", "Bed.", "Cat."], ["d"]]
    assert [json.loads(line)["hypothesis"] for line in echoed(whole)] == ["A\nBED. CAT.", "D"]


def test_tsv_with_and_without_a_header() -> None:
    bare = table("d1\tOne. Two.\tx\nd2\tThree.\ty\n", "tsv")
    assert bare.documents == [["One.", "Two."], ["Three."]]
    assert echoed(bare) == ["d1\tOne. Two.\tx\tONE. TWO.", "d2\tThree.\ty\tTHREE."]
    headed = table("text\tid\nOne.\t1\n\nTwo.\t1\n", "tsv", "source=text", "document=id")
    assert headed.documents[0] == ["One."]
    assert echoed(headed) == ["text\tid\thypothesis", "One.\t1\tONE.", "", "Two.\t1\tTWO."]


def test_faults_name_the_line() -> None:
    with pytest.raises(UserError, match="stdin:2: expected a text as source or target, got 5"):
        table('{"src": "a"}\n{"src": 5}\n', "jsonl")
    with pytest.raises(UserError, match="stdin: which column is the source"):
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


def test_other_languages_have_another_splitter(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentencex")
    assert splitter("sentencex", "hi")("यह है।  वह है। ") == ["यह है।", "वह है।"]
    assert splitter("sentencex", "de-AT")(" ") == []
    assert splitter("rules", "de")("Am 3. Mai. Gut.") == ["Am 3. Mai.", "Gut."]
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(UserError, match=r"--splitter sentencex needs an extra: pip install 'docnmt\[sentencex\]'"):
        splitter("sentencex", "hi")
