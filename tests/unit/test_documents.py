"""Documents: what is read of each kind, what is written again, what is refused."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
import sample_documents
from hypothesis import given
from hypothesis import strategies as st
from sample_documents import KINDS, Model, content, document, translate
from sample_packages import word

from docnmt.apps.documents import kinds
from docnmt.apps.documents.kinds import kind_of, register_kind
from docnmt.apps.documents.projection import project
from docnmt.apps.documents.segments import Inline, MarkPiece, Translated, pieces
from docnmt.apps.documents.text import PlainText
from docnmt.testing import check_kind


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_does_what_documents_must(kind: str) -> None:
    check_kind(kind, content(kind))
    check_kind(kind)  # with the sample that plug-ins' tests see


def test_a_lost_mark_is_refused() -> None:
    file = document("html", "<p>The <code>x</code> dog</p>")
    with pytest.raises(ValueError, match="0"):
        file.write([Translated("Der x Hund")])
    with pytest.raises(ValueError, match=r"'x'.*'y'"):
        file.write([Translated("Der y Hund", ((4, 5),))])


@pytest.mark.parametrize(
    "text", ["1. *a* # [x] <b> _y_", "# a", "- a", "> a", "a\\*", "`x", "a | b", "+ a", "&amp; <i>", "C #", "##", "C#"]
)
@pytest.mark.parametrize("frame", ["word\n", "# word\n", "- word\n", "| word | b |\n|--|--|\n"])
def test_markdown_escapes_what_would_mean_something(text: str, frame: str) -> None:
    file = document("md", frame)
    texts = [file.unchanged(number) for number in range(len(file.segments))]
    again = document("md", file.write([Translated(text), *texts[1:]]))
    assert again.segments[0].text == text
    assert not any(mark for mark in again.segments[0].marks)


@pytest.mark.parametrize("text", ["- red", "1. red", "# red", "+ red", "> red"])
@pytest.mark.parametrize("frame", ["one  \ntwo\n", "> one\\\n> two\n", "- one  \n  two\n"])
def test_markdown_escapes_what_begins_a_line(text: str, frame: str) -> None:
    file = document("md", frame)
    (segment,) = file.segments
    assert segment.text == "one\ntwo"
    written = file.write([Translated(f"{text}\n{text}", ((len(text), len(text) + 1),))])
    again = document("md", written)
    assert [segment.text for segment in again.segments] == [f"{text}\n{text}"]


def test_what_markdown_leaves_is_said() -> None:
    text = "---\ntitle: x\n---\none\n\n> <div>\n> two\n> </div>\n\n> <hr>\n> <br>\n\n> - <p>three</p>\n>   four\n"
    file = document("md", text)
    assert [segment.text for segment in file.segments] == ["one"]
    assert list(file.left) == ["the front matter, with its title or description", 6, 13]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("html", '<p translate="no">one <b>x</b><p>red'),  # what is kept needs no end tag
        ("html", '<ul><li class="notranslate">one<p>two</p><li>red</ul>'),
        ("html", '<dl><dt translate="no">one<dd>red</dl><p>red</p>'),
        ("html", '<table><tr><td translate="no">one<td>red<tr><th>red</table>'),
        ("html", '<div><p translate="no">one</div>red'),
        ("html", '<p>red <i translate="no">one</i> red<p>red'),
        ("md", "- <script>x = 1</script> red\n"),
        ("md", "- <div>\n  red\n  </div>\n- <hr>\n"),
        ("md", "> <b>red</b>\n"),
        ("md", "* <p>\r\n  red</p>\r\n"),
        ("md", "".join(f"{'  ' * depth}- red\n" for depth in range(15))),
    ],
)
def test_what_is_red_is_translated(kind: str, text: str) -> None:
    file = document(kind, text)
    assert translate(file, Model()).decode() == text.replace("red", "RED")
    assert not file.left


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_of_plain_text_end_in_three_ways(end: str) -> None:
    file = document("txt", f"a dog{end}a cat{end}{end}a house{end}")
    assert [(segment.text, segment.units[1]) for segment in file.segments] == [
        ("a dog", "0"),
        ("a cat", "0"),
        ("a house", "1"),
    ]
    assert translate(file, Model()).decode() == f"A DOG{end}A CAT{end}{end}A HOUSE{end}"


@pytest.mark.parametrize("kind", ["po", "xlf", "tmx"])
def test_translations_that_are_there_are_given(kind: str) -> None:
    file, model = document(kind), Model()
    translate(file, model)
    given = {sentence.text: sentence.given for sentence in model.asked[0]}
    assert given["The cat"] == "Die Katze"
    assert "Katze" not in "".join(segment.text for segment in file.segments)


def test_a_table_ends_the_list_before_it() -> None:
    import docx

    made, out = docx.Document(), io.BytesIO()
    made.add_paragraph("one", style="List Bullet")
    made.add_paragraph("two", style="List Bullet")
    for cell, text in zip(made.add_table(1, 2).rows[0].cells, ("three", "four"), strict=True):
        cell.text = text
    made.save(out)
    segments = document("docx", out.getvalue()).segments
    assert [segment.text for segment in segments] == ["one", "two", "three", "four"]
    assert [segments[i].units == segments[i + 1].units for i in range(3)] == [True, False, True]


def test_docx() -> None:
    import docx

    written = docx.Document(io.BytesIO(translate(document("docx"), Model())))
    runs = [[(run.text, run.bold, run.italic) for run in paragraph.runs] for paragraph in written.paragraphs]
    assert runs[0] == [("THE TITLE", None, None)]
    texts, bold, italic = zip(*runs[1][:5], strict=True)
    assert texts == ("THE DOG ", "SEES", " THE HOUSE, ", "MORE", "\n")
    assert (bold, italic) == ((None, True, None, None, None), (None, None, None, True, None))
    assert written.paragraphs[1].text.endswith("\nSECOND LINE\tWITH TAB. 100")
    assert [cell.text for cell in written.tables[0].rows[0].cells] == ["CELL", "42"]
    assert written.sections[0].header.paragraphs[0].text == "HEAD TEXT"
    assert [segment.units for segment in document("docx").segments][:4] == [("1", number) for number in "1233"]


def test_odt() -> None:
    package = zipfile.ZipFile(io.BytesIO(translate(document("odt"), Model())))
    assert package.infolist()[0].filename == "mimetype"
    assert package.infolist()[0].compress_type == zipfile.ZIP_STORED
    written = package.read("content.xml").decode()
    assert "THE DOG <text:span>SEES IT</text:span> REST<text:line-break/>NEW LINE. AND MORE.<text:note" in written
    assert "<text:p>THE NOTE</text:p></text:note-body></text:note> END</text:p>" in written


@pytest.mark.parametrize(
    "function",
    [lambda text: "", lambda text: text.replace("%s", "% s").replace("code", "Kode"), lambda text: f"{text} {text}"],
)
@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("html", "<p>Use <code>code_a</code> and <b>the <code>code_b</code></b> now, <code>code_a</code>!</p>"),
        ("md", "Use `code_a` with %s and http://a.b/code in [the `code_b` link](x).\n"),
    ],
)
def test_what_is_fixed_comes_through_whatever_the_model_does(function: Any, kind: str, source: str) -> None:
    model = Model(function)
    written = translate(document(kind, source), model).decode()
    for text in ("<code>code_a</code>", "<code>code_b</code>", "`code_a`", "%s", "http://a.b/code", "`code_b`"):
        assert written.count(text) == source.count(text)
    assert len(model.asked) == 2
    assert all(sentence.given is not None or "code_" not in sentence.text for sentence in model.asked[1])


def test_sentences_are_translated_again_only_where_something_is_lost() -> None:
    model = Model(str.upper)
    file = document("txt", "The dog walks. It sees {name} there.\nThe cat.\n")
    written = translate(file, model).decode()
    assert written == "THE DOG WALKS. IT SEES {name} THERE.\nTHE CAT.\n"
    first, second = model.asked
    assert [sentence.text for sentence in first] == ["The dog walks.", "It sees {name} there.", "The cat."]
    assert [(s.text, s.given) for s in second] == [
        ("The dog walks.", "THE DOG WALKS."), ("It sees", None), ("there.", None), ("The cat.", "THE CAT."),
    ]  # fmt: skip


def test_kinds_of_plugins_are_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("KINDS", "ENDINGS"):
        monkeypatch.setattr(kinds, table, dict(getattr(kinds, table)))
    made = type("Lines", (PlainText,), {})
    assert register_kind("lines", "lines", "text/lines", others=["lns"], group="text")(made) is made
    register_kind("lines", "lines", "text/lines", group="text")(made)  # as when its module is imported again
    assert kind_of("x.lns") == "lines"
    assert ".lines" in kinds.groups()["text"]
    assert isinstance(kinds.read(b"a", "lines", name="x", source_lang="en", target_lang="de"), made)
    for ending in ("txt", "htm", ".b", "B"):
        with pytest.raises(ValueError, match=rf"(\.|'){ending}\b"):
            register_kind(ending, "others", "text/plain")(made)


def test_line_ends_stay() -> None:
    for kind in ("txt", "md", "po", "srt", "html"):
        source = sample_documents.TEXTS[kind].replace("\n", "\r\n").encode()
        file = document(kind, source)
        assert [segment.text for segment in file.segments] == [segment.text for segment in document(kind).segments]
        written = translate(file, Model())
        assert written.count(b"\n") == written.count(b"\r\n")


def test_formats_follow_the_alignment() -> None:
    """Words in another order: bold goes where its words went, by the model's alignment or by equal words."""
    file = document("html", "<p>Anna saw <b>old houses</b> and Berlin</p>")
    target = "Berlin und alte Häuser sah Anna"
    pairs = [(0, 27), (5, 23), (9, 11), (13, 16), (20, 7), (24, 0)]
    segment = file.segments[0]
    spans = project(segment.marks, segment.text, target, pairs)
    assert [target[begin:end] for begin, end in spans] == ["alte Häuser"]
    equal = document("html", "<p>Anna saw <b>Berlin</b> there</p>").segments[0]
    target = "Dort sah Berlin Anna"
    assert [target[b:e] for b, e in project(equal.marks, equal.text, target)] == ["Berlin"]


@given(st.lists(st.sampled_from(["a", "b", "c", "dd", "ee", ",", "."]), max_size=8), st.data())
def test_projected_marks_nest_and_lose_nothing(words: list[str], data: st.DataObject) -> None:
    """Whatever the marks and the translation: formats stay inside of each other, all marks and all text are written."""
    inline: Inline[int] = Inline()
    for number, token in enumerate(words):
        depth = len(inline._open)
        step = data.draw(st.sampled_from(["open", "close", "fixed", "none"]))
        if step == "open":
            inline.open(number)
        elif step == "close" and depth:
            inline.close()
        elif step == "fixed":
            inline.fixed(number)
        inline.text(f"{token} ")
    segment = inline.segment()
    target = " ".join(data.draw(st.lists(st.sampled_from(["a", "b", "x", "yy", ",", "."]), max_size=8)))
    spans = project(segment.marks, segment.text, target)
    assert all(0 <= begin <= end <= len(target) for begin, end in spans)
    written = list(pieces(segment.marks, Translated(target, spans)))
    assert "".join(piece for piece in written if isinstance(piece, str)).split() == target.split()
    opened: list[int] = []
    seen = []
    for piece in written:
        if isinstance(piece, MarkPiece) and piece.kind == "open":
            assert segment.marks[piece.number].parent == (opened[-1] if opened else -1)
            opened.append(piece.number)
        elif isinstance(piece, MarkPiece) and piece.kind == "close":
            assert opened.pop() == piece.number
        if isinstance(piece, MarkPiece) and piece.kind != "close":
            seen.append(piece.number)
    assert sorted(seen) == list(range(len(segment.marks)))


def test_docx_parts_words_where_word_does() -> None:
    inside = (
        "<w:t>Call 555</w:t><w:noBreakHyphen/><w:t>1234 now.</w:t><w:ptab w:relativeTo='margin' w:alignment='center' "
        "w:leader='none'/><w:t>Before it</w:t><w:br w:type='page'/><w:t>after it.</w:t>"
    )
    file = document("docx", word(f"<w:p><w:r>{inside}</w:r></w:p>"))
    assert [segment.text for segment in file.segments] == ["Call 555\u20111234 now.\nBefore it\nafter it."]
    again = document("docx", translate(file, Model()))
    assert [segment.text for segment in again.segments] == ["CALL 555\u20111234 NOW.\nBEFORE IT\nAFTER IT."]
