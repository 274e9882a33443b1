"""The forms of a parallel corpus, read as sentences on both sides and one structure."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from parallel_text import Read, read_all

from docnmt.core.read_corpus import Facts, Reading, find_split, read_split
from docnmt.runtime.system import UserError


class Corpus:
    """Files of one split in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prefix = folder, str(folder / "c")

    def write(self, **files: str) -> Corpus:
        for ending, content in files.items():
            (self.folder / f"c.{ending.replace('_', '.')}").write_bytes(content.encode())
        return self

    def read(self) -> Read:
        return read_all(find_split(self.prefix, Reading(("en", "de"))))

    def problem(self) -> str:
        with pytest.raises(UserError) as error:
            self.read()
        return str(error.value).replace(str(self.folder) + "/", "")


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def test_empty_lines_divide_documents(corpus: Corpus) -> None:
    corpus.write(en="\na\n  b\u2028 \n \n\nc\n\n", de="\nA\n\u00a0B\t\n\n\t\nC\n\n")
    texts, structure, facts, _ = corpus.read()
    assert texts == [("a", "A"), ("  b\u2028 ", "\u00a0B\t"), ("c", "C")]
    assert structure.document_offsets.tolist() == [0, 2, 3]
    assert structure.blank_lines.tolist() == [1, 2, 1]
    assert structure.levels.shape == (3, 0)
    assert facts.notes == []


def test_marks_of_documents_and_paragraphs(corpus: Corpus) -> None:
    english = "<d>\r\n<d>\r\na\r\n<p>\r\nb\r\n <p> \r\nc\r\n<d>\r\n<p>\r\nd\r\n"
    corpus.write(en=english, de=english.upper().replace("<D>", "<d>").replace("<P>", "<p>"))
    texts, structure, facts, _ = corpus.read()
    assert texts == [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]
    assert structure.document_offsets.tolist() == [0, 3, 4]
    assert structure.levels.tolist() == [[0], [1], [2], [0]]
    assert structure.blank_lines.tolist() == [0, 1, 0]
    assert len([note for note in facts.notes if "10 of 10" in note]) == 2


def test_separators_inside_of_lines_are_noted(corpus: Corpus) -> None:
    for sign in ("_eos", "<SEP>"):
        facts = corpus.write(en=f"A.\nOne. {sign} Two.\n", de="B.\nEins. Zwei.\n").read()[2]
        assert ["c.en" in note and f"'{sign}' in line 2" in note for note in facts.notes] == [True]


def test_levels_are_labels_and_other_columns_are_not_read(corpus: Corpus) -> None:
    corpus.write(
        en="a\nb\nc\n\nd\n", de="A\nB\nC\n\nD\n", levels_tsv="5\t2\thead\tx\n5\t4\tpara\t\n6\t4\tpara\t7\n\n6\t4\t\t\n"
    )
    _, structure, facts, _ = corpus.read()
    assert structure.levels.tolist() == [[0, 0], [0, 1], [1, 0], [0, 0]]
    assert facts.levels


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"en": "a\nb\n", "de": "A\n"}, "c.en"),
        ({"en": "a\n\nb\n", "de": "A\nB\nC\n"}, "c.en:2"),
        ({"en": "a\n\nb\nc\n", "de": "A\nB\nC\n"}, "c.en"),
        ({"en": "a\n<d>\nb\n", "de": "A\n\nB\n"}, "c.en:2"),
        ({"en": "<p>\na\n", "de": "<p>\nA\n", "levels_tsv": "\n1\n"}, "c.en:1"),
        ({"en": "", "de": ""}, "c.en"),
        ({"de": "A\n"}, "c.en"),
        ({"en": "a\n", "de": "A\n", "de0": "B\n"}, "de0"),
        ({"levels_tsv": "1\n", "en-de_xml": "<a/>"}, "c"),
        ({"en": "a\n", "en_gz": "", "de": "A\n"}, "c.en.gz"),
        ({"en": "a\n", "de0": "A\n", "de0_gz": ""}, "c.de0.gz"),
        ({"en": "a\n", "de": "A\n", "levels_tsv": "1\n", "levels_tsv_zst": ""}, "c.levels.tsv.zst"),
        ({"en": "a\nb\n", "de": "A\nB\n", "levels_tsv": "1\n"}, "c.levels.tsv"),
        ({"en": "a\n\nb\n", "de": "A\n\nB\n", "levels_tsv": "1\n1\n1\n"}, "c.levels.tsv:2"),
        ({"en": "a\nb\n", "de": "A\nB\n", "levels_tsv": "1\t1\n1\tx\n"}, "c.levels.tsv:2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_with_its_place(
    corpus: Corpus, files: dict[str, str], problem: str
) -> None:
    assert problem in corpus.write(**files).problem()


XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="test"><collection id="general">
<doc id="first" origlang="en">
 <src lang="en"><p><seg id="1">a &amp; b</seg><seg id="2">c
   d</seg></p><p><seg id="3">e</seg></p></src>
 <ref lang="de" translator="A"><p><seg id="1">A</seg><seg id="2">C</seg></p><p><seg id="3">E</seg></p></ref>
 <ref lang="de" translator="B"><p><seg id="1">1</seg><seg id="2">2</seg></p><p><seg id="3">3</seg></p></ref>
 <hyp system="x"><p><seg id="1">no</seg></p></hyp>
</doc>
<doc id="second"><src lang="en"><p><seg id="1">f</seg></p></src>
 <ref lang="de" translator="A"><p><seg id="1">F</seg></p></ref>
</doc></collection></dataset>
"""


def test_wmt_xml(corpus: Corpus) -> None:
    corpus.write(**{"en-de_xml": XML})
    texts, structure, facts, names = corpus.read()
    assert texts == [("a & b", "A"), ("c d", "C"), ("e", "E"), ("f", "F")]
    assert structure.document_offsets.tolist() == [0, 3, 4]
    assert structure.levels.tolist() == [[0], [0], [1], [0]]
    assert structure.blank_lines.tolist() == [0, 1, 0]
    assert names == ["first", "second"]
    assert any("'B' (1 of 2)" in note for note in facts.notes)
    assert any("1 segments" in note for note in facts.notes)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("</collection>", "", "c.en-de.xml:12"),
        ('<seg id="2">C</seg>', "", "'first'"),
        ('<seg id="1">F</seg>', '<seg id="1"> </seg>', "'second'"),
        ('<src lang="en"><p><seg id="1">f</seg></p></src>', "", "'second'"),
    ],
)
def test_damaged_wmt_xml_is_refused(corpus: Corpus, old: str, new: str, problem: str) -> None:
    assert old in XML
    assert problem in corpus.write(**{"en-de_xml": XML.replace(old, new)}).problem()


@pytest.mark.parametrize("digits", [20, 5000])
def test_numbers_of_segments_may_be_long(corpus: Corpus, digits: int) -> None:
    xml = re.sub('"1">f', f'"{"9" * digits}">f', XML, flags=re.IGNORECASE)
    files = find_split(corpus.write(**{"en-de_xml": xml}).prefix, Reading(("en", "de")))
    assert [*read_split(files, Facts())][-1].places[0][1] == 1


@pytest.mark.parametrize("ending", ["de0", "de1", "levels.tsv"])
def test_any_file_may_be_compressed(corpus: Corpus, ending: str) -> None:
    corpus.write(en="a\nb\n", de0="A\nB\n", de1="1\n2\n", levels_tsv="1\n2\n")
    texts, structure, _, _ = corpus.read()
    file = corpus.folder / f"c.{ending}"
    Path(f"{file}.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert corpus.read()[0] == texts
    assert corpus.read()[1].levels.tolist() == structure.levels.tolist()


def test_zeros_fill_up_compressed_files(corpus: Corpus) -> None:
    packed = gzip.compress(b"a\n") + gzip.compress(b"b\n") + bytes(1 << 17)
    corpus.write(de="A\nB\n")
    (corpus.folder / "c.en.gz").write_bytes(packed)
    assert corpus.read()[0] == [("a", "A"), ("b", "B")]
    for damaged in (packed + b"c\n", bytes(10) + packed):
        (corpus.folder / "c.en.gz").write_bytes(damaged)
        assert "c.en.gz" in corpus.problem()


def test_what_lacks_a_further_reference_is_noted_apart(corpus: Corpus) -> None:
    corpus.write(en="a\nb\nc\nd\n", de0="A\n \nC\nD\n", de1="1\n2\n \n \n")
    texts, _, facts, _ = read_all(find_split(corpus.prefix, Reading(("en", "de"), one_sided="read")))
    assert texts == [("a", "A", "1"), ("b", "", "2"), ("c", "C", ""), ("d", "D", "")]
    matches = [re.search(r"(\d+) lines.*c\.en:(\d+)", note) for note in facts.notes]
    assert [match.groups() for match in matches if match] == [("1", "2"), ("2", "3")]


def test_several_references_or_none(corpus: Corpus) -> None:
    corpus.write(en="a\n", de1="B\n", de0="A\n")
    assert corpus.read()[0] == [("a", "A", "B")]
    (corpus.folder / "c.de0").unlink()
    assert "c.de0" in corpus.problem()
    (corpus.folder / "c.de1").unlink()
    assert corpus.read()[0] == [("a",)]
