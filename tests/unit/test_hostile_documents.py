"""Files that would take the square of their size, or all memory, if they were read as they ask for it."""

from __future__ import annotations

import gc
import re
import time

import pytest
from sample_documents import Model, document, translate
from sample_packages import PACKAGES, WORD, package, word

from docnmt.apps.documents import html, markdown_parser, packages, runs, xml
from docnmt.apps.documents import segments as inline
from docnmt.apps.documents.fragments import HtmlFragment, XmlFragment
from docnmt.apps.documents.html import tokens
from docnmt.apps.documents.kinds import read
from docnmt.runtime.system import UserError

N = 100_000  # bytes of a file: reading, translating or writing each took from 10 seconds to hours
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
SRT = "1\n00:00:01,000 --> 00:00:02,000\n"
SPANS = '<o xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><text:p>{}</text:p></o>'
XLF = '<xliff version="1.2"><file source-language="en"><body>{}</body></file></xliff>'


FIELD = '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
PAGES = ("<a ", "<!--", '<a b="', "&#", "<![CDATA[", "</", "<br><img>", "<b>")
FORMS = '"one": "a b", "other": "a b", '


def hostile(size: int) -> list[tuple[str, str | bytes]]:
    """Files of about `size` bytes and their kinds."""

    def repeated(text: str) -> str:
        return text * (size // len(text))

    segments = "".join(f'<mrk mtype="seg" mid="{number}">a</mrk>' for number in range(size // 40))
    forms = (f"{{{repeated(FORMS)[: -len(FORMS)]}{FORMS[:-2]}}}", f"[{repeated('{' + FORMS[:-2] + '},')}0]")

    return [
        *(("html", f"word {repeated(page)}") for page in PAGES),
        ("html", "<p>" + "".join(f"<code>a{number}. B</code> " for number in range(size // 24))),
        ("md", "*a " * (size // 6) + "b* " * (size // 6)),
        *(("md", repeated(part)) for part in ("^[a", "[^a", "![a", "^[a]", "[a][")),
        *(("md", f"{repeated(part)}]") for part in ("[a", "^[a")),
        ("md", "[a" * (size // 3) + "]" * (size // 3)),
        *((kind, "a\u200e" * (size // 4)) for kind in ("txt", "md", "html")),
        ("srt", f"{SRT}a\n\n" * (size // 40)),
        ("mdx", "{" * size),
        ("xlf", XLF.format(f"<trans-unit><source>{('a' + chr(0x200E)) * (size // 4)}</source></trans-unit>")),
        *(
            ("md", repeated(part))
            for part in ("\\(a ", "{{< code >}}\n", "$$a\n", ":::a\n", "a\n: b\n", ": ", ":\t<!--", "a\n\n: b\n\n")
        ),
        ("txt", "".join(map(repeated, ("%(a", "{{a", "<%a", "B<E<a>", ":a:`b", "``a", "%a%")))[:size]),
        ("xlf", XLF.format(f"<trans-unit><source>w</source><seg-source>{segments}</seg-source></trans-unit>")),
        ("po", f'{PO}msgid "{repeated("%s ")}"\nmsgstr ""\n'),
        ("txt", f"word %(a){'0' * size}"),
        ("docx", word(f"<w:p><w:r><w:t>a b</w:t></w:r>{repeated(FIELD)}</w:p>")),
        ("docx", word(f"<w:p><w:r>{repeated('<w:t>a</w:t><w:br/>')}<w:rPr><w:b/></w:rPr></w:r></w:p>")),
        ("json", f'["{{n, plural, other {{{repeated("# b ")}}}}}"]'),
        ("json", f'["{repeated("{n, plural, other {a}} ")}"]'),
        ("yaml", f"- &a b c\n{repeated('- *a' + chr(10))}"),
        ("strings", f'{repeated("// a" + chr(10))}"a" = "a b";'),
        ("xml", f"<resources><string>{repeated('a <b>c</b> ')}</string></resources>"),
        ("vtt", f"WEBVTT\n\n00:01.000 --> 00:02.000\n{repeated('<v a')}"),
        ("ass", f"[Events]\nDialogue: 0,0,0,0,0,0,0,0,0,{repeated('{' + chr(92) + 'p1 ')}"),
        *(("mdx", repeated(part)) for part in ('<a "', "{'", "{1+2} a ", "a {/* ")),
        *(("txt", repeated(part)) for part in (".", ". ", '."', ". (", "a. b", "x. y ", "?!", "。", '". ')),
        *(("txt", repeated(part)) for part in ("a/", "/a-", "a.", "#a", "@:a.", "$a@", "C:\\\\", "<0", "{{{", "_x000")),
        ("json", f'["{{n, choice, {repeated("0#a|")}}}"]'),
        ("srt", f"{SRT}{repeated('[a]' + chr(10))}"),
        ("html", repeated('<a title="b" alt=c>')),
        ("xlf", XLF.format(f"<trans-unit><source>w {repeated('a <x/>')}</source></trans-unit>")),
        *((kind, content) for kind in ("json", "yaml") for content in forms),
        ("docx", word(f"<w:p>{repeated('<w:r><w:t>a </w:t></w:r>')}</w:p>")),
        ("yaml", "".join(f"k{number}: a b\n" for number in range(size // 12))),
        ("po", PO + "".join(f'msgid "a {number}"\nmsgstr ""\n\n' for number in range(size // 30))),
        ("po", f"# {repeated('Content-Type:')}\n{PO}"),
        ("md", f"---\n{repeated(chr(10) + ' ')}x\n---\n"),
        ("mdx", f"{repeated('</a ' + chr(34) * 2 + '/>')}<"),
    ]


SMALL, LARGE = 1_000, 8_000
HOSTILE = [*zip(hostile(SMALL), hostile(LARGE), strict=True)]


def seconds(kind: str, content: str | bytes) -> float:
    """Of processor time, to read a file and to write its translation, here into a language of four plural forms.

    Python looks for what nothing refers to after so many objects, and finds the more the longer it waits: without.
    """
    data = content.encode() if isinstance(content, str) else content
    gc.disable()
    try:
        begun = time.process_time()
        translate(read(data, kind, name="x", source_lang="en", target_lang="pl"), Model())
        return time.process_time() - begun
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("small", "large"),
    HOSTILE,
    ids=[f"{kind}-{str(content)[:20]}-{n}" for n, ((kind, content), _) in enumerate(HOSTILE)],
)
def test_time_grows_with_the_size_and_not_with_its_square(
    small: tuple[str, str | bytes], large: tuple[str, str | bytes]
) -> None:
    """Eight times the size takes eight times as long, where its square would be 64 times; what took ten seconds for
    100 kB takes 60 ms here, and 30 are nothing."""
    few = min(seconds(*small) for _ in range(2))  # the first one imports and compiles
    for _ in range(3):  # what else the machine does may disturb one of them
        many = seconds(*large)
        if many < max(0.03, 2 * few * LARGE / SMALL):
            return
    pytest.fail(f"{LARGE} bytes take {many:.3f} s, {SMALL} bytes {few:.3f} s")


MANY: dict[str, str | bytes] = {
    "txt": "a\n" * 60,
    "md": "a\n\n" * 60,
    "mdx": "a\n\n" * 60,
    "html": "<p>a" * 60,
    "docx": word("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 60),
    "odt": package({"content.xml": SPANS.format("</text:p><text:p>".join("a" * 60))}),
    "po": PO + "".join(f'msgid "a{number}"\nmsgstr ""\n\n' for number in range(60)),
    "xlf": XLF.format("<trans-unit id='a'><source>a</source></trans-unit>" * 60),
    "xml": "<resources>" + '<string name="a">a</string>' * 60 + "</resources>",
    "resx": "<root>" + '<data name="a"><value>a</value></data>' * 60 + "</root>",
    "json": "[" + '"a", ' * 59 + '"a"]',
    "yaml": "- a\n" * 60,
    "properties": "a=b\n" * 60,
    "strings": '"a" = "b";\n' * 60,
    "srt": f"{SRT}a\n\n" * 60,
    "vtt": "WEBVTT\n\n" + "00:01.000 --> 00:02.000\na\n\n" * 60,
}


@pytest.mark.parametrize("kind", MANY)
def test_texts_are_counted_before_they_are_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, segment = list[object](), inline.Inline.segment

    def noted(self: inline.Inline[object]) -> inline.Segment:
        made.append(self)
        return segment(self)

    with inline.allowed(inline.Allowance(texts=60)):
        assert len(document(kind, MANY[kind]).segments) == 60
    monkeypatch.setattr(inline.Inline, "segment", noted)
    with inline.allowed(inline.Allowance(texts=59)), pytest.raises(inline.TooMuch, match="60 texts"):
        document(kind, MANY[kind])
    assert not made


def test_words_and_characters_of_one_text_are_counted_while_it_is_read() -> None:
    for allowance, content in ((inline.Allowance(words=99), "a " * 101), (inline.Allowance(characters=99), "a" * 101)):
        for kind in ("txt", "md", "html", "json"):
            text = f'["{content}"]' if kind == "json" else content
            with inline.allowed(allowance), pytest.raises(inline.TooMuch):
                document(kind, text)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be in a document, in hundreds and not in millions."""
    for module, name, most in (
        (inline, "LONGEST", 400),
        (inline, "MOST_MARKS", 400),
        (runs, "MOST_MARKS", 400),
        (markdown_parser, "MOST_MARKS", 400),
        (html.Html, "most", 1_000),
        (xml, "MOST_ELEMENTS", 2_000),
        (packages, "_MOST_PARTS", 100),
    ):
        monkeypatch.setattr(module, name, most)


REFUSED: list[tuple[str, str | bytes, str]] = [
    ("srt", f"{' ' * N}x", "x.srt:1: "),
    ("srt", f"{chr(10) * N}x", f"x.srt:{N + 1}: "),
    ("srt", f"{SRT}a\n{'1' * N}", "x.srt:4: "),
    ("json", f'{{"a": "{"word " * 90}"}}', "x.json: "),
    ("html", f"a{'<b>' * 401}b", "400 marks"),
    ("html", "<b>a" * 401, "400"),
    ("odt", package({"content.xml": SPANS.format("<text:span/>" * 401)}), "400 marks"),
    ("docx", word(f"<w:p>{'<w:r/>' * 401}</w:p>"), "x.docx: word/document.xml: "),
    ("docx", word("<w:p/>" * 2_001), "x.docx: "),
    ("docx", package({f"word/header{n}.xml": "<a/>" for n in range(101)}), "100 parts"),
    ("mdx", "{" * 2_000, "400 marks"),
    ("xlf", XLF.format("<a/>" * 2_001), "x.xlf: "),
    ("html", f"<p>One.</p>{'<b>' * 1_001}", "1,000 tags"),
    ("epub", package({**PACKAGES["epub"], "OPS/b.xhtml": f"<p>One.</p>{'<b>' * 1_001}"}), "x.epub: OPS/b.xhtml: "),
    ("po", f'{PO}msgid "a dog"\nmsgid_plural "dogs"\nmsgstr[{"1" * 5000}] ""\n', "x.po: "),
]


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(("kind", "content", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_would_take_too_much_is_refused(kind: str, content: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        document(kind, content)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("docm", "word/document.xml"), ("odp", "content.xml"), ("pptx", "ppt/slides/slide1.xml"),
        ("xlsx", "xl/sharedStrings.xml"), ("xlsx", "xl/drawings/drawing1.xml"),
        ("epub", "OPS/b.xhtml"), ("epub", "OPS/toc.ncx"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("small_limits")
def test_a_paragraph_without_end_is_refused_with_its_part(kind: str, part: str) -> None:
    text = f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>a</w:t></w:r></w:p></w:body></w:document>'
    parts = PACKAGES.get(kind) or {part: text}
    words = re.sub(r"(<(?:w:t|a:t|t|text|p|text:p)>)", lambda tag: tag[1] + "word " * 90, parts[part], count=1)
    with pytest.raises(UserError, match=rf"^x\.{kind}: {re.escape(part)}: "):
        document(kind, package({**parts, part: words}))


@pytest.mark.parametrize("fragment", [XmlFragment, HtmlFragment])
def test_tags_without_end_in_a_request_are_refused(fragment: type[XmlFragment | HtmlFragment]) -> None:
    """Before there is an object for each."""
    with pytest.raises(UserError, match=r"^text: .* [\d,]+ tags"):
        fragment("<a/>" * 140_000, name="text")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<!DOCTYPE html><P>a</p >", "other start text end"),
        ("<a b='>' C=\">\" d=e>f", "start text"),
        ("<a b=/>c</a><a b='/'/><br><img/ >", "start text end void void void"),
        ("<a =b><a b= ><a b=c/ d>", "start start start"),
        ("a &amp; &#x41 &#; &b", "text"),
        ("a < b <3 <", "text " * 6),
        ("<!--> t <!---> t <!-- x --!> t <!-- > -->", "other text other text other text other"),
        ("<?php x ?> <![CDATA[ <p> ]]></ ></>", "other text other other other"),
        ("<script x='</script>'><p></scripty></SCRIPT >b", "start other end text"),
        ("<textarea><p></textarea><p translate=NO><p class=' b notranslate'><p class=notranslated>",
         "start other end start! start! start"),
    ],
)  # fmt: skip
def test_tokens_are_those_of_browsers(source: str, expected: str) -> None:
    pieces = list(tokens(source))
    assert " ".join(token.kind + "!" * token.kept for token in pieces) == " ".join(expected.split())
    assert "".join(source[token.begin : token.end] for token in pieces) == source


@pytest.mark.parametrize("rest", ["<a", "<a b='>", "<!-- <p>x</p>", "<script>a<p>b</p>", "<![CDATA[ > ", "</", "<!x"])
def test_what_does_not_end_is_all_that_follows(rest: str) -> None:
    source = f"<p>one</p>{rest}"
    begins = [token.begin for token in tokens(source)]
    assert begins[:3] == [0, 3, 6]
    assert "".join(source[token.begin : token.end] for token in tokens(source)) == source
    file = document("html", source)
    assert [segment.text for segment in file.segments] == ["one"]
    assert translate(file, Model()) == f"<p>ONE</p>{rest}".encode()


@pytest.mark.parametrize(("kind", "content"), [
    ("html", f"&#{'9' * 4301}; a dog"),
    ("json", '{"a": "\\ud800 dog"}'),
    ("xlf", '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" '
            'original="x" target-language="de" datatype="x"><body><trans-unit id="1" size-unit="char" '
            f'maxwidth="{"9" * 4301}"><source>a dog</source></trans-unit></body></file></xliff>'),
], ids=str)  # fmt: skip
def test_numbers_and_characters_that_python_cannot_write_are_text(kind: str, content: str) -> None:
    file = document(kind, content)
    assert [segment.text.encode() for segment in file.segments]
    assert file.write([file.unchanged(number) for number in range(len(file.segments))]) == content.encode()
    translate(file, Model())


def test_units_inside_of_a_unit_are_part_of_its_text() -> None:
    """Each would be held with all that is inside of it."""
    depth = 60
    inside = "<trans-unit><source>a " * depth + "b" + "</source></trans-unit>" * depth
    assert len(document("xlf", XLF.format(inside)).segments) == 1
    nested = '<tu><tuv xml:lang="en"><seg>a ' * depth + "b" + "</seg></tuv></tu>" * depth
    assert len(document("tmx", f"<tmx><body>{nested}</body></tmx>").segments) == 1
