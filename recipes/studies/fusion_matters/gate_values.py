"""The gate of a trained classifier, token by token, and what its values go with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from docnmt.core.batch import plan_batches
from docnmt.core.training.checkpoint import LoadedModel
from docnmt.modules.fusion import Gate, Normed
from docnmt.other_tasks.classification import LabelledArrays, TextDataset

#: Parts of equal length into which `along` divides what is read of a text.
PARTS = 32


@dataclass(frozen=True)
class GateValues:
    """For every token of the texts read: its gates (T, F), as many as the operator has, its word, its place."""

    gates: np.ndarray
    token: np.ndarray
    place: np.ndarray

    @cached_property
    def gate(self) -> np.ndarray:
        """(T,): the mean over features."""
        mean: np.ndarray = self.gates.mean(-1, dtype=np.float64)
        return mean

    def summary(self) -> dict[str, Any]:
        """Mean, sd, shares of the variance that word and place explain, and the mean `along` the text in parts.

        Variances are those of every feature's gate over tokens, added up: what two features' gates do in opposite
        directions is lost in their mean.
        """
        part = self.place * PARTS // (int(self.place.max()) + 1)
        counts, sums = np.bincount(part, minlength=PARTS), np.bincount(part, self.gate, minlength=PARTS)
        return {
            "mean": float(self.gate.mean()), "sd": float(np.sqrt(self.gates.var(0, dtype=np.float64).mean())),
            "words": explained(self.gates, self.token), "places": explained(self.gates, self.place),
            "along": [round(float(s / c), 4) if c else None for s, c in zip(sums, counts, strict=True)],
        }  # fmt: skip


def find_gate(model: Any) -> Gate | None:
    """The gated fusion of a classifier, without the norm behind it; None where there is none."""
    fusion = model.embedding.fusion
    fusion = fusion.fusion if isinstance(fusion, Normed) else fusion
    return fusion if isinstance(fusion, Gate) else None


@torch.no_grad()
def gate_values(loaded: LoadedModel, arrays: LabelledArrays, texts: int = 200) -> GateValues | None:
    """Gates of `texts` texts from everywhere in the file; None for a model without a gate, or texts without a token."""
    model: Any = loaded.model
    fusion = find_gate(model)
    if fusion is None:
        return None
    data = TextDataset(arrays, loaded.task.config.max_length, model.position_count, "test")
    gates, tokens, places = [], [], []
    # from everywhere, since files are often sorted by label
    chosen = np.linspace(0, len(data.sizes) - 1, min(texts, len(data.sizes))).round().astype(int)
    for batch in plan_batches(data.sizes[chosen], 16_384, seed=0, epoch=0, shuffle=False):
        units = chosen[batch]
        text = data.batch(units).text
        e = model.embedding.tokens(text.tokens) * model.embedding.scale
        gate = fusion.gate(e, model.embedding.position(text.positions), text.layout.sentence_offsets)
        gates.append(gate.numpy())
        tokens.append(text.tokens.numpy())
        places.append(np.concatenate([np.arange(length) for length in data.lengths[units]]))
    values = GateValues(np.concatenate(gates), np.concatenate(tokens), np.concatenate(places))
    return values if len(values.gates) else None


def explained(values: np.ndarray, groups: np.ndarray) -> float:
    """The share of the variance of `values` (T, F) that groups (T,) of them explain: R² over all F, adjusted.

    Unadjusted for the number of groups, as many groups as values would explain everything, and most words are rare. 0
    without variance.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order[0]] - 1))
    if len(starts) == len(values) or np.ptp(values, axis=0).max() < 1e-9:
        return 0.0
    values = values[order] - values.mean(0, dtype=np.float64)
    counts = np.diff(starts, append=len(values))
    between = float((np.add.reduceat(values, starts, axis=0) ** 2 / counts[:, None]).sum())
    whole = float((values**2).sum())
    return max(0.0, 1 - (1 - between / whole) * (len(values) - 1) / (len(values) - len(starts)))
