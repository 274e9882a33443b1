"""Files that would take the square of their size, or all memory, if they were read as they ask for it."""

from __future__ import annotations

import io
import time
import zipfile

import pytest
from sample_documents import Model, document, translate

from docnmt.documents.html_tokens import tokens
from docnmt.errors import UserError

N = 200_000  # bytes of a file: reading, translating or writing each took from 10 seconds to hours
SECONDS = 8.0  # of processor time, about ten times what they take
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
SRT = "1\n00:00:01,000 --> 00:00:02,000\n"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
XLF = '<xliff version="1.2"><file source-language="en" target-language="de"><body>{}</body></file></xliff>'


def repeated(text: str) -> str:
    """As often as there is room for."""
    return text * (N // len(text))


def word(body: str) -> bytes:
    """A DOCX file of one part."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>')
    return out.getvalue()


FIELD = '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
HOSTILE: list[tuple[str, str | bytes]] = [
    *(("html", f"word {repeated(each)}") for each in ("<a ", "<!--", '<a b="', "&#", "<![CDATA[", "</", "<br><img>", "<b>")),
    ("html", "<p>" + "".join(f"<code>a{number}. B</code> " for number in range(N // 24))),
    ("md", "*a " * (N // 6) + "b* " * (N // 6)),
    ("md", "<b><i>" * (N // 12) + "</u>" * (N // 8)),
    ("po", f'{PO}msgid "{repeated("%s ")}"\nmsgstr ""\n'),
    ("srt", f"{SRT}a{repeated(' -')}\nb\n"),
    ("srt", f"{SRT}{repeated('- a' + chr(10))}"),
    ("srt", f"{' ' * N}x"),
    ("txt", f"word %(a){'0' * N}"),
    ("docx", word(f"<w:p><w:r><w:t>a b</w:t></w:r>{repeated(FIELD)}</w:p>")),
    ("docx", word(f"<w:p><w:r>{repeated('<w:t>a</w:t><w:br/>')}<w:rPr><w:b/></w:rPr></w:r></w:p>")),
    ("xlf", XLF.format(f"<trans-unit><source>w {repeated('a <x/>')}</source></trans-unit>")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "content"), HOSTILE, ids=lambda each: str(each)[:20] if len(each) > 5 else each)
def test_time_grows_with_the_size_and_not_with_its_square(kind: str, content: str | bytes) -> None:
    begun = time.process_time()
    try:
        translate(document(kind, content), Model())
    except UserError as error:
        assert str(error).startswith("x.srt:1: expected a subtitle")
    assert time.process_time() - begun < SECONDS
