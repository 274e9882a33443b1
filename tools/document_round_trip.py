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
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from document_skeletons import SKELETONS
from shown_text import pages, plain

from docnmt.apps.documents.kinds import ENDINGS, read
from docnmt.apps.documents.segments import DocumentFile, Segment, Translated
from docnmt.apps.documents.sentences import SegmentSentence, translated
from docnmt.core.split_sentences import split_sentences
from docnmt.runtime.languages import CJK, WIDE_SIGNS
from docnmt.runtime.system import UserError

COLUMNS = ("files", "refused", "segments", "not byte for byte", "damaged by swapped", "by reversed", "by Ja", "damaged")
MODELS: dict[str, Callable[[str], str]] = {
    "swapped": lambda text: re.sub("[A-Za-z]", lambda letter: letter[0].swapcase(), text),
    "reversed": lambda text: " ".join(reversed(text.split())),
    "Ja": lambda text: "Ja.",
}
#: Kinds that are text in themselves, so that swapped case changes nothing else; packages of XML; messages.
TEXTS = ("txt", "md", "html", "srt", "vtt", "strings", "mdx")
PACKAGES = ("docx", "odt", "docm", "dotx", "odp", "pptx", "xlsx")
MESSAGES = ("json", "yaml", "properties", "strings")
PLACEHOLDER = re.compile(r"%\([\w.]+\)[a-z]|%[A-Za-z_]\w+%(?!\w)|%\d*\.?\d*[sdfr]|%\{\w+\}|\{\w*\}|\{\{[^{}]*\}\}")
#: Placeholders of docnmt; tags, of which one without end may pair anew; what begins a line of dialogue if it is there.
NUMBERS = re.compile(r"(?<=\w)\d+\}")
OTHERS = re.compile(r"\{\d+\}|\{\\[^{}]*\}|<[^<>]*>|^[-–—]+ ?")
#: White space beside Chinese and Japanese, where the lines of a text are joined by nothing.
WIDE = re.compile(rf"(?<=[{CJK}{WIDE_SIGNS}])\s+|\s+(?=[{CJK}{WIDE_SIGNS}])")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table, a row a kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--at-most", type=int, default=200, metavar="N", help="files of a kind, evenly chosen [200]")
    parser.add_argument("--kinds", nargs="+", help="only these")
    parser.add_argument("--show", action="store_true", help="print each difference")
    parser.add_argument("--office", type=int, default=0, metavar="N", help="texts that LibreOffice opens [0]")
    given = parser.parse_args(argv)
    by_kind: dict[str, list[Path]] = defaultdict(list)
    for folder in given.folders:
        for path in sorted(folder.rglob("*")):
            kind = ENDINGS.get(path.suffix.lower())
            if kind in SKELETONS and (given.kinds is None or kind in given.kinds) and path.is_file():
                by_kind[str(kind)].append(path)
    print(f"| kind | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}")
    for kind, paths in sorted(by_kind.items()):
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
    again = opened(written, kind, path, source_lang="en" if document.bilingual else document.languages[1])
    if len(again.segments) != len(document.segments):
        yield f"{len(document.segments)} segments became {len(again.segments)}"
    pairs = list(zip(texts, document.segments, strict=True))
    moving = kind in (*MESSAGES, "html")  # choices in a message of ICU, attributes of elements in a text
    if moving:
        pairs.sort(key=lambda pair: _place(pair[1], pair[0].text))
    segments = sorted(again.segments, key=lambda new: _place(new, new.text)) if moving else again.segments
    for (wanted, old), new in zip(pairs, segments, strict=False):
        if old.translation is None:
            yield from different(document, wanted, old, new.translation or "" if document.bilingual else new.text)
    after = SKELETONS[kind](written)
    if worse(before, after):
        yield f"structure: {difference(before, after)}"
    if kind in TEXTS and name == "swapped":
        shown = [WIDE.sub("", plain(content)) for content in (document.content, written)]
        if shown[0] != shown[1]:
            yield f"more than case: {difference(shown[0].split(), shown[1].split())}"
    if office and kind in PACKAGES and pages(document.content, kind) != pages(written, kind):
        yield "LibreOffice shows other pages"


def _place(segment: Segment, text: str) -> tuple[int, str]:
    """The number of a message, and its text without the numbers of placeholders."""
    return int(segment.units[1]), NUMBERS.sub("}", text)


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
    same = [NUMBERS.sub("}", OTHERS.sub("", text)).replace("''", "'").split() for text in (wanted.text, new)]
    if document.name.endswith((".md", ".mdx")):  # code beside code needs a space between
        same = [["".join(words)] for words in same]
    if same[0] != same[1] and not document.bilingual:
        yield f"{wanted.text!r} became {new!r}"
    there = Counter(PLACEHOLDER.findall("".join(free)))
    lost = [placeholder for placeholder, count in there.items() if wanted.text.count(placeholder) < count]
    if lost and wanted.text:
        yield f"{old.text!r} lost {lost}"


def difference(before: object, after: object) -> str:
    """A little of what two skeletons do not share."""
    if isinstance(before, list) and isinstance(after, list):
        both = enumerate(zip(before, after, strict=False))
        position = next((n for n, (one, other) in both if one != other), min(len(before), len(after)))
        return f"{before[position : position + 4]} became {after[position : position + 4]}"
    if isinstance(before, Counter) and isinstance(after, Counter):
        return f"lost {list((before - after).items())[:3]}, new {list((after - before).items())[:3]}"
    return f"{str(before)[:200]} became {str(after)[:200]}"


def opened(content: bytes, kind: str, path: Path, source_lang: str = "en") -> DocumentFile:
    """A document, in whatever language it is, or in this one."""
    said = re.search(rb"Language: *(\w+)|target-language=\"(\w+)|trgLang=\"(\w+)", content)
    source = re.search(rb"source-language=\"(\w+)|srcLang=\"(\w+)|srclang=\"(\w+)", content)
    names = ((source, source_lang), (said, "de"))
    languages = [next(filter(None, match.groups())).decode() if match else name for match, name in names]
    return read(content, kind, name=path.name, source_lang=languages[0], target_lang=languages[1])


if __name__ == "__main__":
    sys.exit(main())
