"""The parallel corpus: tokens of two sides, their document structure, and the raw text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from docnmt.core.data.meta import check_files, read_meta
from docnmt.core.data.split_folder import SplitFolder, reference_names
from docnmt.core.data.store import TextArray, TokenArray
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.formats.document import Document, structure_of
from docnmt.core.formats.structure import Structure
from docnmt.runtime.errors import UserError


@dataclass(frozen=True, eq=False)
class ParallelCorpus(Structure):
    """The sentences of documents, with translations if there are any.

    Attributes:
        source: subwords of the S source sentences. target: subwords of their (first) translations.
        source_text: the source sentences as given. references: all references, as given.
        labels: further columns of levels.tsv, tab-separated, one line per sentence.
        document_names: the documents' names, if the input has names.
    """

    source: TokenArray
    target: TokenArray | None
    source_text: TextArray
    references: list[TextArray] = field(default_factory=list)
    labels: TextArray | None = None
    document_names: Sequence[str] | None = None

    def has_partner(self, sentences: np.ndarray) -> np.ndarray:
        """Return a mask (n,) of the sentences that have a translation on the target side; others are only read."""
        if not self.references:
            return np.ones(len(sentences), dtype=bool)
        offsets = self.references[0].offsets
        return np.asarray(offsets[sentences + 1] > offsets[sentences])

    def first_documents(self, count: int) -> ParallelCorpus:
        """Return the first `count` documents, or all if there are fewer."""
        documents = min(count, self.num_documents)
        sentences = int(self.document_offsets[documents])
        behind = self.blank_lines[-1] if documents == self.num_documents else 0
        target, labels, names = self.target, self.labels, self.document_names
        return replace(
            self,
            document_offsets=self.document_offsets[: documents + 1],
            blank_lines=np.append(self.blank_lines[:documents], behind).astype(np.int32),
            levels=self.levels[:sentences],
            source=self.source.first(sentences),
            target=None if target is None else target.first(sentences),
            source_text=self.source_text.first(sentences),
            references=[each.first(sentences) for each in self.references],
            labels=None if labels is None else labels.first(sentences),
            document_names=None if names is None else names[:documents],
        )

    @classmethod
    def open(cls, folder: Path, split: str) -> ParallelCorpus:
        """Open a split of a data folder, mapped into memory, so that little memory is needed for any size.

        Its files are read once, at the speed of memory, to compare them with their checksums (not inside
        `docnmt.runtime.checksums.skipped`).

        Raises:
            UserError: the folder or the split does not exist, or files are damaged.
        """
        folder = Path(folder)
        meta = read_meta(folder, task="document_translation")
        if split not in meta["splits"]:
            raise UserError(f"{folder}: no split '{split}'; there are {', '.join(meta['splits'])}")
        source, target = meta["source_lang"], meta["target_lang"]
        check_files(folder, meta, f"{split}.")
        files = SplitFolder(folder, split, meta["files"])
        structure, sizes = files.structure(), meta["vocabulary"]
        rows = structure.num_sentences
        names = reference_names(target, meta["splits"][split]["references"])
        return cls(
            **vars(structure),
            source=files.tokens(source, rows=rows, below=sizes["source"]),
            target=files.tokens(target, rows=rows, below=sizes["target"]) if names else None,
            source_text=files.text(source, rows=rows),
            references=[files.text(name, rows=rows) for name in names],
            labels=files.text_if_known("labels", rows=rows),
            document_names=files.text_if_known("names", rows=structure.num_documents),
        )

    @classmethod
    def from_lines(cls, documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> ParallelCorpus:
        """Build a corpus from source documents in memory, each a list of sentences; empty documents are kept."""
        return cls.from_documents([Document(tuple(document)) for document in documents], tokenizer)

    @classmethod
    def from_documents(cls, documents: Sequence[Document], tokenizer: Tokenizer) -> ParallelCorpus:
        """Build a corpus from source documents in memory, with their structure; empty documents are kept."""
        lines = [sentence for document in documents for sentence in document.sentences]
        return cls._of_source(structure_of(documents), lines, tokenizer)

    @classmethod
    def _of_source(cls, structure: Structure, lines: list[str], tokenizer: Tokenizer) -> ParallelCorpus:
        source = TokenArray.from_lists(tokenizer.encode(lines), tokenizer.vocab_size)
        return cls(**vars(structure), source=source, target=None, source_text=TextArray.from_lines(lines))
