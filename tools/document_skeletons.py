"""What a translation must leave alone, kind by kind, by readers that are not docnmt's."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

from catalogue_skeletons import CATALOGUES
from lxml import etree
from markdown_skeleton import of_markdown

#: What a translation may change in XML: runs, targets, languages, directions, the pieces of white space.
NAMES = re.compile(
    "r|t|rPr|lang|rtl|bidi|proofErr|lastRenderedPageBreak|softHyphen|tab|br|s|pPr|noBreakHyphen|calcPr|rPh|phoneticPr"
    "|target|tuv|seg"
)
#: Attributes of HTML that are translated.
SEEN = frozenset({"alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder", "label"})
SPOKEN = re.compile(r"lang|trgLang|language|country|writing-mode|space$|^(?:descr|title|alt|string)$")


class Tags(HTMLParser):
    """The tags, comments and declarations of a page, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[object]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag."""
        about = [(name, value) for name, value in attrs if not SPOKEN.search(name) and name not in ("dir", "content")]
        seen = SEEN | {"value"} if tag == "input" else SEEN
        self.found[tag, tuple((name, None if name in seen else value) for name, value in about)] += 1

    def handle_endtag(self, tag: str) -> None:
        """Count an end."""
        self.found["/", tag] += 1

    def handle_comment(self, data: str) -> None:
        """Count a comment."""
        self.found["!", data] += 1


def of_html(content: bytes) -> object:
    """Tags, by Python's own parser."""
    tags = Tags()
    tags.feed(content.decode("latin-1"))
    return tags.found


def of_xml(content: bytes) -> object:
    """The elements of XML with their attributes, but for what a translation makes anew."""
    elements = Counter[object]()
    waiting = [etree.fromstring(content, etree.XMLParser(huge_tree=True, resolve_entities=False))]
    while waiting:
        element = waiting.pop()
        name = etree.QName(element).localname if isinstance(element.tag, str) else ""
        if name == "pPr" and element.getprevious() is not None:  # not where properties of a paragraph may stand
            continue
        if not NAMES.fullmatch(name):
            seen = SEEN | {"value", "content"} if name in ("input", "meta") else SEEN
            about = {
                key: value for key, value in element.attrib.items() if not (SPOKEN.search(str(key)) or key in seen)
            }
            elements[str(element.tag), tuple(sorted(about.items()))] += 1
        waiting += [] if name in ("target", "tuv", "rPr") else list(element)
    return elements


def of_units(content: bytes) -> object:
    """The same, and how many targets lack an element that their source has or the other way round."""
    elements, wrong = of_xml(content), 0
    root = etree.fromstring(content, etree.XMLParser(huge_tree=True, resolve_entities=False))
    for target in root.iter("{*}target"):
        around = target.getparent()
        source = None if around is None else around.find("{*}source")
        if source is not None and len(target):
            wrong += Counter(inside(source)) != Counter(inside(target))
    return elements, wrong


def inside(element: etree._Element) -> list[tuple[str, str]]:
    """The elements in a text, but for segments."""
    return [(str(node.tag), node.get("id") or "") for node in element.iterdescendants() if node.get("mtype") != "seg"]


def of_package(content: bytes) -> object:
    """All parts of a package, those of XML by their elements."""
    parts = Counter[object]()
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        for name in package.namelist():
            part = package.read(name)
            try:
                inside = of_xml(part) if part.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<") else {}
            except etree.XMLSyntaxError:  # as an empty part
                inside = {}
            if inside:
                parts += Counter({(name, key): count for key, count in inside.items()})  # type: ignore[attr-defined]
            else:
                parts[name, part] += 1
    return parts


def of_po(content: bytes) -> object:
    """Whether msgfmt -c takes it; a file that it refused before may be refused for the same again."""
    if shutil.which("msgfmt") is None:
        return frozenset[str]()
    with tempfile.NamedTemporaryFile(suffix=".po") as file:
        file.write(content)
        file.flush()
        command = ["msgfmt", "-c", "-o", "/dev/null", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "warning" not in line][:-1]  # the last one counts the others
    return frozenset(re.sub(r"^\S+?:\d+: ", "", line) for line in lines)


def of_srt(content: bytes) -> object:
    """Numbers and times."""
    return re.findall(rb"^\d+\s*$|^.*-->.*$", content, re.MULTILINE)


def of_txt(content: bytes) -> object:
    """The indentation of each line."""
    return [re.match(r"\s*", line)[0] for line in content.decode("utf-8", "replace").split("\n")]  # type: ignore[index]


SKELETONS: dict[str, Callable[[bytes], object]] = {
    "md": of_markdown, "html": of_html, "xlf": of_units, "tmx": of_xml, "docx": of_package, "odt": of_package,
    "po": of_po, "srt": of_srt, "txt": of_txt, "vtt": of_srt, "sdlxliff": of_units, "mqxliff": of_units,
    **dict.fromkeys(("pptx", "xlsx", "odp", "docm", "dotx"), of_package),
    **dict.fromkeys(("fodt", "xml", "resx"), of_xml),
    "epub": of_package, **CATALOGUES,
}  # fmt: skip
