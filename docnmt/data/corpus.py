"""A parallel corpus: two sides' tokens, one structure, the raw text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from docnmt.data.meta import read_meta
from docnmt.data.split_folder import SplitFolder, reference_names
from docnmt.data.store import TextArray, TokenArray, offsets_of
from docnmt.data.tokenizer import Tokenizer
from docnmt.errors import UserError
from docnmt.formats.events import Facts, sentences_of
from docnmt.formats.plain_text import read_text
from docnmt.formats.structure import Structure, StructureBuilder
from docnmt.formats.text import TextLines


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """Sentences, their translations if there are any, and the documents they stand in.

    Attributes:
        source: subwords of the S source sentences. target: of their (first) translations.
        document_offsets: (D+1,) int64, the sentence where each document begins.
        levels: (S, K) int32, the K known levels above the sentence, outermost first (section, paragraph): the index of
            the unit inside its parent. K = 0: nothing is known.
        blank_lines: (D+1,) int32, empty lines of the source file before each document and after the last.
        source_text: the source sentences as they were given. references: every reference likewise.
        labels: further columns of levels.tsv, tab-separated, a line a sentence.
        document_names: where the input names its documents.
    """

    source: TokenArray
    target: TokenArray | None
    document_offsets: np.ndarray
    levels: np.ndarray
    blank_lines: np.ndarray
    source_text: TextArray
    references: list[TextArray] = field(default_factory=list)
    labels: TextArray | None = None
    document_names: Sequence[str] | None = None

    @property
    def num_sentences(self) -> int:
        return len(self.source)

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    @classmethod
    def open(cls, folder: Path, split: str) -> ParallelCorpus:
        """A split of a data folder, mapped into memory: time and memory do not depend on its size.

        Raises:
            UserError: not such a folder, no such split, or damaged files.
        """
        folder = Path(folder)
        meta = read_meta(folder)
        if split not in meta["splits"]:
            raise UserError(f"{folder}: no split '{split}'; there are {', '.join(meta['splits'])}")
        if meta["task"] != "document_translation":
            raise UserError(f"{folder}: made for the task {meta['task']}, not for translation")
        source, target = meta["source_lang"], meta["target_lang"]
        files = SplitFolder(folder, split, meta["files"])
        structure = files.structure()
        references = [files.text(name) for name in reference_names(target, meta["splits"][split]["references"])]
        return cls(
            source=files.tokens(source),
            target=files.tokens(target) if references else None,
            document_offsets=structure.document_offsets,
            levels=structure.levels,
            blank_lines=structure.blank_lines,
            source_text=files.text(source),
            references=references,
            labels=files.text("labels") if files.has_text("labels") else None,
            document_names=files.text("names") if files.has_text("names") else None,
        )

    @classmethod
    def from_lines(cls, documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> ParallelCorpus:
        """Source documents in memory, each a list of sentences; an empty document is kept."""
        lines = [sentence for document in documents for sentence in document]
        offsets = offsets_of(np.array([len(document) for document in documents], dtype=np.int64))
        blank = np.ones(len(documents) + 1, dtype=np.int32)
        blank[[0, -1]] = 0
        return cls._of_source(Structure(offsets, blank, np.zeros((len(lines), 0), dtype=np.int32)), lines, tokenizer)

    @classmethod
    def from_text(cls, lines: TextLines, tokenizer: Tokenizer) -> ParallelCorpus:
        """One side in plain text as section 4 of the contract has it (empty lines, `<d>`, `<p>`), in memory.

        Raises:
            UserError: the text is not clean; the line is named.
        """
        facts, builder = Facts(), StructureBuilder()
        texts = [event.texts[0] for event in sentences_of(read_text([lines], None, facts), builder, [])]
        return cls._of_source(builder.build(known=facts.levels), texts, tokenizer)

    @classmethod
    def _of_source(cls, structure: Structure, lines: list[str], tokenizer: Tokenizer) -> ParallelCorpus:
        return cls(
            source=TokenArray.from_lists(tokenizer.encode(lines), tokenizer.vocab_size),
            target=None,
            document_offsets=structure.document_offsets,
            levels=structure.levels,
            blank_lines=structure.blank_lines,
            source_text=TextArray.from_lines(lines),
        )
