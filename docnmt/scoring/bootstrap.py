"""Paired bootstrap over documents (Koehn 2004): is one system better than another, or was it the choice of texts?

Sentences of a document are not independent, so documents are resampled. The p-value is sacreBLEU's (Riezler and Maxwell
2005): how often the difference of a sample departs from the samples' mean by as much as the systems differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from docnmt.scoring.metrics import Evaluation

#: Under so many, resampling documents says little.
FEW_DOCUMENTS = 10


@dataclass(frozen=True)
class Comparison:
    """One metric of two systems; `low` and `high` bound the middle 95 % of the sampled differences."""

    metric: str
    system: float
    other: float
    difference: float
    low: float
    high: float
    p_value: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def paired_bootstrap(
    system: Evaluation, other: Evaluation, *, samples: int = 1000, seed: int = 12345
) -> list[Comparison]:
    """Compare two systems' translations of the same documents, metric by metric.

    Raises:
        ValueError: the systems were not evaluated on the same documents and metrics.
    """
    if (
        not np.array_equal(system.document_offsets, other.document_offsets)
        or system.counts.keys() != other.counts.keys()
    ):
        raise ValueError("both systems must be evaluated on the same documents with the same metrics")
    documents = system.documents
    drawn = np.random.default_rng(seed).multinomial(
        documents, np.full(documents, 1 / documents), size=samples
    )  # (B, D)
    return [_compare(system, other, name, drawn) for name in system.counts]


def _compare(system: Evaluation, other: Evaluation, name: str, drawn: np.ndarray) -> Comparison:
    first, second = system.scores[name], other.scores[name]
    sampled = _sampled(system, name, drawn) - _sampled(other, name, drawn)
    difference = first - second
    extreme = int((np.abs(sampled - sampled.mean()) >= abs(difference)).sum())
    low, high = np.quantile(sampled, [0.025, 0.975])
    return Comparison(name, first, second, difference, float(low), float(high), (extreme + 1) / (len(drawn) + 1))


def _sampled(evaluation: Evaluation, name: str, drawn: np.ndarray) -> np.ndarray:
    """(B,) scores of the drawn documents; drawn (B, D) counts how often each was drawn."""
    return np.array([evaluation.score(name, counts) for counts in drawn @ evaluation.counts[name]])


def format_comparisons(comparisons: Sequence[Comparison], documents: int, samples: int) -> str:
    """A table, and what it stands on."""
    rows = ["metric   system   other    diff.            95 %      p"]
    for c in comparisons:
        interval = f"[{c.low:+6.2f}, {c.high:+6.2f}]"
        rows.append(f"{c.metric:<7} {c.system:7.2f} {c.other:7.2f} {c.difference:+7.2f}  {interval}  {c.p_value:.4f}")
    note = f"(paired bootstrap over {documents:,} documents, {samples:,} samples)"
    if documents < FEW_DOCUMENTS:
        note += f"\nwith fewer than {FEW_DOCUMENTS} documents to draw from, neither interval nor p means much"
    return "\n".join([*rows, note])
