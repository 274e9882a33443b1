"""Does a folder of real documents come back whole? Counts it, by kind, without any model.

    python tools/document_round_trip.py DIR [DIR ...] [--at-most N] [--kinds md po] [--show]

Two translations are written of every file. The identity gives each segment its own text (in files of two languages:
what the file has); the file must come back byte for byte. The other one swaps the case of all letters, as a model would
that does not know what a placeholder is. That file is read again and must have as many segments, with the same marks
and the texts that were written. What is no text must be there as often as before: tags and comments of HTML, elements
and their attributes in ODT, in DOCX but for runs, outside of targets in XLIFF and TMX. `--show` prints what differs.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from docnmt.apps.documents import ENDINGS, Document, read
from docnmt.apps.documents.document_sentences import Sentence, translated
from docnmt.apps.documents.html import tokens
from docnmt.apps.documents.xml_file import local, parse
from docnmt.core.formats.split_sentences import split_sentences
from docnmt.runtime.errors import UserError

COLUMNS = (
    "files",
    "refused",
    "segments",
    "back byte for byte",
    "swapped: as many segments",
    "texts that differ",
    "structure kept",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table, a row a kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--at-most", type=int, default=200, metavar="N", help="files of a kind, evenly chosen [200]")
    parser.add_argument("--kinds", nargs="+", help="only these")
    parser.add_argument("--show", action="store_true", help="print each difference")
    given = parser.parse_args(argv)
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in given.folders:
        for path in sorted(folder.rglob("*")):
            kind = ENDINGS.get(path.suffix.lower())
            if kind and (given.kinds is None or kind in given.kinds) and path.is_file() and path.stat().st_size:
                found[kind].append(path)
    print(f"| kind | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}")
    for kind, paths in sorted(found.items()):
        step = max(1, len(paths) // given.at_most)
        row = Counter[str]()
        for path in paths[::step][: given.at_most]:
            row["files"] += 1
            for message in check(path, kind, row):
                if given.show:
                    print(f"{path}: {message}", file=sys.stderr)
        print(f"| {kind} | {' | '.join(f'{row[name]:,}' for name in COLUMNS)} |", flush=True)
    return 0


def check(path: Path, kind: str, row: Counter[str]) -> Iterator[str]:
    """Counts what holds of a file, and says what does not."""
    content = path.read_bytes()
    try:
        document = opened(content, kind, path)
    except UserError as error:
        row["refused"] += 1
        yield f"refused: {error}"
        return
    row["segments"] += len(document.segments)
    same = document.write([document.unchanged(number) for number in range(len(document.segments))])
    row["back byte for byte"] += same == content
    split = partial(split_sentences, language="en")
    try:
        texts = translated(document, swapped, split=split, split_target=split)
        written = document.write(texts)
        again = opened(written, kind, path)
    except UserError as error:
        row["texts that differ"] += len(document.segments)
        yield f"swapped: {error}"
        return
    before, now = skeleton(content, kind), skeleton(written, kind)
    row["structure kept"] += before == now
    if before != now:
        yield f"structure: lost {list((before - now).items())[:3]}, new {list((now - before).items())[:3]}"
    row["swapped: as many segments"] += len(again.segments) == len(document.segments)
    for number, (wanted, new) in enumerate(zip(texts, again.segments, strict=False)):
        text = (new.translation or "") if document.bilingual else new.text
        marks = len(document.segments[number].marks) == len(new.marks)
        if text.split() != plain(wanted.text).split() or not marks:
            row["texts that differ"] += 1
            yield f"segment {number + 1}: {wanted.text!r} became {text!r}{'' if marks else ', with other marks'}"


def skeleton(content: bytes, kind: str) -> Counter[object]:
    """What is no text in a file, and how often; nothing for kinds that are text themselves."""
    if kind == "html":
        source = content.decode("latin-1")
        return Counter(source[token.begin : token.end] for token in tokens(source) if token.kind != "text")
    if kind in ("xlf", "tmx"):
        return elements(content, ("target", "tuv"))
    if kind not in ("docx", "odt"):
        return Counter()
    found = Counter[object]()
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        for name in package.namelist():
            if name.endswith(".xml") and package.getinfo(name).file_size:
                found += elements(package.read(name), RUNS if kind == "docx" else ("s",))
            else:
                found[name, package.read(name)] += 1
    return found


#: What a translation makes anew in DOCX, or Word by itself.
RUNS = ("r", "t", "rPr", "proofErr", "lastRenderedPageBreak", "softHyphen", "tab", "br")


def elements(content: bytes, left_out: tuple[str, ...]) -> Counter[object]:
    """The elements of an XML file with their attributes, but for some and what is in them."""
    found = Counter[object]()
    waiting = [parse(content, "part")]
    while waiting:
        element = waiting.pop()
        if local(element) == "r" and "r" in left_out:  # pictures, notes, fields stand in runs
            waiting += [child for child in element if local(child) not in left_out]
        elif local(element) not in left_out:
            about = {name: value for name, value in element.attrib.items() if not name.startswith(("target-l", "trgL"))}
            found[str(element.tag), tuple(sorted(about.items()))] += 1
            waiting += list(element)
    return found


def plain(text: str) -> str:
    """Text without what stands for line breaks."""
    return " ".join(text.split())


def opened(content: bytes, kind: str, path: Path) -> Document:
    """A document, in whatever language it is."""
    said = re.search(rb"Language: *(\w+)|target-language=\"(\w+)|trgLang=\"(\w+)", content)
    source = re.search(rb"source-language=\"(\w+)|srcLang=\"(\w+)|srclang=\"(\w+)", content)
    languages = [next(filter(None, m.groups())).decode() if m else name for m, name in ((source, "en"), (said, "de"))]
    return read(content, kind, name=path.name, source_lang=languages[0], target_lang=languages[1])


def swapped(sentences: Sequence[Sentence]) -> Iterator[str]:
    """Each sentence with the case of its letters swapped."""
    return (sentence.text.swapcase() for sentence in sentences if sentence.given is None)


if __name__ == "__main__":
    sys.exit(main())
