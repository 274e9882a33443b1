"""A corpus of documents, opened from a data folder or made from lines in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from docnmt.data.meta import read_meta
from docnmt.data.store import TextArray, TokenArray, map_array
from docnmt.data.tokenizer import Tokenizer
from docnmt.errors import UserError


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """Sentences in documents, on the source side and, where there is one, the target side.

    Attributes:
        source, target: token ids.
        document_offsets: (D+1,) int64, the sentence where each document begins.
        levels: (S, K) int32, the known levels above the sentence, outermost first (section, paragraph): the index of the
            unit in its parent. K = 0: unknown.
        source_text, references: the raw lines; none to several references.
        blank_lines: (D+1,) int32, empty lines of the source file before each document and after the last.
        document_names: as the corpus names them, or None.
    """

    source: TokenArray
    target: TokenArray | None
    document_offsets: np.ndarray
    levels: np.ndarray
    source_text: TextArray
    references: list[TextArray]
    blank_lines: np.ndarray
    document_names: list[str] | None = field(default=None)

    @property
    def num_sentences(self) -> int:
        return len(self.source)

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    @classmethod
    def open(cls, folder: Path, split: str) -> ParallelCorpus:
        """A split of a data folder: arrays are mapped, nothing is read, so the size of the corpus does not matter.

        Raises:
            UserError: no such split, or a damaged folder.
        """
        meta = read_meta(folder)
        if split not in meta["splits"]:
            raise UserError(f"{folder}: has no split '{split}'; there are: {', '.join(meta['splits'])}")
        about = meta["splits"][split]
        source, target = meta["source_lang"], meta["target_lang"]
        names = folder / f"{split}.names"
        return cls(
            source=TokenArray.open(folder / f"{split}.{source}", meta["dtype"]),
            target=TokenArray.open(folder / f"{split}.{target}", meta["dtype"]) if about["has_target"] else None,
            document_offsets=map_array(folder / f"{split}.documents", "int64"),
            levels=map_array(folder / f"{split}.levels", "int32").reshape(about["sentences"], about["levels"]),
            source_text=TextArray.open(folder / f"{split}.raw.{source}"),
            references=[TextArray.open(folder / f"{split}.raw.{target}{i}") for i in range(about["references"])],
            blank_lines=map_array(folder / f"{split}.blanks", "int32"),
            document_names=names.read_text(encoding="utf-8").split("\n") if names.exists() else None,
        )

    @classmethod
    def from_lines(cls, documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> ParallelCorpus:
        """Source documents in memory."""
        lines = [line for document in documents for line in document]
        lengths = [len(document) for document in documents]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        return cls(
            source=TokenArray.of(tokenizer.encode(lines)),
            target=None,
            document_offsets=offsets,
            levels=np.empty((len(lines), 0), dtype=np.int32),
            source_text=TextArray.of(lines),
            references=[],
            blank_lines=np.array([0, *[1] * (len(documents) - 1), 0][: len(documents) + 1], dtype=np.int32),
        )
