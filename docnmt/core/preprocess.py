"""docnmt-preprocess: text files → a data folder.
read (`read_corpus`) → filter → vocabulary, subwords (`tokenizer`) → limits → arrays (`corpus`) → report.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import safetensors

from docnmt.core.corpus import (
    DROPPED,
    META,
    Facts,
    RaggedWriter,
    SplitFolder,
    Structure,
    StructureBuilder,
    TextArray,
    TokenArray,
    check_files,
    file_entry,
    length_blocks,
    read_meta,
    reference_names,
    release_pages,
    renumber,
    token_dtype,
    write_meta,
)
from docnmt.core.data_options import DEFAULT_VOCAB_SIZE, TranslationPreprocessConfig
from docnmt.core.read_corpus import Reading, SplitFiles, find_splits, locate, places_of, read_split
from docnmt.core.tables import KINDS
from docnmt.core.tokenizer import (
    UNK,
    Preparation,
    Tokenizer,
    detokenizer,
    directed,
    read_model,
    train_in_process,
)
from docnmt.core.units import cut_units, document_units
from docnmt.options import to_dict
from docnmt.runtime.launch import processors
from docnmt.runtime.progress import Progress, how_many, waiting
from docnmt.runtime.system import (
    UsageError,
    UserError,
    check_folder,
    check_tensor,
    find_checkpoint,
    is_address,
    replacing_folder,
    stored_checksums,
)

# The first pass over a split: check all files together, write the raw text and collect the structure.


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


# A report on a data folder: counts and lengths, for `meta.json` and for people.


def statistics(split: SplitTexts) -> dict[str, Any]:
    """Return a split's entry in `meta.json`: counts, lengths in subwords, inputs and notes."""
    structure = split.files.structure()
    lengths: dict[str, Any] = {}
    for side in split.sides[:2]:
        tokens = split.files.tokens(side)
        documents = np.diff(tokens.offsets[structure.document_offsets])
        counts = counted(tokens.length_blocks())
        lengths[side] = {
            "tokens": len(tokens.tokens),
            "unknown": _count(tokens.tokens, UNK),
            "longest_sentence": len(counts) - 1,
            "longest_document": int(documents.max()),
            "sentence_percentiles": percentiles(counts, (50, 90, 99)).astype(int).tolist(),
            "document_percentiles": np.percentile(documents, (50, 90, 99)).astype(int).tolist(),
        }
    return {
        "documents": structure.num_documents,
        "sentences": structure.num_sentences,
        "levels": structure.levels.shape[1],
        "references": len(split.sides) - 1,
        "without_partner": _without_partner(split),
        "lengths": lengths,
        "inputs": split.facts.inputs,
        "notes": split.facts.notes,
    }


def _without_partner(split: SplitTexts) -> int:
    """Return the number of sentences that are only read because the (first) reference lacks them."""
    blocks = (block for side in split.sides[1:2] for block in length_blocks(split.files.text(side).offsets))
    return sum(int(np.count_nonzero(block == 0)) for block in blocks)


def counted(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """Count how often 0, 1, 2, … occur among whole numbers; int64, (largest + 1,)."""
    counts = np.zeros(1, dtype=np.int64)
    for block in blocks:
        more = np.bincount(block, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    return counts


def percentiles(counts: np.ndarray, wanted: Sequence[float]) -> np.ndarray:
    """Return `np.percentile` of numbers that are given only as `counts` of 0, 1, 2, …."""
    place = (counts.sum() - 1) * (np.asarray(wanted) / 100)
    below = np.floor(place)
    low, high = (np.searchsorted(np.cumsum(counts), each, side="right") for each in (below, np.ceil(place)))
    share = place - below  # interpolated from the nearer neighbour, as np.percentile does
    result: np.ndarray = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return result


def _count(tokens: np.ndarray, token: int) -> int:
    """Count the occurrences of `token` without a mask as long as the whole corpus."""
    found = 0
    for first in range(0, len(tokens), 1 << 22):
        found += int(np.count_nonzero(tokens[first : first + (1 << 22)] == token))
        release_pages(tokens)
    return found


def describe_split(name: str, counts: Mapping[str, Any]) -> str:
    """Describe a split in one line."""
    known = {0: "no sections or paragraphs", 1: "1 level above the sentence"}
    parts = [
        f"{name}: {how_many(counts['documents'], 'document')}, {how_many(counts['sentences'], 'sentence')}",
        known.get(counts["levels"], f"{counts['levels']} levels above the sentence"),
    ]
    if counts["without_partner"]:
        parts.append(f"{counts['without_partner']:,} of them without a translation, only read")
    if counts["references"] != 1:
        parts.append(f"{counts['references'] or 'no'} references")
    for side, lengths in counts["lengths"].items():
        unknown = f", {100 * lengths['unknown'] / lengths['tokens']:.2g}% unknown" if lengths["unknown"] else ""
        parts.append(
            f"{side} {lengths['tokens']:,} subwords{unknown} (longest sentence {lengths['longest_sentence']:,}, "
            f"longest document {lengths['longest_document']:,})"
        )
    return "; ".join(parts)


def describe_folder(folder: Path) -> str:
    """Describe a data folder of any task on a page.

    Raises:
        UserError: the folder is not a data folder or is damaged.
    """
    meta = read_meta(Path(folder))
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    lines = [
        f"{folder}: data for {meta['task']}, {size / 1e6:,.1f} MB, made by docnmt {meta.get('docnmt', '?')}",
        f"fingerprint: {meta.get('fingerprint', 'none')}",
    ]
    if "source_lang" in meta:
        vocabulary = meta["vocabulary"]
        sizes = f"{vocabulary['source']:,} subwords, joined"
        if not vocabulary["joined"]:
            sizes = f"{vocabulary['source']:,} and {vocabulary['target']:,} subwords"
        lines += [f"languages: {meta['source_lang']} to {meta['target_lang']}", f"vocabulary: {sizes}"]
    for name, counts in meta.get("splits", {}).items():
        shown = _split(counts) if "lengths" in counts else counts
        lines += ["", f"split {name}", *_indented(shown if isinstance(shown, Mapping) else {"rows": shown})]
    if meta.get("options"):
        lines += ["", "options", *_indented({k: v for k, v in meta["options"].items() if v not in (None, [], "")})]
    return "\n".join(lines)


def _split(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the counts of a translation split in words."""
    shown: dict[str, Any] = {name: counts[name] for name in ("documents", "sentences", "levels", "references")}
    if counts.get("without_partner"):
        shown["sentences only read"] = counts["without_partner"]
    for side, lengths in counts["lengths"].items():
        shown[f"{side} subwords"] = f"{lengths['tokens']:,}, {lengths['unknown']:,} of them unknown"
        for what in ("sentence", "document"):
            median, ninety, most = lengths[f"{what}_percentiles"]
            shown[f"{side} {what} length"] = (
                f"median {median:,}, 90 % {ninety:,}, 99 % {most:,}, longest {lengths[f'longest_{what}']:,}"
            )
    for file, entry in counts["inputs"].items():
        shown[f"input {file}"] = f"{entry['bytes']:,} bytes, sha256 {entry['sha256'][:12]}…"
    return shown | {f"note {i}": note for i, note in enumerate(counts["notes"], 1)}


def _indented(values: Mapping[str, Any]) -> list[str]:
    return [f"  {key}: {f'{value:,}' if type(value) is int else value}" for key, value in values.items()]


# Encoding of raw text as subwords, in this process or in several, with the same result.


#: Sentences per task of a worker; fixed, so that no output depends on the number of workers.
CHUNK = 4096
#: Number of chunks after which the pages read of a mapped file are released.
_LET_GO = 16

#: Number of chunks that make another process worth its start, of about a second.
_WORTH = 32

#: The tokenizers of a worker process, loaded once.
_of_worker: dict[str, Tokenizer] = {}


def fitting_workers(lines: int) -> int:
    """Return the number of available processors, limited so that each process has work worth its start."""
    return max(1, min(processors(), lines // (CHUNK * _WORTH)))


class LineEncoder:
    """Cuts lines into subwords with `workers` processes; a context manager that ends the processes.

    Args:
        tokenizers: one of each side.
    """

    def __init__(self, tokenizers: Mapping[str, Tokenizer], workers: int) -> None:
        self._tokenizers, self._workers = tokenizers, workers
        self._pool: ProcessPoolExecutor | None = None
        if workers > 1:
            models = {side: tokenizer.to_bytes() for side, tokenizer in tokenizers.items()}
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, _start_worker, (models,))

    def __enter__(self) -> LineEncoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def encode(self, text: TextArray, side: str) -> Iterator[TokenArray]:
        """Yield the subwords of the lines, one chunk after the other, in order."""
        chunks = _chunks(text)
        if self._pool is None:
            yield from (_encode(self._tokenizers[side], chunk) for chunk in chunks)
            return
        waiting: list[Future[TokenArray]] = []
        try:
            for chunk in chunks:
                with _interrupts_blocked():  # a worker may start here
                    waiting.append(self._pool.submit(_work, side, chunk))
                if len(waiting) > 4 * self._workers:
                    yield waiting.pop(0).result()
            yield from (future.result() for future in waiting)
        except BrokenProcessPool as error:
            raise UserError("a worker process died (killed, or out of memory?); try fewer --workers") from error


def _chunks(text: TextArray) -> Iterator[list[str]]:
    for number, first in enumerate(range(0, len(text), CHUNK), 1):
        yield text[first : first + CHUNK]
        if number % _LET_GO == 0:
            text.release_pages()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes that start here: the parent process ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(models: Mapping[str, bytes]) -> None:
    """Load the tokenizers in a worker process, and end it when its parent is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _of_worker.update({side: Tokenizer.from_bytes(model) for side, model in models.items()})


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _work(side: str, lines: list[str]) -> TokenArray:
    return _encode(_of_worker[side], lines)


def _encode(tokenizer: Tokenizer, lines: list[str]) -> TokenArray:
    return TokenArray.from_lists(tokenizer.encode(lines), tokenizer.vocab_size)


# Detection of documents of a held-out split that also occur in the training data.


#: A document counts as seen if at least this share of its bytes is.
HALF = 0.5
#: Number of sentences compared at once, and of lines read at once.
_TOGETHER, _LINES = 1 << 18, 4096


def overlap_with_training(
    held_out: SplitFolder, training: SplitFolder, side: str, say: Callable[[str], None]
) -> list[str]:
    """Warn about documents of which at least half the text is in the training data (`shares_in_training`)."""
    share = shares_in_training(held_out, training, side)
    most, whole = int((share >= HALF).sum()), int((share == 1).sum())
    if not most:
        return []
    note = (
        f"warning: {held_out.split}: {most:,} of {len(share):,} documents stand in the training data, too ({whole:,} "
        f"whole, {most - whole:,} at least by half, by runs of equal {side} sentences; the first is document "
        f"{int(np.argmax(share >= HALF)) + 1}): scores on them say little about new text"
    )
    say(note)
    return [note]


def shares_in_training(held_out: SplitFolder, training: SplitFolder, side: str) -> np.ndarray:
    """Return the share (D,) of each document's bytes that is in the training data (`shares_seen`)."""
    return shares_seen(held_out.text(side), held_out.structure().document_offsets, [training.text(side)])


def shares_seen(text: TextArray, offsets: np.ndarray, others: Sequence[TextArray]) -> np.ndarray:
    """Return the share (D,) of each document's bytes that occurs in other texts.

    A sentence counts only if it occurs there next to the same neighbour: sentences that recur by themselves (headings,
    greetings, small vocabularies) are no overlap of documents. A document's only sentence has no neighbour and counts
    by itself. Neither text is held in memory as a whole, not even one number per sentence.
    """
    shares = [np.zeros(0)]
    begin = 0
    while begin < len(offsets) - 1:
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + _TOGETHER, side="right")) - 1)
        shares.append(_shares_seen(text, offsets[begin : end + 1], others))
        begin = end
    return np.concatenate(shares)


def _shares_seen(text: TextArray, offsets: np.ndarray, others: Sequence[TextArray]) -> np.ndarray:
    """Return the shares (D,) of the documents between these `offsets`."""
    sentences = _hashes(text, int(offsets[0]), int(offsets[-1]))
    pairs = _pairs(sentences)  # pair i: sentences i and i + 1
    known, known_pairs = np.zeros(len(sentences), dtype=bool), np.zeros(len(pairs), dtype=bool)
    for other in others:
        for first in range(0, len(other), _TOGETHER):
            there = _hashes(other, first, min(first + _TOGETHER + 1, len(other)))  # one more, for the last pair
            known |= np.isin(sentences, there)
            known_pairs |= np.isin(pairs, _pairs(there))
    begins = offsets - offsets[0]
    first_of, last_of = np.zeros((2, len(sentences)), dtype=bool)
    first_of[begins[:-1]] = last_of[begins[1:] - 1] = True
    seen = first_of & last_of & known
    known_pairs &= ~last_of[:-1]
    seen[:-1] |= known_pairs
    seen[1:] |= known_pairs
    size = np.diff(text.offsets[offsets[0] : offsets[-1] + 1])
    total = np.maximum(np.add.reduceat(size, begins[:-1]), 1)
    share: np.ndarray = np.add.reduceat(size * seen, begins[:-1]) / total
    return share


def _pairs(hashes: np.ndarray) -> np.ndarray:
    """Return a hash of every two neighbours, in order; (S-1,) uint64."""
    mixed: np.ndarray = hashes[:-1] * np.uint64(0x9E3779B97F4A7C15) ^ hashes[1:]
    return mixed


def _hashes(text: TextArray, first: int, last: int) -> np.ndarray:
    """Return a hash of each line's words; (last - first,) uint64."""
    lines = (line for begin in range(first, last, _LINES) for line in text[begin : min(begin + _LINES, last)])
    text.release_pages()
    digests = (hashlib.blake2b(" ".join(line.split()).encode(), digest_size=8).digest() for line in lines)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64, last - first)


# Editing of a split that is already on disk: replace, cut or remove sentences on all sides alike.


#: A row that replaces a sentence, by the array's name (`en.tokens`, `en.text`); arrays that are not named keep
#: the sentence's values.
SplitArrays = dict[str, np.ndarray]


def rewrite(files: SplitFolder, edits: Mapping[int, Sequence[SplitArrays]], max_document_tokens: int | None) -> None:
    """Apply edits to the files of a split.

    Args:
        edits: the rows that replace each edited sentence: none (left out), one (cut off) or several (split).
        max_document_tokens: cut documents at sentence ends to this length.

    Raises:
        UserError: no sentence would be left.
    """
    structure = files.structure()
    copies = np.ones(structure.num_sentences, dtype=np.int64)
    for sentence, rows in edits.items():
        copies[sentence] = len(rows)
    if not copies.any():
        raise UserError(f"{files.split}: nothing is left when all that is too long is left out; raise the limits")
    names = files.sentence_rows()
    for name in names:
        _rewrite_rows(files, name, edits)
    offsets = np.concatenate([[0], np.cumsum(copies)])[structure.document_offsets]
    changed, documents = _divide(Structure(offsets, structure.blank_lines, structure.levels.repeat(copies, axis=0)))
    if max_document_tokens is not None:
        costs = np.maximum.reduce([np.diff(files.rows(name)[1]) for name in names if name.endswith(".tokens")])
        changed, pieces = _cut(changed, costs, max_document_tokens)
        documents = documents[pieces]
    files.write_structure(changed)
    if (document_names := files.text_if_known("names")) is not None:
        files.write_lines("names", [document_names[int(document)] for document in documents])


def _divide(structure: Structure) -> tuple[Structure, np.ndarray]:
    """Remove documents that lost all sentences; return also the numbers of those left."""
    left = np.flatnonzero(np.diff(structure.document_offsets) > 0)
    offsets = structure.document_offsets[np.concatenate([left, [structure.num_documents]])]
    blank = np.add.reduceat(structure.blank_lines, np.concatenate([[0], left + 1]))
    return Structure(offsets, blank, renumber(structure.levels, offsets)), left


def _cut(structure: Structure, costs: np.ndarray, limit: int) -> tuple[Structure, np.ndarray]:
    """Cut long documents at sentence ends; return also the document that each piece belongs to."""
    pieces = cut_units(document_units(structure.document_offsets), costs, limit)
    offsets = np.append(pieces.first, structure.num_sentences)
    begins = np.isin(pieces.first, structure.document_offsets)
    blank = np.append(np.where(begins, structure.blank_lines[pieces.document], 0), structure.blank_lines[-1])
    return Structure(offsets, blank, renumber(structure.levels, offsets)), pieces.document


def _rewrite_rows(files: SplitFolder, name: str, edits: Mapping[int, Sequence[SplitArrays]]) -> None:
    """Write the array `name` with new rows in place of some; runs of unchanged rows are copied whole."""
    values, offsets = files.rows(name)
    with files.writer(name, values.dtype) as writer:
        begin = 0
        for sentence in [*sorted(edits), len(offsets) - 1]:
            writer.append_rows(values, offsets[begin : sentence + 1])
            for row in edits.get(sentence, ()):
                new = row.get(name, values[offsets[sentence] : offsets[sentence + 1]])
                writer.append(new, np.array([len(new)]))
            begin = sentence + 1


# Filters that leave out training documents: duplicates, and texts of held-out data.


class Reason(NamedTuple):
    """The reason for leaving out a document: its kind, for counts, and the details."""

    kind: str
    case: str


def drop_documents(
    train: SplitTexts, held_out: Sequence[SplitTexts], config: TranslationPreprocessConfig, say: Callable[[str], None]
) -> list[str]:
    """Leave out the training documents that the filters match, and list them in `dropped.tsv`.

    Returns the notes that were also printed.

    Raises:
        UserError: nothing would be left.
    """
    if not config.filters():
        return []
    offsets, names = train.files.structure().document_offsets, train.files.text_if_known("names")
    reasons = _reasons(train, held_out, config)
    if len(reasons) == len(offsets) - 1:
        raise UserError(f"{train.input.paths[0]}: every document would be left out ({' '.join(config.filters())})")
    numbers = sorted(reasons)
    places = places_of(train.input, [int(offsets[number]) for number in numbers])
    rows = ["document\tplace\tname\tsentences\treason"]
    for number, place in zip(numbers, places, strict=True):
        name = "" if names is None else " ".join(names[number].split())  # a cell of a TSV file
        rows.append(f"{number + 1}\t{place}\t{name}\t{offsets[number + 1] - offsets[number]}\t{reasons[number].case}")
    content = "".join(f"{row}\n" for row in rows).encode()
    (train.files.folder / DROPPED).write_bytes(content)
    train.files.files[DROPPED] = file_entry(content)
    left = np.repeat([number not in reasons for number in range(len(offsets) - 1)], np.diff(offsets))
    train.left = np.flatnonzero(left)
    rewrite(train.files, {sentence: [] for sentence in np.flatnonzero(~left).tolist()}, None)
    counts = Counter(reason.kind for reason in reasons.values())
    why = ", ".join(f"{counts[kind]:,} {what}" for kind, what in _asked(config).items())
    note = f"train: {len(reasons):,} of {len(offsets) - 1:,} documents are left out (listed in {DROPPED}): {why}"
    say(note)
    return [note]


def _asked(config: TranslationPreprocessConfig) -> dict[str, str]:
    """Return a description of each requested filter by kind, in the order in which they are applied."""
    return {
        kind: what
        for option, kind, what in (
            (config.drop_overlap, "overlap", "stand in the validation or test data"),
            (config.drop_duplicates, "duplicate", "duplicates"),
        )
        if option
    }


def _reasons(
    train: SplitTexts, held_out: Sequence[SplitTexts], config: TranslationPreprocessConfig
) -> dict[int, Reason]:
    """Return the documents to leave out, each with the first reason found."""
    source, target = train.sides[:2]
    texts, offsets = (train.files.text(source), train.files.text(target)), train.files.structure().document_offsets
    found: dict[int, Reason] = {}
    if config.drop_overlap:
        shares = shares_seen(texts[0], offsets, [split.files.text(source) for split in held_out])
        for number in np.flatnonzero(shares >= HALF).tolist():
            found[number] = Reason("overlap", f"{shares[number]:.0%} of it in validation or test data")
    seen: dict[bytes, int] = {}
    with Progress(len(offsets) - 1, "filtering train", unit="documents") as bar:
        for number, (begin, end) in enumerate(pairwise(offsets.tolist())):
            document = texts[0][begin:end], texts[1][begin:end]
            reason = _duplicate(document, number, seen) if config.drop_duplicates and number not in found else None
            if reason is not None:
                found.setdefault(number, reason)
            bar.update(1)
    return found


ParallelDocument = tuple[list[str], list[str]]


def _duplicate(document: ParallelDocument, number: int, seen: dict[bytes, int]) -> Reason | None:
    """Return a reason if all words of a document, on both sides, are those of an earlier one."""
    words = "\0".join("\n".join(" ".join(line.split()) for line in side) for side in document)
    first = seen.setdefault(hashlib.blake2b(words.encode(), digest_size=16).digest(), number)
    return None if first == number else Reason("duplicate", f"duplicate of document {first + 1}")


# Treatment of sentences and documents above the declared limits (`--long-policy`).


def apply_long_policy(
    split: SplitTexts,
    tokenizers: Mapping[str, Tokenizer],
    config: TranslationPreprocessConfig,
    say: Callable[[str], None],
) -> list[str]:
    """Apply the policy to a split's sentences and documents above the limits; return the notes that were also printed.

    Raises:
        UserError: something is too long under the policy `error`, or cannot be split.
    """
    tokens = {side: split.files.tokens(side) for side in split.sides[:2]}
    costs = _longer(list(tokens.values()))
    sentences = np.flatnonzero(costs > config.max_sentence_tokens)
    _refuse(split, config.long_policy, "sentence", config.max_sentence_tokens, sentences, costs[sentences])
    edits: dict[int, list[SplitArrays]] = {}
    if not split.is_test:
        texts = {side: split.files.text(side) for side in split.sides}
        edits = {i: _new_rows(split, i, texts, tokens, tokenizers, config) for i in sentences.tolist()}
    for sentence, rows in edits.items():
        costs[sentence] = max(sum(len(row[f"{side}.tokens"]) for row in rows) for side in tokens)
    limit = config.max_document_tokens or int(costs.sum())
    offsets = split.files.structure().document_offsets
    lengths = np.add.reduceat(costs, offsets[:-1], dtype=np.int64)
    documents = np.flatnonzero(lengths > limit)
    _refuse(split, config.long_policy, "document", limit, offsets[documents], lengths[documents])
    if not len(sentences) and not len(documents):
        return []
    if not split.is_test:
        cut = config.long_policy == "split" and len(documents) > 0
        for first, last in [] if cut else zip(offsets[documents], offsets[documents + 1], strict=True):
            kept = first
            if config.long_policy == "truncate":
                kept += cut_units(document_units(np.array([0, last - first])), costs[first:last], limit).last[0]
            edits |= {sentence: [] for sentence in range(int(kept), int(last))}
        rewrite(split.files, edits, limit if cut else None)
    note = _note(split, config, sentences, offsets[documents])
    say(note)
    return [note]


def _longer(sides: Sequence[TokenArray]) -> np.ndarray:
    """Return the number of subwords (S,) of each sentence's longer side, int32."""
    blocks = zip(*(side.length_blocks() for side in sides), strict=True)
    return np.concatenate([np.maximum.reduce(block).astype(np.int32) for block in blocks])


def _refuse(split: SplitTexts, policy: str, what: str, limit: int, found: np.ndarray, costs: np.ndarray) -> None:
    """Refuse sentences or documents that are too long, under the policy `error`.

    Args:
      found, costs: the first sentence, and the length, of each `what` that is too long.

    Raises:
      UserError: there are some, and the policy is `error`.
    """
    if policy == "error" and len(found):
        raise UserError(
            f"{split.place(int(found[0]))}: a {what} of {costs[0]:,} subwords, the limit is {limit:,} "
            f"(--max-{what}-tokens); {len(found):,} of {split.name} in all; raise the limit or choose "
            "--long-policy split, truncate or skip"
        )


def _new_rows(
    split: SplitTexts,
    sentence: int,
    texts: Mapping[str, TextArray],
    tokens: Mapping[str, TokenArray],
    tokenizers: Mapping[str, Tokenizer],
    config: TranslationPreprocessConfig,
) -> list[SplitArrays]:
    """Return the rows that replace a sentence that is too long; if split, as few as fit the limit on all sides."""
    limit = config.max_sentence_tokens
    if config.long_policy == "skip":
        return []
    if config.long_policy == "truncate":
        return [{f"{side}.tokens": array[sentence][:limit] for side, array in tokens.items()}]
    lines = {side: text[sentence] for side, text in texts.items()}
    for count in range(2, min(len(line.split()) for line in lines.values() if line) + 1):
        pieces = {side: split_text(line, count) for side, line in lines.items()}
        subwords = {side: tokenizers[side].encode(pieces[side]) for side in tokens}
        if max(len(row) for side in subwords.values() for row in side) <= limit:
            return [
                {f"{side}.text": np.frombuffer(text[k].encode(), dtype=np.uint8) for side, text in pieces.items()}
                | {f"{side}.tokens": np.array(rows[k], dtype=np.int64) for side, rows in subwords.items()}
                for k in range(count)
            ]
    raise UserError(
        f"{split.place(sentence)}: cannot be split at spaces into pieces of {limit:,} subwords on all sides; "
        "choose --long-policy truncate or skip"
    )


def split_text(text: str, count: int) -> list[str]:
    """Split a text of at least `count` words into `count` pieces of nearly equally many words."""
    words = text.split()
    cuts = [len(words) * k // count for k in range(count + 1)]
    return [" ".join(words[a:b]) for a, b in itertools.pairwise(cuts)]


def _note(split: SplitTexts, config: TranslationPreprocessConfig, sentences: np.ndarray, documents: np.ndarray) -> str:
    """Describe what was found and done; `documents` are their first sentences."""
    done = {"split": "split", "truncate": "cut off", "skip": "left out"}[config.long_policy]
    if split.is_test:
        done = "kept whole, because test sets are never changed"
    kinds = (
        ("sentences", config.max_sentence_tokens, sentences),
        ("documents", config.max_document_tokens, documents),
    )
    parts = [
        f"{len(found):,} {what} of more than {limit:,} subwords (the first: {split.place(int(found[0]))})"
        for what, limit, found in kinds
        if len(found)
    ]
    return f"warning: {split.name}: {' and '.join(parts)} are {done}"


# Loading of existing vocabularies: of a data folder, of a trained model, or a SentencePiece model by itself.


def stored_tokenizers(path: Path, *languages: str) -> list[Tokenizer]:
    """Load the tokenizer of each language from a data folder, a checkpoint or a --save-dir; equal ones are one object.

    A .model file serves all languages. A joined vocabulary that has the first language serves the others, too. One with
    tags, of a model of several languages, serves all languages that it has tags for.

    Raises:
        UserError: there is no vocabulary, it is damaged, or it lacks a language.
    """
    where, models = _models(path, languages)
    if any(Preparation.of(read_model(model)).tags for model in models.values()):
        return _tagged(where, models, languages)
    if len(set(models.values())) == 1 and languages[0] in models:
        models = dict.fromkeys(languages, models[languages[0]])
    if missing := [language for language in languages if language not in models]:
        raise UserError(f"{where}: no vocabulary of '{missing[0]}' there; it has {', '.join(models) or 'none'}")
    try:
        made = {model: Tokenizer.from_bytes(model) for model in {models[language] for language in languages}}
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return [made[models[language]] for language in languages]


def _tagged(where: Path, models: dict[str, bytes], languages: tuple[str, ...]) -> list[Tokenizer]:
    """Load the tokenizers of a model of several languages, with the tags of these two."""
    if len(languages) != 2 or where.suffix == ".model":
        raise UserError(
            f"{where}: a vocabulary with tags for languages has two sides; name its folder or checkpoint, and leave "
            "--no-joined-dictionary and --tgtdict out"
        )
    own = [*models, *models]  # source and target
    source, target = (Tokenizer.from_bytes(models[language]) for language in (own[0], own[1]))
    try:
        return [*directed((source, target), (own[0], own[1]), (languages[0], languages[1]))]
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _models(path: Path, languages: tuple[str, ...]) -> tuple[Path, dict[str, bytes]]:
    """Return the SentencePiece models by language, and the file that lists them."""
    try:
        if (path / META).is_file():
            meta = read_meta(path)
            sides = meta.get("tokenizers", {}).items()
            check_files(path, meta, *(name for _, name in sides))
            return path / META, {meta[f"{side}_lang"]: (path / name).read_bytes() for side, name in sides}
        if path.is_dir() or path.suffix == ".safetensors" or is_address(path):
            file = find_checkpoint(path)
            return file, _of_checkpoint(file)
        return path, dict.fromkeys(languages, path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def _of_checkpoint(file: Path) -> dict[str, bytes]:
    """Load the tokenizers of a translation model; without torch, so only these tensors are read and checked."""
    try:
        with safetensors.safe_open(file, framework="numpy") as content:
            metadata, names = content.metadata() or {}, content.keys()
            languages = json.loads(metadata["docnmt"])["task_state"]["languages"]
            checksums = stored_checksums(file, metadata, names)
            sides = ("tokenizer.source", "tokenizer.target" if "tokenizer.target" in names else "tokenizer.source")
            models: dict[str, np.ndarray] = {name: content.get_tensor(name) for name in sides}
        for name, model in models.items():
            check_tensor(file, name, checksums[name], model.dtype.name, model.shape, np.ascontiguousarray(model))
        return {language: models[name].tobytes() for language, name in zip(languages, sides, strict=True)}
    except (safetensors.SafetensorError, LookupError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: is no checkpoint of a translation model: {error}") from error


# The vocabularies of a data folder: trained on its training text, or taken from an existing one.


def make_tokenizers(
    config: TranslationPreprocessConfig, training: Sequence[TextArray], say: Callable[[str], None]
) -> dict[str, Tokenizer]:
    """Make the tokenizer of each language; it is one object if both are the same.

    Args:
        training: the raw training text, source and target; empty without a training split.

    Raises:
        UserError: the text does not support the size, or the vocabulary to be reused does not exist.
    """
    source, target = languages = config.source_lang, config.target_lang
    if not config.joined_dictionary:
        return {
            source: _stored(config.srcdict, source) or _trained(config, training[:1], (source,), say)[0],
            target: _stored(config.tgtdict, target) or _trained(config, training[1:], (target,), say)[0],
        }
    if config.srcdict is not None:
        return dict(zip(languages, stored_tokenizers(Path(config.srcdict), source, target), strict=True))
    return dict(zip(languages, _trained(config, training, languages, say), strict=True))


def _stored(path: str | None, language: str) -> Tokenizer | None:
    """Load the vocabulary of `--srcdict` or `--tgtdict`, if it was given."""
    return None if path is None else stored_tokenizers(Path(path), language)[0]


def _trained(
    config: TranslationPreprocessConfig,
    texts: Sequence[TextArray],
    languages: Sequence[str],
    say: Callable[[str], None],
) -> list[Tokenizer]:
    """Train one vocabulary on all texts; return a tokenizer per language, which differ only in text preparation."""
    total = sum(len(text) for text in texts)
    used = sum(min(len(text), config.subword_sample) for text in texts)
    sampled = "" if used == total else f" of {total:,} (--subword-sample)"
    size = config.vocab_size or DEFAULT_VOCAB_SIZE
    prepared = [Preparation(punctuation=name if config.normalize_punctuation else "") for name in languages]
    with waiting(f"training a vocabulary of {size:,} subwords on {used:,} lines{sampled}"):
        tokenizer = train_in_process(
            itertools.chain.from_iterable(
                map(each.cleaned, _sample(text, config.subword_sample))
                for each, text in zip(prepared, texts, strict=True)
            ),
            vocab_size=size,
            exact=config.vocab_size is not None,
            model_type=config.subword_model,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization=config.normalization,
            user_defined_symbols=config.user_defined_symbols,
        )
    if tokenizer.vocab_size < size:
        say(f"the text supports a vocabulary of {tokenizer.vocab_size:,} subwords only")
    return [tokenizer.prepared(each) for each in prepared]


def _sample(text: TextArray, limit: int) -> Iterator[str]:
    """Yield at most `limit` lines, spread evenly."""
    if len(text) <= limit:
        return iter(text)
    return (text[int(i)] for i in np.linspace(0, len(text) - 1, limit).astype(np.int64))


# `docnmt-preprocess` for translation: turns text into a data folder.


def preprocess_translation(config: TranslationPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the data folder of parallel documents; `say` is called with each line of the report.

    Everything is checked before the folder appears, and it appears whole or not at all.

    Raises:
        UserError: a file is missing, damaged or does not fit the others (file and line are named), a sentence is too
            long under `--long-policy error`, or the folder may not be written.
    """
    destination = Path(config.destdir)
    if useless := config.useless():
        say(f"note: {', '.join(useless)}: no effect, as no vocabulary is trained here")
    check_folder(destination, marker=META, overwrite=config.overwrite)
    reading = Reading((config.source_lang, config.target_lang), config.table_columns(), config.one_sided)
    inputs = {name: find_splits(prefixes, reading) for name, prefixes in config.prefixes().items()}
    parts = [part for found in inputs.values() for part in (found, *found.following)]
    if config.columns and not any(part.tables for part in parts):
        raise UsageError(f"--columns has no effect: none of the inputs is a table ({', '.join(KINDS)})")
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        files: dict[str, dict[str, Any]] = {}
        splits = [SplitTexts(name, found, SplitFolder(folder, name, files)) for name, found in inputs.items()]
        for split in splits:
            scan(split, config.source_lang, config.target_lang, detokenizer if config.detokenize == "moses" else None)
            for note in split.facts.notes:
                say(note)
        train = None
        if splits[0].name == "train":
            train = splits[0].files
            splits[0].facts.notes += drop_documents(splits[0], splits[1:], config, say)
        training = [] if train is None else [train.text(side) for side in splits[0].sides]
        tokenizers = make_tokenizers(config, training, say)
        _encode_splits(splits, tokenizers, config.workers)
        for split in splits:
            split.facts.notes += apply_long_policy(split, tokenizers, config, say)
        if train is not None:
            for split in splits[1:]:
                split.facts.notes += overlap_with_training(split.files, train, config.source_lang, say)
        _finish_folder(folder, splits, files, tokenizers, config, say)
    say(f"{destination}: written")


def _encode_splits(splits: list[SplitTexts], tokenizers: dict[str, Tokenizer], workers: int | None) -> None:
    """Cut the source and the first reference of every split into subwords, in a second pass."""
    lines = sum(len(each.files.text(side)) for each in splits for side in each.sides[:2])
    with LineEncoder(tokenizers, workers or fitting_workers(lines)) as encoder:
        for split, side in [(each, side) for each in splits for side in each.sides[:2]]:
            text, dtype = split.files.text(side), token_dtype(tokenizers[side].vocab_size)
            label = f"cutting {split.name}.{side}"
            with split.files.writer(f"{side}.tokens", dtype) as writer, Progress(len(text), label, unit="lines") as bar:
                for sentences in encoder.encode(text, side):
                    writer.append(sentences.tokens, sentences.lengths())
                    bar.update(len(sentences))


def _finish_folder(
    folder: Path,
    splits: list[SplitTexts],
    files: dict[str, dict[str, Any]],
    tokenizers: dict[str, Tokenizer],
    config: TranslationPreprocessConfig,
    say: Callable[[str], None],
) -> None:
    """Write the tokenizers' files and `meta.json`, and print a line on every split."""
    source, target = (tokenizers[side] for side in (config.source_lang, config.target_lang))
    joined = source is target
    names = {"source": "tokenizer.model" if joined else f"tokenizer.{config.source_lang}.model"}
    names["target"] = names["source"] if joined else f"tokenizer.{config.target_lang}.model"
    for name, tokenizer in zip(names.values(), (source, target), strict=True):
        (folder / name).write_bytes(tokenizer.to_bytes())
        files[name] = file_entry(tokenizer.to_bytes())
    counts = {split.name: statistics(split) for split in splits}
    for split in splits:
        if counts[split.name]["without_partner"] == counts[split.name]["sentences"] and not split.is_test:
            raise UserError(f"{split.input.paths[0]}: no sentence has a translation; expected one on the target side")
        say(describe_split(split.name, counts[split.name]))
    write_meta(
        folder,
        task="document_translation",
        files=files,
        source_lang=config.source_lang,
        target_lang=config.target_lang,
        tokenizers=names,
        vocabulary={"source": source.vocab_size, "target": target.vocab_size, "joined": joined},
        splits=counts,
        options=to_dict(config),
        versions={name: importlib.import_module(name).__version__ for name in ("numpy", "sentencepiece")},
    )
