"""The gate of a trained classifier, token by token, and what its values go with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from docnmt.data.batching import plan_batches
from docnmt.data.labelled import LabelledArrays
from docnmt.modules.fusion import Gate, Normed
from docnmt.tasks.text_classification import TextDataset
from docnmt.training.loading import LoadedModel

#: Parts of equal length into which `along` divides what is read of a text.
PARTS = 32


@dataclass(frozen=True)
class GateValues:
    """For every token of the texts read: the gate's mean over features, the token and its place in the text."""

    gate: np.ndarray
    token: np.ndarray
    place: np.ndarray

    def summary(self) -> dict[str, Any]:
        """Mean, sd, shares of the variance that word and place explain, and the mean `along` the text in parts."""
        part = self.place * PARTS // (int(self.place.max()) + 1)
        counts, sums = np.bincount(part, minlength=PARTS), np.bincount(part, self.gate, minlength=PARTS)
        return {
            "mean": float(self.gate.mean()), "sd": float(self.gate.std()),
            "words": explained(self.gate, self.token), "places": explained(self.gate, self.place),
            "along": [round(float(s / c), 4) if c else None for s, c in zip(sums, counts, strict=True)],
        }  # fmt: skip


def find_gate(model: Any) -> Gate | None:
    """The gated fusion of a classifier, without the norm behind it; None where there is none."""
    fusion = model.embedding.fusion
    fusion = fusion.fusion if isinstance(fusion, Normed) else fusion
    return fusion if isinstance(fusion, Gate) else None


@torch.no_grad()
def gate_values(loaded: LoadedModel, arrays: LabelledArrays, texts: int = 200) -> GateValues | None:
    """Gates of the first `texts` texts; None for a model without a gate, or texts without a token."""
    model: Any = loaded.model
    fusion = find_gate(model)
    if fusion is None:
        return None
    data = TextDataset(arrays, loaded.task.config.max_length, model.position_count, "test")
    gates, tokens, places = [], [], []
    for units in plan_batches(data.sizes[:texts], 16_384, seed=0, epoch=0, shuffle=False):
        text = data.batch(units).text
        e = model.embedding.tokens(text.tokens) * model.embedding.scale
        gate = fusion.gate(e, model.embedding.position(text.positions), text.layout.sentence_offsets)
        gates.append(gate.mean(-1).double().numpy())
        tokens.append(text.tokens.numpy())
        places.append(np.concatenate([np.arange(length) for length in data.lengths[units]]))
    values = GateValues(np.concatenate(gates), np.concatenate(tokens), np.concatenate(places))
    return values if len(values.gate) else None


def explained(values: np.ndarray, groups: np.ndarray) -> float:
    """The share of the variance of `values` (N,) that groups (N,) of them explain: R², adjusted for their number.

    Unadjusted, as many groups as values would explain everything, and most words are rare. 0 without variance.
    """
    names, group = np.unique(groups, return_inverse=True)
    if values.std() < 1e-9 or len(names) == len(values):
        return 0.0
    counts = np.bincount(group)
    within = float(((values - (np.bincount(group, values) / counts)[group]) ** 2).sum())
    whole = float(((values - values.mean()) ** 2).sum())
    return max(0.0, 1 - within / whole * (len(values) - 1) / (len(values) - len(names)))
