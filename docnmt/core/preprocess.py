"""docnmt-preprocess: text files → a data folder. Documents pass one by one; of sentences only numbers stay in memory.
documents (`read_corpus`) → filters → text on disk → vocabulary (`vocabularies`) → subwords, limits → arrays (`corpus`)
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import multiprocessing
import os
import re
import signal
import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docnmt.core.corpus import (
    DROPPED,
    META,
    RaggedWriter,
    SplitFolder,
    StructureBuilder,
    TextArray,
    TokenArray,
    file_entry,
    offsets_of,
    read_meta,
    reference_names,
    renumber,
    token_dtype,
    unit_numbers,
    write_meta,
)
from docnmt.core.data_options import TranslationPreprocessConfig
from docnmt.core.read_corpus import KINDS, Facts, ParallelDocument, Reading, SplitFiles, find_split, read_split
from docnmt.core.tokenizer import UNK, Tokenizer, detokenizer
from docnmt.core.units import cut_units, document_units
from docnmt.core.vocabularies import make_tokenizers
from docnmt.options import to_dict
from docnmt.runtime.launch import processors
from docnmt.runtime.progress import Progress, how_many
from docnmt.runtime.system import UsageError, UserError, check_folder, reading, replacing_folder

#: Sentences that are written or cut into subwords together, in whole documents; no output depends on it.
CHUNK = 4096
Say = Callable[[str], None]


def preprocess_translation(config: TranslationPreprocessConfig, say: Say) -> None:
    """Write the data folder of parallel documents; `say` is called with each line of the report. Everything is checked
    before the folder appears, and it appears whole or not at all."""
    destination = Path(config.destdir)
    if useless := config.useless():
        say(f"note: {', '.join(useless)}: no effect, as no vocabulary is trained here")
    settings = Reading((config.source_lang, config.target_lang), config.table_columns(), config.one_sided)
    inputs = {name: [find_split(prefix, settings) for prefix in given] for name, given in config.prefixes().items()}
    reads = [path for corpora in inputs.values() for files in corpora for path in files.paths]
    check_folder(destination, marker=META, overwrite=config.overwrite, reads=reads)
    if config.columns and not any(files.tables for corpora in inputs.values() for files in corpora):
        raise UsageError(f"--columns has no effect: none of the inputs is a table ({', '.join(KINDS)})")
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        files: dict[str, dict[str, Any]] = {}
        splits = [_Split(name, sources, SplitFolder(folder, name, files)) for name, sources in inputs.items()]
        train = next((split for split in splits if split.name == "train"), None)
        held_out = [split for split in splits if split is not train]
        filters = None
        for split in [*held_out, train] if train and config.drop_overlap else splits:
            if split is train and config.filters():
                filters = _Filters(config, held_out)
            _read(split, config, filters if split is train else None)
        for note in [note for split in splits for note in split.facts.notes]:
            say(note)
        training = [] if train is None else [train.files.text(side) for side in train.sides]
        if train and filters:
            _note(train, filters.finish(train), say)
        tokenizers = make_tokenizers(config, training, say)
        sentences = sum(2 * len(split.numbers) for split in splits)
        with _encoder(tokenizers, config.workers or fitting_workers(sentences)) as encoder:
            for split in splits:
                _note(split, _cut(split, encoder, tokenizers, config), say)
        if train:
            final = train.files.text(config.source_lang)
            for split in held_out:
                _note(split, _overlap(split.files, final, config.source_lang), say)
        _finish_folder(folder, splits, files, tokenizers, config, say)
    say(f"{destination}: written")


def _note(split: _Split, note: str | None, say: Say) -> None:
    if note:
        split.facts.notes.append(note)
        say(note)


# First pass: documents → filters → text on disk, and structure.


@dataclass
class _Split:
    """A split that is read: the files of its corpora, its files in the folder, and the facts about them."""

    name: str
    input: list[SplitFiles]
    files: SplitFolder
    sides: list[str] = field(default_factory=list)  # language of the source, names of the references; two are cut
    facts: Facts = field(default_factory=Facts)
    numbers: array[int] = field(default_factory=lambda: array("q"))  # of each sentence in its input file
    where: list[tuple[int, str]] = field(default_factory=list)  # each file's first sentence and name

    @property
    def is_test(self) -> bool:
        """True for a test split, whose sentences and documents must not be changed."""
        return self.name.startswith("test")

    @property
    def path(self) -> Path:
        return self.input[0].paths[0]

    def place(self, sentence: int) -> str:
        """Return the place of a sentence in the input, for messages."""
        where = next(where for first, where in reversed(self.where) if first <= sentence)
        return f"{where}{self.numbers[sentence]}"


def _read(split: _Split, config: TranslationPreprocessConfig, filters: _Filters | None = None) -> None:
    """Read all files of a split once; write raw text and structure to its folder."""
    structure, known, shapes = StructureBuilder(), False, set[tuple[int, int]]()
    size = 0
    for path in (path for files in split.input for path in files.paths):
        with reading(path):
            size += path.stat().st_size
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(Progress(size, f"reading {split.name}", unit="bytes"))
        writers: list[RaggedWriter] = []
        changes: list[Callable[[str], str]] = []
        for files in split.input:
            structure.before += files is not split.input[0]  # a document ends with its corpus
            begin = structure.num_sentences
            for block in _blocks(read_split(files, split.facts, bar.update)):
                shapes |= {(len(document.rows[0]), len(document.units[0])) for document in block if document.rows}
                if len(shapes) > 1:
                    raise UserError(
                        f"{files.paths[0]}: has other references or levels than {split.path}; the corpora of one split "
                        "must have the same"
                    )
                if not split.sides:
                    split.sides = _sides(split, config, references=next(iter(shapes))[0] - 1)
                    writers = [stack.enter_context(split.files.writer(f"{side}.text", "u1")) for side in split.sides]
                    languages = [config.source_lang, *[config.target_lang] * (len(writers) - 1)]
                    changes = [detokenizer(language) for language in languages if config.detokenize == "moses"]
                for document in block if changes else ():
                    document.rows = [
                        tuple(change(text) or text for change, text in zip(changes, row, strict=True))
                        for row in document.rows
                    ]
                if filters is not None:
                    filters.empty(block)
                for document in block:
                    structure.before += document.blank
                    if document.rows:
                        levels = unit_numbers(document.units)
                        structure.add(levels if document.known else np.full_like(levels, -1))
                        for where, number in document.places:
                            if not split.where or split.where[-1][1] != where:
                                split.where.append((len(split.numbers), where))
                            split.numbers.append(number)
                for side, writer in enumerate(writers):
                    writer.append_lines([row[side] for document in block for row in document.rows])
            if not split.facts.levels:
                structure.forget_levels(begin)
            known |= split.facts.levels
    split.files.write_structure(structure.build(known=known))


def _sides(split: _Split, config: TranslationPreprocessConfig, references: int) -> list[str]:
    """Return the names of the sides of a split with this number of references, if it may have so many."""
    if not references and not split.is_test:
        raise UserError(f"{split.path}: no target side; {split.name} data needs one, only test data may have none")
    if split.name == "train" and references > 1:
        raise UserError(f"{split.path}: {references} references; training data has one target side")
    return [config.source_lang, *reference_names(config.target_lang, references)]


def _blocks(documents: Iterable[ParallelDocument]) -> Iterator[list[ParallelDocument]]:
    """Yield documents in lists of at least `CHUNK` sentences."""
    block: list[ParallelDocument] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document.rows)
        if size >= CHUNK:
            yield block
            block, size = [], 0
    if block:
        yield block


# Filters that leave out training documents: duplicates, and texts of held-out data.


class _Filters:
    """Leaves out training documents as they pass, by emptying them, and lists them."""

    def __init__(self, config: TranslationPreprocessConfig, held_out: Sequence[_Split]) -> None:
        self._config, self._documents = config, 0
        sources = [split.files.text(config.source_lang) for split in held_out if config.drop_overlap]
        self._held_out = list(line_hashes(*sources))
        self._first: dict[bytes, int] = {}  # the number of the first document with these words
        self._counts: Counter[str] = Counter()
        self._rows = ["document\tplace\tname\tsentences\treason"]

    def empty(self, documents: Sequence[ParallelDocument]) -> None:
        """Take the rows from documents that a filter matches."""
        whole = [document for document in documents if document.rows]
        shares = np.zeros(len(whole))
        if self._config.drop_overlap and whole:
            text = TextArray.from_lines([row[0] for document in whole for row in document.rows])
            offsets = offsets_of(np.array([len(document.rows) for document in whole]))
            shares = shares_seen(text, offsets, self._held_out)
        for document, share in zip(whole, shares.tolist(), strict=True):
            self._documents += 1
            kind = reason = ""
            if share >= HALF:
                kind, reason = "overlap", f"{share:.0%} of it in validation or test data"
            elif self._config.drop_duplicates:
                words = "\0".join("\n".join(" ".join(row[side].split()) for row in document.rows) for side in (0, 1))
                digest = hashlib.blake2b(words.encode(), digest_size=16).digest()
                first = self._first.setdefault(digest, self._documents)
                if first != self._documents:
                    kind, reason = "duplicate", f"duplicate of document {first}"
            if not kind:
                continue
            self._counts[kind] += 1
            begin, name = "{}{}".format(*document.places[0]), " ".join(document.name.split())  # a cell of a TSV file
            self._rows.append(f"{self._documents}\t{begin}\t{name}\t{len(document.rows)}\t{reason}")
            document.rows = []

    def finish(self, train: _Split) -> str:
        """Write the list `dropped.tsv`; return a note."""
        config, dropped = self._config, self._counts.total()
        if dropped == self._documents:
            raise UserError(f"{train.path}: every document would be left out ({' '.join(config.filters())})")
        content = "".join(f"{row}\n" for row in self._rows).encode()
        (train.files.folder / DROPPED).write_bytes(content)
        train.files.files[DROPPED] = file_entry(content)
        overlap = [f"{self._counts['overlap']:,} stand in the validation or test data"] * config.drop_overlap
        why = ", ".join([*overlap, *[f"{self._counts['duplicate']:,} duplicates"] * config.drop_duplicates])
        return f"train: {dropped:,} of {self._documents:,} documents are left out (listed in {DROPPED}): {why}"


# Documents of a held-out split that also occur in the training data.


#: A document counts as seen if at least this share of its bytes is.
HALF = 0.5
#: Number of sentences compared at once.
_TOGETHER = 1 << 18


def _overlap(held_out: SplitFolder, training: TextArray, side: str) -> str | None:
    """Describe the documents of which at least half the text is in the training data."""
    offsets = held_out.structure().document_offsets
    share = shares_seen(held_out.text(side), offsets, line_hashes(training))
    most, whole = int((share >= HALF).sum()), int((share == 1).sum())
    if not most:
        return None
    return (
        f"warning: {held_out.split}: {most:,} of {len(share):,} documents stand in the training data, too ({whole:,} "
        f"whole, {most - whole:,} at least by half, by runs of equal {side} sentences; the first is document "
        f"{int(np.argmax(share >= HALF)) + 1}): scores on them say little about new text"
    )


def shares_seen(text: TextArray, offsets: np.ndarray, others: Iterable[np.ndarray]) -> np.ndarray:
    """Return the share (D,) of each document's bytes that occurs in other texts, given by `line_hashes`.

    A sentence counts only if it occurs there next to the same neighbour: sentences that recur by themselves (headings,
    greetings, small vocabularies) are no overlap of documents. A document's only sentence counts by itself."""

    def pairs(hashes: np.ndarray) -> np.ndarray:  # a hash of every two neighbours, in order; (S-1,) uint64
        return np.asarray(hashes[:-1] * np.uint64(0x9E3779B97F4A7C15) ^ hashes[1:])

    sentences = _hashed(text)
    neighbours = pairs(sentences)
    known, known_pairs = np.zeros(len(sentences), dtype=bool), np.zeros(len(neighbours), dtype=bool)
    for other in others:
        known |= np.isin(sentences, other)
        known_pairs |= np.isin(neighbours, pairs(other))
    first_of, last_of = np.zeros((2, len(sentences)), dtype=bool)
    first_of[offsets[:-1]] = last_of[offsets[1:] - 1] = True
    seen = first_of & last_of & known
    known_pairs &= ~last_of[:-1]
    seen[:-1] |= known_pairs
    seen[1:] |= known_pairs
    size = np.diff(text.offsets)
    share: np.ndarray = np.add.reduceat(size * seen, offsets[:-1]) / np.maximum(np.add.reduceat(size, offsets[:-1]), 1)
    return share


def line_hashes(*texts: TextArray) -> Iterator[np.ndarray]:
    """Yield hashes of lines in parts; each also has the next one's first line, for the pair at the border."""
    for text in texts:
        for first in range(0, len(text), _TOGETHER):
            yield _hashed(text[first : first + _TOGETHER + 1])


def _hashed(lines: Sequence[str]) -> np.ndarray:
    """Return a hash of each line's words; (S,) uint64."""
    digests = (hashlib.blake2b(" ".join(line.split()).encode(), digest_size=8).digest() for line in lines)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64, len(lines))


# Second pass: text → subwords → limits (`--long-policy`) → arrays.


class _Line(NamedTuple):
    """A sentence with its texts on all sides, its subwords on the first two, and its levels."""

    texts: Sequence[str]
    tokens: Sequence[np.ndarray]
    levels: np.ndarray

    @property
    def cost(self) -> int:
        return max(map(len, self.tokens))


def _cut(
    split: _Split, encoder: _Encoder, tokenizers: Mapping[str, Tokenizer], config: TranslationPreprocessConfig
) -> str | None:
    """Cut the source and the first reference into subwords, and apply the policy to what is too long; return a note."""
    changing = config.long_policy != "error" and not split.is_test
    limits, structure = _Limits(split, tokenizers, config), StructureBuilder()
    old, sides = split.files.structure(), split.sides[:2]
    offsets, texts = old.document_offsets, [split.files.text(side) for side in split.sides]
    borders, first = list[tuple[int, int]](), 0  # runs of documents of at most `CHUNK` sentences, or of one document
    while first < old.num_documents:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + CHUNK, side="right")) - 1)
        borders.append((first, last))
        first = last
    parts = [(int(offsets[first]), int(offsets[last])) for first, last in borders]
    encoded = encoder({side: text[a:b] for side, text in zip(sides, texts, strict=False)} for a, b in parts)
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(Progress(len(split.numbers), f"cutting {split.name}", unit="lines"))
        types = {f"{side}.tokens": token_dtype(tokenizers[side].vocab_size) for side in sides}
        writers = [stack.enter_context(split.files.writer(name, dtype)) for name, dtype in types.items()]
        names = [f"{side}.text" for side in split.sides if changing]
        text_writers = [stack.enter_context(split.files.writer(name, "u1")) for name in names]
        for (first, last), (begin, end), tokens in zip(borders, parts, encoded, strict=True):
            bar.update(end - begin)
            if not changing:
                costs = np.maximum.reduce([side.lengths() for side in tokens])
                limits.count("sentence", begin + np.arange(end - begin), costs)
                limits.count("document", offsets[first:last], np.add.reduceat(costs, offsets[first:last] - begin))
                for writer, side in zip(writers, tokens, strict=True):
                    writer.append(side.tokens, side.lengths())
                continue
            lines = [text[begin:end] for text in texts]
            lines_kept: list[_Line] = []
            for number in range(first, last):
                structure.before += int(old.blank_lines[number])
                document = [
                    _Line([side[n] for side in lines], [side[n] for side in tokens], old.levels[begin + n])
                    for n in range(int(offsets[number]) - begin, int(offsets[number + 1]) - begin)
                ]
                for piece in limits.fitted(document, int(offsets[number])):
                    structure.add(renumber(np.stack([line.levels for line in piece]), np.array([0, len(piece)])))
                    lines_kept += piece
            for side_number, writer in enumerate(writers):
                subwords = [line.tokens[side_number] for line in lines_kept]
                lengths = np.array([*map(len, subwords)], np.int64)
                writer.append(np.concatenate([np.zeros(0, np.int64), *subwords]), lengths)
            for side_number, writer in enumerate(text_writers):
                writer.append_lines([line.texts[side_number] for line in lines_kept])
    note = limits.note()
    if changing:
        if not structure.num_sentences:
            raise UserError(f"{split.name}: nothing is left when all that is too long is left out; raise the limits")
        structure.before += int(old.blank_lines[-1])
        split.files.write_structure(structure.build())
    return note


class _Limits:
    """Counts what is too long in a split, and makes it fit by `--long-policy`."""

    def __init__(self, split: _Split, tokenizers: Mapping[str, Tokenizer], config: TranslationPreprocessConfig) -> None:
        self._split, self._tokenizers, self._policy = split, tokenizers, config.long_policy
        self._longest, self._limit = config.max_sentence_tokens, config.max_document_tokens
        #: How many sentences or documents are too long, the sentence where the first begins, and its length.
        self._long = {"sentence": (0, -1, 0), "document": (0, -1, 0)}

    def count(self, kind: str, sentences: np.ndarray, costs: np.ndarray) -> None:
        """Count what of some sentences or documents (n,), which begin at these sentences, costs too much."""
        limit = self._longest if kind == "sentence" else self._limit
        long = np.flatnonzero(costs > (np.inf if limit is None else limit))
        count, first, cost = self._long[kind]
        if len(long) and not count:
            first, cost = int(sentences[long[0]]), int(costs[long[0]])
        self._long[kind] = count + len(long), first, cost

    def fitted(self, document: list[_Line], begin: int) -> list[list[_Line]]:
        """Return the pieces that a document, whose first sentence is `begin`, becomes; none if it is left out."""
        self.count("sentence", begin + np.arange(len(document)), np.array([line.cost for line in document]))
        fitting: list[_Line] = []
        for number, line in enumerate(document, begin):
            if line.cost <= self._longest:
                fitting.append(line)
            elif self._policy == "truncate":
                fitting.append(line._replace(tokens=[side[: self._longest] for side in line.tokens]))
            elif self._policy == "split":
                fitting += self._pieces(line, number)
        costs = np.array([line.cost for line in fitting], dtype=np.int64)
        if self._limit is None or costs.sum() <= self._limit:
            return [fitting] if fitting else []
        self.count("document", np.array([begin]), costs.sum(keepdims=True))
        units = cut_units(document_units(np.array([0, len(fitting)])), costs, self._limit)
        pieces = [fitting[first:last] for first, last in zip(units.first, units.last, strict=True)]
        return {"split": pieces, "truncate": pieces[:1], "skip": []}[self._policy]

    def _pieces(self, line: _Line, number: int) -> list[_Line]:
        """Split a sentence at spaces into nearly as few pieces as fit the limit on all sides."""

        def encoded(sides: Sequence[list[str]]) -> list[list[list[int]]]:
            names = self._split.sides[:2]
            return [self._tokenizers[side].encode(texts) for side, texts in zip(names, sides, strict=False)]

        def longest(sides: list[list[list[int]]]) -> int:
            return max(len(tokens) for lines in sides for tokens in lines)

        words = [text.split() for text in line.texts]
        count, most = -(-line.cost // self._longest), min(filter(None, map(len, words)))
        if count <= most and longest(encoded(words)) > self._longest:
            most = 0  # a word alone is too long
        while count <= most:
            pieces = [split_text(text, count) for text in line.texts]
            if longest(sides := encoded(pieces)) <= self._longest:
                subwords = [[np.array(tokens, dtype=np.int64) for tokens in lines] for lines in sides]
                texts, tokens = zip(*pieces, strict=True), zip(*subwords, strict=True)
                return [_Line(*parts, line.levels) for parts in zip(texts, tokens, strict=True)]
            count = max(count + 1, min(most, count + count // 4))
        raise UserError(
            f"{self._split.place(number)}: cannot be split at spaces into pieces of {self._longest:,} subwords on all "
            "sides; choose --long-policy truncate or skip"
        )

    def note(self) -> str | None:
        """Return what was too long, and what was done; refuse it under the policy `error`."""
        split, limits = self._split, {"sentence": self._longest, "document": self._limit}
        long = [(kind, limits[kind], *counted) for kind, counted in self._long.items() if counted[0]]
        if not long:
            return None
        if self._policy == "error":
            kind, limit, count, first, cost = long[0]
            raise UserError(
                f"{split.place(first)}: a {kind} of {cost:,} subwords, the limit is {limit:,} (--max-{kind}-tokens); "
                f"{count:,} of {split.name} in all; raise the limit or choose --long-policy split, truncate or skip"
            )
        done = {"split": "split", "truncate": "cut off", "skip": "left out"}[self._policy]
        done = "kept whole, because test sets are never changed" if split.is_test else done
        words = [
            f"{count:,} {kind}s of more than {limit:,} subwords (the first: {split.place(first)})"
            for kind, limit, count, first, _ in long
        ]
        return f"warning: {split.name}: {' and '.join(words)} are {done}"


def split_text(text: str, count: int) -> list[str]:
    """Split a text of at least `count` words into `count` pieces of nearly equally many words; a text without words,
    into empty ones. Only the white space between two pieces is left out."""
    begins = [*(word.start() for word in re.finditer(r"\S+", text)), len(text)]
    cuts = [0, *(begins[(len(begins) - 1) * k // count] for k in range(1, count + 1))]
    return [*(text[a:b].rstrip() for a, b in itertools.pairwise(cuts[:-1])), text[cuts[-2] :]]


# Encoding in this process or in several, with the same result.


#: Number of chunks that make another process worth its start, of about a second.
_WORTH = 32
#: The tokenizers of a worker process, loaded once.
_of_worker: dict[str, Tokenizer] = {}
#: The lines of a part, by side; a function that gives the subwords of each part's sides, in order.
_Part = Mapping[str, list[str]]
_Encoder = Callable[[Iterable[_Part]], Iterator[list[TokenArray]]]


def fitting_workers(lines: int) -> int:
    """Return the number of available processors, limited so that each process has work worth its start."""
    return max(1, min(processors(), lines // (CHUNK * _WORTH)))


@contextlib.contextmanager
def _encoder(tokenizers: Mapping[str, Tokenizer], workers: int) -> Iterator[_Encoder]:
    """Return a context manager whose value cuts lines into subwords; with several workers, in processes of its own."""
    if workers == 1:
        yield lambda parts: (_encode(part, tokenizers) for part in parts)
        return
    models = {side: tokenizer.to_bytes() for side, tokenizer in tokenizers.items()}
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start_worker, (models,))

    def encoded(parts: Iterable[_Part]) -> Iterator[list[TokenArray]]:
        waiting: deque[Future[list[TokenArray]]] = deque()
        try:
            for part in parts:
                # a worker that starts here inherits the mask
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    waiting.append(pool.submit(_encode, part))
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            for future in waiting:
                yield future.result()
        except BrokenProcessPool as error:
            raise UserError("a worker process died (killed, or out of memory?); try fewer --workers") from error

    try:
        yield encoded
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _start_worker(models: Mapping[str, bytes]) -> None:
    """Load the tokenizers in a worker process, and end it when its parent is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
    _of_worker.update({side: Tokenizer.from_bytes(model) for side, model in models.items()})


def _encode(part: _Part, tokenizers: Mapping[str, Tokenizer] = _of_worker) -> list[TokenArray]:
    pairs = ((tokenizers[side], lines) for side, lines in part.items())
    return [TokenArray.from_lists(tokenizer.encode(lines), tokenizer.vocab_size) for tokenizer, lines in pairs]


# The report, and `meta.json`.


def _finish_folder(
    folder: Path,
    splits: list[_Split],
    files: dict[str, dict[str, Any]],
    tokenizers: dict[str, Tokenizer],
    config: TranslationPreprocessConfig,
    say: Say,
) -> None:
    """Write the tokenizers' files and `meta.json`, and print a line on every split."""
    source, target = (tokenizers[side] for side in (config.source_lang, config.target_lang))
    joined = source is target
    names = {"source": "tokenizer.model" if joined else f"tokenizer.{config.source_lang}.model"}
    names["target"] = names["source"] if joined else f"tokenizer.{config.target_lang}.model"
    for name, tokenizer in zip(names.values(), (source, target), strict=True):
        (folder / name).write_bytes(tokenizer.to_bytes())
        files[name] = file_entry(tokenizer.to_bytes())
    counts = {split.name: _statistics(split) for split in splits}
    for split in splits:
        if counts[split.name]["without_partner"] == counts[split.name]["sentences"] and not split.is_test:
            raise UserError(f"{split.path}: no sentence has a translation; expected one on the target side")
        say(_describe_split(split.name, counts[split.name]))
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


def _statistics(split: _Split) -> dict[str, Any]:
    """Return a split's entry in `meta.json`: counts, lengths in subwords, inputs and notes."""
    structure = split.files.structure()
    lengths: dict[str, Any] = {}
    for side in split.sides[:2]:
        tokens = split.files.tokens(side)
        documents = np.diff(tokens.offsets[structure.document_offsets])
        lengths[side] = {
            "tokens": len(tokens.tokens),
            "unknown": int(np.count_nonzero(tokens.tokens == UNK)),
            "longest_sentence": int(tokens.lengths().max()),
            "longest_document": int(documents.max()),
            "sentence_percentiles": np.percentile(tokens.lengths(), (50, 90, 99)).astype(int).tolist(),
            "document_percentiles": np.percentile(documents, (50, 90, 99)).astype(int).tolist(),
        }
    alone = [np.diff(split.files.text(side).offsets) == 0 for side in split.sides[1:2]]  # only read
    return {
        "documents": structure.num_documents,
        "sentences": structure.num_sentences,
        "levels": structure.levels.shape[1],
        "references": len(split.sides) - 1,
        "without_partner": int(sum(map(np.count_nonzero, alone))),
        "lengths": lengths,
        "inputs": split.facts.inputs,
        "notes": split.facts.notes,
    }


def _describe_split(name: str, counts: Mapping[str, Any]) -> str:
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
    """Describe a data folder of any task on a page."""
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
    parts = [(f"split {name}", _shown(counts)) for name, counts in meta.get("splits", {}).items()]
    options = {name: value for name, value in meta.get("options", {}).items() if value not in (None, [], "")}
    for title, values in [*parts, *([("options", options)] if meta.get("options") else [])]:
        lines += ["", title]
        lines += [f"  {key}: {f'{value:,}' if type(value) is int else value}" for key, value in values.items()]
    return "\n".join(lines)


def _shown(counts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a split's facts by what they are called; those of other tasks are as they are."""
    if "lengths" not in counts:
        return counts
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
