"""Text classification: the classifier, its task, its scores, and docnmt-classify.

`TextClassification` → `TextBatch` → `FusionClassifier` (embedding, fusion, layers, mean) → probabilities → scores
"""

from __future__ import annotations

import contextlib
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, TextIO

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.core.batch import plan_batches
from docnmt.core.corpus import check_files, read_meta
from docnmt.core.task import ModelClass, TaskState
from docnmt.core.training.checkpoint import load_model
from docnmt.modules.attention import LinearSelfAttention, SelfAttention
from docnmt.modules.fusion import build_fusion
from docnmt.modules.layers import Dropout, FeedForward, Layer, OwnStart, Reads, Residual, plain_layer
from docnmt.modules.positions import Embedding, Position, build_position, check_fusion, check_linear
from docnmt.other_tasks.classification.data import (
    TASK,
    VOCABULARIES,
    VOCABULARY,
    LabelledArrays,
    TextBatch,
    TextDataset,
    TextVocabulary,
    label_numbers,
    labelled_arrays,
    read_labelled,
    read_texts,
)
from docnmt.other_tasks.options import ClassifyConfig, FusionClassifierConfig, TextClassificationConfig
from docnmt.other_tasks.sentence_vectors.encoders import span_mean
from docnmt.registry import ATTENTIONS, FUSIONS, POSITIONS
from docnmt.runtime.device import pick_device
from docnmt.runtime.system import UserError, write_json


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
        return cls(config, vocabulary=vocabulary, labels=state.json["labels"])

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
        return model_class.build(model_config, self)

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
            options = POSITIONS.options(config.position, config)
            position = build_position(
                config.position,
                width,
                options=options,
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
            own = {"radius": config.gate_conv_radius, "scalar": config.gate_conv_scalar}
            given = {name: value for name, value in own.items() if value is not None}
            given |= FUSIONS.options(config.position_fusion, config)
            with random_stream("fusion"):
                fusion = build_fusion(config.position_fusion, width, norm_after=config.norm_after_fusion, **given)
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
    if config.attention == "linear":
        check_linear(config.position, inside)
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
