"""Paired bootstrap over documents (Koehn 2004): tests whether the difference of two systems may be due to chance.

Sentences of a document are not independent, so documents are resampled. The p-value is sacreBLEU's (Riezler and Maxwell
2005): the share of samples whose difference departs from the samples' mean by as much as the systems differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from docnmt.core.scoring.agreement import INSTALLED, human_agreement
from docnmt.core.scoring.config import SAMPLES, SEED
from docnmt.core.scoring.evaluation import Evaluation
from docnmt.runtime.errors import UserError

#: With fewer, equal systems come out as different more often than p says: at p < .05 in 48 % of all cases with 2
#: documents, 18 % with 5, 10 % with 10 and 6 % with 30 (`tests/unit/test_scoring.py`).
FEW_DOCUMENTS = 30


@dataclass(frozen=True)
class Comparison:
    """The comparison of two systems by one metric; `low` and `high` bound the middle 95 % of the sampled differences.

    `agreement` is the share of people who prefer the better-scored of systems that differ so much, in percent, if
    known.
    """

    metric: str
    system: float
    other: float
    difference: float
    low: float
    high: float
    p_value: float
    agreement: float | None


def paired_bootstrap(
    system: Evaluation, other: Evaluation, *, samples: int = SAMPLES, seed: int = SEED
) -> list[Comparison]:
    """Compare two systems' translations of the same documents, metric by metric.

    Raises:
        ValueError: the systems were not evaluated on the same documents and metrics.
        UserError: there is only one document.
    """
    if system.documents < 2:
        raise UserError(
            "--paired draws whole documents and the reference is one document; separate its documents by empty lines"
        )
    if (
        not np.array_equal(system.document_offsets, other.document_offsets)
        or system.counts.keys() != other.counts.keys()
    ):
        raise ValueError("both systems must be evaluated on the same documents with the same metrics")
    drawn = _drawn(system.documents, samples, seed)
    return [_compare(system, other, name, drawn) for name in system.counts]


def interval(evaluation: Evaluation, metric: str, *, samples: int = SAMPLES, seed: int = SEED) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of a metric in samples of the documents."""
    low, high = np.quantile(_sampled(evaluation, metric, _drawn(evaluation.documents, samples, seed)), [0.025, 0.975])
    return float(low), float(high)


def _drawn(documents: int, samples: int, seed: int) -> np.ndarray:
    """Draw samples (B, D): how often each has each document."""
    return np.random.default_rng(seed).multinomial(documents, np.full(documents, 1 / documents), size=samples)


def _compare(system: Evaluation, other: Evaluation, name: str, drawn: np.ndarray) -> Comparison:
    first, second = system.scores[name], other.scores[name]
    sampled = _sampled(system, name, drawn) - _sampled(other, name, drawn)
    difference = first - second
    extreme = int((np.abs(sampled - sampled.mean()) >= abs(difference)).sum())
    low, high = np.quantile(sampled, [0.025, 0.975])
    agreement = human_agreement(name, system.metrics[name], difference)
    p_value = (extreme + 1) / (len(drawn) + 1)
    return Comparison(name, first, second, difference, float(low), float(high), p_value, agreement)


def _sampled(evaluation: Evaluation, name: str, drawn: np.ndarray) -> np.ndarray:
    """Return the scores (B,) of the drawn documents; drawn (B, D) counts how often each was drawn."""
    return np.array([evaluation.score(name, counts) for counts in drawn @ evaluation.counts[name]])


def format_comparisons(comparisons: Sequence[Comparison], documents: int, samples: int) -> str:
    """Format the comparisons as a table, with the number of documents and samples."""
    width = max(len("metric"), *(len(c.metric) for c in comparisons))
    rows = [f"{'metric':<{width}}  system   other    diff.            95 %      p  people"]
    for c in comparisons:
        interval = f"[{c.low:+6.2f}, {c.high:+6.2f}]"
        people = "" if c.agreement is None else f"  {c.agreement:4.0f} %"
        scores = f"{c.metric:<{width}} {c.system:7.2f} {c.other:7.2f} {c.difference:+7.2f}"
        rows.append(f"{scores}  {interval}  {c.p_value:.4f}{people}")
    rows.append(f"(paired bootstrap over {documents:,} documents, {samples:,} samples)")
    if INSTALLED:
        rows.append("(people: of pairs of systems that differ so much, the share that human judges order the same way)")
    else:
        rows.append("(people: how often they agree; pip install 'docnmt[evaluation]')")
    return "\n".join([*rows, *reservations(documents)])


def reservations(documents: int) -> list[str]:
    """Return the reservations about a comparison on this many documents."""
    few = f"with fewer than {FEW_DOCUMENTS} documents to draw from, intervals are too narrow and p is too small"
    return [few] if documents < FEW_DOCUMENTS else []
