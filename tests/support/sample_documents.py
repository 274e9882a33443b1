"""A small document of every kind, and stand-ins for a model."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sample_catalogues import CATALOGUES
from sample_packages import PACKAGES, package

from docnmt import testing
from docnmt.apps.documents import kinds
from docnmt.apps.documents.kinds import read
from docnmt.apps.documents.segments import DocumentFile
from docnmt.apps.documents.sentences import SegmentSentence, translated
from docnmt.core.split_sentences import split_sentences

TXT = "The dog sees %s. The cat walks.\tA tab.\n\n  See http://a.b/c, then {name}.\n42\n"
MD = """---
title: The dog
---
# The *old* dog #

> Some **bold cat** and [a `code_x` link](http://x.y 'T') ![pic](p.png) \\* &amp; <b>more</b>\\
> second line, <http://u.v> and [ref].

| head | b \\| c |
|--|--|
| `x` word | 7 |

- item one
  goes on
- [ ] item two[^1]

<p align=center>Some <b>html</b> text</p>

    code block

Setext
===

[ref]: http://r.s
"""
HTML = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>The dog</title><style>p { color: red }</style></head>
<body><h1>The <b>old &amp; big</b> dog</h1>
<p>Some <a href="x">link <i>text</i></a>, <code>code_x</code> and <img src="a"> more.<br/>New
 line &copy; <!-- c --></p><ul><li>One<li><p>two</p></ul><pre>  no <b>x</b></pre>
<p translate="no">Nein</p><table><tr><td>Cell</td><td>42</td></tr></table></body></html>
"""
PO = r"""# comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: de\n"
"Plural-Forms: nplurals=2; plural=n != 1;\n"

#: a.c:1
#, c-format
msgid "The dog sees %s, <b>big</b> house\n"
msgstr ""

msgid "The cat"
msgstr "Die Katze"

msgid ""
"A dog that is\n"
"old walks. And more.\n"
"\n"
"  -h, --help    Show <file> help\n"
msgstr ""

msgctxt "x"
msgid "One dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

msgid "%s"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
"""
XLF = """<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en-US" original="x" datatype="x"><body>
 <trans-unit id="1"><source>The <g id="1">big dog</g>, sees <x id="2"/> now. </source>
 </trans-unit>
 <trans-unit id="2"><source>The cat</source><target>Die Katze</target></trans-unit>
 <trans-unit id="3" translate="no"><source>NO</source></trans-unit>
 <trans-unit id="4"><source>a <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept> {name}</source></trans-unit>
</body></file></xliff>
"""  # noqa: E501
XLF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de"><file id="f">
<unit id="1"><segment><source>The <pc id="1">old dog</pc> sees<ph id="2"/>.</source></segment>
<segment><source>The cat</source><target>Die Katze</target></segment></unit></file></xliff>
"""
TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>The <hi>old</hi> dog<ph x="1">&lt;br></ph></seg></tuv></tu>
<tu><tuv xml:lang="en-GB"><seg>The cat</seg></tuv><tuv xml:lang="DE"><seg>Die Katze</seg></tuv></tu></body></tmx>
"""
SRT = """1
00:00:01,000 --> 00:00:02,000
<i>The old dog</i>
sees the house, and the cat sleeps in it.

2
00:00:03,000 --> 00:00:04,000
{\\an8}- The dog.
- The cat.
"""


def docx() -> bytes:
    """A heading, a paragraph with formats, a line break and a tab, a list, a table, a header."""
    import docx as python_docx

    made = python_docx.Document()
    made.add_heading("The title", 1)
    paragraph = made.add_paragraph("The dog ")
    paragraph.add_run("sees").bold = True
    paragraph.add_run(" the house, ")
    paragraph.add_run("more").italic = True
    paragraph.add_run().add_break()
    paragraph.add_run("Second line\twith tab. ")
    paragraph.add_run("100")
    for item in ("Item one", "Item two"):
        made.add_paragraph(item, style="List Bullet")
    table = made.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Cell", "42"
    made.sections[0].header.paragraphs[0].text = "Head text"
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def odt() -> bytes:
    """A heading, and a paragraph with a span, a line break and a footnote."""
    from odf import text
    from odf.opendocument import OpenDocumentText

    made = OpenDocumentText()
    made.text.addElement(text.H(outlinelevel=1, text="The title"))
    paragraph = text.P(text="The dog ")
    paragraph.addElement(text.Span(text="sees it"))
    paragraph.addText(" rest")
    paragraph.addElement(text.LineBreak())
    paragraph.addText("New line. And more.")
    note, body = text.Note(noteclass="footnote"), text.NoteBody()
    note.addElement(text.NoteCitation(text="1"))
    body.addElement(text.P(text="The note"))
    note.addElement(body)
    paragraph.addElement(note)
    paragraph.addText(" End")
    made.text.addElement(paragraph)
    out = io.BytesIO()
    made.write(out)
    return out.getvalue()


TEXTS = {"txt": TXT, "md": MD, "html": HTML, "po": PO, "xlf": XLF, "tmx": TMX, "srt": SRT, **CATALOGUES}
MADE = {"docx": docx, "docm": docx, "dotx": docx, "odt": odt}
KINDS = [*kinds.KINDS]


def content(kind: str) -> bytes:
    """A small document of a kind."""
    if kind in PACKAGES:
        return package(PACKAGES[kind])
    if kind in MADE:
        return MADE[kind]()
    return TEXTS[kind].encode() if kind in TEXTS else testing._sample_file(kind)


def document(kind: str, source: str | bytes | None = None) -> DocumentFile:
    """The same, or another one, read."""
    data = content(kind) if source is None else source.encode() if isinstance(source, str) else source
    return read(data, kind, name=f"x.{kind}", source_lang="en", target_lang="de")


class Model:
    """Translates each sentence by a function; keeps what it was asked."""

    def __init__(self, function: Callable[[str], str] = str.upper) -> None:
        self.function = function
        self.asked: list[Sequence[SegmentSentence]] = []

    def __call__(self, sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        self.asked.append(sentences)
        for sentence in sentences:
            if sentence.given is None:
                yield self.function(sentence.text)


def translate(file: DocumentFile, model: Model) -> bytes:
    """A document's translation by such a model."""
    split = [partial(split_sentences, language=language) for language in ("en", "de")]
    return file.write(translated(file, model, split=split[0], split_target=split[1]))


def written(kind: str, source: str | bytes, function: Callable[[str], str] = str.upper) -> tuple[list[str], str]:
    """What a model reads of a document, and the translated document's main part."""
    model = Model(function)
    out = translate(document(kind, source), model)
    if kind in ("docx", "odt"):
        with zipfile.ZipFile(io.BytesIO(out)) as file:
            out = file.read("word/document.xml" if kind == "docx" else "content.xml")
    return [sentence.text for sentence in model.asked[0]], out.decode()
