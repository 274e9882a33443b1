"""Sentence pairs and word vectors: tables and files of vectors → data folder → batches of both sentences.

`read_pairs` → `words` → `PairDataset` (arrays of a folder) → `PairBatch`: packed first sentences, then the second ones
GloVe, word2vec, fastText → `read_vectors` (wanted words only) → `build_embeddings` → `Embeddings`, a table a file
"""

from __future__ import annotations

import codecs
import gzip
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import torch
from torch import Tensor

from docnmt.core.batch import plan_batches
from docnmt.core.corpus import RaggedWriter, SplitFolder, TokenArray, file_entry, offsets_of, stored_array, write_array
from docnmt.core.read_corpus import TextLines, kind_of_table
from docnmt.core.tables import open_table, text_rows
from docnmt.core.training.criterions import LabelledBatch
from docnmt.layout import Spans
from docnmt.other_tasks.options import RANDOM_DIMENSIONS
from docnmt.runtime.system import UserError

#: The classes of natural language inference, in the order of the model's outputs.
NLI_LABELS = ("entailment", "neutral", "contradiction")

#: The label of pairs on which annotators did not agree; they are left out, as in all published work.
NO_GOLD_LABEL = "-"


@dataclass
class SentencePairs:
    """The pairs of one or more files."""

    labels: list[int] = field(default_factory=list)  # one per pair, as a place in `NLI_LABELS`
    sentences: list[str] = field(default_factory=list)  # premise, hypothesis, premise, hypothesis, …
    undecided: int = 0  # pairs without a gold label, which are left out


def read_pairs(*paths: Path) -> SentencePairs:
    """Read `.jsonl` (`gold_label`, `sentence1`, `sentence2`: SNLI, MultiNLI) or `.tsv` (`label`, `text`, `text2`)."""
    pairs = SentencePairs()
    for path in paths:
        before = len(pairs.labels)
        published = kind_of_table(path.name) == ".jsonl"
        columns = ("gold_label", "sentence1", "sentence2") if published else ("label", "text", "text2")
        for where, row in text_rows(open_table(path), columns):
            label, *sentences = row.values()
            if label == NO_GOLD_LABEL:
                pairs.undecided += 1
            elif label.lower() not in NLI_LABELS:
                raise UserError(f"{where}: label '{label}' is none of {', '.join(NLI_LABELS)}")
            else:
                pairs.labels.append(NLI_LABELS.index(label.lower()))
                pairs.sentences += sentences
        if len(pairs.labels) == before:
            raise UserError(f"{path}: holds no labelled pairs")
    return pairs


# A data folder has the vocabulary with its vectors, `probability.bin` (the relative frequency of each word in the
# training data) and for each split `SPLIT.tokens.bin` with its offsets (sentence 2i is premise, 2i + 1 its
# hypothesis) and `SPLIT.labels.bin`.


@dataclass(frozen=True, eq=False)
class PackedSentences:
    """Sentences concatenated to one row of tokens (T,), int64, which are rows of the embedding tables."""

    tokens: Tensor
    spans: Spans

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int] | np.ndarray]) -> PackedSentences:
        """Pack sentences given as lists of rows."""
        tokens = np.concatenate([np.asarray(sentence, dtype=np.int64) for sentence in ([], *sentences)])
        offsets = offsets_of(np.array([len(sentence) for sentence in sentences], dtype=np.int64))
        return cls(torch.from_numpy(tokens), Spans(torch.from_numpy(offsets)))

    def to(self, device: torch.device | str) -> PackedSentences:
        """Return the sentences on another device."""
        return PackedSentences(self.tokens.to(device), Spans(self.spans.offsets.to(device)))


#: A batch of B pairs: the text has their B first sentences, then their B second ones.
PairBatch: TypeAlias = LabelledBatch[PackedSentences]


@dataclass(frozen=True, eq=False)
class PairDataset:
    """The pairs of one split. A sentence without words becomes one unknown word."""

    split: str
    sentences: TokenArray  # words of 2U sentences: premise, hypothesis, premise, …
    labels: np.ndarray  # (U,) uint8

    @classmethod
    def open(cls, folder: Path, split: str, files: dict[str, dict[str, Any]]) -> PairDataset:
        """Map the arrays of a split into memory; `files` is the list in `meta.json`."""
        arrays = SplitFolder(folder, split, files)
        labels = arrays.array("labels")
        return cls(split, TokenArray(arrays.array("tokens"), arrays.array("tokens.offsets")), labels)

    def save(self, folder: Path) -> dict[str, dict[str, Any]]:  # Any: entries of `meta.json`
        """Write the arrays that `open` reads; return the files' entries in `meta.json`."""
        words = RaggedWriter(folder, f"{self.split}.tokens", self.sentences.tokens.dtype)
        words.append(self.sentences.tokens, self.sentences.lengths())
        return words.close() | write_array(folder / f"{self.split}.labels.bin", self.labels, "u1")

    @property
    def sizes(self) -> np.ndarray:
        """The number of words (U,) in both sentences of each pair, int64."""
        return np.diff(self.sentences.offsets[::2])

    def batch(self, units: np.ndarray) -> PairBatch:
        """Return the batch of these pairs: first all premises, then all hypotheses."""
        sentences = [self.sentences[2 * unit + side] for side in (0, 1) for unit in units]
        return PairBatch(PackedSentences.of(sentences), torch.from_numpy(self.labels[units].astype(np.int64)))

    def describe(self, units: np.ndarray) -> str:
        """Describe these pairs by their numbers, from 1."""
        return f"{self.split} pairs {', '.join(str(unit + 1) for unit in units[:10])}{', …' if len(units) > 10 else ''}"


def text_lines(path: Path | None) -> Iterator[str]:
    """Return the lines of a file, or of standard input; errors as in `docnmt.core.read_corpus`."""
    if path is None and sys.stdin is None:
        raise UserError("stdin is closed; expected texts, one a line: < FILE")
    return iter(TextLines(sys.stdin.buffer, name="stdin") if path is None else TextLines(path))


def by_length(lengths: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Yield batches of sentences of similar length, as their numbers, given the lengths (S,)."""
    order = np.argsort(lengths, kind="stable")
    for batch in plan_batches(lengths[order], max_tokens, seed=0, epoch=0, shuffle=False):
        yield order[batch]


# Words as in published word vectors: Penn Treebank style, case kept. Tokenised text is unchanged
# (`words(" ".join(words(x))) == words(x)`), so tokenised corpora and raw text share one vocabulary.

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " "})
_ABBREVIATIONS = "mr mrs ms dr st jr sr vs prof gen sen rep gov col inc corp ltd co".replace(" ", "|")
_CLITIC = r"'(?:s|m|d|re|ve|ll)\b"
_WORD = re.compile(
    rf"""
      \.{{2,}} | -{{2,}} | '{{2,}} | `{{2,}}          # ellipsis, dash, PTB quotes
    | (?:[^\W\d_]\.){{2,}}                            # U.S., e.g.
    | (?:{_ABBREVIATIONS})\.(?!\w)
    | \w+?(?=n't\b) | n't\b | {_CLITIC}               # do n't, John 's
    | \w+(?:(?:(?<=\d)[.,:/](?=\d) | [-&] | '(?!(?:s|m|d|re|ve|ll|t)\b))\w+)*   # 1,650  two-thirds  AT&T  o'clock
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Split a text into words; every other character is a word of its own; typographic quotes become ASCII ones."""
    return _WORD.findall(text.translate(_QUOTES))


# Readers of GloVe text, word2vec text and binary, fastText `.vec`, each also as `.gz`. A reader passes over the file
# once and keeps only the wanted words, so a file of two million words takes the memory of a vocabulary.

#: Decides whether to keep a word, by its spelling and its place in the file (files are sorted by frequency).
Wanted = Callable[[str, int], bool]

#: Upper bounds: bytes of a word, numbers of a word, and bytes of a number with its space. A longer run shows that this
#: is not a file of word vectors, and is not read into memory.
_LONGEST_WORD, _MOST_DIMENSIONS, _LONGEST_NUMBER = 4096, 100_000, 32
_LONGEST_LINE = _LONGEST_WORD + _MOST_DIMENSIONS * _LONGEST_NUMBER
_OTHER_FORMS = {
    b"\x9a\x0bO/": "is fastText's own model format; give the .vec file beside it",
    b"PK\x03\x04": "is a zip archive; unpack it first",
}


@dataclass(frozen=True)
class WordVectors:
    """The wanted words of one vector file: the row of each in `vectors` (V, d), of length 1 unless unscaled.

    `total` words are in the file; `dropped` are repeated (the first counts) or have a zero vector.
    """

    name: str
    rows: dict[str, int]
    vectors: np.ndarray
    total: int
    dropped: int
    notes: Sequence[str] = ()


def read_vectors(path: Path, wanted: Wanted, *, unit: bool = True) -> WordVectors:
    """Read the wanted words of a vector file; with `unit` scale them to unit length (InferLite, section 4).

    `.bin` and `.bin.gz` are word2vec's; all else is text, perhaps with the line "words dimensions" in front.
    """
    entries = _binary if path.name.endswith((".bin", ".bin.gz")) else _text
    rows: dict[str, int] = {}
    vectors_read: list[np.ndarray] = []
    notes: list[str] = []
    total = dropped = 0
    try:
        for word, vector in entries(path, wanted, notes):
            total += 1
            if vector is None:
                continue
            if not np.isfinite(vector).all():
                raise UserError(f"{path}: the vector of word {total} {word[:50]!r} holds values that are not finite")
            length = float(np.linalg.norm(vector.astype(np.float64)))
            if word in rows or length == 0:
                dropped += 1
                continue
            rows[word] = len(vectors_read)
            vectors_read.append((vector / length if unit else vector).astype(np.float32))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read as word vectors: {error}") from error
    if total == 0:
        raise UserError(f"{path}: holds no word vectors")
    vectors = np.stack(vectors_read) if vectors_read else np.zeros((0, 1), np.float32)
    return WordVectors(path.name, rows, vectors, total, dropped, notes)


def _open(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _header(line: bytes, path: Path) -> tuple[int, int] | None:
    """Return (words, dimensions) if this is the first line in the formats of word2vec and fastText."""
    for magic, message in _OTHER_FORMS.items():
        if line.startswith(magic):
            raise UserError(f"{path}: {message}")
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    if max(map(len, fields)) > 18 or not 1 <= int(fields[1]) <= _MOST_DIMENSIONS:
        shown = line[:50].decode().strip()
        raise UserError(f"{path}: line 1: expected 'words dimensions', these 1 to {_MOST_DIMENSIONS:,}, got '{shown}'")
    return int(fields[0]), int(fields[1])


def _lines(file: BinaryIO, path: Path, notes: list[str]) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers, without a byte order mark."""
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if not line.endswith(b"\n"):
            if len(line) == _LONGEST_LINE:
                raise UserError(f"{path}: line {number}: is longer than any word and its numbers; is it text?")
            notes.append("warning: the last line has no line break; if the file was cut there, a number is wrong")
        yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def _text(path: Path, wanted: Wanted, notes: list[str]) -> Iterator[tuple[str, np.ndarray | None]]:
    with _open(path) as file:
        lines = _lines(file, path, notes)
        first = next(lines, (1, b""))[1]
        header = _header(first, path)
        dimensions = header[1] if header else len(first.split()) - 1
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise UserError(f"{path}: line 1: expected a word and its numbers, or 'words dimensions'; is it text?")
        count = 0
        for number, line in lines if header else chain([(1, first)], lines):
            fields = line.rstrip().rsplit(b" ", dimensions)  # words with spaces exist
            if len(fields) != dimensions + 1:
                advice = "replace its tabs by spaces" if b"\t" in line else "is the file complete?"
                raise UserError(
                    f"{path}: line {number}: expected a word and {dimensions} numbers with a space before each, got "
                    f"{len(fields)} fields; {advice}"
                )
            if b" " in fields[0] and _is_number(fields[0].rsplit(b" ", 1)[1]):
                raise UserError(f"{path}: line {number}: has more numbers than the {dimensions} of line 1")
            word, vector = fields[0].decode("utf-8", "replace"), None
            if wanted(word, count):
                try:
                    vector = np.array(fields[1:], dtype=np.float32)
                except ValueError as error:
                    raise UserError(
                        f"{path}: line {number}: {str(error)[:80]}; expected a word and {dimensions} numbers"
                    ) from error
            yield word, vector
            count += 1
        if header and count != header[0]:
            raise UserError(f"{path}: line 1 promises {header[0]} words, there are {count}; is the file complete?")


def _is_number(field: bytes) -> bool:
    """Return True for a number with a decimal point, as vectors have; words with spaces may end in a whole number."""
    try:
        return b"." in field and math.isfinite(float(field))
    except ValueError:
        return False


def _binary(path: Path, wanted: Wanted, notes: list[str]) -> Iterator[tuple[str, np.ndarray | None]]:
    with _open(path) as file:
        first = file.readline(64)
        header = _header(first, path)
        if header is None:
            raise UserError(f"{path}: is not word2vec's binary form (line 1 is not 'words dimensions')")
        count, size = header[0], 4 * header[1]
        if path.suffix != ".gz" and path.stat().st_size < len(first) + count * (size + 2):
            raise UserError(f"{path}: too short for {count} words of {header[1]} dimensions; is the file complete?")
        for number in range(count):
            letters = bytearray()
            while (byte := file.read(1)) != b" ":
                if not byte or len(letters) > _LONGEST_WORD:
                    raise UserError(f"{path}: word {number + 1} has no end; is this word2vec's binary form, complete?")
                letters += byte
            word = letters.lstrip(b"\n").decode("utf-8", "replace")
            data = file.read(size)
            if len(data) < size:
                raise UserError(f"{path}: ends within word {number + 1} of {count}; is the file complete?")
            yield word, np.frombuffer(data, "<f4") if wanted(word, number) else None
        if file.read(2).strip(b"\n"):
            raise UserError(f"{path}: line 1 promises {count} words, there is more behind them; correct the number")


# One vocabulary for several types (Kiros and Chan 2018, section 3): the words of the data and the first words of each
# file, if any file has a vector for them. Row 0 is any other word and zero in every type, like a word that a type
# lacks.

#: The name of row 0; no text has this word.
UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Embeddings:
    """A vocabulary with its vectors."""

    names: Sequence[str]  # the files of the vectors, one per type
    words: Sequence[str]  # (V); the first is `UNKNOWN`
    vectors: Sequence[np.ndarray]  # (V, d_k) per type: float16 with rows of length 1 or 0, or float32 and unscaled

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words) if i}

    def index(self, word: str) -> int:
        """Return the row of a word: as spelt, else in lower case, else 0."""
        return self._index.get(word) or self._index.get(word.lower(), 0)

    def indices(self, words: Iterable[str]) -> list[int]:
        """Return the rows of several words."""
        return [self.index(word) for word in words]

    def save(self, folder: Path) -> dict[str, dict[str, Any]]:  # Any: entries of `meta.json`
        """Write `words.txt` (a word a line) and a `vectors.K.bin` a type; return the entries for `meta.json`."""
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
        """Map the files of `save` into memory; `names` are those of the types, `files` the list in `meta.json`."""
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

    Return also lines of a report: each type's coverage of `counts`, and the commonest words it lacks.
    """
    needed = {spelling for word in counts for spelling in (word, word.lower())}
    types = [
        read_vectors(path, lambda word, number: number < keep_words or word in needed, unit=unit) for path in paths
    ]
    words = [UNKNOWN, *dict.fromkeys(word for vectors in types for word in vectors.rows if word != UNKNOWN)]
    for vectors in types:
        if not vectors.rows or (counts and all(_row(vectors, word) is None for word in counts)):
            raise UserError(f"{vectors.name}: has none of the words of the texts; is it for this language?")
    dtype = np.float16 if unit else np.float32  # half precision ends at 65,504
    tables = []
    for vectors in types:  # (V, d) each; words that a type lacks, and word 0, have zeros
        rows = {i: row for i, word in enumerate(words) if i and (row := _row(vectors, word)) is not None}
        tables.append(np.zeros((len(words), vectors.vectors.shape[1]), dtype))
        tables[-1][list(rows)] = vectors.vectors[list(rows.values())]
    embeddings = Embeddings([vectors.name for vectors in types], words, tables)
    return embeddings, [line for vectors in types for line in _coverage(vectors, counts)]


def random_embeddings(counts: Mapping[str, int]) -> tuple[Embeddings, list[str]]:
    """Return a random unit vector, always the same, for each word of `counts`, and a report."""
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
