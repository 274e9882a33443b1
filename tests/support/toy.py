"""A task, two models and their data, small enough that training takes milliseconds: next-number prediction.

Every unit is a row of numbers that count upwards with noise. Registered like a plug-in, so the same code also shows
that training knows nothing of translation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.cli.train import main
from docnmt.core.task import TaskState
from docnmt.core.training.checkpoint import load_checkpoint
from docnmt.options import option
from docnmt.registry import register_architecture, register_criterion, register_model, register_task


@dataclass(frozen=True)
class ToyTaskConfig:
    default_criterion: ClassVar[str] = "toy"


@dataclass(frozen=True, eq=False)
class ToyBatch:
    tokens: Tensor
    labels: Tensor

    @property
    def num_tokens(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> ToyBatch:
        return ToyBatch(self.tokens.to(device), self.labels.to(device))


class ToyDataset:
    def __init__(self, split: str, rows: list[np.ndarray]) -> None:
        self.split, self.rows = split, rows
        self.sizes = np.array([len(row) - 1 for row in rows], dtype=np.int64)

    def batch(self, units: np.ndarray) -> ToyBatch:
        rows = [self.rows[i] for i in units]
        tokens, labels = (np.concatenate([row[cut] for row in rows]) for cut in (slice(0, -1), slice(1, None)))
        return ToyBatch(torch.from_numpy(tokens), torch.from_numpy(labels))

    def describe(self, units: np.ndarray) -> str:
        return f"{self.split} rows {', '.join(map(str, units))}"


@register_task("toy")
class ToyTask:
    """Predict the next number."""

    Config = ToyTaskConfig
    metrics = ("bleu",)

    def __init__(self, config: ToyTaskConfig, state: TaskState, rows: dict[str, list[np.ndarray]]) -> None:
        self.config, self._state, self.rows = config, state, rows
        self.vocabulary: int = state.json["vocabulary"]
        self.fingerprint = str(state.json["fingerprint"])
        self.evaluations = 0

    @classmethod
    def load(cls, config: ToyTaskConfig, data_dir: Path) -> ToyTask:
        meta = json.loads((data_dir / "meta.json").read_text())
        rows = {
            split: [np.array(row, dtype=np.int64) for row in json.loads((data_dir / f"{split}.json").read_text())]
            for split in ("train", "valid")
        }
        state = TaskState({k: meta[k] for k in ("vocabulary", "fingerprint")}, {"tokenizer.model": torch.arange(3)})
        return cls(config, state, rows)

    @classmethod
    def restore(cls, config: ToyTaskConfig, state: TaskState) -> ToyTask:
        if "tokenizer.model" not in state.tensors:
            raise LookupError("the checkpoint lacks the tensor tokenizer.model")
        return cls(config, state, {})

    def state(self) -> TaskState:
        return self._state

    def build_model(self, model_class: Any, model_config: Any) -> nn.Module:
        model: nn.Module = model_class.build(model_config, self)
        return model

    def dataset(
        self, split: str, model: nn.Module, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> ToyDataset:
        return ToyDataset(split, self.rows[split])

    def evaluate(self, model: nn.Module, split: str, options: Any) -> dict[str, float]:
        return {"bleu": float(next(model.parameters()).detach().double().abs().sum())}


@dataclass(frozen=True)
class ToyModelConfig:
    width: int = option(8, "width of the embedding")
    dropout: float = option(0.2, "dropout on the features")


@register_model("toy")
class ToyModel(nn.Module):
    """A bigram model with tied embeddings, dropout and a buffer."""

    Config = ToyModelConfig

    def __init__(self, *, vocabulary: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, vocabulary)
        self.output.weight = self.embedding.weight

    @classmethod
    def build(cls, config: ToyModelConfig, task: ToyTask) -> ToyModel:
        return cls(vocabulary=task.vocabulary, width=config.width, dropout=config.dropout)

    def forward(self, batch: ToyBatch) -> Tensor:
        features: Tensor = self.dropout(torch.tanh(self.hidden(self.embedding(batch.tokens))))
        return self.norm(features) if len(features) > 1 else features


@dataclass(frozen=True)
class OtherModelConfig(ToyModelConfig):
    poison: int = option(-1, "a batch that holds this number has a NaN loss")
    signal_at: int = option(-1, "in the forward pass of this count, the process sends itself a signal")
    signal_number: int = option(15, "which one: SIGTERM")
    memory: int | None = option(None, "more tokens than this in a batch are out of memory")


@register_model("toy_other")
class OtherModel(ToyModel):
    """The toy model that can be made to fail."""

    Config = OtherModelConfig

    @classmethod
    def build(cls, config: OtherModelConfig, task: ToyTask) -> OtherModel:
        model = cls(vocabulary=task.vocabulary, width=config.width, dropout=config.dropout)
        model.config, model.calls = config, 0
        return model

    def forward(self, batch: ToyBatch) -> Tensor:
        import os

        self.calls += 1
        if self.calls == self.config.signal_at:
            os.kill(os.getpid(), self.config.signal_number)
        if len(batch.tokens) > (self.config.memory or 1000):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        features = super().forward(batch)
        return features * float("nan") if (batch.tokens == self.config.poison).any() else features


@register_criterion("toy")
class ToyCriterion:
    """Cross-entropy with the whole vocabulary at once."""

    metrics = ("nll",)

    @classmethod
    def build(cls, config: Any, task: ToyTask) -> ToyCriterion:
        return cls()

    def __call__(self, model: nn.Module, batch: ToyBatch) -> tuple[Tensor, int, dict[str, float]]:
        loss = F.cross_entropy(model.output(model(batch)), batch.labels, reduction="sum")
        return loss, batch.num_tokens, {"nll": float(loss.detach())}


@register_architecture("toy", "toy_wide")
def toy_wide() -> dict[str, Any]:
    """The toy model, twice as wide."""
    return {"width": 16}


def write_toy_data(folder: Path, *, rows: int = 60, vocabulary: int = 11, seed: int = 0) -> Path:
    """A data folder of the toy task."""
    rng = np.random.default_rng(seed)

    def row() -> list[int]:
        length, first = int(rng.integers(2, 12)), int(rng.integers(vocabulary))
        return [int((first + i + (rng.random() < 0.1)) % vocabulary) for i in range(length)]

    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", rows), ("valid", 12)):
        (folder / f"{split}.json").write_text(json.dumps([row() for _ in range(count)]))
    meta = {"task": "toy", "vocabulary": vocabulary, "fingerprint": f"toy-{rows}-{vocabulary}-{seed}"}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def train(data: Path, save_dir: Path, *options: str, arch: str = "toy") -> int:
    """The exit status of `docnmt-train` on the toy task, as a user runs it."""
    basic = ["--arch", arch, "--save-dir", str(save_dir), "--max-tokens", "40", "--warmup-updates", "5", "--lr", "0.01"]
    return main([str(data), *basic, "--log-interval", "3", "--device", "cpu", *options])


def log(save_dir: Path, events: Sequence[str] = ("train", "valid", "epoch")) -> list[dict[str, Any]]:
    """The log without what depends on the clock."""
    clock = ("wall", "tokens_per_second", "peak_memory")
    lines = [json.loads(line) for line in (save_dir / "train.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in clock} for line in lines if line["event"] in events]


def assert_same_checkpoint(first: Path, second: Path) -> None:
    """Tensors bit by bit, and the progress but for the clock."""
    one, other = load_checkpoint(first), load_checkpoint(second)
    assert one.tensors.keys() == other.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[name]), name
    for progress in (one.header["progress"], other.header["progress"]):
        for clock in (progress, progress["interval"], progress["whole_epoch"]):
            clock.pop("seconds", None)
    assert one.header["progress"] == other.header["progress"]
