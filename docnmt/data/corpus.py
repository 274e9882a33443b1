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
from docnmt.formats.plain_text import read_text
from docnmt.formats.structure import Facts, Structure, StructureBuilder
from docnmt.formats.text import TextLines


@dataclass(frozen=True, eq=False)
class ParallelCorpus(Structure):
    """Sentences, their translations if there are any, and the documents they stand in.

    Attributes:
        source: subwords of the S source sentences. target: of their (first) translations.
        source_text: the source sentences as they were given. references: every reference likewise.
        labels: further columns of levels.tsv, tab-separated, a line a sentence.
        document_names: where the input names its documents.
    """

    source: TokenArray
    target: TokenArray | None
    source_text: TextArray
    references: list[TextArray] = field(default_factory=list)
    labels: TextArray | None = None
    document_names: Sequence[str] | None = None

    def has_partner(self, sentences: np.ndarray) -> np.ndarray:
        """(n,) bool: which of these sentences have a translation on the target side; others are only read."""
        if not self.references:
            return np.ones(len(sentences), dtype=bool)
        offsets = self.references[0].offsets
        return np.asarray(offsets[sentences + 1] > offsets[sentences])

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
        references = [files.text(name) for name in reference_names(target, meta["splits"][split]["references"])]
        return cls(
            **vars(files.structure()),
            source=files.tokens(source),
            target=files.tokens(target) if references else None,
            source_text=files.text(source),
            references=references,
            labels=files.text_if_known("labels"),
            document_names=files.text_if_known("names"),
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
        """One side in plain text (empty lines or `<d>` between documents, `<p>` between paragraphs), in memory.

        Raises:
            UserError: the text is not clean; the line is named.
        """
        facts, builder = Facts(), StructureBuilder()
        texts = [sentence.texts[0] for sentence in builder.sentences(read_text([lines], facts))]
        return cls._of_source(builder.build(known=facts.levels), texts, tokenizer)

    @classmethod
    def _of_source(cls, structure: Structure, lines: list[str], tokenizer: Tokenizer) -> ParallelCorpus:
        source = TokenArray.from_lists(tokenizer.encode(lines), tokenizer.vocab_size)
        return cls(**vars(structure), source=source, target=None, source_text=TextArray.from_lines(lines))
