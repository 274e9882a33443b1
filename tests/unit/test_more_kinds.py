"""The newer kinds of documents, read before and after by readers that are not ours."""

from __future__ import annotations

import datetime
import io
import json
import re
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Mapping

import openpyxl
import pptx
import pytest
import sample_documents
import yaml
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table
from sample_catalogues import CATALOGUES
from sample_documents import Model, document, translate
from sample_packages import EPUB, PACKAGES, package
from translate.storage.aresource import AndroidResourceFile
from translate.storage.properties import javautf8file, stringsutf8file
from translate.storage.resx import RESXFile

from docnmt.apps.documents import icu
from docnmt.apps.documents import packages as package_file
from docnmt.apps.documents.kinds import read
from docnmt.apps.documents.segments import Translated
from docnmt.runtime.system import UserError

MODELS: dict[str, Callable[[str], str]] = {
    "swapped": str.swapcase,
    "reversed": lambda text: " ".join(text.split()[::-1]),
    "yes": lambda text: "Ja.",
}
Values = dict[str, object]


def _flat(value: object, path: str = "") -> Values:
    """The values of nested ones by their paths; the name of a language that is the only key is no part of it."""
    if isinstance(value, dict):
        if list(value) in (["en"], ["de"]):
            return _flat(next(iter(value.values())), path)
        return {key: leaf for name, inside in value.items() for key, leaf in _flat(inside, f"{path}/{name}").items()}
    if isinstance(value, list):
        return {key: leaf for n, inside in enumerate(value) for key, leaf in _flat(inside, f"{path}/{n}").items()}
    return {path: value}


def _toolkit(store: Callable[[], object]) -> Callable[[bytes], Values]:
    def values(content: bytes) -> Values:
        opened = store()
        opened.parse(content)  # type: ignore[attr-defined]  # the toolkit has no types
        units = (unit for unit in opened.units if unit.source or unit.target)  # type: ignore[attr-defined]
        return {unit.getid() or str(unit.name): str(unit.target or unit.source) for unit in units}

    return values


READERS: dict[str, Callable[[bytes], Values]] = {
    "json": lambda content: _flat(json.loads(content)),
    "yaml": lambda content: _flat(yaml.safe_load(content)),
    "properties": _toolkit(javautf8file),
    "strings": _toolkit(stringsutf8file),
    "xml": _toolkit(AndroidResourceFile),
    "resx": _toolkit(RESXFile),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", READERS)
def test_catalogues_keep_all_but_texts(kind: str, name: str) -> None:
    """Keys, order and other values are those of the source, whatever a model says; with the case of letters swapped,
    texts are the same without it, so that nothing else of them has changed either."""
    values = READERS[kind]
    old, new = values(sample_documents.content(kind)), values(translate(document(kind), Model(MODELS[name])))
    assert len(old) > 2
    assert list(old) == list(new)
    for key, text in old.items():
        if not isinstance(text, str):
            assert new[key] == text
        elif name == "swapped":
            assert str(new[key]).casefold().split() == text.casefold().split()
    assert old != new


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("json", '"dogs": "YOU HAVE {n, plural, =0 {NO DOGS} one {# DOG, IT\'\'S {name}} other {# DOGS}} LEFT"'),
        ("json", '"de": {\n    "title" : "THE OLD DOG",\n    "list": [1, true, "ITEM ONE", {"deep": "THE <b>BIG</b>'),
        ("json", 'A \\"CAT\\" \\u00c9"}],\n'),
        ("json", '"empty": "", "number": "42", "url": "http:\\/\\/a.b\\/c SEES IT"'),
        ("yaml", "de:\n  title: THE OLD DOG   # why\n  quoted: 'IT''S A HOUSE'\n  double: \"TWO\\nLINES AND A \\\"CAT"),
        ("yaml", "text: |\n    FIRST LINE.\n\n    THIRD LINE\n  folded: >-\n    FOLDED TEXT GOES ON.\n"),
        ("yaml", '&a ANCHORED TEXT]\n  again: *a\n  plural: {one: ONE DOG, other: '),
        ("properties", "greeting : HELLO {0}, IT''S \\u00dc HERE\nlong = A TEXT THAT GOES ON.\\nNEW LINE\nempty=\n"),
        ("strings", '// another\nNSName = "HELLO %1$@, \\"FRIEND\\"\\nNEW LINE";\n"number" = "42";\n'),
        ("xml", "<string name=\"title\">THE <b>OLD</b> DOG\\'S HOUSE</string>"),
        ("xml", '>HELLO <xliff:g id="n">%1$s</xliff:g>,\\nIT SEES YOU\\u0020</string>'),
        ("xml", "<string name=\"html\"><![CDATA[A <b>BIG</b> CAT]]></string>"),
        ("resx", "<value>THE OLD DOG\nAND {0} </value><comment>no</comment>"),
        ("vtt", "align:start\n<v Anna>THE OLD DOG SEES THE HOUSE,\nAND THE CAT SLEEPS IN IT.\n\n00:00:03.000"),
        ("ass", "{\\k20}La {\\k20}la\nDialogue: 0,0:00:04.00,0:00:05.00,Default,,0,0,0,,- A CAT.\\N- A DOG.\n"),
        ("mdx", "---\nimport { Tabs } from './tabs'\nexport const x = {\n  a: 1\n}\n\n# THE *OLD* DOG {props.name}"),
        ("mdx", "\n<Tabs items={['a', \"b\"]} onClick={() => { go('}') }}>\n\nTHE **BIG** CAT"),
        ("mdx", "```js\nimport no from 'x'\n<b a={1}>\n```\n\n{\n  /* a block */\n}\n\n<>\n\nLAST WORDS\n\n</>\n"),
        ("sdlxliff", '<sdl:seg id="1" conf="Draft" origin="mt"/>'),
        ("sdlxliff", 'mid="2">Die Katze</mrk></target><sdl:seg-defs><sdl:seg id="2" conf="Translated"/>'),
        ("sdlxliff", '<target state="needs-review-translation"><mrk mtype="seg" mid="1">THE OLD DOG.</mrk></target>'),
        ("mqxliff", 'mq:status="MachineTranslated"><source xml:space="preserve">The <bpt id="1">{}</bpt>old'),
        ("mqxliff", 'mq:status="ManuallyConfirmed"><source>The cat</source><target>Die Katze</target>'),
        ("html", '<p>SOME <a href="x">LINK <i>TEXT</i></a>, <code>code_x</code> AND'),
        ("html", '</code> AND <img src="a"> MORE.<br/>NEW LINE ©'),
        ("html", "<h1>THE <b>OLD &amp; BIG</b> DOG</h1>"),
        ("html", "<!-- c --></p>"),
        ("html", "<pre>  no <b>x</b></pre>\n<p translate=\"no\">Nein</p><table><tr><td>CELL</td><td>42</td>"),
        ("html", "<style>p { color: red }"),
        ("md", "> SOME **BOLD CAT** AND [A `code_x` LINK](http://x.y 'T') ![pic](p.png) \\* & <b>MORE</b>\\\n> SECOND"),
        ("md", "<http://u.v> AND [REF][ref]."),
        ("md", "- ITEM ONE GOES ON\n- [ ] ITEM TWO[^1]\n"),
        ("md", "\n<p align=center>SOME <b>HTML</b> TEXT</p>\n\n    code block\n"),
        ("md", "| HEAD | B \\| C |\n|--|--|\n| `x` WORD | 7 |"),
        ("md", "---\ntitle: The dog\n---\n# THE *OLD* DOG #\n"),
        ("po", 'msgstr "THE DOG SEES %s, <b>BIG</b> HOUSE\\n"\n\nmsgid "The cat"\nmsgstr "Die Katze"'),
        ("po", '"A DOG THAT IS OLD WALKS. AND\\n"\n"MORE.\\n"\n"\\n"\n"  -h, --help    SHOW <file> HELP\\n"\n'),
        ("po", 'msgstr[0] "ONE DOG"\nmsgstr[1] "%d DOGS"\n\nmsgid "%s"\nmsgstr ""\n\n#~ msgid "old"'),
        ("xlf", '>THE <g id="1">BIG DOG</g>, SEES <x id="2"/> NOW. </target>'),
        ("xlf", '<target>Die Katze</target></trans-unit>\n <trans-unit id="3" translate="no"><source>NO</source></tr'),
        ("xlf", '>A <bpt id="1">&lt;b&gt;</bpt>BOLD<ept id="1">&lt;/b&gt;</ept> {name}</target>'),
        ("xlf", 'target-language="de"'),
        ("srt", "<i>THE OLD DOG</i> SEES THE HOUSE,\nAND THE CAT SLEEPS IN IT.\n"),
        ("srt", "{\\an8}- THE DOG.\n- THE CAT.\n"),
        ("fodt", "<text:p>THE <text:span>OLD</text:span> DOG<text:line-break/>WALKS.</text:p>"),
    ],
)  # fmt: skip
def test_what_is_around_texts_is_what_it_was(kind: str, expected: str) -> None:
    assert expected in translate(document(kind), Model()).decode()


def _parts(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", [*PACKAGES, "odt", "docx"])
def test_packages_keep_all_but_texts(kind: str, name: str) -> None:
    """Parts, their order, declarations, elements, attributes; runs of text are made anew, the language is another."""
    old = _parts(sample_documents.content(kind))
    new = _parts(translate(document(kind), Model(MODELS[name])))
    assert list(old) == list(new)
    for part in old:
        if part.endswith((".xml", ".xhtml", ".opf", ".ncx", ".rels")):
            assert _elements(old[part]) == _elements(new[part])
            assert old[part].partition(b"?>")[:2] == new[part].partition(b"?>")[:2] or b"?>" not in old[part]
        else:
            assert old[part] == new[part]


def _elements(content: bytes) -> list[tuple[str, dict[str, str]]]:
    made = ("r", "t", "rPr", "b", "i", "rPh", "calcPr", "lang")
    elements = [(element.tag.rpartition("}")[2], element.attrib) for element in ElementTree.fromstring(content).iter()]
    changing = ("lang", "{http://www.w3.org/XML/1998/namespace}lang")
    return [(tag, {k: v for k, v in about.items() if k not in changing}) for tag, about in elements if tag not in made]


def test_slides_by_python_pptx() -> None:
    made, out = pptx.Presentation(), io.BytesIO()
    for number in (1, 2):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        frame = slide.placeholders[1].text_frame
        frame.text = "The dog "
        frame.paragraphs[0].add_run().text = "sees"
        frame.paragraphs[0].runs[1].font.bold = True
        frame.add_paragraph().text = "A line\vand another"
        slide.notes_slide.notes_text_frame.text = f"Note {number}"
    cell = made.slides[0].shapes.add_table(1, 1, 0, 0, 9, 9).table.cell(0, 0)
    cell.text = "A cell"
    made.save(out)
    file = document("pptx", out.getvalue())
    texts = [segment.text for segment in file.segments]
    assert texts[:6] == ["Slide 1", "The dog sees", "A line\nand another", "A cell", "Note 1", "Slide 2"]
    assert len({segment.units[0] for segment in file.segments[:8]}) == 2
    again = pptx.Presentation(io.BytesIO(translate(file, Model())))
    first = again.slides[0]
    assert [run.text for run in first.placeholders[1].text_frame.paragraphs[0].runs] == ["THE DOG ", "SEES"]
    assert first.placeholders[1].text_frame.paragraphs[0].runs[1].font.bold
    assert first.placeholders[1].text_frame.paragraphs[1].text == "A LINE\vAND ANOTHER"
    assert first.notes_slide.notes_text_frame.text == "NOTE 1"
    assert [shape.table.cell(0, 0).text for shape in first.shapes if shape.has_table] == ["A CELL"]


def test_cells_by_openpyxl() -> None:
    """Formulas, numbers and dates are what they were, and so is each text by which one of them knows something."""
    made, out = openpyxl.Workbook(), io.BytesIO()
    sheet = made.active
    rows = [["Name", "State"], ["The dog", "done"], ["A cat", "open"], [42, datetime.date(2020, 1, 2)]]
    for row in [*rows, ['=IF(B2="done",A2,"no")', "=SUM(A4)"], ["The dog", " a space"]]:
        sheet.append(row)
    sheet.add_table(Table(displayName="T", ref="A1:B3"))
    sheet.oddHeader.center.text, sheet.oddFooter.left.text = "&P", "Page &P"
    sheet.add_data_validation(DataValidation(prompt="Choose one", sqref="A9"))
    made.save(out)
    file = document("xlsx", out.getvalue())
    assert [segment.text for segment in file.segments] == ["The dog", "A cat", "open", "The dog", "a space"]
    told = ("the heads of its tables", "feet of its pages", "hints for input", "'done', 'no'", "compare with: 'done'")
    assert [name in message for name, message in zip(told, map(str, file.left), strict=True)] == [True] * 5
    again = openpyxl.load_workbook(io.BytesIO(translate(file, Model()))).active
    values = [[cell.value for cell in row] for row in again.iter_rows()]
    date = datetime.datetime(2020, 1, 2)
    assert values[:4] == [["Name", "State"], ["THE DOG", "done"], ["A CAT", "OPEN"], [42, date]]
    assert values[4:] == [['=IF(B2="done",A2,"no")', "=SUM(A4)"], ["THE DOG", " A SPACE"]]


def test_books() -> None:
    """Pages in the order of the spine, after the title; the language; what says the kind stands first."""
    file = document("epub")
    texts = [segment.text for segment in file.segments[:4]]
    assert texts == ["The book", "Chapter one", "Chapter one", "The old & big dog\nwalks."]
    with zipfile.ZipFile(io.BytesIO(translate(file, Model()))) as book:
        assert book.infolist()[0].filename == "mimetype"
        assert book.infolist()[0].compress_type == zipfile.ZIP_STORED
        assert b"<dc:title>THE BOOK</dc:title><dc:language>de</dc:language>" in book.read("OPS/book.opf")
        assert b"<p>THE <b>OLD &amp; BIG</b> DOG<br/>WALKS.</p>" in book.read("OPS/a 1.xhtml")


def test_a_divided_unit_of_trados_keeps_its_segments() -> None:
    source = CATALOGUES["sdlxliff"]
    for old, new in (
        ('">The old dog.</mrk>', '">A dog.</mrk> <mrk mtype="seg" mid="3">It <x id="7"/>walks.</mrk>'),
        ('<mrk mtype="seg" mid="1"/>', '<mrk mtype="seg" mid="1">Ein Hund.</mrk> <mrk mtype="seg" mid="3"/>'),
        ('<sdl:seg id="1"/>', '<sdl:seg id="1" conf="Translated"/><sdl:seg id="3"/>'),
    ):
        source = source.replace(old, new)
    written = translate(document("sdlxliff", source), Model()).decode()
    assert '"1">Ein Hund.</mrk> <mrk mtype="seg" mid="3">IT <x id="7"/>WALKS.</mrk></target>' in written
    assert '<sdl:seg id="1" conf="Translated"/><sdl:seg id="3" conf="Draft" origin="mt"/>' in written


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("{n, plural, one{# dog}other{# dogs}}", ["{n}", "{n} dog", "{n} dogs"]),
        ("a {g, select, f {she} other {they}} b {x}", ["a {g} b {x}", "she", "they"]),
        ("{a, plural, other{{b, plural, other{# {a} #}}}}", ["{a1}", "{b}", "{b} {a} {b1}"]),
        ("it's {n, plural, other{'{'#'}' isn''t}}", ["it's {n}", "{text}{n}{text1} isn't"]),
        ("{d, date, 'd {' MMM} {n, plural, offset:1 =1 {x} other {y}}", ["{d, date, 'd {' MMM} {n}", "x", "y"]),
    ],
)
def test_messages_of_icu(text: str, texts: list[str]) -> None:
    root = icu.read(text)
    assert [branch.text for branch in root.all()] == texts
    assert root.written({}).replace("''", "'") == text.replace("''", "'")


def test_apostrophes_before_arguments_are_doubled() -> None:
    file = document("json", '{"a": "of {n, plural, other {# dogs}}"}')
    written = file.write([Translated("l'{n}"), Translated("l'{n}")])
    assert json.loads(written) == {"a": "l''{n, plural, other {l''#}}"}
    with pytest.raises(ValueError, match=r"\{n\}"):
        file.write([Translated("ja"), file.unchanged(1)])


@pytest.mark.parametrize(
    "text", ["{n, plural, one {dog}", "{n, plural, one dog}", "x {n, select, a {b}} }", "{n, choice, a}", "{" * 99]
)
def test_messages_that_are_none_are_named(text: str) -> None:
    file = document("json", json.dumps({"a": "A dog", "b": f"{text} {{n, plural, x"}, indent=1))
    assert [segment.text for segment in file.segments] == ["A dog"]
    assert file.left == [3]


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("json", '{"a": {"message": "A dog", "description": "no"}}', '{"a": {"message": "EIN", "description": "no"}}'),
        ("json", '[{"id": "a", "defaultMessage": "A dog"}]', '[{"id": "a", "defaultMessage": "EIN"}]'),
        ("json", '{"@@locale": "en_US", "a": "b c", "@a": ["b"]}', '{"@@locale": "de", "a": "EIN", "@a": ["b"]}'),
        ("json", '[{"id": "dog", "translation": "a dog"}, {"id": "c", "translation": {"one": "a b", "other": "b c"}}]',
         '[{"id": "dog", "translation": "EIN"}, {"id": "c", "translation": {"one": "EIN", "other": "EIN"}}]'),
        ("yaml", "a: one dog\n", "a: EIN\n"),
        ("properties", "\ufeffa=\u00fc dog\n", "\ufeffa=EIN\n"),
        ("strings", "\ufeff\"a\" = \"A dog\";", "\ufeff\"a\" = \"EIN\";"),
    ],
)  # fmt: skip
def test_which_strings_are_messages(kind: str, source: str, expected: str) -> None:
    assert translate(document(kind, source), Model(lambda text: "EIN")).decode() == expected


@pytest.mark.parametrize(
    "text", ["yes", "- a", "a: b", "a #b", "'", '"', "[x", "*a", "1.5", "ü\u2028", "\t", "null", " a", "\\"]
)
@pytest.mark.parametrize(
    "frame",
    ["a: word x\n", "a: [word x, b]\n", "a: 'word x'\n", 'a: "word x"\n', "a: |\n  word x\n", "a: >-\n  word x\n"],
)
def test_yaml_is_read_again_as_what_was_meant(frame: str, text: str) -> None:
    file = document("yaml", frame)
    texts = [file.unchanged(number) for number in range(len(file.segments))]
    marks = file.segments[0].marks  # the end of the line in a block
    spans = tuple((len(text), len(text) + 1) for _ in marks)
    written = file.write([Translated(text + "\n" * len(marks), spans), *texts[1:]])
    (value,) = yaml.safe_load(written).values()
    assert (value[0] if isinstance(value, list) else value).rstrip("\n") == text


@pytest.mark.parametrize(
    "source",
    ["a: >-\n  one dog\n\n\n  two\n", "a: >\n  one\n    two dogs\n  three\n", "a: |+\n  one\n\n  two dogs\n\n"],
)
def test_lines_of_blocks_of_yaml_stay(source: str) -> None:
    before, after = (yaml.safe_load(content)["a"] for content in (source, translate(document("yaml", source), Model())))
    assert after == before.upper()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8"])
def test_strings_of_apple_keep_their_encoding(encoding: str) -> None:
    content = ("\ufeff" * (encoding == "utf-16-be") + '"a" = "A dog \u20ac";\n').encode(encoding)
    written = translate(document("strings", content), Model())
    assert written == content.replace("A dog".encode(encoding)[-9:], "A DOG".encode(encoding)[-9:])


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (b"a=A dog\n", "\u20ac\U0001f600", b"a=\\u20AC\\uD83D\\uDE00\n"),
        (b"a=\xfc dog\n", "\u00fc \u20ac", b"a=\xfc \\u20AC\n"),
        ("a=\u20ac dog\n".encode(), "\u00fc", "a=\u00fc\n".encode()),
        (b"a=\\u00fc dog\n", "\u20ac\\", b"a=\\u20ac\\\\\n"),
        (b"a={0} isn''t\n", "it's {0}", b"a=it''s {0}\n"),
        (b"a={0} isn't\n", "it's {0}", b"a=it's {0}\n"),
    ],
)
def test_properties_keep_their_way_with_letters(source: bytes, text: str, expected: bytes) -> None:
    assert document("properties", source).write([Translated(text)]) == expected


def _without(parts: Mapping[str, str], *names: str) -> bytes:
    return package({name: text for name, text in parts.items() if name not in names})


def _with(parts: Mapping[str, str], **changes: str) -> bytes:
    """With one text in place of another in the part that ends so."""
    return package({
        name: next((text.replace(*change.split("→")) for end, change in changes.items() if end in name), text)
        for name, text in parts.items()
    })  # fmt: skip


PPTX, XLSX = PACKAGES["pptx"], PACKAGES["xlsx"]
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><xliff><file><body>&b;</body></file></xliff>'
REFUSED: list[tuple[str, str | bytes, str]] = [
    ("docx", b"PK\x03\x04 no", "x.docx: "),
    ("odt", package({"content.xml": "<a/>", "mimetype": "some"}).replace(b"some", b"none"), "x.odt: "),  # another sum
    ("docx", package({"word/document.xml": "<a>"}), "word/document.xml: "),
    ("docx", package({"word/document.xml": LAUGHS}), "word/document.xml: "),
    ("xlf", LAUGHS, "x.xlf: "),
    ("xlf", LAUGHS.replace('a "ha"', 'a SYSTEM "file:///etc/passwd"'), "x.xlf: "),
    ("xlf", sample_documents.XLF[:-40], "x.xlf: "),
    ("tmx", sample_documents.TMX.replace("en", "fr"), "from en"),
    ("po", sample_documents.PO.replace("Language: de", "Language: fr"), "'fr'"),
    ("srt", "1\nno times\n", "x.srt:1: "),
    ("srt", f"1\n00:00:0{'3' * 150},000 --> 00:00:04,000\nA.\n", "100 digits"),
    ("txt", b"a\nb\xff\n", "x.txt:2: byte 4"),
    ("md", "a\0b", "NUL"),
    ("html", "\ufeffa".encode("utf-16"), "UTF-16"),
    ("html", '<meta charset="punycode">a', "'punycode'"),
    ("docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "x.docx: "),
    ("pptx", _without(PPTX, "ppt/slides/slide2.xml"), "ppt/slides/slide2.xml"),
    ("pptx", _with(PPTX, presentation="r:id=\"r2\"→r:id=\"r9\""), "'r9'"),
    ("xlsx", _with(XLSX, sheet1="<v>1</v>→<v>77</v>"), "cell A2 has text '77'"),
    ("epub", _without(EPUB, "OPS/a 1.xhtml"), "OPS/a 1.xhtml"),
    ("epub", _with(EPUB, opf="b.xhtml→../../../etc/passwd"), "etc/passwd"),
    ("epub", package({**EPUB, "META-INF/encryption.xml": "<x><EncryptionMethod Algorithm='a'/></x>"}), "x.epub: "),
    ("json", '{"a": 1', "x.json:1: "),
    ("json", b'{"a": "\xff"}', "x.json:1: byte 8"),
    *(("json", wrong, f"x.json:{line}:") for wrong, line in (
        ('{\n"a": "b",,\n}\n', 2), ('{ // c\n"a": "b",\n"c" "d"\n}\n', 3), ("{ /* c\n}\n", 1),
    )),
    ("yaml", "a: [1", "x.yaml:2: "),
    ("properties", "a=\\u00zz dog", "x.properties:1: "),
    ("strings", '"a" = "b";\n"c" = ', "x.strings:2: "),
    ("xml", "<manifest/>", "<manifest>"),
    ("resx", CATALOGUES["resx"][:-20], "x.resx: "),
    ("vtt", "1\n00:00:01,000 --> 00:00:02,000\nA.\n", "x.vtt:1: "),
    ("ass", "[Events]\nDialogue: 0,1,2\n", "x.ass:2: "),
]  # fmt: skip


@pytest.mark.parametrize("kind", [*PACKAGES, "docx", "odt"])
def test_packages_are_not_unpacked_without_end(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_file, "MAX_BYTES", 1 << 20)
    with pytest.raises(UserError, match=r"^x\.\w+: .*picture\.png"):
        document(kind, package({**PACKAGES.get(kind, {}), "picture.png": "0" * (2 << 20)}))


@pytest.mark.parametrize(("kind", "content", "message"), REFUSED, ids=range(len(REFUSED)))
def test_damaged_and_hostile_files_are_refused_in_a_line(kind: str, content: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        document(kind, content)
    assert str(caught.value).startswith(f"x.{kind}")
    assert "\n" not in str(caught.value)


PLURAL = "{n, plural, =0 {no dog} one {# dog} other {# dogs}} of {m, selectordinal, one {#st} other {#th}}"
QUANTITIES = """<resources>
  <plurals name="dogs">
    <item quantity="one">%d dog</item>
    <item quantity="other">%d dogs</item>
  </plurals>
  <plurals name="same" translatable="false"><item quantity="one">a</item><item quantity="other">b</item></plurals>
</resources>
"""


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("de", ["one", "other"]), ("pl", ["one", "few", "many", "other"]), ("ru", ["one", "few", "many", "other"]),
        ("ar", ["one", "zero", "two", "few", "many", "other"]), ("ja", ["other"]), ("xx", ["one", "other"]),
    ],
)  # fmt: skip
def test_plural_forms_are_those_of_the_target(target: str, names: list[str]) -> None:
    """What the source has not says what `other` says; numbers of their own, ordinals and protected texts stay."""
    texts = {name: "# DOG" if name == "one" else "# DOGS" for name in names}
    file = read(json.dumps({"a": PLURAL}).encode(), "json", name="x.json", source_lang="en", target_lang=target)
    branches = " ".join(f"{name} {{{text}}}" for name, text in texts.items())
    expected = f"{{n, plural, =0 {{NO DOG}} {branches}}} OF {{m, selectordinal, one {{#ST}} other {{#TH}}}}"
    assert json.loads(translate(file, Model())) == {"a": expected}
    android = read(QUANTITIES.encode(), "xml", name="x.xml", source_lang="en", target_lang=target)
    first, second = ElementTree.fromstring(translate(android, Model())).findall("plurals")
    assert {item.get("quantity"): item.text for item in first} == {n: t.replace("#", "%d") for n, t in texts.items()}
    assert [item.get("quantity") for item in first] == names
    assert [item.get("quantity") for item in second] == ["one", "other"]


RAILS = """en:
  dogs: # of the house
    one: a dog
    other: "%{count} dogs" # many
  list:
  - {one: a cat, other: cats}
  long:
    one: |
      a cow
    other: |
      the cows
  kept: {one: a pig, other: pigs, note: of all}
  last:
    zero: no owl
    one: an owl
    other: owls
"""
I18NEXT = """{
    "dog_one": "a dog", "dog_other": "{{count}} \\u0064ogs",
    "place_ordinal_one": "{{count}}st", "place_ordinal_other": "{{count}}th place",
    "an_other": "alone", "cat": {"one": "a cat",
        "other": "cats"}, "rows": ["one", "other"],
    "pig": {"one": "a pig", "other": "pigs", "n": 1}
}
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("target", "new"), [("de", []), ("pl", ["few", "many"]), ("ar", ["zero", "two", "few", "many"])]
)
def test_keys_that_are_plural_forms_get_those_of_the_target(target: str, new: list[str], end: str) -> None:
    """Beside keys that are forms; ordinals and objects with other keys stay. Nothing else changes."""
    content = RAILS.replace("\n", end).encode()
    written = translate(read(content, "yaml", name="x.yaml", source_lang="en", target_lang=target), Model())
    values = yaml.safe_load(written)[target]
    many = dict.fromkeys(new, "%{count} DOGS")
    assert values["dogs"] == {"one": "A DOG", **many, "other": "%{count} DOGS"}
    assert list(values["list"][0]) == list(values["long"]) == ["one", *new, "other"]
    assert {values["long"][name] for name in new} <= {"THE COWS\n"}
    assert list(values["kept"]) == ["one", "other", "note"]
    assert list(values["last"]) == ["zero", "one", *new[new[:1] == ["zero"] :], "other"]
    assert written.count(b"\r\n") == (written.count(b"\n") if end == "\r\n" else 0)
    other = translate(read(I18NEXT.encode(), "json", name="x.json", source_lang="en", target_lang=target), Model())
    pairs = json.loads(other)
    dogs = [name for name in pairs if name.startswith("dog_")]
    assert dogs == ["dog_one", *(f"dog_{name}" for name in new), "dog_other"]
    assert {pairs[f"dog_{name}"] for name in new} <= {"{{count}} DOGS"}
    assert list(pairs["cat"]) == ["one", *new, "other"]
    assert [name for name in pairs if name not in dogs] == [name for name in json.loads(I18NEXT) if "dog" not in name]
    assert list(pairs["pig"]) == ["one", "other", "n"]


_SVG = "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"


@pytest.mark.parametrize(
    ("kind", "part", "old", "before", "after"),
    [
        ("pptx", "slide2", "<p:sp>", '<p:pic><p:cNvPr name="no" title="A cat" descr="x.png"/></p:pic>',
         '<p:cNvPr name="no" title="A CAT" descr="x.png"/>'),
        ("xlsx", "drawing1", "<xdr:txBody>", "<xdr:cNvPr descr='A cat'/>", '<xdr:cNvPr descr="A CAT"/>'),
        ("odp", "content", "<draw:text-box>", f'<s:desc xmlns:s="{_SVG}">A cat</s:desc>', ">A CAT</s:desc>"),
    ],
)  # fmt: skip
def test_alternative_texts_are_translated(kind: str, part: str, old: str, before: str, after: str) -> None:
    name, text = next((name, text) for name, text in PACKAGES[kind].items() if f"{part}.xml" in name)
    content = package({**PACKAGES[kind], name: text.replace(old, before + old, 1)})
    assert after in _parts(translate(document(kind, content), Model()))[name].decode()


def test_branches_of_choice_quote_what_java_would_read() -> None:
    file = document("json", '{"a": "{0,choice,0#no|1#{0} dogs}"}')
    written = file.write([file.unchanged(0), Translated("l'a|b"), Translated("{0} < l'a")])
    assert json.loads(written) == {"a": "{0,choice,0#l’a'|'b|1#{0} '<' l’a}"}
