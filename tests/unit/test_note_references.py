"""References of notes and text that is not shown: what a model reads of them, and where they stand afterwards."""

from __future__ import annotations

import io
import zipfile
from functools import partial

import pytest
from sample_documents import Model, content, document, translate

from docnmt.apps.documents.segments import is_reference
from docnmt.apps.documents.sentences import translated
from docnmt.core.split_sentences import split_sentences

#: A sentence that ends with a reference, one that has one behind a word, and what follows: as text, and in each kind.
PLAIN = ["They had two rivers.", "It was small and old.", "The end."]
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def word(body: str, kind: str = "docx", styles: str = "") -> bytes:
    """A text of Word or OpenDocument with this body."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content(kind))) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            raw = old.read(name)
            if name == "word/document.xml":
                raw = f'<w:document xmlns:w="{_W}"><w:body><w:p>{body}</w:p></w:body></w:document>'.encode()
            elif name == "content.xml":
                raw = (
                    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
                    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
                    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
                    'xmlns:xlink="http://www.w3.org/1999/xlink"><office:automatic-styles>'
                    '<style:style style:name="S"><style:text-properties style:text-position="super 58%"/></style:style>'
                    '<style:style style:name="S2" style:parent-style-name="S"/>'
                    '<style:style style:name="H"><style:text-properties text:display="none"/></style:style>'
                    f"</office:automatic-styles><office:body><office:text><text:p>{body}</text:p></office:text>"
                    "</office:body></office:document-content>"
                ).encode()
            elif name == "word/styles.xml" or name.startswith(("word/header", "word/foot", "word/endn", "styles.xml")):
                continue
            new.writestr(name, raw)
        if styles:
            new.writestr("word/styles.xml", f'<w:styles xmlns:w="{_W}">{styles}</w:styles>')
    return out.getvalue()


def run(text: str, look: str = "") -> str:
    """A run of Word."""
    return f'<w:r>{look and f"<w:rPr>{look}</w:rPr>"}<w:t xml:space="preserve">{text}</w:t></w:r>'


RAISED = '<w:vertAlign w:val="superscript"/>'
KINDS: dict[str, bytes] = {
    "html": b'<p>They had two rivers.<a href="n.html#n5"><sup>55</sup></a> It was small<sup><a href="#3">3</a></sup> '
    b'and old.<sup>[2]</sup><a href="#x">[3]</a> The end.<a href="#s">*</a></p>',
    "md": rb"They had two rivers.[55](#n) It was small<sup>3</sup> and old.^2^ The end.[\[3\]](#x)",
    "docx": word(
        run("They had two rivers.") + run("55", RAISED) + run(" It was small")
        + f"<w:hyperlink w:anchor='n'>{run('[3]')}</w:hyperlink>" + run(" and old.")
        + run("2", '<w:rStyle w:val="Ref"/>') + run(" The end.") + run("1", RAISED) + run(",2", RAISED),
        styles=f'<w:style w:styleId="Up"><w:rPr>{RAISED}</w:rPr></w:style>'
        '<w:style w:styleId="Ref"><w:basedOn w:val="Up"/></w:style>',
    ),
    "odt": word(
        'They had two rivers.<text:span text:style-name="S">55</text:span> It was small<text:a xlink:href="#x">[3]'
        '</text:a> and old.<text:span text:style-name="S2"><text:a xlink:href="#y">2</text:a></text:span> The end.'
        '<text:span text:style-name="S">*</text:span>',
        "odt",
    ),
}  # fmt: skip


def written(kind: str, source: bytes) -> tuple[list[str], str]:
    """What a model reads of a document, and the document's main part when all its letters are capitals."""
    model = Model()
    out = translate(document(kind, source), model)
    if kind in ("docx", "odt"):
        with zipfile.ZipFile(io.BytesIO(out)) as package:
            out = package.read("word/document.xml" if kind == "docx" else "content.xml")
    return [sentence.text for sentence in model.asked[0]], out.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_is_a_mark_of_its_own(kind: str) -> None:
    asked, out = written(kind, KINDS[kind])
    assert asked == PLAIN
    order = [out.index(part) for part in ("RIVERS.", "55", "IT WAS SMALL", "3", "AND OLD.", "2", "THE END.")]
    if kind in ("docx", "odt"):  # other digits stand in them
        begin = out.index("THEY")
        order = [out.index(part, begin) for part in ("RIVERS.", "55<", "SMALL", "3]", "OLD.", "2<", "END.")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        *(("m", "2"), ("H", "2"), ("x", "10"), ("10", "6"), ("km", "2"), ("sec", "2"), ("(a+b)", "2"), ("", "1")),
        *(("the", "th"), ("word", "2020"), ("word", "-1")),
    ],
)
def test_a_power_is_no_reference(before: str, text: str) -> None:
    assert not is_reference(before, text, link=False)
    html = f"<p>It is {before}<sup>{text}</sup> now</p>".encode()
    assert written("html", html)[0] == [f"It is {before}{text} now"]


def test_digits_below_stay_in_words() -> None:
    water = {
        "html": b"<p>Water is H<sub>2</sub>O.</p>",
        "docx": word(run("Water is H") + run("2", '<w:vertAlign w:val="subscript"/>') + run("O.")),
    }
    for kind, source in water.items():
        assert written(kind, source)[0] == ["Water is H2O."]


@pytest.mark.parametrize(
    ("before", "text"), [("word.", "1"), ("word", "1,2"), ("word”", "*"), ("漢字", "3"), ("見", "12")]
)
def test_what_touches_a_word_or_an_end_is_a_reference(before: str, text: str) -> None:
    assert is_reference(before, text, link=False)
    assert is_reference(before, text, link=True)


def test_a_link_that_touches_nothing_is_text() -> None:
    assert written("html", b'<p>See page <a href="#5">55</a> and dog<a href="#5">s</a>.</p>')[0] == [
        "See page 55 and dogs."
    ]


def test_hidden_text_of_word_stays_and_is_named() -> None:
    hide = '<w:style w:styleId="Off"><w:rPr><w:vanish/></w:rPr></w:style>'
    shown = '<w:vanish w:val="0"/>'
    body = run("One ") + run("not this ", "<w:vanish/>") + run("dog") + run(" nor that", '<w:rStyle w:val="Off"/>')
    source = word(body + run(" barks", shown) + ".", styles=hide)
    assert document("docx", source).left == ["word/document.xml: hidden text"]
    asked, out = written("docx", source)
    assert asked == ["One dog barks"]
    assert "not this " in out
    assert " nor that" in out
    assert out.count("<w:vanish/>") == 1
    assert not document("docx", word(run("One dog"))).left


def test_hidden_text_of_opendocument_stays_and_is_named() -> None:
    source = word('One <text:span text:style-name="H">not this</text:span> dog barks', "odt")
    assert document("odt", source).left == ["content.xml: hidden text"]
    asked, out = written("odt", source)
    assert asked == ["One dog barks"]
    assert '<text:span text:style-name="H">not this</text:span>' in out


def test_abbreviations_of_markdown() -> None:
    source = b"The HTML of it.\n*[HTML]: a language\n*[W3C]: a *group*\n"
    asked, out = written("md", source)
    assert asked == ["The HTML of it.", "a language", "a group"]
    assert out == "THE HTML OF IT.\n*[HTML]: A LANGUAGE\n*[W3C]: A *GROUP*\n"


def test_a_reference_stays_at_the_end_of_its_sentence() -> None:
    """Wherever the words are aligned with: here all of a sentence with its first one."""
    source = b"<p>One two.<sup>1</sup> Three four five.<sup>2</sup><sup>3</sup> Six seven</p>"
    found = document("html", source)
    split = partial(split_sentences, language="en")
    texts = translated(
        found,
        Model(lambda text: " ".join(text.rstrip(".").split()[::-1]) + "." * text.endswith(".")),
        split=split,
        split_target=split,
        align=lambda pairs: [[(place, 0) for place in range(len(one))] for one, _ in pairs],
    )
    expected = b"<p>two One.<sup>1</sup> five four Three.<sup>2</sup><sup>3</sup> seven Six</p>"
    assert found.write(texts) == expected
