"""A corpus: arrays of subwords, text and structure in a data folder, with `meta.json`, which has a checksum of each.
`preprocess` writes it (`SplitFolder`, `write_meta`); `ParallelCorpus.open` maps it; `units` and `batch` read it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import xxhash

from docnmt.core.tokenizer import SPECIAL, UNK, Tokenizer
from docnmt.runtime.system import (
    KIND,
    Count,
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

# A document in memory: its sentences, and the paragraphs and sections that contain them.


@dataclass(frozen=True)
class Document:
    """A document's sentences and, if it is known, their structure."""

    sentences: tuple[str, ...]
    units: tuple[tuple[str, ...], ...] = ()  # of each sentence, outermost first; () if unknown

    def __post_init__(self) -> None:
        for name in ("sentences", "units"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise UserError(f"Document: {name}: expected a tuple, got {type(value).__name__}")
        if self.units and len(self.units) != len(self.sentences):
            raise UserError(f"Document: {len(self.sentences)} sentences and units of {len(self.units)}; expected equal")
        depths = {len(labels) for labels in self.units}
        if len(depths) > 1:
            raise UserError(f"Document: sentences have {min(depths)} to {max(depths)} labels of units; expected equal")

    @classmethod
    def nested(cls, parts: Sequence[Any]) -> Document:
        """Build a document from nested lists: paragraphs of sentences, sections of paragraphs, and so on."""
        sentences: list[tuple[str, tuple[str, ...]]] = []

        def _walk(part: object, labels: tuple[str, ...]) -> None:  # a sentence, or a list of anything of this kind
            if isinstance(part, str) and labels:
                sentences.append((part, labels[:-1]))
            elif isinstance(part, (str, bytes, bytearray)) or not isinstance(part, Sequence):
                raise UserError(f"Document.nested: expected texts in lists, got {type(part).__name__}")
            else:
                for number, inner in enumerate(part):
                    _walk(inner, (*labels, str(number)))

        _walk(parts, ())
        return cls(tuple(text for text, _ in sentences), tuple(labels for _, labels in sentences))

    def take(self, numbers: Sequence[int]) -> Document:
        """Return a document of these sentences only."""
        units = tuple(self.units[n] for n in numbers) if self.units else ()
        return Document(tuple(self.sentences[n] for n in numbers), units)


@dataclass(frozen=True, eq=False)
class Structure:
    """The division of a corpus's sentences into documents and units."""

    document_offsets: np.ndarray  # (D+1,) int64, the sentence where each begins; the last entry is S
    blank_lines: np.ndarray  # (D+1,) int32, empty lines of the file before each document and after the last
    levels: np.ndarray  # (S, K) int32, units above the sentence, outermost first: the index inside the parent, or -1

    @property
    def num_sentences(self) -> int:
        """The number of sentences S."""
        return int(self.document_offsets[-1])

    @property
    def num_documents(self) -> int:
        """The number of documents D."""
        return len(self.document_offsets) - 1


class StructureBuilder:
    """Gathers the structure of documents; `before` are the empty lines before the next one."""

    def __init__(self) -> None:
        self.before = self.num_sentences = 0
        self._offsets, self._blank, self._levels = array("q"), array("i"), array("i")

    def add(self, levels: np.ndarray) -> None:
        """Add a document by the levels (n, K) of its sentences."""
        self._offsets.append(self.num_sentences)
        self._blank.append(self.before)
        self._levels.frombytes(np.ascontiguousarray(levels, dtype=np.int32).tobytes())
        self.num_sentences, self.before = self.num_sentences + len(levels), 0

    def forget_levels(self, begin: int) -> None:
        """Make the levels of the sentences from `begin` on unknown; other corpora may have them."""
        width = len(self._levels) // max(self.num_sentences, 1)
        unknown = len(self._levels) - width * begin
        self._levels[width * begin :] = array("i", [-1]) * unknown

    def build(self, *, known: bool = True) -> Structure:
        """Return the structure; without `known` it has no levels."""
        levels = np.asarray(self._levels, dtype=np.int32).reshape(self.num_sentences, -1 if self.num_sentences else 0)
        return Structure(
            np.append(np.asarray(self._offsets, dtype=np.int64), self.num_sentences),
            np.append(np.asarray(self._blank, dtype=np.int32), np.int32(self.before)),
            levels if known else levels[:, :0],
        )


def structure_of(documents: Sequence[Document]) -> Structure:
    """Return the structure of documents, empty ones included. Levels that only other documents have are -1."""
    builder, tables = StructureBuilder(), [unit_numbers(one.units or [()] * len(one.sentences)) for one in documents]
    depth = max((table.shape[1] for table in tables), default=0)
    for number, table in enumerate(tables):
        builder.before = int(number > 0)
        builder.add(np.pad(table, ((0, 0), (depth - table.shape[1], 0)), constant_values=-1))
    return builder.build()


def unit_numbers(labels: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the levels (n, K), int32, of a document's sentences, by the labels of the units that contain each. A unit
    begins where its own or an outer label changes; its number is its place inside the unit around it."""
    depth = len(labels[0]) if labels else 0
    levels, numbers = [], [0] * depth
    for before, units in itertools.pairwise([*labels[:1], *labels]):
        if units != before:
            first = next(level for level in range(depth) if units[level] != before[level])
            numbers = [*numbers[:first], numbers[first] + 1, *[0] * (depth - first - 1)]
        levels.append(numbers)
    return np.array(levels, dtype=np.int32).reshape(len(labels), depth)


def renumber(levels: np.ndarray, document_offsets: np.ndarray) -> np.ndarray:
    """Renumber levels (S, K) from 0 without gaps, after sentences were removed or documents cut; unknown ones stay."""
    documents = [levels[a:b].tolist() for a, b in itertools.pairwise(document_offsets.tolist()) if a < b]
    return np.where(levels < 0, levels, np.concatenate([levels[:0], *map(unit_numbers, documents)]))


# Flat arrays: tokens and raw text of millions of sentences, mapped into memory.
# A file `NAME.bin` is one array, little-endian, without a header; its type and length are in `meta.json`.


class TokenArray:
    """Sentences as subword numbers, without `</s>`: `tokens` (T,) uint16 or uint32, and `offsets` (S+1,) int64, where
    each sentence begins."""

    def __init__(self, tokens: np.ndarray, offsets: np.ndarray) -> None:
        self.tokens, self.offsets = tokens, offsets

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]], vocab_size: int) -> TokenArray:
        """Build the array from each sentence's subwords, in memory."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        flat = np.fromiter(itertools.chain.from_iterable(sentences), token_dtype(vocab_size), int(lengths.sum()))
        return cls(flat, offsets_of(lengths))

    def first(self, sentences: int) -> TokenArray:
        """Return the first `sentences` sentences."""
        return TokenArray(self.tokens[: self.offsets[sentences]], self.offsets[: sentences + 1])

    def take(self, numbers: np.ndarray) -> TokenArray:
        """Return the sentences with these numbers, in their order, in memory."""
        first, last = np.asarray(self.offsets[numbers]), np.asarray(self.offsets[numbers + 1])
        return TokenArray(np.asarray(self.tokens[ranges(first, last)]), offsets_of(last - first))

    def lengths(self) -> np.ndarray:
        """Return the number of subwords of each sentence, (S,) int64."""
        return np.diff(self.offsets)

    def __getitem__(self, i: int) -> np.ndarray:
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1


class TextArray(Sequence[str]):
    """Lines of raw text: `data` (bytes,) uint8, UTF-8, and `offsets` (S+1,) int64, where each line begins."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> TextArray:
        """Build the array from lines, in memory."""
        encoded = [line.encode() for line in lines]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
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
            numbers = range(len(self))[index]
            adjacent = numbers.step == 1 and len(numbers) > 0
            return self._lines(numbers.start, numbers.stop) if adjacent else [self[number] for number in numbers]
        number = range(len(self))[index]
        return self._lines(number, number + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), 4096):
            yield from self._lines(first, min(first + 4096, len(self)))

    def _lines(self, first: int, last: int) -> list[str]:
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
    return np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest type that holds every token of a vocabulary."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


# A data folder: its arrays, and `meta.json`, which describes them.
# `SPLIT.LANG.tokens.bin` and `SPLIT.LANG.text.bin` with their offsets for each side (further references:
# `SPLIT.LANG1.text.bin` …), and one `SPLIT.structure.bin`: document offsets (int64), blank lines and levels (int32).


META = "meta.json"
FORMAT = 2
#: The list of documents that were left out, which is no part of the data.
DROPPED = "dropped.tsv"
_AGAIN = "preprocess again"


class _Entry(OpenObject):
    bytes: Count
    xxh3: str


class _Listed(OpenObject):
    """What all readers of a `meta.json` take for granted."""

    files: dict[str, _Entry]
    splits: dict[str, dict[str, Any]]


def read_meta(folder: Path, *, task: str | None = None) -> dict[str, Any]:
    """Read a folder's `meta.json`; it must be made for `task`, if that is given."""
    path = Path(folder) / META
    if not path.exists():
        raise UserError(f"{folder}: not a data folder ({META} is missing); make one with docnmt-preprocess")
    meta = parse_json(read_limited(path), str(path), _AGAIN)
    if not isinstance(meta, dict) or not {"format", "task"} <= meta.keys():
        raise UserError(f"{path}: not written by docnmt-preprocess; name a folder that is")
    if meta["format"] != FORMAT:
        raise UserError(
            f"{path}: data format {meta['format']} of docnmt {meta.get('docnmt')}, this is docnmt {__version__} "
            f"with format {FORMAT}; {_AGAIN}"
        )
    if checking() and meta.get("checksum") != _checksum(meta):
        raise UserError(f"{path}: is damaged, or was changed by hand (another checksum); {_AGAIN}")
    meta.setdefault("splits", {})  # tasks need not have them
    checked(meta, _Listed, str(path), _AGAIN)
    if task not in (None, meta["task"]):
        raise UserError(f"{folder}: was made for --task {meta['task']}, not {task}; preprocess with --task {task}")
    return meta


def check_files(folder: Path, meta: Mapping[str, Any], *beginnings: str) -> None:
    """Compare all files whose names begin with one of `beginnings` with their checksums."""
    for name, entry in meta["files"].items() if checking() else ():
        if name.startswith(beginnings) and file_checksum(folder / name) != entry[KIND]:
            raise UserError(f"{folder / name}: is damaged (another checksum); {_AGAIN}, or copy it again")


def verify_folder(folder: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield every file, what is found, and whether it is intact."""
    meta = read_meta(folder)
    yield folder / META, "holds", True
    for name, entry in meta["files"].items():
        intact = file_checksum(folder / name) == entry[KIND]
        yield folder / name, f"holds ({KIND})" if intact else f"is damaged (another {KIND}); {_AGAIN}", intact


def _checksum(meta: Mapping[str, Any]) -> str:
    """Return the checksum of `meta.json`, whatever its white space."""
    return checksum(json.dumps({k: v for k, v in meta.items() if k != "checksum"}, sort_keys=True).encode())


def file_entry(content: bytes) -> dict[str, Any]:
    """Return a small file's entry in `meta.json`."""
    return {"bytes": len(content), KIND: checksum(content)}


def write_meta(folder: Path, *, task: str, files: Mapping[str, Mapping[str, Any]], **content: object) -> dict[str, Any]:
    """Write `meta.json` with the format, docnmt's version and a fingerprint of the data; return its content. `files`
    has of each file of the folder at least its `bytes` and checksum; `content` is everything else, as JSON."""
    sums = "".join(f"\n{name} {files[name][KIND]}" for name in sorted(files) if name != DROPPED)
    content = {
        "format": FORMAT,
        "docnmt": __version__,
        "task": task,
        "fingerprint": hashlib.sha256(f"{task}{sums}".encode()).hexdigest()[:32],
        **content,
        "files": files,
    }
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")  # paths need not be UTF-8
    meta: dict[str, Any] = json.loads(text)  # as `read_meta` will read it
    meta["checksum"] = _checksum(meta)
    write_json(folder / META, meta)
    return meta


class RaggedWriter:
    """Writes rows of different lengths: `NAME.bin`, at once, and `NAME.offsets.bin` at the end."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any] | str) -> None:
        self._path, self._offsets_path = folder / f"{name}.bin", folder / f"{name}.offsets.bin"
        self._dtype, self._lengths = np.dtype(dtype), [np.zeros(0, dtype=np.int64)]
        self._path.unlink(missing_ok=True)  # arrays mapped from the old file stay valid
        self._file, self._digest = self._path.open("wb"), xxhash.xxh3_64()

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        """Append rows: their elements one after the other, and how many each has."""
        data = np.ascontiguousarray(values, dtype=self._dtype).data
        self._file.write(data)
        self._digest.update(data)
        self._lengths.append(lengths)

    def append_lines(self, lines: Sequence[str]) -> None:
        """Append lines of text."""
        text = TextArray.from_lines(lines)
        self.append(text.data, np.diff(text.offsets))

    def close(self) -> dict[str, dict[str, Any]]:
        """Complete the files and return their entries in `meta.json`."""
        self._file.close()
        offsets = offsets_of(np.concatenate(self._lengths))
        values = _array_entry(self._dtype, int(offsets[-1]), self._digest.hexdigest())
        return {self._path.name: values} | write_array(self._offsets_path, offsets, "<i8")


def write_array(path: Path, values: np.ndarray, dtype: np.dtype[Any] | str) -> dict[str, dict[str, Any]]:
    """Write a file of an array at once; return its entry in `meta.json`."""
    stored = np.ascontiguousarray(values, dtype=dtype)
    path.unlink(missing_ok=True)  # arrays mapped from the old file stay valid
    path.write_bytes(stored.data)
    return {path.name: _array_entry(stored.dtype, len(stored), checksum(stored.data))}


def _array_entry(dtype: np.dtype[Any], length: int, digest: str) -> dict[str, Any]:
    return {"dtype": dtype.str, "length": length, "bytes": length * dtype.itemsize, KIND: digest}


def stored_array(
    folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], mode: Literal["r", "c"] = "r"
) -> np.ndarray:
    """Map `NAME.bin` into memory; `files` is the list in `meta.json`. With mode `c` it is copied on write, for arrays
    that become tensors as they are: torch expects writable ones."""
    if (entry := files.get(f"{name}.bin")) is None:
        raise UserError(f"{folder / META}: says nothing of {name}.bin; {_AGAIN}")
    if entry["length"] == 0:
        return np.zeros(0, dtype=entry["dtype"])
    path = folder / f"{name}.bin"
    try:
        return np.asarray(np.memmap(path, dtype=entry["dtype"], mode=mode, shape=(entry["length"],)))
    except (OSError, ValueError) as error:  # with --skip-checksums nothing has looked at the file before
        raise UserError(f"{path}: cannot be mapped into memory: {error}; {_AGAIN}") from error


def reference_names(target_lang: str, count: int) -> list[str]:
    """Return the names of a split's references in its files: de, de1, de2 …"""
    return [f"{target_lang}{number or ''}" for number in range(count)]


@dataclass(frozen=True)
class SplitFolder:
    """One split in a folder; `files` is the list of files that the folder's `meta.json` has or will have."""

    folder: Path
    split: str
    files: dict[str, dict[str, Any]]

    def text(self, side: str) -> TextArray:
        """Return the raw text of a side (a language), mapped into memory."""
        return TextArray(self.array(f"{side}.text"), self.array(f"{side}.text.offsets"))

    def tokens(self, side: str) -> TokenArray:
        """Return the subwords of a side, mapped into memory."""
        return TokenArray(self.array(f"{side}.tokens"), self.array(f"{side}.tokens.offsets"))

    def array(self, name: str) -> np.ndarray:
        """Return `SPLIT.NAME.bin`, mapped into memory."""
        return stored_array(self.folder, f"{self.split}.{name}", self.files)

    @contextmanager
    def writer(self, name: str, dtype: np.dtype[Any] | str) -> Iterator[RaggedWriter]:
        """Write `SPLIT.NAME.bin`, complete at the end of the block; arrays mapped from an old one stay valid."""
        writer = RaggedWriter(self.folder, f"{self.split}.{name}", dtype)
        yield writer
        self.files.update(writer.close())

    def structure(self) -> Structure:
        """Return the document structure, mapped into memory."""
        content, entry = self.array("structure"), self.files[f"{self.split}.structure.bin"]
        documents, sentences, levels = (entry[name] for name in ("documents", "sentences", "levels"))
        offsets, numbers = content[: 8 * (documents + 1)].view("<i8"), content[8 * (documents + 1) :].view("<i4")
        return Structure(offsets, numbers[: documents + 1], numbers[documents + 1 :].reshape(sentences, levels))

    def write_structure(self, structure: Structure) -> None:
        """Write the structure file."""
        arrays = ((structure.document_offsets, "<i8"), (structure.blank_lines, "<i4"), (structure.levels, "<i4"))
        parts = [np.ascontiguousarray(values, dtype=dtype).reshape(-1).view("u1") for values, dtype in arrays]
        path, (sentences, levels) = self.folder / f"{self.split}.structure.bin", structure.levels.shape
        counts = {"documents": structure.num_documents, "sentences": sentences, "levels": levels}
        self.files[path.name] = counts | write_array(path, np.concatenate(parts), "u1")[path.name]


# The parallel corpus: tokens of two sides, their document structure, and the raw text.


@dataclass(frozen=True, eq=False)
class ParallelCorpus(Structure):
    """The sentences of documents, with translations if there are any."""

    source: TokenArray  # subwords of the S source sentences
    target: TokenArray | None  # subwords of their (first) translations
    source_text: TextArray  # as given
    references: list[TextArray] = field(default_factory=list)  # all, as given

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
        blank = self.blank_lines[: documents + 1].astype(np.int32)
        blank[-1] = self.blank_lines[-1] if documents == self.num_documents else 0
        return replace(
            self,
            document_offsets=self.document_offsets[: documents + 1],
            blank_lines=blank,
            levels=self.levels[:sentences],
            source=self.source.first(sentences),
            target=None if self.target is None else self.target.first(sentences),
            source_text=self.source_text.first(sentences),
            references=[reference.first(sentences) for reference in self.references],
        )

    @classmethod
    def open(cls, folder: Path, split: str) -> ParallelCorpus:
        """Open a split of a data folder, mapped into memory, after its files were compared with their checksums."""
        folder = Path(folder)
        meta = read_meta(folder, task="document_translation")
        if split not in meta["splits"]:
            raise UserError(f"{folder}: no split '{split}'; there are {', '.join(meta['splits']) or 'none'}")
        source, target = meta["source_lang"], meta["target_lang"]
        check_files(folder, meta, f"{split}.")
        files = SplitFolder(folder, split, meta["files"])
        names = reference_names(target, meta["splits"][split]["references"])
        return cls(
            **vars(files.structure()),
            source=files.tokens(source),
            target=files.tokens(target) if names else None,
            source_text=files.text(source),
            references=[files.text(name) for name in names],
        )

    @classmethod
    def from_lines(cls, documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> ParallelCorpus:
        """Build a corpus from source documents in memory, each a list of sentences; empty documents are kept."""
        return cls.from_documents([Document(tuple(document)) for document in documents], tokenizer)

    @classmethod
    def from_documents(cls, documents: Sequence[Document], tokenizer: Tokenizer) -> ParallelCorpus:
        """Build a corpus from source documents in memory, with their structure; empty documents are kept."""
        lines = [sentence for document in documents for sentence in document.sentences]
        source = TokenArray.from_lists(tokenizer.encode(lines), tokenizer.vocab_size)
        structure = structure_of(documents)
        return cls(**vars(structure), source=source, target=None, source_text=TextArray.from_lines(lines))


# Warnings about text that a vocabulary cannot represent, which models translate into something invented.


#: Number of sentences that are searched for examples.
_LOOKED_AT = 100


class UnknownText:
    """Counts the unknown subwords of a text that comes in parts; warns at the first, and at the end of later ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.unknown = self.subwords = self.in_sentences = self.sentences = self._warned = 0
        self._examples: list[str] = []

    def add(self, corpus: ParallelCorpus) -> None:
        """Count the next part; warn on stderr if it is the first with unknown subwords."""
        self.count(corpus)
        if not self._warned:
            self.warn()

    def count(self, corpus: ParallelCorpus) -> None:
        """Count the next part without a warning."""
        unknown = np.flatnonzero(corpus.source.tokens == UNK)
        sentences = np.unique(np.searchsorted(corpus.source.offsets, unknown, side="right") - 1)
        self.unknown += len(unknown)
        self.subwords += len(corpus.source.tokens)
        self.in_sentences += len(sentences)
        self.sentences += len(corpus.source)
        if len(unknown) and not self._examples:
            texts = [corpus.source_text[int(n)] for n in sentences[:_LOOKED_AT]]
            known = set().union(*(set(self._tokenizer.vocabulary()) - set(SPECIAL)))
            normal = dict.fromkeys("".join(self._tokenizer.normalize(texts)))
            self._examples = [char for char in normal if char not in known and not char.isspace()][:10]

    def warn(self) -> None:
        """Warn on stderr of all unknown subwords, unless the last warning was up to date."""
        if self.unknown != self._warned:
            self._warned = self.unknown
            print(f"warning: {self.message}", file=sys.stderr)

    @property
    def message(self) -> str:
        """The warning with numbers and examples; empty if no subword was unknown."""
        shown = f" ({' '.join(map(printable, self._examples))})" if self._examples else ""
        if not self.unknown:
            return ""
        return (
            f"{self.unknown:,} of {self.subwords:,} subwords, in {self.in_sentences:,} of {self.sentences:,} "
            f"sentences, are unknown to the model{shown}; what it writes for them is invented"
        )
