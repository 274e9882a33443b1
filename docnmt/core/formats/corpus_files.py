"""The layouts of a split of a parallel corpus, found by the names of its files."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docnmt.core.corpus import Blank, CorpusEnd, Event, Facts, Sentence
from docnmt.core.data_options import Columns
from docnmt.core.formats.one_sided import OneSided, with_partners
from docnmt.core.formats.parallel_table import read_tables
from docnmt.core.formats.plain_text import read_text
from docnmt.core.formats.table_rows import KINDS, kind_of_table
from docnmt.core.formats.wmt_xml import read_xml
from docnmt.core.lines import ENDINGS, TextLines
from docnmt.runtime.errors import UserError


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
