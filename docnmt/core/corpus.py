"""A corpus on disk: arrays of subwords, offsets and structure in a data folder, each with its checksum.
`preprocess` writes it; `ParallelCorpus` maps it; `units` reads it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import mmap
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, overload

import numpy as np
import xxhash
from msgspec import Meta
from msgspec import field as struct_field

from docnmt.core.lines import blocks
from docnmt.core.tokenizer import SPECIAL, UNK, Tokenizer
from docnmt.runtime.system import (
    KIND,
    Count,
    Hex,
    Name,
    OpenObject,
    UserError,
    __version__,
    checked,
    checking,
    checksum,
    file_checksum,
    parse_json,
    printable,
    read_limited,
    write_json,
)

# The schema of `meta.json`, by task.


class FileEntry(OpenObject):
    """A file of the folder; arrays have `dtype` and `length`, structure files their counts."""

    bytes: Count
    sha256: Hex
    xxh3: Hex | None = None
    dtype: Literal["|u1", "u1", "<u2", "<u4", "<i4", "<i8", "<f2", "<f4"] | None = None
    length: Count | None = None
    documents: Count | None = None
    sentences: Count | None = None
    levels: Count | None = None


class Lengths(OpenObject):
    """The lengths of one side of a split, in subwords."""

    tokens: Count
    unknown: Count
    longest_sentence: Count
    longest_document: Count
    sentence_percentiles: tuple[int, int, int]
    document_percentiles: tuple[int, int, int]


class SplitCounts(OpenObject):
    """The counts of a split of a translation folder."""

    documents: Count
    sentences: Count
    levels: Count
    references: Annotated[int, Meta(ge=0, le=1000)]
    lengths: dict[Name, Lengths]
    inputs: dict[str, FileEntry]
    notes: list[str]
    without_partner: Count = 0


class VocabularySizes(OpenObject):
    """The sizes of both sides' vocabularies."""

    source: Count
    target: Count
    joined: bool


class AnyMeta(OpenObject):
    """`meta.json` of any task."""

    format: int
    task: str
    fingerprint: str = ""
    docnmt: str = ""
    files: dict[Name, FileEntry] = struct_field(default_factory=dict)
    options: dict[str, object] = struct_field(default_factory=dict)


class OurMeta(AnyMeta, kw_only=True):
    """`meta.json` of a built-in task."""

    fingerprint: str
    files: dict[Name, FileEntry]
    options: dict[str, object]


class TranslationMeta(OurMeta, kw_only=True):
    """`meta.json` of document_translation."""

    source_lang: Name
    target_lang: Name
    tokenizers: dict[Literal["source", "target"], Name]
    vocabulary: VocabularySizes
    splits: dict[Name, SplitCounts]


class ClassificationMeta(OurMeta, kw_only=True):
    """`meta.json` of text_classification."""

    vocabulary: str
    labels: list[str]


class NliMeta(OurMeta, kw_only=True):
    """`meta.json` of nli."""

    vectors: list[str]
    splits: dict[Name, dict[str, int]]


#: The schema by task; plug-ins' tasks have none.
SCHEMAS: dict[str, type[AnyMeta]] = {
    "document_translation": TranslationMeta,
    "text_classification": ClassificationMeta,
    "nli": NliMeta,
}


# `meta.json`, the description of a folder of preprocessed data.


META = "meta.json"
FORMAT = 1
#: Files that do not count as data: the fingerprint does not depend on the names of documents.
_BESIDE = re.compile(r"\.names\.text\.(offsets\.)?bin$|^dropped\.tsv$")
#: The list of documents that were left out.
DROPPED = "dropped.tsv"
_AGAIN = "preprocess again"


def read_meta(folder: Path, *, task: str | None = None) -> dict[str, Any]:
    """Read a folder's `meta.json` and check the sizes of the files it lists, without reading them.

    Args:
        task: what the folder must be made for, if that matters.

    Raises:
        UserError: the folder is not a data folder, has another format, is damaged, or a file is missing or truncated;
            or it is made for another task.
    """
    path = Path(folder) / META
    if not path.exists():
        raise UserError(f"{folder}: not a data folder ({META} is missing); make one with docnmt-preprocess")
    meta = parse_json(read_limited(path), str(path), _AGAIN)
    if not isinstance(meta, dict) or not {"format", "task"} <= meta.keys():
        raise UserError(f"{path}: not written by docnmt-preprocess; name a folder that is")
    if meta["format"] != FORMAT:
        raise UserError(
            f"{path}: data format {meta['format']} of docnmt {meta.get('docnmt')}, this is docnmt {__version__} "
            f"with format {FORMAT}; preprocess again"
        )
    made_for = meta["task"]
    schema = SCHEMAS.get(made_for, AnyMeta) if isinstance(made_for, str) else AnyMeta
    files = checked(meta, schema, str(path), _AGAIN).files
    sealed = "checksum" in meta or any(entry.xxh3 is not None for entry in files.values())
    if checking() and sealed and meta.get("checksum") != _checksum(meta):
        raise UserError(f"{path}: is damaged, or was changed by hand (another checksum); {_AGAIN}")
    for name, entry in files.items():
        _check_size(path.parent / name, entry)
    if task not in (None, made_for):
        raise UserError(f"{folder}: was made for --task {made_for}, not {task}; preprocess with --task {task}")
    return meta


def _check_size(path: Path, entry: FileEntry) -> None:
    """Raise an error for a file that is missing, or shorter or longer than it should be."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: missing; {_AGAIN}") from error
    if size != entry.bytes:
        raise UserError(f"{path}: {size:,} bytes, expected {entry.bytes:,}: truncated or changed; {_AGAIN}")
    if entry.dtype is not None and entry.length is not None:
        expected = np.dtype(entry.dtype).itemsize * entry.length
    elif entry.documents is not None and entry.sentences is not None and entry.levels is not None:
        expected = 12 * (entry.documents + 1) + 4 * entry.sentences * entry.levels
    else:
        return
    if size != expected:
        raise UserError(f"{path}: {META} says {entry.bytes:,} bytes and what takes {expected:,}; {_AGAIN}")


def check_files(folder: Path, meta: Mapping[str, Any], *beginnings: str) -> None:
    """Compare all files whose names begin with one of `beginnings` with their checksums; old folders have none.

    Raises:
        UserError: a file differs.
    """
    for name, entry in meta["files"].items() if checking() else ():
        if name.startswith(beginnings) and KIND in entry and file_checksum(folder / name) != entry[KIND]:
            raise UserError(f"{folder / name}: is damaged (another checksum); {_AGAIN}, or copy it again")


def verify_folder(folder: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield every file, the finding, and whether it is intact: by its xxh3, or its SHA-256 in folders of old versions.

    Raises:
        UserError: see `read_meta`.
    """
    meta = read_meta(folder)
    yield folder / META, "holds" if "checksum" in meta else "has no checksum", True
    for name, entry in meta["files"].items():
        kind = KIND if KIND in entry else "sha256"
        found = file_checksum(folder / name) if kind == KIND else _sha256(folder / name)
        good = found == entry[kind]
        yield folder / name, f"holds ({kind})" if good else f"is damaged (another {kind}); {_AGAIN}", good


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for block in blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _checksum(meta: Mapping[str, Any]) -> str:
    """Return the checksum of `meta.json` without its checksum, whatever its white space."""
    return checksum(json.dumps({k: v for k, v in meta.items() if k != "checksum"}, sort_keys=True).encode())


def file_entry(content: bytes) -> dict[str, Any]:
    """Return a small file's entry in `meta.json`."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), KIND: checksum(content)}


def write_meta(folder: Path, *, task: str, files: Mapping[str, Mapping[str, Any]], **content: object) -> dict[str, Any]:
    """Write `meta.json` with the format, docnmt's version and a fingerprint of the data; return its content.

    Args:
        files: for each file of the folder at least its `bytes` and `sha256`.
        content: everything else, as JSON types.
    """
    digest = hashlib.sha256(task.encode())
    for name in sorted(name for name in files if not _BESIDE.search(name)):
        digest.update(f"\n{name} {files[name]['sha256']}".encode())
    content = {
        "format": FORMAT,
        "docnmt": __version__,
        "task": task,
        "fingerprint": digest.hexdigest()[:32],
        **content,
        "files": files,
    }
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")  # paths need not be UTF-8
    meta: dict[str, Any] = json.loads(text)  # as `read_meta` will read it
    meta["checksum"] = _checksum(meta)
    write_json(folder / META, meta)
    return meta


# Flat arrays on disk, mapped into memory: tokens and raw text of millions of sentences.
#
# A file `NAME.bin` is one array, little-endian, without a header; its type and length are in `meta.json`.


_BLOCK, _LINES = 1 << 20, 4096


class TokenArray:
    """Sentences as subword numbers, without `</s>`.

    Attributes:
        tokens: (T,) uint16 or uint32, all sentences concatenated. offsets: (S+1,) int64, where each begins.

    Args:
        check: is called with subwords that are read one batch after the other; None: they are known to be valid.
    """

    def __init__(
        self, tokens: np.ndarray, offsets: np.ndarray, check: Callable[[np.ndarray], None] | None = None
    ) -> None:
        self.tokens, self.offsets, self._check = tokens, offsets, check

    @classmethod
    def of_file(cls, path: Path, tokens: np.ndarray, offsets: np.ndarray, below: int | None) -> TokenArray:
        """Build the array of a file, and check that all subwords are less than `below`; None: any number is right.

        Inside `docnmt.runtime.system.skipped` they are checked when they are read, so that opening reads none.

        Raises:
            UserError: a subword is not less; the message names the file.
        """
        check = partial(check_tokens, path, below)
        if not checking():
            return cls(tokens, offsets, check)
        check(tokens)
        return cls(tokens, offsets)

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]], vocab_size: int) -> TokenArray:
        """Build the array from each sentence's subwords, in memory."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        flat = np.fromiter((token for sentence in sentences for token in sentence), token_dtype(vocab_size))
        return cls(flat, offsets_of(lengths))

    def first(self, sentences: int) -> TokenArray:
        """Return the first `sentences` sentences."""
        return TokenArray(self.tokens[: self.offsets[sentences]], self.offsets[: sentences + 1], self._check)

    def at(self, places: np.ndarray | slice) -> np.ndarray:
        """Return the subwords at these places (n,) of `tokens`."""
        found: np.ndarray = self.tokens[places]
        if self._check:
            self._check(found)
        return found

    def take(self, numbers: np.ndarray) -> TokenArray:
        """Return the sentences with these numbers, in their order, in memory."""
        first, last = np.asarray(self.offsets[numbers]), np.asarray(self.offsets[numbers + 1])
        return TokenArray(np.asarray(self.at(ranges(first, last))), offsets_of(last - first))

    def lengths(self) -> np.ndarray:
        """Return the number of subwords of each sentence, (S,) int64."""
        return np.diff(self.offsets)

    def length_blocks(self) -> Iterator[np.ndarray]:
        """Yield the lengths in blocks (n,), for corpora so large that not even the lengths fit into memory."""
        return length_blocks(self.offsets)

    def __getitem__(self, i: int) -> np.ndarray:
        return self.at(slice(self.offsets[i], self.offsets[i + 1]))

    def __len__(self) -> int:
        return len(self.offsets) - 1


class TextArray(Sequence[str]):
    """Lines of raw text.

    Attributes:
        data: (bytes,) uint8, UTF-8, all lines concatenated. offsets: (S+1,) int64, where each begins.
    """

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> TextArray:
        """Build the array from lines, in memory."""
        encoded = [line.encode() for line in lines]
        lengths = np.array([len(line) for line in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets_of(lengths))

    def first(self, lines: int) -> TextArray:
        """Return the first `lines` lines."""
        return TextArray(self.data[: self.offsets[lines]], self.offsets[: lines + 1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            rows = range(len(self))[index]
            return self._lines(rows.start, max(rows) + 1) if rows.step == 1 and rows else [self[i] for i in rows]
        i = int(index) + len(self) if index < 0 else int(index)
        if not 0 <= i < len(self):
            raise IndexError(f"line {index} of {len(self)}")
        return self._lines(i, i + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _LINES):
            yield from self._lines(first, min(first + _LINES, len(self)))

    def release_pages(self) -> None:
        """Release the pages read of a mapped file (see the function `release_pages`)."""
        release_pages(self.data)
        release_pages(self.offsets)

    def _lines(self, first: int, last: int) -> list[str]:
        """Return a range of lines, read at once."""
        offsets = np.asarray(self.offsets[first : last + 1])
        data = self.data[offsets[0] : offsets[-1]].tobytes()
        cuts = (offsets - offsets[0]).tolist()
        try:
            return [data[a:b].decode() for a, b in itertools.pairwise(cuts)]
        except UnicodeDecodeError as error:
            raise UserError(f"raw text of a data folder is damaged near line {first + 1}; preprocess again") from error


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return offsets (S+1,), int64, of rows with these lengths (S,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return all numbers of half-open ranges, one after the other: [3, 8), [0, 2) → 3 4 5 6 7 0 1."""
    lengths = last - first
    offsets = offsets_of(lengths)
    numbers: np.ndarray = np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])
    return numbers


def length_blocks(offsets: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the lengths of rows with these offsets (S+1,), in blocks."""
    for first in range(0, len(offsets) - 1, _BLOCK):
        yield np.diff(offsets[first : first + _BLOCK + 1])
        release_pages(offsets)


def release_pages(array: np.ndarray) -> None:
    """Release the pages of a mapped file from this process, after a pass over it.

    They stay in the system's cache, and are mapped again when they are read. Other arrays are left alone.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest type that holds every token of a vocabulary."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


class ArrayWriter:
    """Appends to one file of a folder and describes it for `meta.json`."""

    def __init__(self, path: Path, dtype: np.dtype[Any] | str) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        path.unlink(missing_ok=True)  # arrays mapped from the old file stay valid
        self._file, self._digest = path.open("wb"), hashlib.sha256()
        self._checksum = xxhash.xxh3_64()

    def append(self, values: np.ndarray) -> None:
        """Append elements."""
        for first in range(0, len(values), _BLOCK):  # `values` may be a map of a large file
            data = np.ascontiguousarray(values[first : first + _BLOCK], dtype=self.dtype).tobytes()
            self._file.write(data)
            self._digest.update(data)
            self._checksum.update(data)
            release_pages(values)
        self.length += len(values)

    def close(self) -> dict[str, Any]:
        """Close the file and return its entry in `meta.json`."""
        self._file.close()
        return {
            "dtype": self.dtype.str,
            "length": self.length,
            "bytes": self.length * self.dtype.itemsize,
            "sha256": self._digest.hexdigest(),
            KIND: self._checksum.hexdigest(),
        }


class RaggedWriter:
    """Writes rows of different lengths: `NAME.bin` and `NAME.offsets.bin`."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any] | str) -> None:
        self.values = ArrayWriter(folder / f"{name}.bin", dtype)
        self._offsets = ArrayWriter(folder / f"{name}.offsets.bin", "<i8")
        self._offsets.append(np.zeros(1, dtype=np.int64))

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        """Append rows: their elements one after the other, and how many each has."""
        self._offsets.append(self.values.length + np.cumsum(lengths, dtype=np.int64))
        self.values.append(values)

    def append_rows(self, values: np.ndarray, offsets: np.ndarray) -> None:
        """Append rows of another such file: those between its `offsets`, which need not begin at 0."""
        for first in range(0, len(offsets) - 1, _BLOCK):
            part = offsets[first : first + _BLOCK + 1]
            self.append(values[part[0] : part[-1]], np.diff(part))

    def append_lines(self, lines: Sequence[str]) -> None:
        """Append lines of text."""
        text = TextArray.from_lines(lines)
        self.append(text.data, np.diff(text.offsets))

    def close(self) -> dict[str, dict[str, Any]]:
        """Close the files and return their entries in `meta.json`."""
        return {writer.path.name: writer.close() for writer in (self.values, self._offsets)}


def write_array(path: Path, values: np.ndarray, dtype: np.dtype[Any] | str) -> dict[str, dict[str, Any]]:
    """Write a file of an array at once; return its entry in `meta.json`."""
    writer = ArrayWriter(path, dtype)
    writer.append(values)
    return {path.name: writer.close()}


def map_array(path: Path, dtype: str, length: int, *, offset: int = 0, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """Map `length` elements of a file from byte `offset` on into memory.

    Args:
        mode: `c` is copy on write, for arrays that become tensors as they are: torch expects writable ones.

    Raises:
        UserError: the file is missing or too short.
    """
    if sys.byteorder != "little":
        raise UserError(f"{path}: written for little-endian machines, this one is not")
    if length == 0:
        return np.zeros(0, dtype=dtype)
    try:
        return np.asarray(np.memmap(path, dtype=dtype, mode=mode, offset=offset, shape=(length,)))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be mapped into memory: {error}; preprocess again") from error


def check_offsets(path: Path, offsets: np.ndarray, total: int, rows: int | None = None) -> None:
    """Check that offsets rise from 0 to `total`, and are those of `rows` rows if that is given.

    Raises:
        UserError: they do not; the message names the file.
    """
    count = len(offsets) - 1
    if rows is not None and count != rows:
        raise UserError(f"{path}: is damaged: {count:,} rows, expected {rows:,}; preprocess again")
    falls = any((lengths < 0).any() for lengths in length_blocks(offsets))
    if count < 0 or offsets[0] != 0 or offsets[-1] != total or falls:
        raise UserError(f"{path}: is damaged: its numbers do not rise from 0 to {total:,}; preprocess again")


def check_tokens(path: Path, below: int | None, tokens: np.ndarray) -> None:
    """Check that subwords of a file are less than `below`.

    Raises:
        UserError: one is not; the message names the file.
    """
    if below is not None and len(tokens) and tokens.max() >= below:
        raise UserError(f"{path}: is damaged: it has a subword {tokens.max():,} of {below:,}; preprocess again")


# The content of a parallel corpus, independent of its files' layout: sentences and document structure.


class Sentence(NamedTuple):
    """One sentence on all sides: the source first, then the references.

    `units` are the labels of the units that contain it, outermost first; `labels` further columns; `place` its
    place in the files, for messages. A side is "" if the sentence has no partner there.
    """

    texts: tuple[str, ...]
    units: tuple[str, ...] = ()
    labels: str = ""
    place: str = ""


class Blank(NamedTuple):
    """An empty line, which ends the open document."""


class DocumentStart(NamedTuple):
    """The beginning of a document; `name` is its name, if the layout has names."""

    name: str | None = None


class CorpusEnd(NamedTuple):
    """The end of one of a split's corpora; `levels`: whether it marks sections or paragraphs."""

    levels: bool


Event = Sentence | Blank | DocumentStart | CorpusEnd


@dataclass
class Facts:
    """Facts collected while a split is read, complete after the last event.

    Attributes:
        levels, labels: True if sections or paragraphs, and labels of sentences, are known; `labels` is right from the
            first sentence on, `levels` holds for the part read so far.
        notes: what was changed or left out while reading, for the report.
        inputs: size and hash of each file read.
    """

    levels: bool = False
    labels: bool = False
    notes: list[str] = field(default_factory=list)
    inputs: dict[str, dict[str, int | str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Structure:
    """The division of a corpus's sentences into documents and units.

    Attributes:
        document_offsets: (D+1,) int64, the sentence where each document begins; the last entry is S.
        blank_lines: (D+1,) int32, empty lines of the source file before each document and after the last.
        levels: (S, K) int32, known units above the sentence, outermost first; the index inside the parent unit.
    """

    document_offsets: np.ndarray
    blank_lines: np.ndarray
    levels: np.ndarray

    @property
    def num_sentences(self) -> int:
        """The number of sentences S."""
        return int(self.document_offsets[-1])

    @property
    def num_documents(self) -> int:
        """The number of documents D."""
        return len(self.document_offsets) - 1


class StructureBuilder:
    """Builds a `Structure` line by line."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._name: str | None = None
        self._documents = array("q")
        self._blank_lines = array("i")
        self._levels = array("i")
        self._sentences = self._blank = self._corpus = 0
        self._inside = False
        self._units: tuple[str, ...] = ()
        self._index: list[int] = []

    def sentences(self, events: Iterator[Event]) -> Iterator[Sentence]:
        """Yield the sentences of a reader's events and add all events to the structure."""
        for event in events:
            if isinstance(event, Sentence):
                self.sentence(event.units)
                yield event
            elif isinstance(event, DocumentStart):
                self.mark(event.name)
            elif isinstance(event, CorpusEnd):
                self.end(levels=event.levels)
            else:
                self.blank()

    def blank(self) -> None:
        """Add an empty line, which ends the document."""
        self._blank += 1
        self._inside = False

    def mark(self, name: str | None = None) -> None:
        """Add a line or element that begins a document; if no empty line is before it, it becomes one."""
        self._blank = max(self._blank, 1 if self._sentences else 0)
        self._inside = False
        self._name = name

    def sentence(self, units: tuple[str, ...] = ()) -> None:
        """Add a sentence, with the labels of the units that contain it, outermost first.

        A unit begins where its own or an outer label changes. All sentences have equally many labels.
        """
        if not self._inside:
            if self._name is not None:
                self._names[len(self._documents)] = self._name
            self._name = None
            self._documents.append(self._sentences)
            self._blank_lines.append(self._blank)
            self._blank, self._inside, self._index = 0, True, [0] * len(units)
        elif units != self._units:
            depth = next(k for k, (old, new) in enumerate(zip(self._units, units, strict=True)) if old != new)
            self._index[depth] += 1
            self._index[depth + 1 :] = [0] * (len(units) - depth - 1)
        self._units = units
        self._levels.extend(self._index)
        self._sentences += 1

    def end(self, *, levels: bool) -> None:
        """End a corpus; without `levels`, those of its sentences are unknown, which other corpora may have."""
        if not levels:
            begin = self._corpus * len(self._units)
            self._levels[begin:] = array("i", [-1]) * (len(self._levels) - begin)
        self._corpus = self._sentences

    @property
    def names(self) -> list[str]:
        """The names of the documents, "" for those without one; empty if none has a name."""
        return [self._names.get(number, "") for number in range(len(self._documents))] if self._names else []

    def build(self, *, known: bool = True) -> Structure:
        """Return the structure of all events; `known=False` drops the levels."""
        levels = np.asarray(self._levels, dtype=np.int32).reshape(self._sentences, -1 if self._sentences else 0)
        return Structure(
            np.append(np.asarray(self._documents, dtype=np.int64), self._sentences),
            np.append(np.asarray(self._blank_lines, dtype=np.int32), np.int32(self._blank)),
            levels if known else levels[:, :0],
        )


def renumber(levels: np.ndarray, document_offsets: np.ndarray) -> np.ndarray:
    """Renumber levels (S, K) from 0 without gaps, after sentences were removed or documents cut; unknown ones stay."""
    if not len(levels):
        return levels
    begins = np.zeros(len(levels), dtype=bool)  # True where a unit of this level, or of one above, begins
    begins[document_offsets[:-1][np.diff(document_offsets) > 0]] = True
    result = np.empty_like(levels)
    for depth in range(levels.shape[1]):
        parents = begins.copy()
        begins[1:] |= np.diff(levels[:, depth]) != 0
        count = np.cumsum(begins)
        result[:, depth] = count - count[np.maximum.accumulate(np.where(parents, np.arange(len(levels)), 0))]
    return np.where(levels < 0, levels, result)


# The files of one split in a data folder: reading and writing them by name.
#
# `SPLIT.LANG.tokens.bin` and `SPLIT.LANG.text.bin` with their offsets for each side (further references:
# `SPLIT.LANG1.text.bin` …), `SPLIT.labels.text.bin` and `SPLIT.names.text.bin` where these are known, and one
# `SPLIT.structure.bin`: document offsets (int64), blank lines and levels (int32), one after the other.


def reference_names(target_lang: str, count: int) -> list[str]:
    """Return the names of a split's references in its files: de, de1, de2 …"""
    return [f"{target_lang}{number or ''}" for number in range(count)]


@dataclass(frozen=True)
class SplitFolder:
    """One split in a folder; `files` is the list of files that the folder's `meta.json` has or will have."""

    folder: Path
    split: str
    files: dict[str, dict[str, Any]]

    def text(self, side: str, *, rows: int | None = None) -> TextArray:
        """Return the raw text of a side (a language), mapped into memory."""
        return TextArray(*self.rows(f"{side}.text", rows=rows))

    def text_if_known(self, side: str, *, rows: int | None = None) -> TextArray | None:
        """Return the text of `labels` or `names`, which only some corpora have, or None."""
        return self.text(side, rows=rows) if f"{self.split}.{side}.text.bin" in self.files else None

    def tokens(self, side: str, *, rows: int | None = None, below: int | None = None) -> TokenArray:
        """Return the subwords of a side, mapped into memory; they are checked to be less than `below`."""
        path = self.folder / f"{self.split}.{side}.tokens.bin"
        return TokenArray.of_file(path, *self.rows(f"{side}.tokens", rows=rows), below)

    def rows(self, name: str, *, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return values and offsets of `SPLIT.NAME.bin`, mapped into memory.

        Raises:
            UserError: the file is missing, or the offsets are not those of `rows` rows.
        """
        values, offsets = self.array(name), self.array(f"{name}.offsets")
        check_offsets(self.folder / f"{self.split}.{name}.offsets.bin", offsets, len(values), rows)
        return values, offsets

    def sentence_rows(self) -> list[str]:
        """Return the names of the arrays that have a row per sentence: `en.text`, `en.tokens`, …"""
        names = [name.removesuffix(".offsets.bin") for name in self.files if name.endswith(".offsets.bin")]
        own = [name.removeprefix(f"{self.split}.") for name in names if name.startswith(f"{self.split}.")]
        return [name for name in own if name != "names.text"]

    def structure(self) -> Structure:
        """Return the document structure, mapped into memory."""
        keys = ("documents", "sentences", "levels")
        path, entry = _entry(self.folder, f"{self.split}.structure", self.files, *keys)
        documents, sentences, levels = entry["documents"], entry["sentences"], entry["levels"]
        offsets = map_array(path, "<i8", documents + 1)
        blank = map_array(path, "<i4", documents + 1, offset=8 * (documents + 1))
        known = map_array(path, "<i4", sentences * levels, offset=12 * (documents + 1))
        check_offsets(path, offsets, sentences, documents)
        if blank.min() < 0 or known.min(initial=0) < -1:
            raise UserError(f"{path}: is damaged: negative numbers; preprocess again")
        return Structure(offsets, blank, known.reshape(sentences, levels))

    def write_structure(self, structure: Structure) -> None:
        """Write the structure file."""
        arrays = ((structure.document_offsets, "<i8"), (structure.blank_lines, "<i4"), (structure.levels, "<i4"))
        name = f"{self.split}.structure.bin"
        writer = ArrayWriter(self.folder / name, "u1")
        for values, dtype in arrays:
            writer.append(np.ascontiguousarray(values, dtype=dtype).reshape(-1).view("u1"))
        entry = {key: value for key, value in writer.close().items() if key not in ("dtype", "length")}
        self.files[name] = {
            "documents": structure.num_documents,
            "sentences": structure.num_sentences,
            "levels": structure.levels.shape[1],
            **entry,
        }

    @contextmanager
    def writer(self, name: str, dtype: np.dtype[Any] | str) -> Iterator[RaggedWriter]:
        """Return a context manager that writes `SPLIT.NAME.bin`, which is complete at the end of the block.

        It may replace an existing file: arrays mapped from the old one stay valid.
        """
        writer = RaggedWriter(self.folder, f"{self.split}.{name}", dtype)
        yield writer
        self.files.update(writer.close())

    def write_lines(self, side: str, lines: Sequence[str]) -> None:
        """Write the raw text of a side at once."""
        with self.writer(f"{side}.text", "u1") as writer:
            writer.append_lines(lines)

    def array(self, name: str) -> np.ndarray:
        """Return `SPLIT.NAME.bin`, mapped into memory."""
        return stored_array(self.folder, f"{self.split}.{name}", self.files)


def stored_array(
    folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], mode: Literal["r", "c"] = "r"
) -> np.ndarray:
    """Map `NAME.bin` into memory as `map_array` does; `files` is the list of files in `meta.json`.

    Raises:
        UserError: the file is missing, or not in the list.
    """
    path, entry = _entry(folder, name, files, "dtype", "length")
    return map_array(path, entry["dtype"], entry["length"], mode=mode)


def _entry(
    folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], *keys: str
) -> tuple[Path, Mapping[str, Any]]:
    """Return a file's path and its entry in `meta.json`."""
    entry = files.get(f"{name}.bin", {})
    if any(entry.get(key) is None for key in keys):
        raise UserError(f"{folder / META}: says nothing of {name}.bin; preprocess again")
    return folder / f"{name}.bin", entry


# A document in memory: its sentences, and the paragraphs and sections that contain them.


@dataclass(frozen=True)
class Document:
    """A document's sentences with their structure.

    Attributes:
        sentences: the sentences, in order.
        units: for each sentence the labels of the units that contain it, outermost first (section, paragraph), equally
            many for each; a unit begins where its own or an outer label changes. Empty: the structure is unknown.

    Raises:
        UserError: a field is no sequence, or the numbers of `units` and sentences, or of labels per sentence, differ.
    """

    sentences: tuple[str, ...]
    units: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        given: list[tuple[str, object]] = [("sentences", self.sentences), ("units", self.units)]
        for name, value in given:
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise UserError(f"Document: {name}: expected a tuple, got {type(value).__name__}")
        if self.units and len(self.units) != len(self.sentences):
            raise UserError(f"Document: {len(self.sentences)} sentences and units of {len(self.units)}; expected equal")
        depths = {len(labels) for labels in self.units}
        if len(depths) > 1:
            raise UserError(f"Document: sentences have {min(depths)} to {max(depths)} labels of units; expected equal")

    @classmethod
    def nested(cls, parts: Sequence[Any]) -> Document:
        """Build a document from nested lists: paragraphs of sentences, sections of paragraphs of sentences, and so on.

        Raises:
            UserError: sentences have different depths, or an element is neither a text nor a list.
        """
        found: list[tuple[str, tuple[str, ...]]] = []

        def _walk(part: object, labels: tuple[str, ...]) -> None:  # a sentence, or a list of anything of this kind
            if isinstance(part, str):
                found.append((part, labels[:-1]))
            elif isinstance(part, (bytes, bytearray)) or not isinstance(part, Sequence):
                raise UserError(f"Document.nested: expected texts in lists, got {type(part).__name__}")
            else:
                for number, inner in enumerate(part):
                    _walk(inner, (*labels, str(number)))

        _walk(parts, ())
        return cls(tuple(text for text, _ in found), tuple(labels for _, labels in found))

    def take(self, places: Sequence[int]) -> Document:
        """Return a document of these sentences only."""
        units = tuple(self.units[n] for n in places) if self.units else ()
        return Document(tuple(self.sentences[n] for n in places), units)


def structure_of(documents: Sequence[Document]) -> Structure:
    """Return the structure of documents, empty ones included. Levels that only other documents have are -1."""
    tables = [_levels(document) for document in documents]
    depth = max((table.shape[1] for table in tables), default=0)
    padded = [np.pad(each, ((0, 0), (depth - each.shape[1], 0)), constant_values=-1) for each in tables]
    blank = np.ones(len(documents) + 1, dtype=np.int32)
    blank[[0, -1]] = 0
    return Structure(
        np.cumsum([0, *(len(document.sentences) for document in documents)], dtype=np.int64),
        blank,
        np.concatenate([np.zeros((0, depth), dtype=np.int32), *padded]),
    )


def _levels(document: Document) -> np.ndarray:
    """Return the levels (n, K) of one document."""
    builder = StructureBuilder()
    for labels in document.units or [()] * len(document.sentences):
        builder.sentence(labels)
    return builder.build().levels


# The parallel corpus: tokens of two sides, their document structure, and the raw text.


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
        `docnmt.runtime.system.skipped`).

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


# Warnings about text that a vocabulary cannot represent, which models translate into something invented.


#: Number of sentences that are searched for examples.
_LOOKED_AT = 100


class UnknownText:
    """Counts the unknown subwords of a text that comes in parts; warns at the first, and at the end of later ones.

    Attributes:
        unknown, subwords: numbers of subwords. in_sentences, sentences: numbers of sentences.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.unknown = self.subwords = self.in_sentences = self.sentences = self._said = 0
        self._examples: list[str] = []

    def add(self, corpus: ParallelCorpus) -> None:
        """Count the next part; warn on stderr if it is the first with unknown subwords."""
        self.count(corpus)
        if not self._said:
            self.warn()

    def count(self, corpus: ParallelCorpus) -> None:
        """Count the next part without a warning."""
        places = np.flatnonzero(corpus.source.tokens == UNK)
        sentences = np.unique(np.searchsorted(corpus.source.offsets, places, side="right") - 1)
        self.unknown += len(places)
        self.subwords += len(corpus.source.tokens)
        self.in_sentences += len(sentences)
        self.sentences += len(corpus.source)
        if len(places) and not self._examples:
            texts = [corpus.source_text[int(n)] for n in sentences[:_LOOKED_AT]]
            self._examples = unknown_characters(texts, self._tokenizer)[:10]

    def warn(self) -> None:
        """Warn on stderr of all unknown subwords, unless the last warning was up to date."""
        if self.unknown == self._said:
            return
        self._said = self.unknown
        print(f"warning: {self.message}", file=sys.stderr)

    @property
    def message(self) -> str:
        """The warning with numbers and examples; empty if no subword was unknown."""
        if not self.unknown:
            return ""
        shown = f" ({' '.join(map(printable, self._examples))})" if self._examples else ""
        return (
            f"{self.unknown:,} of {self.subwords:,} subwords, in {self.in_sentences:,} of {self.sentences:,} "
            f"sentences, are unknown to the model{shown}; what it writes for them is invented"
        )


def unknown_characters(lines: list[str], tokenizer: Tokenizer) -> list[str]:
    """Return the characters of some lines that are in no entry, in the order of their first occurrence."""
    known = set("".join(entry for entry in tokenizer.vocabulary() if entry not in SPECIAL))
    normal = "".join(tokenizer.normalize(lines))
    return [character for character in dict.fromkeys(normal) if character not in known and not character.isspace()]
