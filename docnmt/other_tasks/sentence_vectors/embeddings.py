"""Several types of frozen word vectors in one vocabulary, as InferLite reads them (Kiros and Chan 2018, section 3).

The vocabulary has the words of the data and the first words of each file, if any file has a vector for them.
Row 0 stands for every other word and is zero in every type, like the row of a word that a type lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.core.corpus import file_entry, stored_array, write_array
from docnmt.other_tasks.options import RANDOM_DIMENSIONS
from docnmt.other_tasks.sentence_vectors.vector_files import WordVectors, read_vectors
from docnmt.runtime.errors import UserError

#: The name of row 0; no text has this word.
UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Embeddings:
    """A vocabulary with its vectors.

    Attributes:
        names: the files of the vectors, one per type.
        words: (V) the vocabulary; `words[0]` is `UNKNOWN`.
        vectors: one (V, d_k) array per type, float16 with every row of length 1 or 0, or float32 and unscaled.
    """

    names: Sequence[str]
    words: Sequence[str]
    vectors: Sequence[np.ndarray]
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {word: i for i, word in enumerate(self.words) if i})

    def index(self, word: str) -> int:
        """Return the row of a word: as spelt, else in lower case, else 0."""
        return self._index.get(word) or self._index.get(word.lower(), 0)

    def indices(self, words: Iterable[str]) -> list[int]:
        """Return the rows of several words."""
        return [self.index(word) for word in words]

    def save(self, folder: Path) -> dict[str, dict[str, Any]]:  # Any: entries of `meta.json`
        """Write `words.txt` (one word per line) and `vectors.K.bin` (one per type); return the entries for `meta.json`.

        Raises:
            UserError: a word has a line break.
        """
        if broken := [word for word in self.words if "\n" in word]:
            raise UserError(f"the word {broken[0]!r} of the vector files holds a line break; remove it there")
        words = "".join(f"{word}\n" for word in self.words).encode()
        (folder / "words.txt").write_bytes(words)
        files = {"words.txt": file_entry(words)}
        for k, table in enumerate(self.vectors):
            files |= write_array(folder / f"vectors.{k}.bin", table.reshape(-1), table.dtype)
        return files

    @classmethod
    def open(cls, folder: Path, names: Sequence[str], files: Mapping[str, Mapping[str, Any]]) -> Embeddings:
        """Map the files of `save` into memory.

        Args:
            names: the files that the types came from. files: the list of files in `meta.json`.

        Raises:
            UserError: a file is missing or damaged.
        """
        path = folder / "words.txt"
        try:
            words = path.read_bytes().decode().removesuffix("\n").split("\n")  # a word may hold \r
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read: {error}") from error
        vectors = [stored_array(folder, f"vectors.{k}", files, "c") for k in range(len(names))]
        for k, table in enumerate(vectors):
            if len(table) % len(words) or table.dtype.kind != "f":
                raise UserError(f"{folder / f'vectors.{k}.bin'}: has no row for each word; preprocess again")
        return cls(names, words, [table.reshape(len(words), -1) for table in vectors])

    @property
    def dims(self) -> list[int]:
        """The width of each type."""
        return [array.shape[1] for array in self.vectors]


def build_embeddings(
    paths: Sequence[Path], counts: Mapping[str, int], keep_words: int, *, unit: bool = True
) -> tuple[Embeddings, list[str]]:
    """Read K vector files, restricted to the words of `counts` and each file's first `keep_words` words.

    Args:
        unit: scale every vector to unit length; otherwise vectors are unchanged.

    Returns:
        The embeddings, and lines of a report: each type's coverage of `counts`, and the commonest words it lacks.

    Raises:
        UserError: a file cannot be read, or has none of the words.
    """
    needed = {spelling for word in counts for spelling in (word, word.lower())}
    types = [read_vectors(path, lambda word, place: place < keep_words or word in needed, unit=unit) for path in paths]
    words = [UNKNOWN, *dict.fromkeys(word for vectors in types for word in vectors.rows if word != UNKNOWN)]
    for vectors in types:
        if not vectors.rows or (counts and all(_row(vectors, word) is None for word in counts)):
            raise UserError(f"{vectors.name}: has none of the words of the texts; is it for this language?")
    dtype = np.float16 if unit else np.float32  # half precision ends at 65,504
    embeddings = Embeddings([v.name for v in types], words, [_fill(v, words, dtype) for v in types])
    return embeddings, [line for v in types for line in _coverage(v, counts)]


def random_embeddings(counts: Mapping[str, int]) -> tuple[Embeddings, list[str]]:
    """Return a random unit vector for each word of `counts`, always the same, and a report as `build_embeddings` does.

    Raises:
        UserError: there is no word.
    """
    if not counts:
        raise UserError("the training pairs hold no word")
    words = [UNKNOWN, *sorted(counts, key=lambda word: (-counts[word], word))]
    table = np.random.default_rng(0).standard_normal((len(words), RANDOM_DIMENSIONS))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    table[0] = 0
    report = [f"random: {RANDOM_DIMENSIONS} dimensions, {len(words) - 1:,} words"]
    return Embeddings(["random"], words, [table.astype(np.float16)]), report


def _row(vectors: WordVectors, word: str) -> int | None:
    """Return the row of a word: as spelt, else in lower case."""
    return vectors.rows.get(word, vectors.rows.get(word.lower()))


def _fill(vectors: WordVectors, words: Sequence[str], dtype: type[np.float16] | type[np.float32]) -> np.ndarray:
    """Return the table (V, d) of a type; words that it lacks, and word 0, have zeros."""
    table = np.zeros((len(words), vectors.vectors.shape[1]), dtype)
    rows = {i: row for i, word in enumerate(words) if i and (row := _row(vectors, word)) is not None}
    table[list(rows)] = vectors.vectors[list(rows.values())]
    return table


def _coverage(vectors: WordVectors, counts: Mapping[str, int]) -> list[str]:
    missing = {word: count for word, count in counts.items() if _row(vectors, word) is None}
    tokens, lost = sum(counts.values()), sum(missing.values())
    commonest = sorted(missing, key=lambda word: (-missing[word], word))[:10]
    lines = [
        f"{vectors.name}: {vectors.vectors.shape[1]} dimensions, {len(vectors.rows):,} of {vectors.total:,} words; "
        f"no vector for {len(missing):,} of {len(counts):,} words, {lost:,} of {tokens:,} tokens "
        f"({100 * lost / max(tokens, 1):.2f} %)"
    ]
    if commonest:
        lines.append("  commonest without a vector: " + ", ".join(f"{w} ({missing[w]:,})" for w in commonest))
    if vectors.dropped:
        lines.append(f"  {vectors.dropped:,} words dropped: written twice (the first counts) or with a zero vector")
    lines += [f"  {note}" for note in vectors.notes]
    return lines
