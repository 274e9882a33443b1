"""Small packages of every kind, made by hand, so that every part of them is known."""

# ruff: noqa: E501  (files as they are)

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_P = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {_A} {_R}'
_X = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" {_R}'
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"


def package(parts: Mapping[str, str]) -> bytes:
    """A ZIP file of these parts, the same whenever it is made."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, text in parts.items():
            way = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            file.writestr(zipfile.ZipInfo(name), text, way)
    return out.getvalue()


def word(body: str, **parts: str) -> bytes:
    """A text of Word with this body; `parts` are further ones, `charts__chart1` is `word/charts/chart1.xml`."""
    document = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    more = {f"word/{name.replace('__', '/')}.xml": text for name, text in parts.items()}
    return package({"word/document.xml": document, **more})


def relations(*targets: tuple[str, str]) -> str:
    """A file of relations r1, r2 …, each (kind, target)."""
    rows = (f'<Relationship Id="r{n}" Type="{_TYPE}{kind}" Target="{to}"/>' for n, (kind, to) in enumerate(targets, 1))
    start = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    return f"{start}{''.join(rows)}</Relationships>"


def shape(paragraphs: str, placeholder: str = "") -> str:
    """A shape with text."""
    about = f"<p:nvPr>{placeholder}</p:nvPr>"
    return f"<p:sp><p:nvSpPr>{about}</p:nvSpPr><p:txBody><a:bodyPr/>{paragraphs}</p:txBody></p:sp>"


def slide(shapes: str, name: str = "sld") -> str:
    """A slide, its notes or its layout."""
    return f"<p:{name} {_P}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:{name}>"


RICH = (
    '<a:p><a:pPr lvl="0"/><a:r><a:rPr lang="en-US" dirty="0"/><a:t>The dog </a:t></a:r>'
    '<a:r><a:rPr lang="en-GB" b="1"/><a:t>sees</a:t></a:r><a:r><a:rPr lang="en-US"/><a:t> the house.</a:t></a:r>'
    '<a:br/><a:r><a:rPr lang="en-US"/><a:t>On page </a:t></a:r><a:fld id="{1}" type="slidenum"><a:t>7</a:t></a:fld>'
    '<a:r><a:rPr lang="en-US"/><a:t> more</a:t></a:r><a:endParaRPr lang="en-US"/></a:p>'
)
PPTX = {
    "[Content_Types].xml": "<Types/>",
    "ppt/presentation.xml": f'<p:presentation {_P}><p:sldIdLst><p:sldId id="256" r:id="r2"/><p:sldId id="257" r:id="r1"/>'
    "</p:sldIdLst></p:presentation>",
    "ppt/_rels/presentation.xml.rels": relations(("slide", "slides/slide1.xml"), ("slide", "/ppt/slides/slide2.xml")),
    "ppt/slides/slide1.xml": slide(
        shape("<a:p><a:r><a:t>Last words</a:t></a:r></a:p>")
        + "<p:graphicFrame><a:graphic><a:graphicData uri='http://schemas.openxmlformats.org/drawingml/2006/diagram'/>"
        "</a:graphic></p:graphicFrame><p:graphicFrame><a:graphic><a:graphicData uri='x/table'><a:tbl><a:tr>"
        "<a:tc><a:txBody><a:p><a:r><a:t>Cell</a:t></a:r></a:p></a:txBody></a:tc>"
        "<a:tc><a:txBody><a:p><a:r><a:t>42</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData>"
        "</a:graphic></p:graphicFrame>"
    ),
    "ppt/slides/slide2.xml": slide(shape("<a:p><a:r><a:t>The title</a:t></a:r></a:p>", '<p:ph type="title"/>') + shape(RICH)),
    "ppt/slides/_rels/slide2.xml.rels": relations(
        ("notesSlide", "../notesSlides/notesSlide1.xml"), ("slideLayout", "../slideLayouts/slideLayout1.xml")
    ),
    "ppt/notesSlides/notesSlide1.xml": slide(shape("<a:p><a:r><a:t>A note</a:t></a:r></a:p>"), "notes"),
    "ppt/slideLayouts/slideLayout1.xml": slide(
        shape("<a:p><a:r><a:t>Click to edit</a:t></a:r></a:p>", '<p:ph type="title"/>')
        + shape("<a:p><a:r><a:t>Our house</a:t></a:r></a:p>"),
        "sldLayout",
    ),
}  # fmt: skip
XLSX = {
    "[Content_Types].xml": "<Types/>",
    "xl/workbook.xml": f'<workbook {_X}><sheets><sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": relations(("worksheet", "worksheets/sheet1.xml"), ("sharedStrings", "sharedStrings.xml")),
    "xl/sharedStrings.xml": f'<sst {_X} count="6" uniqueCount="6"><si><t>The cat</t></si><si><t xml:space="preserve">A dog '
    "</t></si><si><r><t>The old </t></r><r><rPr><b/></rPr><t>house</t></r><rPh sb='0' eb='1'><t>x</t></rPh></si>"
    "<si><t>Head</t></si><si><t>Yes</t></si><si><t>one\nline\tmore</t></si></sst>",
    "xl/worksheets/sheet1.xml": f'<worksheet {_X}><sheetData><row r="1"><c r="A1" t="s"><v>3</v></c></row>'
    '<row r="2"><c r="A2" t="s"><v>1</v></c><c r="B2"><v>42</v></c><c r="C2" t="inlineStr"><is><t>Inline text</t></is></c>'
    '</row><row r="3"><c r="A3" t="s"><v>0</v></c><c r="B3" t="s"><v>2</v></c><c r="C3" t="s"><v>1</v></c></row>'
    '<row r="4"><c r="A4" t="s"><v>4</v></c><c r="B4" t="str"><f>IF(A4="Yes","ja ""!""",A2)</f><v>ja</v></c>'
    '<c r="C4" t="s"><v>5</v></c></row></sheetData></worksheet>',
    "xl/worksheets/_rels/sheet1.xml.rels": relations(("table", "../tables/table1.xml"), ("drawing", "../drawings/drawing1.xml")),
    "xl/tables/table1.xml": f'<table {_X} ref="A1:A3"><tableColumns count="1"><tableColumn id="1" name="Head"/></tableColumns></table>',
    "xl/drawings/drawing1.xml": f"<xdr:wsDr xmlns:xdr='x' {_A}><xdr:txBody><a:p><a:r><a:t>A shape</a:t></a:r></a:p></xdr:txBody></xdr:wsDr>",
}  # fmt: skip
_PAGE = (
    '<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">'
    "<head><title>{0}</title></head>\n<body><h1>{0}</h1><p>The <b>old &amp; big</b> dog<br/>walks.</p></body></html>\n"
)
EPUB = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf"/></rootfiles></container>',
    "OPS/book.opf": '<?xml version="1.0"?>\n<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/'
    'elements/1.1/" version="3.0"><metadata><dc:title>The book</dc:title><dc:language>en-GB</dc:language>'
    "<dc:creator>A. Cat</dc:creator></metadata><manifest>"
    '<item id="a" href="a%201.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="n" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    '<item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    '<item id="c" href="style.css" media-type="text/css"/></manifest>'
    '<spine toc="t"><itemref idref="b"/><itemref idref="a"/></spine></package>',
    "OPS/a 1.xhtml": _PAGE.format("Chapter two"),
    "OPS/b.xhtml": _PAGE.format("Chapter one"),
    "OPS/nav.xhtml": '<html><body><nav><ol><li><a href="b.xhtml">Chapter one</a></li></ol></nav></body></html>',
    "OPS/toc.ncx": '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Chapter one'
    '</text></navLabel><content src="b.xhtml"/></navPoint></navMap></ncx>',
    "OPS/style.css": "p { color: red }",
}  # fmt: skip
_ODF = "urn:oasis:names:tc:opendocument:xmlns"
ODP = {
    "mimetype": "application/vnd.oasis.opendocument.presentation",
    "content.xml": f'<office:document-content xmlns:office="{_ODF}:office:1.0" xmlns:text="{_ODF}:text:1.0"'
    f' xmlns:draw="{_ODF}:drawing:1.0" xmlns:presentation="{_ODF}:presentation:1.0"><office:body><office:presentation>'
    "<draw:page><draw:frame><draw:text-box><text:p>The title</text:p><text:list><text:list-item><text:p>One <text:span>"
    "old</text:span> dog</text:p></text:list-item></text:list></draw:text-box></draw:frame><presentation:notes><draw:frame>"
    "<draw:text-box><text:p>A note</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>"
    "</office:presentation></office:body></office:document-content>",
}  # fmt: skip
PACKAGES = {"pptx": PPTX, "xlsx": XLSX, "epub": EPUB, "odp": ODP}
