"""The forms in which a split of a parallel corpus comes, found by the names of its files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docnmt.errors import UserError
from docnmt.formats.plain_text import kind_of, read_text
from docnmt.formats.structure import Event, Facts, Sentence
from docnmt.formats.text import TextLines
from docnmt.formats.wmt_xml import read_xml


@dataclass(frozen=True)
class SplitFiles:
    """The files of one split. `xml` holds everything when it is given; else `source`, `references`, `levels`."""

    source: Path | None = None
    references: tuple[Path, ...] = ()
    levels: Path | None = None
    xml: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """All of them."""
        return [path for path in (self.xml, self.source, *self.references, self.levels) if path is not None]


def find_split(prefix: str, source_lang: str, target_lang: str) -> SplitFiles:
    """The files of a split by their names.

    Raises:
        UserError: nothing there, or two forms at once.
    """
    source, single = side(prefix, source_lang), side(prefix, target_lang)
    xml = Path(f"{prefix}.{source_lang}-{target_lang}.xml")
    levels = Path(f"{prefix}.levels.tsv")
    several = _numbered(prefix, target_lang)
    plain = [path for path in (source, single, *several, levels) if path.exists()]
    if xml.exists():
        if plain:
            raise UserError(f"{xml} and {plain[0]}: two forms of one corpus at once; remove or rename one of them")
        return SplitFiles(xml=xml)
    if not source.exists():
        raise UserError(f"{source}: no such file (nor {Path(prefix).name}_{source_lang}.txt, nor {xml.name})")
    if single.exists() and several:
        raise UserError(f"{single} and {several[0]}: one reference and numbered ones at once; rename one form")
    references = (single,) if single.exists() else tuple(several)
    return SplitFiles(source, references, levels if levels.exists() else None)


def side(prefix: str, language: str) -> Path:
    """`PREFIX.en`, or `PREFIX_en.txt` where that is there: so the field's files are called.

    Raises:
        UserError: both are there.
    """
    plain, field = Path(f"{prefix}.{language}"), Path(f"{prefix}_{language}.txt")
    if plain.exists() and field.exists():
        raise UserError(f"{plain} and {field}: two forms of one corpus at once; remove or rename one of them")
    return field if field.exists() else plain


def _numbered(prefix: str, language: str) -> list[Path]:
    """PREFIX.de0, PREFIX.de1, … without a gap.

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
    """The sentences of a split, checked against each other; `facts` is complete when the last was read.

    Raises:
        UserError: the files are damaged or do not fit together; file and line are named.
    """
    if files.xml is not None:
        yield from read_xml(files.xml, facts, progress)
        return
    assert files.source is not None
    sides = [TextLines(path, progress=progress) for path in (files.source, *files.references)]
    levels = TextLines(files.levels, progress=progress) if files.levels else None
    found = False
    for event in read_text(sides, levels, facts):
        found = found or isinstance(event, Sentence)
        yield event
    if not found:
        raise UserError(f"{files.source}: holds no sentence, expected one a line")


def locate(files: SplitFiles, sentence: int) -> str:
    """Where a sentence stands, for messages: `corpus/train.en:12`. Reads the file again."""
    if files.source is None:
        return f"{files.xml}, segment {sentence + 1}"
    lines = (number for number, line in enumerate(TextLines(files.source), 1) if kind_of(line) == "text")
    return f"{files.source}:{next(itertools.islice(lines, sentence, None))}"
