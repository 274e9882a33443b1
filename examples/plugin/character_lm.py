"""A plug-in with a task, a model and a criterion of its own: predict the next byte of a line from three before it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from docnmt.plugin import TaskState, option, register_criterion, register_model, register_task


class Batch(NamedTuple):
    context: torch.Tensor  # (T, 3) bytes
    labels: torch.Tensor  # (T,) the byte after each

    @property
    def num_tokens(self):
        return len(self.labels)

    def to(self, device):
        return Batch(self.context.to(device), self.labels.to(device))


class Lines:  # a dataset in which every line is a unit
    def __init__(self, text):
        self.lines = text.splitlines()
        self.sizes = np.array([len(line) + 1 for line in self.lines])

    def batch(self, units):
        rows = [torch.frombuffer(bytearray(b"\0\0\0" + self.lines[u] + b"\0"), dtype=torch.uint8) for u in units]
        windows = torch.cat([row.unfold(0, 4, 1) for row in rows]).long()  # (T, 4)
        return Batch(windows[:, :3], windows[:, 3])

    def describe(self, units):
        return f"lines {', '.join(str(u + 1) for u in units[:10])}"


@register_task("character_lm")
class CharacterLM:
    """Predict the next byte of a line; DATA holds train.txt and valid.txt."""

    metrics = ()  # names of what `evaluate` would return

    def __init__(self, texts, fingerprint=""):
        self.texts, self.fingerprint = texts, fingerprint

    @classmethod
    def load(cls, config, data_dir):
        texts = {split: Path(data_dir, f"{split}.txt").read_bytes() for split in ("train", "valid")}
        return cls(texts, fingerprint=hashlib.sha256(texts["train"]).hexdigest())

    @classmethod
    def restore(cls, config, state):
        return cls({})

    def state(self):
        return TaskState(json={})

    def build_model(self, model_class, model_config):
        return model_class(hidden_dim=model_config.hidden_dim)

    def dataset(self, split, model, *, seed=0, epoch=0, training=False):
        return Lines(self.texts[split])


@register_model("byte_mlp")
class ByteMLP(nn.Module):
    """A multilayer perceptron over three bytes (Bengio et al. 2003)."""

    @dataclass(frozen=True)
    class Config:
        hidden_dim: int = option(64, "width of embeddings and of the hidden layer")

    def __init__(self, *, hidden_dim):
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(256, hidden_dim), nn.Linear(3 * hidden_dim, hidden_dim)
        self.output = nn.Linear(hidden_dim, 256)

    def forward(self, batch):  # features (T, d), so the built-in cross-entropies work with it, too
        return self.hidden(self.embedding(batch.context).flatten(1)).tanh()


@register_criterion("focal")
class Focal:
    """−(1 − p)² · log p, summed over bytes (Lin et al. 2017, eq. 4)."""

    metrics = ("nll",)

    @classmethod
    def build(cls, config, task):
        return cls()

    def __call__(self, model, batch):
        log_p = model.output(model(batch)).log_softmax(-1).gather(1, batch.labels[:, None])
        loss = -((1 - log_p.exp()) ** 2 * log_p).sum()
        return loss, batch.num_tokens, {"nll": -log_p.detach().sum()}
