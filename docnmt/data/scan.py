"""First pass over a split: check all files together, write the raw text and learn the structure."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from docnmt.data.split_folder import SplitFolder, reference_names
from docnmt.data.store import RaggedWriter
from docnmt.errors import UserError
from docnmt.formats.events import Facts, Sentence, sentences_of
from docnmt.formats.forms import SplitFiles, read_split
from docnmt.formats.structure import StructureBuilder
from docnmt.progress import Progress

_CHUNK = 4096


@dataclass
class Split:
    """A split that was read: where its files are and what was found."""

    name: str
    input: SplitFiles
    files: SplitFolder
    references: list[str] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)

    @property
    def is_test(self) -> bool:
        """Its sentences and documents must stay as they are."""
        return self.name.startswith("test")


def scan(split: Split, source_lang: str, target_lang: str) -> None:
    """Read all files of a split once and write raw text and structure to its folder.

    Raises:
        UserError: a file is not clean, the sides do not fit together, or there is no target side where it is needed.
    """
    total = sum(_size(path) for path in split.input.paths)
    builder, names = StructureBuilder(), list[str]()
    writers: list[RaggedWriter] = []
    with Progress(total, f"reading {split.name}", unit="bytes") as bar:
        events = read_split(split.input, split.facts, bar.update)
        sentences = sentences_of(events, builder, names)
        while chunk := list(itertools.islice(sentences, _CHUNK)):
            if not writers:
                split.references = reference_names(target_lang, len(chunk[0].texts) - 1)
                _check_references(split)
                sides = [source_lang, *split.references, "labels"]
                writers = [split.files.writer(f"{side}.text", "u1") for side in sides]
            _append(chunk, writers)
    for writer in writers:
        split.files.close(writer)
    if not split.facts.labels:
        _remove(split, "labels")
    if split.facts.names:
        writer = split.files.writer("names.text", "u1")
        writer.append_lines(names)
        split.files.close(writer)
    split.files.write_structure(builder.build(known=split.facts.levels))


def _append(chunk: list[Sentence], writers: list[RaggedWriter]) -> None:
    columns = zip(*(sentence.texts for sentence in chunk), strict=True)
    for writer, lines in zip(writers, [*columns, [s.labels for s in chunk]], strict=True):
        writer.append_lines(lines)


def _check_references(split: Split) -> None:
    """
    Raises:
        UserError: training or validation data without a target side, or training data with several.
    """
    where = split.input.paths[0]
    if not split.references and not split.is_test:
        raise UserError(f"{where}: no target side; {split.name} data needs one, only test data may have none")
    if split.name == "train" and len(split.references) > 1:
        raise UserError(f"{where}: {len(split.references)} references; training data has one target side")


def _remove(split: Split, side: str) -> None:
    for name in (f"{split.name}.{side}.text.bin", f"{split.name}.{side}.text.offsets.bin"):
        (split.files.folder / name).unlink()
        del split.files.files[name]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
