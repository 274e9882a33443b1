"""Text files and WMT XML → a stream of sentences with their documents, sections and paragraphs."""

from __future__ import annotations

import collections
import dataclasses
import glob
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from docnmt.core.corpus import Blank, CorpusEnd, DocumentStart, Event, Facts, Sentence
from docnmt.core.data_options import Columns
from docnmt.core.lines import ENDINGS, TextLines, blocks, is_blank
from docnmt.core.tables import KINDS, kind_of_table, read_tables
from docnmt.runtime.languages import base, joined
from docnmt.runtime.system import UserError

# Treatment of sentences without a partner on the other side.


#: error: they are rejected. read: a source sentence without a translation is kept as context. skip: it is left out.
OneSided = Literal["error", "read", "skip"]


def with_partners(events: Iterator[Event], policy: OneSided, path: Path, facts: Facts) -> Iterator[Event]:
    """Apply the policy to sentences with an empty side; add a note with their number to `facts`.

    A target sentence without a source is left out in any case: translation never needs it, and no model could
    have written it.

    Raises:
        UserError: there is one, and the policy is `error`; the message names its place.
    """
    alone = {"source": 0, "target": 0}
    first = {"source": "", "target": ""}
    for event in events:
        if isinstance(event, Sentence) and not all(event.texts):
            side = "source" if event.texts[0] else "target"
            if policy == "error":
                raise UserError(
                    f"{event.place}: empty on one side; expected text on all sides, or --one-sided read (or skip) for "
                    "sentences without a partner"
                )
            alone[side] += 1
            first[side] = first[side] or event.place
            if side == "target" or policy == "skip":
                continue
        yield event
    done = "are read, but neither trained on nor scored" if policy == "read" else "are left out"
    for side, what, fate in (("source", "without a translation", done), ("target", "without a source", "are left out")):
        if alone[side]:
            facts.notes.append(f"{path}: {alone[side]:,} lines {what} {fate} (the first: {first[side]})")


# Reading of plain text: one sentence per line, an empty line or `<d>` between documents.


#: What other toolkits put between the sentences of a document, or around them, if a line is a whole document.
_SEPARATOR = re.compile(r"(?i)(?<!\S)(?:_(?:eos|sep|brk)|<(?:sep|eos|brk|beg|end|/?s)>|\[(?:sep|eos)\])(?!\S)")


def separator(line: str) -> str:
    """Return the first sign of a line that separates sentences for other toolkits, "" if there is none."""
    found = _SEPARATOR.search(line) if "_" in line or "<" in line or "[" in line else None
    return found[0] if found else ""


def note_separators(name: str, lines: int, first: str) -> str:
    """Return the note on a text with separators in so many lines, of which `first` is one with its place."""
    return (
        f"{name}: {lines:,} lines have a sign between sentences ({first}): they look like whole documents, and are "
        "read as one sentence each; give each sentence a line, and put an empty line between documents"
    )


def read_text(
    sides: Sequence[TextLines],
    facts: Facts,
    *,
    levels: TextLines | None = None,
    ids: TextLines | None = None,
    strict: bool = True,
) -> Iterator[Event]:
    """Yield the sentences of plain text files: the source, then the references.

    Args:
        levels: the rows of levels.tsv. ids: those of the .ids file of OPUS, where a new pair of names begins a
            document.
        strict: True if a line that is empty on some sides only is an error; else it is a sentence without a partner.
    """
    rows, documents = LevelRows(levels) if levels else None, _Documents(ids) if ids else None
    lockstep = _Lockstep([*sides, *(file for file in (levels, ids) if file)])
    seen, paragraph = set[str](), 0
    separated, first = [0] * len(sides), [""] * len(sides)
    for number, lines in enumerate(lockstep, 1):
        place, texts = f"{sides[0].name}:{number}", lines[: len(sides)]
        kinds = {kind_of_line(text) for text in texts}
        if len(kinds) > 1 and (strict or kinds != {"", "text"}):
            raise UserError(lockstep.unequal(texts, number))
        kind = "text" if len(kinds) > 1 else kinds.pop()
        if kind not in seen:
            seen.add(kind)
            facts.levels |= kind == "<p>"
            _check_kinds(seen, kind, place, levels, ids)
        if documents is not None and (mark := documents.begins(lines[-1], number)) is not None:
            yield mark
        if kind == "text":
            for side, text in enumerate(texts):
                if sign := separator(text):
                    separated[side] += 1
                    first[side] = first[side] or f"'{sign}' in line {number:,}"
            units, labels = rows.parse(lines[len(sides)], number) if rows else ((str(paragraph),), "")
            facts.labels = rows is not None and rows.columns > rows.units
            yield Sentence(tuple("" if is_blank(text) else text for text in texts), units, labels, place)
            continue
        if rows and not is_blank(lines[len(sides)]):
            raise UserError(f"{rows.name}:{number}: expected an empty row, as {place} is empty")
        paragraph += 1
        if kind != "<p>":
            yield Blank() if kind == "" else DocumentStart()
    _describe(lockstep.files, facts)
    for side, count in enumerate(separated):
        if count:
            facts.notes.append(note_separators(sides[side].name, count, first[side]))
    facts.levels |= rows is not None


def _describe(files: Sequence[TextLines], facts: Facts) -> None:
    """Add sizes, hashes and notes of the files read to `facts`."""
    for file in files:
        facts.inputs[file.name] = {"bytes": file.bytes, "lines": file.lines, "sha256": file.sha256}
        if file.crlf:
            facts.notes.append(f"{file.name}: {file.crlf:,} of {file.lines:,} lines end in CRLF, which is taken off")
        if file.bom:
            facts.notes.append(f"{file.name}: begins with a byte order mark, which is taken off")


def kind_of_line(line: str) -> str:
    """Return "text" for a line of text, or the mark that it is: "", "<p>", "<d>"."""
    bare = line.strip()
    return bare if bare in ("", "<p>", "<d>") else "text"


def _check_kinds(seen: set[str], kind: str, here: str, levels: TextLines | None, ids: TextLines | None) -> None:
    """Check that the kind of the line at `here` is compatible with the kinds `seen` so far.

    Raises:
        UserError: there are two sources of structure at once.
    """
    here += ": two sources of structure at once:"
    if {"", "<d>"} <= seen:
        raise UserError(f"{here} <d> lines and empty lines; keep one of them to mark documents")
    if kind in ("<p>", "<d>") and levels is not None:
        raise UserError(f"{here} {kind} lines and {levels.name}; keep one of them")
    if kind in ("", "<d>") and ids is not None:
        raise UserError(f"{here} {kind or 'empty'} lines and {ids.name}; keep one of them")


class _Lockstep:
    """Reads several files line by line."""

    def __init__(self, files: Sequence[TextLines]) -> None:
        self.files = files
        self._streams = [iter(file) for file in files]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the lines of all files with the same number.

        Raises:
            UserError: the files have different numbers of lines.
        """
        for number, lines in enumerate(itertools.zip_longest(*self._streams), 1):
            if None in lines:
                told = self._told(lines, number)
                raise UserError(f"expected the same number of lines on all sides: {told}; lines: {self._counts()}")
            yield lines

    def _told(self, texts: Sequence[str | None], number: int) -> str:
        """Describe line `number` of each file."""
        files = zip(self.files, texts, strict=False)  # the last one is levels.tsv, which may be missing
        return ", but ".join(f"{file.name}:{number} {_described(text)}" for file, text in files)

    def _counts(self) -> str:
        for stream in self._streams:
            collections.deque(stream, maxlen=0)  # to the end, so that the lines are counted
        return ", ".join(f"{file.name} has {file.lines:,}" for file in self.files)

    def unequal(self, texts: Sequence[str], number: int) -> str:
        """Describe the error of a line that is empty, or a mark, on some sides only."""
        problem = f"documents must break at the same lines on all sides: {self._told(texts, number)}"
        if {kind_of_line(text) for text in texts} == {"", "text"}:
            problem += " (for sentences without a partner give --one-sided)"
        counts = self._counts()
        return problem if len({file.lines for file in self.files}) == 1 else f"{problem}; lines: {counts}"


def _described(text: str | None) -> str:
    if text is None:
        return "is missing"
    kind = kind_of_line(text)
    return {"text": f"reads '{text[:40]}'", "": "is empty"}.get(kind, f"is {kind}")


class _Documents:
    """Reads the rows of an .ids file: the documents of both sides, then the sentences' numbers."""

    def __init__(self, lines: TextLines) -> None:
        self._name = lines.name
        self._open: list[str] = []

    def begins(self, row: str, number: int) -> DocumentStart | None:
        """Return the mark of a document that begins with this row, or None.

        Raises:
            UserError: the row does not name two documents.
        """
        names = row.split("\t")[:2]
        if len(names) < 2:
            raise UserError(f"{self._name}:{number}: expected a document of each side and a tab, got '{row[:40]}'")
        if names == self._open:
            return None
        self._open = names
        return DocumentStart(" ".join(names))


class LevelRows:
    """Parses the rows of a levels.tsv: leading columns of whole numbers are units, all others are labels."""

    def __init__(self, lines: TextLines) -> None:
        self.name = lines.name
        self.columns = self.units = 0

    def parse(self, row: str, number: int) -> tuple[tuple[str, ...], str]:
        """Return the labels of the units, outermost first, and the other columns.

        Raises:
            UserError: the row is empty or unlike the first.
        """
        if is_blank(row):
            raise UserError(f"{self.name}:{number}: empty row, but there is a sentence in this line of the text")
        values = row.split("\t")
        if not self.columns:
            self.columns = len(values)
            self.units = next((i for i, value in enumerate(values) if not _is_whole(value)), len(values))
            if not self.units:
                raise UserError(f"{self.name}:{number}: expected a number in the first column, got '{values[0]}'")
        if len(values) != self.columns:
            raise UserError(f"{self.name}:{number}: {len(values)} columns, expected {self.columns} as in the first row")
        units = tuple(values[: self.units])
        for column, value in enumerate(units, 1):
            if not _is_whole(value):
                raise UserError(
                    f"{self.name}:{number}: column {column} is '{value}', expected a whole number as in the first row"
                )
        return units, "\t".join(values[self.units :])


def _is_whole(value: str) -> bool:
    return value.isascii() and value.removeprefix("-").isdigit()


# Reading of the WMT XML format: `<doc id> <src lang> <p> <seg id>`, `<ref lang>`; a `<p>` is a paragraph.


_LINE_BREAKS = re.compile(r"(?<!\s)\s*[\n\r]\s*")


def read_xml(
    path: Path, facts: Facts, languages: tuple[str, str], progress: Callable[[int], object] | None = None
) -> Iterator[Event]:
    """Yield the sentences of a WMT file. References that some documents lack are left out, with a note.

    Raises:
        UserError: the file is not well-formed, or a reference's segments differ from its source's.
    """
    source, target = languages
    references = _common_references(path, facts, source, target)
    folded = found = 0
    for document in _documents(path, facts, progress):
        name = _name(document)
        where = f"{path}: document '{name}'"
        translations = _references(document, target)
        elements = [document.find("src"), *(translations[key] for key in references)]
        sides = [_segments(element) for element in elements]
        if any([key for key, _ in side] != [key for key, _ in sides[0]] for side in sides[1:]):
            raise UserError(f"{where}: the segments of a <ref> are not those of <src>, by paragraph and seg id")
        if sides[0]:
            yield DocumentStart(name)
        for rows in zip(*sides, strict=True):
            (paragraph, number), _ = rows[0]
            texts = tuple(joined(line.strip() for line in _LINE_BREAKS.split(text)) for _, text in rows)
            if not any(texts):
                raise UserError(f"{where}, seg {number}: empty; every segment needs text")
            folded += sum(_LINE_BREAKS.search(text.strip()) is not None for _, text in rows)
            found += 1
            yield Sentence(texts, (str(paragraph),), place=f"{where}, seg {number}")
    if not found:
        raise UserError(f"{path}: holds no <doc> with <src> segments")
    facts.levels = True
    if folded:
        facts.notes.append(f"{path}: {folded:,} segments hold line breaks, which are joined")


def _documents(path: Path, facts: Facts, progress: Callable[[int], object] | None = None) -> Iterator[Element]:
    """Yield the `<doc>` elements of a file, one in memory at a time."""
    parser: XMLPullParser[Any] = XMLPullParser(["end"])
    digest, size = hashlib.sha256(), 0
    try:
        for block in blocks(path):
            digest.update(block)
            size += len(block)
            if progress:
                progress(len(block))
            parser.feed(block)
            for _, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                if element.tag == "doc":
                    yield element
                    element.clear()
        parser.close()
    except (LookupError, ValueError) as error:  # an unknown encoding in the first line
        raise UserError(f"{path}: cannot be read as its encoding says: {error}; convert it to UTF-8") from error
    except ParseError as error:
        line, column = error.position
        raise UserError(f"{path}:{line}: not well-formed XML at column {column + 1}: {error}") from error
    facts.inputs[str(path)] = {"bytes": size, "sha256": digest.hexdigest()}


def _name(document: Element) -> str:
    return document.get("id") or document.get("docid") or ""


def _is(element: Element, language: str) -> bool:
    """Return True if an element is in a language, or names none; `de` includes `de-AT`, `de_DE` and `deu`."""
    said = element.get("lang")
    return said is None or base(said) == base(language)


def _references(document: Element, language: str) -> dict[str, Element]:
    """Return a document's references in a language by translator; unnamed or repeated translators are numbered."""
    references: dict[str, Element] = {}
    for number, element in enumerate(e for e in document.findall("ref") if _is(e, language)):
        translator = element.get("translator") or str(number)
        references[translator if translator not in references else f"{translator}.{number}"] = element
    return references


def _common_references(path: Path, facts: Facts, source: str, target: str) -> list[str]:
    """Return the translators who have translated every document, in the file's order.

    Raises:
        UserError: a document has no source or one in another language; or there are references, but none covers all
            documents.
    """
    counts: Counter[str] = Counter()
    documents = foreign = 0
    for document in _documents(path, facts):
        src = document.find("src")
        if src is None:
            raise UserError(f"{path}: document '{_name(document)}' has no <src>")
        if not _is(src, source):
            raise UserError(
                f'{path}: document \'{_name(document)}\': <src lang="{src.get("lang")}">, expected "{source}" by the '
                "file's name; rename the file or take the document out"
            )
        documents += 1
        foreign += sum(not _is(element, target) for element in document.findall("ref"))
        counts.update(_references(document, target).keys())
    if foreign:
        facts.notes.append(f"{path}: {foreign:,} references in another language than '{target}' are left out")
    common = [key for key, count in counts.items() if count == documents]
    partial = [f"'{key}' ({count:,} of {documents:,})" for key, count in counts.items() if count < documents]
    if partial and not common:
        raise UserError(f"{path}: no reference covers all documents: {', '.join(partial)}; split the file")
    if partial:
        facts.notes.append(f"{path}: references that do not cover all documents are left out: {', '.join(partial)}")
    return common


def _segments(side: Element | None) -> list[tuple[tuple[int, str], str]]:
    """Return ((paragraph, seg id), text) of every segment of a `<src>` or `<ref>`."""
    segments: list[tuple[tuple[int, str], str]] = []
    paragraph = -1
    for element in side.iter() if side is not None else ():
        paragraph += element.tag == "p"
        if element.tag == "seg":
            segments.append(((max(paragraph, 0), element.get("id") or ""), "".join(element.itertext())))
    return segments


# The layouts of a split of a parallel corpus, found by the names of its files.


@dataclass(frozen=True)
class Reading:
    """Settings for reading the files of a corpus, besides their names.

    Attributes:
        columns: the columns of tables.
        one_sided: the treatment of sentences without a partner; None: an error in text and XML, where they may be a
            mistake, and `read` in tables, whose rows cannot be misaligned.
    """

    languages: tuple[str, str]
    columns: Columns = dataclasses.field(default_factory=Columns)
    one_sided: OneSided | None = None


@dataclass(frozen=True)
class SplitFiles:
    """The files of one split. `xml` or `tables`, if given, have everything; else `source`, `references`, and the files
    that mark documents (`ids`) or units (`levels`). `following` are further corpora of the split."""

    reading: Reading
    source: Path | None = None
    references: tuple[Path, ...] = ()
    levels: Path | None = None
    ids: Path | None = None
    xml: Path | None = None
    tables: tuple[Path, ...] = ()
    following: tuple[SplitFiles, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """The paths of all files."""
        files = (self.xml, *self.tables, self.source, *self.references, self.levels, self.ids)
        return [path for path in files if path is not None] + [path for part in self.following for path in part.paths]


def find_splits(prefixes: Sequence[str], reading: Reading) -> SplitFiles:
    """Find the files of a split of several corpora, in order.

    Raises:
        UserError: see `find_split`.
    """
    first, *others = (find_split(prefix, reading) for prefix in prefixes)
    return dataclasses.replace(first, following=tuple(others))


def find_split(prefix: str, reading: Reading) -> SplitFiles:
    """Find the files of a split by their names.

    Raises:
        UserError: there are none, or files of two layouts.
    """
    if kind_of_table(prefix) is not None:
        tables = tuple(Path(name) for name in sorted(glob.glob(prefix))) if "*" in prefix else (Path(prefix),)
        if not tables:
            raise UserError(f"{prefix}: no such file")
        return SplitFiles(reading, tables=tables)
    source_lang, target_lang = reading.languages
    source, single = side(prefix, source_lang), side(prefix, target_lang)
    xml = Path(f"{prefix}.{source_lang}-{target_lang}.xml")
    levels, ids = Path(f"{prefix}.levels.tsv"), Path(f"{prefix}.ids")
    several = _numbered(prefix, target_lang)
    plain = [path for path in (source, single, *several, levels, ids) if path.exists()]
    if xml.exists():
        if plain:
            raise UserError(f"{xml} and {plain[0]}: two forms of one corpus at once; remove or rename one of them")
        return SplitFiles(reading, xml=xml)
    if not source.exists():
        raise UserError(
            f"{source}: no such file (nor {Path(prefix).name}_{source_lang}.txt, nor {xml.name}; tables end in "
            f"{', '.join(KINDS)})"
        )
    if single.exists() and several:
        raise UserError(f"{single} and {several[0]}: one reference and numbered ones at once; rename one form")
    references = (single,) if single.exists() else tuple(several)
    return SplitFiles(reading, source, references, levels if levels.exists() else None, ids if ids.exists() else None)


def side(prefix: str, language: str) -> Path:
    """Return `PREFIX.en`, or `PREFIX_en.txt` if that exists, which many corpora use; either may be compressed.

    Raises:
        UserError: both exist.
    """
    plain, field = _or_compressed(f"{prefix}.{language}"), _or_compressed(f"{prefix}_{language}.txt")
    if plain.exists() and field.exists():
        raise UserError(f"{plain} and {field}: two forms of one corpus at once; remove or rename one of them")
    return field if field.exists() else plain


def _or_compressed(name: str) -> Path:
    """Return the file of this name, or else its compressed form."""
    paths = [Path(name + ending) for ending in ("", *ENDINGS)]
    return next((path for path in paths if path.exists()), paths[0])


def _numbered(prefix: str, language: str) -> list[Path]:
    """Return the files PREFIX.de0, PREFIX.de1, … without a gap.

    Raises:
        UserError: a number is missing.
    """
    stem = Path(f"{prefix}.{language}")
    if not stem.parent.is_dir():
        return []
    pattern = re.compile(re.escape(stem.name) + r"(\d+)")
    numbers = sorted(int(m[1]) for path in stem.parent.iterdir() if (m := pattern.fullmatch(path.name)))
    if numbers != list(range(len(numbers))):
        missing = next(i for i, number in enumerate([*numbers, -1]) if i != number)
        raise UserError(f"{stem}{missing}: no such file, but there is {stem}{numbers[-1]}; number references from 0")
    return [Path(f"{stem}{number}") for number in numbers]


def read_split(files: SplitFiles, facts: Facts, progress: Callable[[int], object] | None = None) -> Iterator[Event]:
    """Read the sentences of a split and check the files against each other; `facts` is complete after the last one.

    Raises:
        UserError: the files are damaged or inconsistent; the message names file and line.
    """
    known: tuple[int, int, bool] | None = None
    levels = False
    for number, part in enumerate((files, *files.following)):
        if number:
            yield Blank()  # a document ends with its corpus
        facts.levels = False
        for event in _read_one(part, facts, progress):
            if isinstance(event, Sentence):
                here = (len(event.texts), len(event.units), facts.labels)
                if known not in (None, here):
                    raise UserError(
                        f"{part.paths[0]}: has other references, levels or labels than {files.paths[0]}; the corpora "
                        "of one split must have the same"
                    )
                known = here
            yield event
        yield CorpusEnd(facts.levels)
        levels = facts.levels = levels or facts.levels


def _read_one(files: SplitFiles, facts: Facts, progress: Callable[[int], object] | None) -> Iterator[Event]:
    """Yield the sentences of one corpus."""
    found = False
    for event in with_partners(_events(files, facts, progress), _policy(files), files.paths[0], facts):
        found = found or isinstance(event, Sentence)
        yield event
    if not found:
        raise UserError(f"{files.paths[0]}: holds no sentence, expected one a line")


def _policy(files: SplitFiles) -> OneSided:
    """Return the treatment of sentences without a partner."""
    return files.reading.one_sided or ("read" if files.tables else "error")


def _events(files: SplitFiles, facts: Facts, progress: Callable[[int], object] | None) -> Iterator[Event]:
    """Return the reader of the files' layout."""
    if files.xml is not None:
        return read_xml(files.xml, facts, files.reading.languages, progress)
    if files.tables:
        return read_tables(files.tables, files.reading.columns, files.reading.languages, facts, progress)
    assert files.source is not None
    sides = [TextLines(path, progress=progress) for path in (files.source, *files.references)]
    levels = TextLines(files.levels, progress=progress) if files.levels else None
    ids = TextLines(files.ids, progress=progress) if files.ids else None
    return read_text(sides, facts, levels=levels, ids=ids, strict=_policy(files) == "error")


def locate(files: SplitFiles, sentence: int) -> str:
    """Return the place of a sentence for messages: `corpus/train.en:12`. The files are read again."""
    return next(places_of(files, [sentence]))


def places_of(files: SplitFiles, sentences: Sequence[int]) -> Iterator[str]:
    """Yield the places of these sentences, in ascending order. The files are read again."""
    wanted = iter(sentences)
    number = next(wanted, None)
    every = (event for event in read_split(files, Facts()) if isinstance(event, Sentence))
    for here, sentence in enumerate(every):
        if here == number:
            yield sentence.place
            number = next(wanted, None)
