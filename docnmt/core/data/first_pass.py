"""The first pass over a split: check all files together, write the raw text and collect the structure."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from docnmt.core.corpus import Facts, RaggedWriter, SplitFolder, StructureBuilder, reference_names
from docnmt.core.formats.corpus_files import SplitFiles, locate, read_split
from docnmt.runtime.errors import UserError
from docnmt.runtime.progress import Progress

_CHUNK = 4096


@dataclass
class SplitTexts:
    """A split that was read: its input, its files and the facts about them.

    `sides` are the source's language and the names of the references; the first two are cut into subwords. `left` are
    the numbers of the input's sentences that are kept; None: all.
    """

    name: str
    input: SplitFiles
    files: SplitFolder
    sides: list[str] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    left: np.ndarray | None = None

    @property
    def is_test(self) -> bool:
        """True for a test split, whose sentences and documents must not be changed."""
        return self.name.startswith("test")

    def place(self, sentence: int) -> str:
        """Return the place of a sentence in the input, for messages."""
        return locate(self.input, sentence if self.left is None else int(self.left[sentence]))


def scan(
    split: SplitTexts, source_lang: str, target_lang: str, change: Callable[[str], Callable[[str], str]] | None = None
) -> None:
    """Read all files of a split once and write raw text and structure to its folder.

    Args:
        change: returns, for a language, a function applied to each of its sentences as it is read; None: unchanged.

    Raises:
        UserError: a file is malformed, the sides do not match, or a target side is required and missing.
    """
    total = sum(_size(path) for path in split.input.paths)
    builder = StructureBuilder()
    writers: list[RaggedWriter] = []
    with Progress(total, f"reading {split.name}", unit="bytes") as bar, contextlib.ExitStack() as files:
        sentences = builder.sentences(read_split(split.input, split.facts, bar.update))
        while chunk := list(itertools.islice(sentences, _CHUNK)):
            if not writers:
                references = len(chunk[0].texts) - 1
                _check_references(split, references)
                split.sides = [source_lang, *reference_names(target_lang, references)]
                texts = [*split.sides, *(["labels"] if split.facts.labels else [])]
                languages = () if change is None else (source_lang, *[target_lang] * references)
                changes = [change(language) for language in languages if change is not None]
                writers = [files.enter_context(split.files.writer(f"{side}.text", "u1")) for side in texts]
            columns = [*zip(*(sentence.texts for sentence in chunk), strict=True), [row.labels for row in chunk]]
            for writer, lines, changed in itertools.zip_longest(writers, columns[: len(writers)], changes):
                writer.append_lines(lines if changed is None else [changed(line) or line for line in lines])
    if builder.names:
        split.files.write_lines("names", builder.names)
    split.files.write_structure(builder.build(known=split.facts.levels))


def _check_references(split: SplitTexts, count: int) -> None:
    """Check the number of references of a split.

    Raises:
      UserError: training or validation data without a target side, or training data with several.
    """
    where = split.input.paths[0]
    if not count and not split.is_test:
        raise UserError(f"{where}: no target side; {split.name} data needs one, only test data may have none")
    if split.name == "train" and count > 1:
        raise UserError(f"{where}: {count} references; training data has one target side")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
