"""Text classification: labelled tables → vocabulary, data folder, batches; the classifier, its task, docnmt-classify.

`read_labelled` → `WordVocabulary` or `Tokenizer` → `LabelledArrays` of a folder → `TextDataset` → `TextBatch` →
`FusionClassifier` → `classification_scores`
"""

from __future__ import annotations

import contextlib
import csv
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TextIO, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.core.batch import PackedText, plan_batches
from docnmt.core.corpus import (
    META,
    RaggedWriter,
    SplitFolder,
    TokenArray,
    check_files,
    file_entry,
    offsets_of,
    read_meta,
    write_array,
    write_meta,
)
from docnmt.core.read_corpus import TextLines, half_character, is_blank, kind_of_table
from docnmt.core.split_sentences import split_sentences
from docnmt.core.tables import open_table, text_rows
from docnmt.core.task import ModelClass, TaskState, built
from docnmt.core.tokenizer import Tokenizer, train_in_process
from docnmt.core.training.checkpoint import load_model
from docnmt.core.training.criterions import LabelledBatch
from docnmt.layout import DocumentLayout
from docnmt.modules.attention import LinearSelfAttention, SelfAttention
from docnmt.modules.fusion import build_fusion
from docnmt.modules.layers import Dropout, FeedForward, Layer, OwnStart, Reads, Residual, plain_layer
from docnmt.modules.positions import Embedding, Position, build_position, check_fusion
from docnmt.options import to_dict
from docnmt.other_tasks.options import (
    ClassificationPreprocessConfig,
    ClassifyConfig,
    FusionClassifierConfig,
    TextClassificationConfig,
)
from docnmt.other_tasks.sentence_vectors.data import text_lines
from docnmt.other_tasks.sentence_vectors.encoders import span_mean
from docnmt.registry import ATTENTIONS, FUSIONS, POSITIONS
from docnmt.runtime.device import pick_device
from docnmt.runtime.system import UserError, check_folder, checked, reading, replacing_folder, write_json

FORMATS = "a .tsv (label, tab, text), .csv (label and text columns) or .jsonl (keys label and text) file"


@dataclass(frozen=True)
class LabelledTexts:
    """The rows of a table: labels (names, even if they are numbers), texts, and the `file:line` where each begins."""

    labels: list[str]
    texts: list[str]
    places: list[str]


def read_labelled(path: Path) -> LabelledTexts:
    """Read a table of labelled texts in the format of its ending.

    TSV: label, tab, text; a first line `label<TAB>text` is a header. CSV: a header with `label` and `text` among its
    columns, or no header: the label first, the text from the other columns joined by a space (AG News as published).
    JSONL: one object per line with `label` (text or whole number) and `text`. Other columns and keys are ignored.
    """
    if path.suffix not in (".tsv", ".csv", ".jsonl"):
        raise UserError(f"{path}: expected {FORMATS}")
    if path.suffix == ".jsonl":
        objects = text_rows(open_table(path), ["label", "text"], numbers=["label"])
        rows: Iterable[tuple[str, str, str]] = ((where, row["label"], row["text"]) for where, row in objects)
    else:
        rows = _tsv(path) if path.suffix == ".tsv" else _csv(path)
    table = LabelledTexts([], [], [])
    for where, label, text in rows:
        label = label.strip()
        if not label:
            raise UserError(f"{where}: the label is empty")
        if any(character in label for character in "\t\n\r\0"):
            raise UserError(f"{where}: the label {label!r} has a tab, line break or NUL character; remove it")
        if "\0" in text:
            raise UserError(f"{where}: the text has a NUL character; remove it")
        if fault := half_character(label + text):
            raise UserError(f"{where}: {fault}")
        table.labels.append(label)
        table.texts.append(text)
        table.places.append(where)
    if not table.texts:
        raise UserError(f"{path}: has no rows; expected {FORMATS}")
    return table


def read_texts(path: Path | None) -> list[str]:
    """Read texts without labels: the `text` values of a .jsonl file, which may have line breaks, or lines."""
    if path is not None and kind_of_table(path.name) == ".jsonl":
        return [row["text"] for _, row in text_rows(open_table(path), ["text"])]
    if path is not None and path.suffix in (".tsv", ".csv"):
        raise UserError(
            f"{path}: is a table; give --labelled if it has labels, or the texts alone, one a line, as .txt"
        )
    texts = list(text_lines(path))
    if texts and texts[0].startswith('{"'):
        print(f"warning: {path or 'stdin'}:1 looks like JSON and is read as text; name it FILE.jsonl", file=sys.stderr)
    return texts


def _tsv(path: Path) -> Iterator[tuple[str, str, str]]:
    is_first = True
    for number, line in enumerate(TextLines(path), 1):
        label, tab, text = line.partition("\t")
        if is_blank(line):
            continue
        if not tab:
            raise UserError(f"{path}:{number}: expected label, tab, text; there is no tab")
        names = [cell.strip().lower() for cell in line.split("\t")] if is_first else []
        is_first = False
        if "label" not in names or (names[0] != "label" and "text" not in names):  # else it may be a text
            yield f"{path}:{number}", label, text
        elif names != ["label", "text"]:
            raise UserError(f"{path}:{number}: a header must be label, tab, text; got {line[:80]!r}")


def _csv(path: Path) -> Iterator[tuple[str, str, str]]:
    csv.field_size_limit(1 << 30)  # whole documents in one cell
    begin, is_first = 1, True
    columns: tuple[int, int] | None = None
    width = 0  # of the first row
    try:
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                where, begin = f"{path}:{begin}", reader.line_num + 1
                if not cells:  # an empty line is no row
                    continue
                names, is_first = [cell.strip().lower() for cell in cells] if is_first else [], False
                if names.count("label") > 1 or names.count("text") > 1:
                    raise UserError(f"{path}:1: two columns are called label or text; rename one of them")
                if {"label", "text"} <= set(names):
                    columns, width = (names.index("label"), names.index("text")), len(names)
                elif "label" in names or "text" in names[1:]:
                    raise UserError(f"{path}:1: a header needs the columns label and text, got {', '.join(cells)}")
                elif width and len(cells) != width:
                    expected = f"{width} cells as in the {'header' if columns else 'first row'}"
                    raise UserError(f"{where}: expected {expected}, got {len(cells)}; quote a cell that has commas")
                elif len(cells) < 2:
                    raise UserError(f"{where}: expected a label and a text, got {len(cells)} column(s)")
                else:
                    width = len(cells)
                    text = cells[columns[1]] if columns else " ".join(cells[1:])
                    yield where, cells[columns[0] if columns else 0], text
    except csv.Error as error:
        raise UserError(f"{path}:{begin}: not valid CSV: {error}") from error
    except UnicodeDecodeError as error:
        with path.open("rb") as lines:
            number = next((n for n, line in enumerate(lines, 1) if line.decode(errors="ignore").encode() != line), 1)
        raise UserError(f"{path}:{number}: not valid UTF-8; convert the file, for example with iconv") from error


# A data folder has for each split `SPLIT.tokens.bin` and its offsets (a row per sentence), `SPLIT.texts.bin` (offsets
# of texts into sentences) and `SPLIT.labels.bin`; `vocabulary` has the words or the SentencePiece model.

TASK, VOCABULARY = "text_classification", "vocabulary"


@dataclass(frozen=True, eq=False)
class LabelledArrays:
    """The texts of one split as arrays: tokens in sentences in texts."""

    sentences: TokenArray  # of the S sentences
    text_offsets: np.ndarray  # (N+1,) int64 into sentences
    labels: np.ndarray  # (N,) int64

    @classmethod
    def from_texts(
        cls, texts: Sequence[Sequence[Sequence[int]]], labels: Sequence[int], vocab_size: int
    ) -> LabelledArrays:
        """Build the arrays from each text's sentences, each a list of tokens."""
        return cls(
            TokenArray.from_lists([sentence for text in texts for sentence in text], vocab_size),
            offsets_of(np.array([len(text) for text in texts], dtype=np.int64)),
            np.array(labels, dtype=np.int64),
        )

    @property
    def token_offsets(self) -> np.ndarray:
        """The place (N+1,) where each text's tokens begin."""
        return np.asarray(self.sentences.offsets[self.text_offsets])

    def __len__(self) -> int:
        return len(self.labels)

    def save(self, folder: Path, split: str) -> dict[str, dict[str, Any]]:  # Any: entries of `meta.json`
        """Write the arrays; return the files' entries for `meta.json`."""
        tokens = RaggedWriter(folder, f"{split}.tokens", self.sentences.tokens.dtype)
        tokens.append(self.sentences.tokens, self.sentences.lengths())
        files = tokens.close()
        for name, values in (("texts", self.text_offsets), ("labels", self.labels)):
            files |= write_array(folder / f"{split}.{name}.bin", values, "<i8")
        return files

    @classmethod
    def open(cls, folder: Path, split: str) -> LabelledArrays:
        """Map the arrays of a split into memory."""
        meta = read_meta(folder, task=TASK)
        files = meta["files"]
        if f"{split}.labels.bin" not in files:
            there = [name.removesuffix(".labels.bin") for name in files if name.endswith(".labels.bin")]
            raise UserError(f"{folder}: has no split '{split}'; there are {', '.join(there)}")
        check_files(folder, meta, f"{split}.")
        arrays = SplitFolder(folder, split, files)
        labels, texts = arrays.array("labels"), arrays.array("texts")
        return cls(TokenArray(arrays.array("tokens"), arrays.array("tokens.offsets")), texts, labels)


#: A batch of texts, each a document of one span.
TextBatch: TypeAlias = LabelledBatch[PackedText]


@dataclass(frozen=True, eq=False)
class TextDataset:
    """The texts of one split, cut to `max_length` tokens; words count in the sentence (`unit`) or the `document`."""

    arrays: LabelledArrays
    max_length: int | None
    position_count: str
    name: str

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of tokens (U,) read of each text."""
        lengths = np.diff(self.arrays.token_offsets)
        return lengths if self.max_length is None else np.minimum(lengths, self.max_length)

    @property
    def sizes(self) -> np.ndarray:
        """The number of tokens (U,), int64; an empty text counts as one, so that batches are finite."""
        return np.asarray(np.maximum(self.lengths, 1))

    def batch(self, units: np.ndarray) -> TextBatch:
        """Return the batch of these texts, in this order."""
        lengths = self.lengths[units]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        starts = self.arrays.token_offsets[units]
        indices = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        positions = np.full((len(indices), 4), -1, dtype=np.int64)
        sentence_offsets = self.arrays.sentences.offsets
        sentences = np.searchsorted(sentence_offsets, indices, side="right") - 1
        positions[:, 1] = sentences - np.repeat(self.arrays.text_offsets[units], lengths)
        unit = self.position_count == "unit"
        positions[:, 0] = indices - (sentence_offsets[sentences] if unit else np.repeat(starts, lengths))
        layout = DocumentLayout(torch.from_numpy(offsets), torch.arange(len(units) + 1))
        tokens = torch.from_numpy(self.arrays.sentences.tokens[indices].astype(np.int64))
        return TextBatch(
            PackedText(tokens, layout, torch.from_numpy(positions)), torch.from_numpy(self.arrays.labels[units])
        )

    def describe(self, units: np.ndarray) -> str:
        """Describe these texts by their numbers, from 1."""
        shown = ", ".join(str(unit + 1) for unit in units[:10])
        return f"{self.name}: texts {shown}{', …' if len(units) > 10 else ''}"


#: The entry for every word that is not in the vocabulary.
UNKNOWN = "<unk>"


class WordVocabulary:
    """A vocabulary of words by number: `words` are those of 1, 2, …; 0 is any other word."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (UNKNOWN, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def count(cls, texts: Iterable[str], *, size: int, min_frequency: int) -> WordVocabulary:
        """Build a vocabulary of the `size` − 1 most frequent words that occur `min_frequency` times."""
        counts = Counter(word for text in texts for word in tokenise(text))
        counts.pop(UNKNOWN, None)
        frequent = sorted((word for word, n in counts.items() if n >= min_frequency), key=lambda w: (-counts[w], w))
        return cls(frequent[: size - 1])

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the numbers of each line's words."""
        return [[self._numbers.get(word, 0) for word in tokenise(line)] for line in lines]

    @property
    def vocab_size(self) -> int:
        """The number of words, the unknown one included."""
        return len(self.words)

    def to_bytes(self) -> bytes:
        """Return the words from number 1 on, one per line."""
        return "".join(f"{word}\n" for word in self.words[1:]).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> WordVocabulary:
        """Invert `to_bytes`; words have no white space, so none can contain a line break."""
        return cls(content.decode().split("\n")[:-1])


def tokenise(text: str) -> list[str]:
    """Split a text, in lower case, at white space."""
    return text.lower().split()


TextVocabulary = WordVocabulary | Tokenizer

#: The kinds of vocabulary, by their name in `meta.json`.
VOCABULARIES: dict[str, type[WordVocabulary] | type[Tokenizer]] = {"words": WordVocabulary, "sentencepiece": Tokenizer}


def preprocess_classification(config: ClassificationPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the folder; `say` is called with each line of the report."""
    destination = Path(config.destdir)
    given = {"train": config.train, "valid": config.valid, "test": config.test}
    named = {split: Path(file) for split, file in given.items() if file is not None}
    check_folder(destination, marker=META, overwrite=config.overwrite, reads=named.values())
    tables = {split: read_labelled(file) for split, file in named.items()}
    labels = ordered_labels(tables["train"].labels)
    numbers = {split: label_numbers(table, labels, config.train) for split, table in tables.items()}
    texts = tables["train"].texts
    if config.vocabulary == "words":
        size, least = config.vocab_size or 50_000, config.min_frequency or 2
        vocabulary: TextVocabulary = WordVocabulary.count(texts, size=size, min_frequency=least)
    else:
        sentences = (sentence for text in texts for sentence in split_sentences(text))
        size, exact = config.vocab_size or 8000, config.vocab_size is not None
        vocabulary = train_in_process(sentences, vocab_size=size, exact=exact)
    seen = set(tables["train"].texts)
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        (folder / VOCABULARY).write_bytes(vocabulary.to_bytes())
        files, splits = {VOCABULARY: file_entry(vocabulary.to_bytes())}, {}
        for split, table in tables.items():
            arrays = labelled_arrays(table.texts, numbers[split], vocabulary)
            files |= arrays.save(folder, split)
            splits[split] = {"texts": len(table.texts), "tokens": int(arrays.token_offsets[-1])}
            say(_report(split, arrays))
            if split != "train" and (repeated := sum(text in seen for text in table.texts)):
                say(f"warning: {repeated:,} texts of {split} stand in the training data, too")
        write_meta(
            folder,
            task=TASK,
            files=files,
            vocabulary=config.vocabulary,
            labels=list(labels),
            splits=splits,
            options=to_dict(config),
        )
    say(f"{destination}: {len(labels)} labels, a vocabulary of {vocabulary.vocab_size:,} {config.vocabulary}")


def labelled_arrays(texts: Sequence[str], labels: Sequence[int], vocabulary: TextVocabulary) -> LabelledArrays:
    """Cut texts into sentences and these into tokens."""
    encoded = [vocabulary.encode(split_sentences(text)) for text in texts]
    return LabelledArrays.from_texts(encoded, labels, vocabulary.vocab_size)


def ordered_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels that occur: in numerical order if all are whole numbers, else alphabetically."""
    names = set(labels)
    if len(names) < 2:
        raise UserError(f"the training texts have one label only ('{labels[0]}'); there is nothing to learn")
    numeric = all(name.removeprefix("-").isdecimal() and len(name) < 20 for name in names)
    return tuple(sorted(names, key=lambda name: (int(name), name) if numeric else (0, name)))


def label_numbers(table: LabelledTexts, labels: Sequence[str], train: str) -> list[int]:
    """Return each row's label as its number in `labels`."""
    numbers = {label: number for number, label in enumerate(labels)}
    for row, label in enumerate(table.labels):
        if label not in numbers:
            known = ", ".join(labels[:10]) + (", …" if len(labels) > 10 else "")
            raise UserError(f"{table.places[row]}: the label '{label}' does not occur in {train}; it has {known}")
    return [numbers[label] for label in table.labels]


def _report(split: str, arrays: LabelledArrays) -> str:
    lengths = np.diff(arrays.token_offsets)
    tokens = arrays.sentences.tokens
    unknown = float((tokens == 0).mean()) if len(tokens) else 0.0
    empty = int((lengths == 0).sum())
    return (
        f"{split}: {len(arrays):,} texts, {len(tokens):,} tokens ({100 * unknown:.1f} % unknown), a text: median "
        f"{np.median(lengths):,.0f}, most {lengths.max():,}" + (f"; {empty:,} texts have no tokens" if empty else "")
    )


@dataclass(frozen=True, eq=False)
class ClassificationScores:
    """Counts (C, C), int64, of true labels (rows) against predicted ones (columns), with the scores that follow."""

    confusion: np.ndarray
    labels: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of texts scored."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The share of texts with the right label, in 0…1; 0 without texts."""
        return float(np.trace(self.confusion) / max(self.count, 1))

    @property
    def f1(self) -> np.ndarray:
        """The harmonic means (C,) of precision and recall: 2·TP / (true + predicted); 0 if both counts are 0."""
        both = self.confusion.sum(0) + self.confusion.sum(1)
        return np.asarray(2 * np.diag(self.confusion) / np.maximum(both, 1))

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels that occur, as truth or as prediction."""
        occurs = (self.confusion.sum(0) + self.confusion.sum(1)) > 0
        return float(self.f1[occurs].mean()) if occurs.any() else 0.0

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        scores = {"accuracy": self.accuracy, "macro_f1": self.macro_f1, "count": self.count}
        return {**scores, "labels": [*self.labels], "f1": self.f1.tolist(), "confusion": self.confusion.tolist()}

    def __str__(self) -> str:
        """Format the scores and the matrix as a table."""
        head = "truth \\ predicted"
        width = max(6, *map(len, self.labels), len(str(self.confusion.max(initial=0)))) + 1
        first = max(len(head), *map(len, self.labels))
        lines = [
            f"accuracy {100 * self.accuracy:.2f}, macro-F1 {100 * self.macro_f1:.2f}, {self.count:,} texts",
            f"{head:>{first}}" + "".join(f"{label:>{width}}" for label in (*self.labels, "F1")),
        ]
        for label, row, f1 in zip(self.labels, self.confusion.tolist(), self.f1, strict=True):
            lines.append(f"{label:>{first}}" + "".join(f"{n:>{width}}" for n in row) + f"{f1:>{width}.3f}")
        return "\n".join(lines)


def classification_scores(truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> ClassificationScores:
    """Compute scores of predicted label numbers (N,) against true ones (N,), each in 0…C−1."""
    truth, predicted, classes = np.asarray(truth), np.asarray(predicted), len(labels)
    if truth.shape != predicted.shape or truth.ndim != 1:
        raise ValueError(f"expected as many predictions as true labels, got {predicted.shape} and {truth.shape}")
    for name, numbers in (("true", truth), ("predicted", predicted)):
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < classes:
            raise ValueError(f"{name} labels must be 0 to {classes - 1}, got {numbers.min()} to {numbers.max()}")
    confusion = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    return ClassificationScores(confusion, tuple(labels))


class TextClassification:
    """The task of labelling texts; `labels` are the classes, in the order of the model's outputs."""

    Config: type = TextClassificationConfig
    metrics: tuple[str, ...] = ("macro_f1",)

    def __init__(
        self,
        config: TextClassificationConfig,
        *,
        vocabulary: TextVocabulary,
        labels: Sequence[str],
        fingerprint: str = "",
        data_dir: Path | None = None,
    ) -> None:
        self.config, self.vocabulary, self.labels = config, vocabulary, tuple(labels)
        self.fingerprint, self.data_dir = fingerprint, data_dir

    @classmethod
    def load(cls, config: TextClassificationConfig, data_dir: str | Path) -> TextClassification:
        """Load the task of a folder that `docnmt-preprocess --task text_classification` wrote."""
        folder = Path(data_dir)
        meta = read_meta(folder, task=TASK)
        check_files(folder, meta, VOCABULARY)
        try:
            vocabulary = VOCABULARIES[meta["vocabulary"]].from_bytes((folder / VOCABULARY).read_bytes())
        except (OSError, LookupError, UnicodeDecodeError, UserError) as error:
            raise UserError(f"{folder / VOCABULARY}: cannot be read: {error}; preprocess again") from error
        return cls(
            config, vocabulary=vocabulary, labels=meta["labels"], fingerprint=meta["fingerprint"], data_dir=folder
        )

    @classmethod
    def restore(cls, config: TextClassificationConfig, state: TaskState) -> TextClassification:
        """Restore the task of a checkpoint, without data."""
        kind = VOCABULARIES[state.json["vocabulary"]]
        vocabulary = kind.from_bytes(bytes(state.tensors["vocabulary"].numpy()))
        return cls(config, vocabulary=vocabulary, labels=checked(state.json["labels"], list[str], "labels"))

    def state(self) -> TaskState:
        """Return labels and vocabulary, which suffice to label new texts."""
        content = np.frombuffer(self.vocabulary.to_bytes(), dtype=np.uint8).copy()
        kind = next(name for name, known in VOCABULARIES.items() if isinstance(self.vocabulary, known))
        return TaskState({"labels": list(self.labels), "vocabulary": kind}, {"vocabulary": torch.from_numpy(content)})

    @property
    def vocabulary_size(self) -> int:
        """The number of rows of the embedding table."""
        return self.vocabulary.vocab_size

    def build_model(self, model_class: ModelClass, model_config: object) -> nn.Module:
        """Build the model of an architecture for this vocabulary and these labels."""
        return built(model_class, model_config, self)

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> TextDataset:
        """Return the texts of a split."""
        if self.data_dir is None:
            raise ValueError("a task restored from a checkpoint has no data; load it from a folder")
        arrays = LabelledArrays.open(self.data_dir, split)
        return TextDataset(arrays, self.config.max_length, str(model.position_count), split)

    def texts(self, texts: Sequence[str], model: nn.Module, *, name: str = "input") -> TextDataset:
        """Return a dataset of new texts, all with label 0."""
        arrays = labelled_arrays(texts, [0] * len(texts), self.vocabulary)
        return TextDataset(arrays, self.config.max_length, str(model.position_count), name)

    def evaluate(self, model: nn.Module, split: str, options: Mapping[str, object]) -> dict[str, float]:
        """Compute `macro_f1` of a split; the criterion logs the accuracy."""
        data = self.dataset(split, model)
        predicted = label_probabilities(model, data, max_tokens=int(str(options["max_tokens"]))).argmax(1)
        return {"macro_f1": classification_scores(data.arrays.labels, predicted, self.labels).macro_f1}


@torch.no_grad()
def label_probabilities(model: nn.Module, data: TextDataset, *, max_tokens: int) -> np.ndarray:
    """Return the probabilities (U, C) of the labels of every text, float32, in the order of the dataset."""
    device, order = next(model.parameters()).device, np.argsort(data.sizes, kind="stable")
    blocks = [np.zeros((0, 0), dtype=np.float32)]
    for part in plan_batches(data.sizes[order], max_tokens, seed=0, epoch=0, shuffle=False):
        blocks.append(model(data.batch(order[part]).to(device)).float().softmax(-1).cpu().numpy())
    return np.concatenate(blocks[1:] or blocks)[np.argsort(order)]


# Hallam and Tseng, "Fusion Matters" (2026). Texts are spans of one packed row, and each attends to itself. Every
# component draws its initial weights from a stream of its own (`random_stream`), so that classifiers that differ in
# positions or fusion alone start from identical shared weights.


class FusionClassifier(nn.Module):
    """Logits = W·dropout(mean over words of encoder(fusion(E·√d, P))) + b; each part draws from a stream of its own."""

    Config: type = FusionClassifierConfig
    predicts: ClassVar[str] = "labels"

    def __init__(self, config: FusionClassifierConfig, task: TextClassification) -> None:
        super().__init__()
        width, fusion = config.embed_dim, None
        with random_stream("position"):
            position = build_position(
                config.position,
                width,
                options=POSITIONS.options(config.position, config),
                levels=config.levels or 2,
                max_positions=config.max_positions or 4096,
                max_distance=config.relative_horizon or 16,
                std=1.0,  # the same as embeddings before their √d, and as the notebooks' tables
            )
        check_fusion(config.position, position, config.position_fusion)
        with random_stream("embedding"):
            tokens = nn.Embedding(task.vocabulary_size, width)
            nn.init.normal_(tokens.weight, std=config.embedding_std)
        if position.input is not None:
            convolution = {"radius": config.gate_conv_radius, "scalar": config.gate_conv_scalar}
            settings = {name: value for name, value in convolution.items() if value is not None}
            settings |= FUSIONS.options(config.position_fusion, config)
            with random_stream("fusion"):
                fusion = build_fusion(config.position_fusion, width, norm_after=config.norm_after_fusion, **settings)
        self.embedding = Embedding(tokens=tokens, position=position.input, fusion=fusion, dropout=0.0)
        self.embedding.scale = width**0.5 if config.scale_embeddings else 1.0
        self.layers = nn.ModuleList(_layer(config, position, number) for number in range(config.encoder_layers))
        self.norm = nn.LayerNorm(width) if config.norm == "pre" else nn.Identity()
        with random_stream("output"):
            self.output = nn.Linear(width, len(task.labels))
        self.dropout = Dropout(config.dropout)
        # where word indices count from: the sentence, or the text
        self.position_count = (config.position_count or "unit") if config.position == "multi_level" else "document"

    @classmethod
    def build(cls, config: FusionClassifierConfig, task: TextClassification) -> FusionClassifier:
        """Build the model that `config` describes, for the labels and vocabulary of `task`."""
        return cls(config, task)

    def forward(self, batch: TextBatch) -> Tensor:
        """Return logits (B, C) of the batch's B texts; a text without words has the mean 0."""
        text = batch.text
        x = self.embedding(text.tokens, text.positions, text.layout.sentence_offsets)  # (T, d)
        for layer in self.layers:
            x = layer(x, Reads(text.layout))
        return self.output(self.dropout(span_mean(self.norm(x), text.layout.sentences)))  # type: ignore[no-any-return]


@contextlib.contextmanager
def random_stream(name: str) -> Iterator[None]:
    """Let torch (on the CPU) draw from a stream of the current seed and `name`; the surrounding one is untouched."""
    seeds = np.random.SeedSequence([torch.initial_seed(), zlib.crc32(name.encode())])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        yield


def _layer(config: FusionClassifierConfig, position: Position, number: int) -> Layer:
    d_head = config.embed_dim // config.heads
    with random_stream(f"position.{number}"):
        inside = None if position.attention is None else position.attention(config.heads, d_head)
    options = {"d_model": config.embed_dim, "heads": config.heads, "d_head": d_head, "causal": False}
    options |= ATTENTIONS.options(config.attention, config)
    with random_stream(f"layer.{number}"):
        attention = ATTENTIONS.get(config.attention)(position=inside, **options)
        if isinstance(attention, (SelfAttention, LinearSelfAttention)):
            nn.init.xavier_uniform_(attention.qkv.weight)  # as nn.TransformerEncoder begins
            nn.init.zeros_(attention.qkv.bias)
            nn.init.zeros_(attention.output.bias)
        if isinstance(attention, OwnStart):
            attention.reset_parameters()
        return plain_layer(
            attention=attention,
            feed_forward=FeedForward(d_model=config.embed_dim, d_inner=config.ffn_dim, activation=config.activation),
            residual=partial(Residual, d_model=config.embed_dim, dropout=config.dropout, norm=config.norm),
        )


def classify(config: ClassifyConfig, out: TextIO) -> None:
    """Write a line for each text, in input order: its label, a tab, the label's probability."""
    loaded = load_model(config.path, device=pick_device(config.device))
    task = loaded.task
    if not isinstance(task, TextClassification):
        raise UserError(f"{config.path}: is a model of the task {loaded.header['task']}, not a text classifier")
    path, truth = None if config.input is None else Path(config.input), None
    if config.labelled and path is not None:
        table = read_labelled(path)
        texts, truth = table.texts, np.array(label_numbers(table, task.labels, config.path))
    else:
        texts = read_texts(path)
    data = task.texts(texts, loaded.model, name=config.input or "stdin")
    if cut := int((np.diff(data.arrays.token_offsets) > data.lengths).sum()):
        print(
            f"warning: {cut:,} of {len(texts):,} texts are longer than the {task.config.max_length:,} tokens that the "
            "classifier reads (the --max-length of its training)",
            file=sys.stderr,
        )
    probabilities = label_probabilities(loaded.model, data, max_tokens=config.max_tokens)
    for values in probabilities:
        chosen = int(values.argmax())
        named = [f"{label}={value:.4f}" for label, value in zip(task.labels, values, strict=True)]
        shown = named if config.all_probabilities else [f"{values[chosen]:.4f}"]
        print(task.labels[chosen], *shown, sep="\t", file=out)
    if truth is not None:
        scores = classification_scores(truth, probabilities.argmax(1), task.labels)
        print(scores, file=sys.stderr)
        if config.results is not None:
            write_json(Path(config.results), scores.to_dict())
