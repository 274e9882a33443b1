"""Do real documents come back whole? Counts damaged files, by kind, without any model.

    python tools/document_round_trip.py DIR [DIR ...] [--at-most N] [--kinds md po] [--show] [--office N]

Each file is written with its own text, and must come back byte for byte; and with three mock translations: the case of
all letters swapped, the words reversed, and "Ja." for every sentence. Each of these is read again, and must have as
many segments, the marks and the texts that were written. Readers that are not docnmt's then compare it with the file
as it was: markdown-it's blocks, Python's parser of HTML, the elements of XML, msgfmt -c, the times of subtitles, the
lines of texts. Placeholders must occur as often as before, and with swapped case the file must be the same but for case
and white space. `--office N`: with the words reversed LibreOffice shows
as many pages of N texts of each kind. `--show` prints what differs.
"""

from __future__ import annotations

import argparse
import html
import io
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path

from catalogue_skeletons import CATALOGUES
from lxml import etree
from markdown_it import MarkdownIt
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from docnmt.apps.documents import ENDINGS, DocumentFile, Translated, read
from docnmt.apps.documents.document_sentences import SegmentSentence, translated
from docnmt.apps.documents.segment import Segment
from docnmt.core.formats.split_sentences import split_sentences
from docnmt.runtime.errors import UserError

COLUMNS = ("files", "refused", "segments", "not byte for byte", "damaged by swapped", "by reversed", "by Ja", "damaged")
MODELS: dict[str, Callable[[str], str]] = {
    "swapped": lambda text: re.sub("[A-Za-z]", lambda letter: letter[0].swapcase(), text),
    "reversed": lambda text: " ".join(reversed(text.split())),
    "Ja": lambda text: "Ja.",
}
#: Kinds that are text in themselves, so that swapped case changes nothing else; those that are packages of XML.
TEXTS = ("txt", "md", "html", "srt", "vtt", "strings", "mdx")
PACKAGES = ("docx", "odt", "docm", "dotx", "odp", "pptx", "xlsx")
PLACEHOLDER = re.compile(r"%\([\w.]+\)[a-z]|%[A-Za-z_]\w+%(?!\w)|%\d*\.?\d*[sdfr]|%\{\w+\}|\{\w*\}|\{\{[^{}]*\}\}")
#: Placeholders of docnmt; tags, of which one without end may pair anew; what begins a line of dialogue if it is there.
OTHERS = re.compile(r"\{\d+\}|\{\\[^{}]*\}|<[^<>]*>|^[-–—]+ ?")
#: What a translation may change in XML: runs, targets, languages, directions, the pieces of white space.
NAMES = frozenset(
    {
        "r",
        "t",
        "rPr",
        "lang",
        "rtl",
        "bidi",
        "proofErr",
        "lastRenderedPageBreak",
        "softHyphen",
        "tab",
        "br",
        "s",
        "pPr",
        "noBreakHyphen",
        "calcPr",
        "rPh",
        "phoneticPr",
    }
) | {"target", "tuv", "seg"}
SPOKEN = re.compile(r"lang|trgLang|language|country|writing-mode|space$")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table, a row a kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--at-most", type=int, default=200, metavar="N", help="files of a kind, evenly chosen [200]")
    parser.add_argument("--kinds", nargs="+", help="only these")
    parser.add_argument("--show", action="store_true", help="print each difference")
    parser.add_argument("--office", type=int, default=0, metavar="N", help="texts that LibreOffice opens [0]")
    given = parser.parse_args(argv)
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in given.folders:
        for path in sorted(folder.rglob("*")):
            kind = ENDINGS.get(path.suffix.lower())
            if kind in SKELETONS and (given.kinds is None or kind in given.kinds) and path.is_file():
                found[str(kind)].append(path)
    print(f"| kind | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}")
    for kind, paths in sorted(found.items()):
        chosen = [paths[n * len(paths) // given.at_most] for n in range(given.at_most)]
        row = Counter[str]()
        for number, path in enumerate(chosen if len(paths) > given.at_most else paths):
            messages = list(check(path, kind, row, office=number < given.office))
            row["damaged"] += any(not message.startswith("refused") for message in messages)
            for message in messages if given.show else ():
                print(f"{path}: {message}", file=sys.stderr)
        print(f"| {kind} | {' | '.join(f'{row[name]:,}' for name in COLUMNS)} |", flush=True)
    return 0


def check(path: Path, kind: str, row: Counter[str], *, office: bool) -> Iterator[str]:
    """Counts what holds of a file, and says what does not."""
    row["files"] += 1
    content = path.read_bytes()
    try:
        document = opened(content, kind, path)
    except UserError as error:
        row["refused"] += 1
        yield f"refused: {error}"
        return
    row["segments"] += len(document.segments)
    if document.write([document.unchanged(number) for number in range(len(document.segments))]) != content:
        row["not byte for byte"] += 1
        yield "its own text does not give the same bytes"
    before = SKELETONS[kind](content)
    for name, function in MODELS.items():
        try:
            messages = list(
                compared(document, kind, path, before, name, function, office=office and name == "reversed")
            )
        except UserError as error:
            messages = [str(error)]
        row[f"damaged by {name}" if name == "swapped" else f"by {name}"] += bool(messages)
        yield from (f"{name}: {message}" for message in messages[:3])


def compared(
    document: DocumentFile,
    kind: str,
    path: Path,
    before: object,
    name: str,
    function: Callable[[str], str],
    *,
    office: bool,
) -> Iterator[str]:
    """What is wrong with a translation."""
    split = partial(split_sentences, language="en")

    def model(sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        return (function(sentence.text) for sentence in sentences if sentence.given is None)

    texts = translated(document, model, split=split, split_target=split)
    written = document.write(texts)
    again = opened(written, kind, path)
    if len(again.segments) != len(document.segments):
        yield f"{len(document.segments)} segments became {len(again.segments)}"
    for wanted, old, new in zip(texts, document.segments, again.segments, strict=False):
        if old.translation is None:
            yield from different(document, wanted, old, new.translation or "" if document.bilingual else new.text)
    after = SKELETONS[kind](written)
    if worse(before, after):
        yield f"structure: {difference(before, after)}"
    if kind in TEXTS and name == "swapped" and plain(document.content) != plain(written):
        yield f"more than case: {difference(plain(document.content).split(), plain(written).split())}"
    if office and kind in PACKAGES and pages(document.content, kind) != pages(written, kind):
        yield "LibreOffice shows other pages"


def worse(before: object, after: object) -> bool:
    """Whether two skeletons differ; messages of a reader, and texts that lack elements, may become fewer."""
    if isinstance(before, frozenset) and isinstance(after, frozenset):
        return not after <= before
    if isinstance(before, tuple) and isinstance(after, tuple):
        return bool(before[0] != after[0] or after[1] > before[1])
    return before != after


def different(document: DocumentFile, wanted: Translated, old: Segment, new: str) -> Iterator[str]:
    """Text or placeholders that are not what was written; white space and placeholders of ours do not count."""
    free = list(old.text)  # what is fixed is checked where a document is written
    for mark in old.marks:
        if mark.fixed:
            free[mark.begin : mark.end] = "\0" * (mark.end - mark.begin)
    same = [OTHERS.sub("", text).split() for text in (wanted.text, new)]
    if same[0] != same[1] and not document.bilingual:
        yield f"{wanted.text!r} became {new!r}"
    there = Counter(PLACEHOLDER.findall("".join(free)))
    lost = [each for each, count in there.items() if wanted.text.count(each) < count]
    if lost and wanted.text:
        yield f"{old.text!r} lost {lost}"


def difference(before: object, after: object) -> str:
    """A little of what two skeletons do not share."""
    if isinstance(before, list) and isinstance(after, list):
        both = enumerate(zip(before, after, strict=False))
        place = next((n for n, (one, other) in both if one != other), min(len(before), len(after)))
        return f"{before[place : place + 4]} became {after[place : place + 4]}"
    if isinstance(before, Counter) and isinstance(after, Counter):
        return f"lost {list((before - after).items())[:3]}, new {list((after - before).items())[:3]}"
    return f"{str(before)[:200]} became {str(after)[:200]}"


def plain(content: bytes) -> str:
    """A text without case, references, escapes of Markdown and white space; languages are not compared."""
    text = html.unescape(decoded(content)).lower().replace("\\n", " ")
    text = re.sub(r"\\u([0-9a-f]{4})", lambda number: chr(int(number[1], 16)), text)
    text = re.sub(r"<!--.*?-->|\{/\*.*?\*/\}", "", text, flags=re.DOTALL)  # they do not show
    text = re.sub(r"^[ \t>]+", "", text, flags=re.MULTILINE)  # lines of a quotation are joined
    text = re.sub(r"\]\[[^\]]*\]", "]", text)  # the name of a link that was its text
    text = re.sub(r"\s+\](\([^()\s]*\))?", r"]\1 ", text)  # a space at its end stands behind it
    text = re.sub(r"(?<=\))\s(?=[,.;:])", "", text).replace("`", "")  # which of two equal words is code, a model says
    text = re.sub(r"\s*(?:<[^<>]*>\s*)+", one_space, text)
    text = re.sub(r"(?:xml:)?lang=[\"']?[\w-]+[\"']?|(?:charset|content)=[\"']?[\w-]+[\"']?", "", text)
    return " ".join(re.sub("[\\\\\u00ad\u200b\u2060\ufeff]+", "", text).split())


def decoded(content: bytes) -> str:
    """A text in whatever encoding it is."""
    try:
        return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def one_space(tags: re.Match[str]) -> str:
    """Tags in a row with at most one space around them, as browsers show them; none beside a line break."""
    spaces = re.search(r"\s", re.sub("<[^<>]*>", "", tags[0])) is not None and "<br" not in tags[0]
    return re.sub(r"(?<=>)\s+|\s+(?=<)", "", tags[0].strip()) + " " * spaces


@cache
def markdown() -> MarkdownIt:
    """A parser of Markdown with all that its plug-ins know."""
    made = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    made.use(deflist_plugin).use(admon_plugin).use(attrs_plugin).use(footnote_plugin, move_to_end=False)
    made.use(dollarmath_plugin, allow_space=False, allow_digits=False)
    return made.use(container_plugin, "any", marker=":", validate=lambda params, markup: True)


FRONT = re.compile(r"\s*(---|\+\+\+)[ \t]*\r?\n.*?\n\1[ \t]*(?:\r?\n|\Z)|\{\s*\".*?\n\}\s*?\n", re.DOTALL)
SIGN = re.compile(
    r"^[ \t>]*(\+[-=:+]+\+|\+\+\+|\$\$|\[![\w-]+\]|(?:===|!!!|\?\?\?)(?= )|:::+|\[\^[^\]]+\]:)", re.MULTILINE
)


def of_markdown(content: bytes) -> object:
    """Blocks in order, with code, front matter and the signs that begin lines; inside of lines links and pictures."""
    text = content.decode("utf-8", "replace")
    front = match[0] if (match := FRONT.match(text.lstrip("\ufeff"))) else ""
    text = whole = text.removeprefix("\ufeff").removeprefix(front)
    blocks: list[object] = [front]
    text = re.sub(r"^([ \t]*)===[!+]? (?=\")", r"\1!!! tab ", text, flags=re.MULTILINE)  # the plug-in knows no tabs
    for token in markdown().parse(text):
        inside = [
            (child.type, str(child.attrs.get("href") or child.attrs.get("src") or child.content))
            for child in token.children or [] if child.type in ("link_open", "image", "code_inline", "footnote_ref")
        ]  # fmt: skip
        code = token.content if token.type in ("fence", "code_block", "math_block") else ""
        code = "" if re.match(r"\s*(?:!!!|\?\?\?)", code) else code  # blocks in blocks are not the plug-in's
        blocks.append((token.type, token.info if token.type == "fence" else "", code, *sorted(inside)))
    return [*blocks, *(match[1] for match in SIGN.finditer(whole))]


class Tags(HTMLParser):
    """The tags, comments and declarations of a page, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[object]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag."""
        about = [(name, value) for name, value in attrs if not SPOKEN.search(name) and name not in ("dir", "content")]
        self.found[tag, tuple(about)] += 1

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
    found = Counter[object]()
    waiting = [etree.fromstring(content, etree.XMLParser(huge_tree=True, resolve_entities=False))]
    while waiting:
        element = waiting.pop()
        name = etree.QName(element).localname if isinstance(element.tag, str) else ""
        if name not in NAMES:
            about = {key: value for key, value in element.attrib.items() if not SPOKEN.search(str(key))}
            found[str(element.tag), tuple(sorted(about.items()))] += 1
        waiting += [] if name in ("target", "tuv", "rPr") else list(element)
    return found


def of_units(content: bytes) -> object:
    """The same, and how many targets lack an element that their source has or the other way round."""
    found, wrong = of_xml(content), 0
    root = etree.fromstring(content, etree.XMLParser(huge_tree=True, resolve_entities=False))
    for target in root.iter("{*}target"):
        around = target.getparent()
        source = None if around is None else around.find("{*}source")
        if source is not None and len(target):
            wrong += Counter(inside(source)) != Counter(inside(target))
    return found, wrong


def inside(element: etree._Element) -> list[tuple[str, str]]:
    """The elements in a text, but for segments."""
    return [(str(each.tag), each.get("id") or "") for each in element.iterdescendants() if each.get("mtype") != "seg"]


def of_package(content: bytes) -> object:
    """All parts of a package, those of XML by their elements."""
    found = Counter[object]()
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        for name in package.namelist():
            part = package.read(name)
            try:
                inside = of_xml(part) if part.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<") else {}
            except etree.XMLSyntaxError:  # as an empty part
                inside = {}
            if inside:
                found += Counter({(name, key): count for key, count in inside.items()})  # type: ignore[attr-defined]
            else:
                found[name, part] += 1
    return found


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


def pages(content: bytes, kind: str) -> int:
    """How many pages LibreOffice shows; 0 if it cannot open the text."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"text.{kind}"
        source.write_bytes(content)
        command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", "pdf"]
        subprocess.run([*command, "--outdir", folder, str(source)], capture_output=True, check=False, timeout=120)
        made = source.with_suffix(".pdf")
        return len(re.findall(rb"/Type\s*/Page\b", made.read_bytes())) if made.exists() else 0


def opened(content: bytes, kind: str, path: Path) -> DocumentFile:
    """A document, in whatever language it is."""
    said = re.search(rb"Language: *(\w+)|target-language=\"(\w+)|trgLang=\"(\w+)", content)
    source = re.search(rb"source-language=\"(\w+)|srcLang=\"(\w+)|srclang=\"(\w+)", content)
    languages = [next(filter(None, m.groups())).decode() if m else name for m, name in ((source, "en"), (said, "de"))]
    return read(content, kind, name=path.name, source_lang=languages[0], target_lang=languages[1])


if __name__ == "__main__":
    sys.exit(main())
