"""A criterion that also counts the choice among the translations that a word could have had (`../alternatives.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from docnmt.core.training.config import LabelSmoothedCrossEntropyConfig
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.plugin import IGNORE, option, register_criterion


@dataclass(frozen=True)
class ChoiceConfig(LabelSmoothedCrossEntropyConfig):
    """Options of the choice among alternatives."""

    choice: float = option(1.0, "how many times the choice among alternatives counts in training", between=(0, None))
    alternatives: str | None = option(None, "FILE.npy (V, K): the alternatives of each target subword")


@register_criterion("choice")
class Choice(LabelSmoothedCrossEntropy):
    """Label-smoothed cross-entropy plus, where the next word has alternatives, `choice` times −log p among these alone.

    `table` (V, K) has the alternatives of each subword, itself first, −1 where there are no more; `begins` (V,) says
    whether a word ends before a subword. The loss of validation is the plain one; −log p of the choices is logged as
    `choice`, divided by the number of all labels."""

    Config: type = ChoiceConfig
    metrics: tuple[str, ...] = ("nll", "choice")

    def __init__(self, table: Tensor, begins: Tensor, *, choice: float, label_smoothing: float):
        super().__init__(label_smoothing=label_smoothing)
        self.table, self.begins, self.choice = table, begins, choice

    @classmethod
    def build(cls, config: ChoiceConfig, task: Any) -> Choice:  # type: ignore[override]  # the own options
        pieces = task.target_tokenizer.vocabulary()
        table = torch.from_numpy(np.load(Path(config.alternatives or ""), allow_pickle=False)).long()
        assert len(table) == len(pieces), f"--alternatives: {len(table)} rows for {len(pieces)} subwords"
        assert not config.r_drop, "--r-drop is not for --criterion choice"
        begins = torch.tensor([not piece[:1].isalnum() for piece in pieces])  # ▁, punctuation, </s>
        return cls(table, begins, choice=config.choice, label_smoothing=config.label_smoothing)

    def __call__(self, model: Any, batch: Any) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        predicted = model(batch)
        loss, nll = self._cross_entropy(model, predicted, batch)
        features = predicted if isinstance(predicted, Tensor) else predicted.features
        choice = self.choices(model.output, features, batch.labels)
        if model.training:
            loss = loss + self.choice * choice
        return loss, batch.num_tokens, {"nll": nll.detach(), "choice": choice.detach()}

    def choices(self, output: torch.nn.Linear, features: Tensor, labels: Tensor) -> Tensor:
        """−log p(label | its alternatives), summed over labels (T,) that are whole words with alternatives."""
        self.table, self.begins = self.table.to(labels.device), self.begins.to(labels.device)
        known = labels.clamp(min=0)
        whole = F.pad(self.begins[known[1:]] & (labels[1:] != IGNORE), (0, 1))  # (T,): a word ends here
        rows = ((labels != IGNORE) & whole & (self.table[known, 0] >= 0)).nonzero()[:, 0]
        others = self.table[labels[rows]]  # (L, K)
        logits = torch.einsum("ld,lkd->lk", features[rows], output.weight[others.clamp(min=0)]).float()
        if output.bias is not None:
            logits = logits + output.bias[others.clamp(min=0)]
        logits = logits.masked_fill(others < 0, float("-inf"))
        return F.cross_entropy(logits, torch.zeros_like(rows), reduction="sum")  # itself stands first
