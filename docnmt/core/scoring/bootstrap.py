"""Paired bootstrap over documents (Koehn 2004): tests whether the difference of two systems may be due to chance.

Sentences of a document are not independent, so documents are resampled. The p-value is sacreBLEU's (Riezler and Maxwell
2005): the share of samples whose difference departs from the samples' mean by as much as the systems differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

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
    known. `system` and `other` are means of `system_seeds` and `other_seeds`, the scores of each seed.
    """

    metric: str
    system: float
    other: float
    difference: float
    low: float
    high: float
    p_value: float
    agreement: float | None
    system_seeds: tuple[float, ...] = ()
    other_seeds: tuple[float, ...] = ()

    @property
    def several(self) -> bool:
        """True if a system has several seeds."""
        return len(self.system_seeds) > 1 or len(self.other_seeds) > 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; `seeds` only if there are several."""
        content = asdict(self)
        seeds = {name: list(content.pop(f"{name}_seeds")) for name in ("system", "other")}
        return {**content, "seeds": {name: of_seeds(each) for name, each in seeds.items()}} if self.several else content


def of_seeds(scores: Sequence[float]) -> dict[str, Any]:
    """Return mean, least and most of the scores of several seeds, and the scores."""
    return {"mean": fmean(scores), "least": min(scores), "most": max(scores), "scores": list(scores)}


def paired_bootstrap(
    system: Evaluation | Sequence[Evaluation],
    other: Evaluation | Sequence[Evaluation],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> list[Comparison]:
    """Compare two systems' translations of the same documents, metric by metric.

    Of a system with several seeds the mean score is compared: each sample draws documents, the same for all seeds, and
    has the difference of the means. So the interval is about other documents, not about other seeds.

    Raises:
        ValueError: the systems were not evaluated on the same documents and metrics.
        UserError: there is only one document.
    """
    systems, others = ([each] if isinstance(each, Evaluation) else list(each) for each in (system, other))
    first = systems[0]
    if first.documents < 2:
        raise UserError(
            "--paired and --foreign draw whole documents and the reference is one document; separate its documents by "
            "empty lines"
        )
    if any(
        not np.array_equal(first.document_offsets, each.document_offsets) or first.counts.keys() != each.counts.keys()
        for each in (*systems, *others)
    ):
        raise ValueError("both systems must be evaluated on the same documents with the same metrics")
    drawn = _drawn(first.documents, samples, seed)
    return [_compare(systems, others, name, drawn) for name in first.counts]


def interval(evaluation: Evaluation, metric: str, *, samples: int = SAMPLES, seed: int = SEED) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of a metric in samples of the documents."""
    low, high = np.quantile(_sampled(evaluation, metric, _drawn(evaluation.documents, samples, seed)), [0.025, 0.975])
    return float(low), float(high)


def _drawn(documents: int, samples: int, seed: int) -> np.ndarray:
    """Draw samples (B, D): how often each has each document."""
    return np.random.default_rng(seed).multinomial(documents, np.full(documents, 1 / documents), size=samples)


def _compare(systems: Sequence[Evaluation], others: Sequence[Evaluation], name: str, drawn: np.ndarray) -> Comparison:
    seeds = [tuple(each.scores[name] for each in evaluations) for evaluations in (systems, others)]
    first, second = map(fmean, seeds)
    sampled = np.mean([_sampled(each, name, drawn) for each in systems], axis=0)
    sampled -= np.mean([_sampled(each, name, drawn) for each in others], axis=0)
    difference = first - second
    extreme = int((np.abs(sampled - sampled.mean()) >= abs(difference)).sum())
    low, high = np.quantile(sampled, [0.025, 0.975])
    agreement = human_agreement(name, systems[0].metrics[name], difference)
    p_value = (extreme + 1) / (len(drawn) + 1)
    return Comparison(name, first, second, difference, float(low), float(high), p_value, agreement, *seeds)


def _sampled(evaluation: Evaluation, name: str, drawn: np.ndarray) -> np.ndarray:
    """Return the scores (B,) of the drawn documents; drawn (B, D) counts how often each was drawn."""
    return np.array([evaluation.score(name, counts) for counts in drawn @ evaluation.counts[name]])


def format_comparisons(
    comparisons: Sequence[Comparison],
    documents: int,
    samples: int,
    names: tuple[str, str] = ("system", "other"),
) -> str:
    """Format the comparisons as a table, with the number of documents and samples; `names`: of the two systems."""
    width = max(len("metric"), *(len(c.metric) for c in comparisons))
    rows = [f"{'metric':<{width}} {names[0]:>7} {names[1]:>7}    diff.            95 %      p  people"]
    for c in comparisons:
        interval = f"[{c.low:+6.2f}, {c.high:+6.2f}]"
        people = "" if c.agreement is None else f"  {c.agreement:4.0f} %"
        scores = f"{c.metric:<{width}} {c.system:7.2f} {c.other:7.2f} {c.difference:+7.2f}"
        rows.append(f"{scores}  {interval}  {c.p_value:.4f}{people}")
    for c in comparisons:
        if c.several:
            shown = (
                f"{name} {min(scores):.2f} to {max(scores):.2f} ({', '.join(f'{score:.2f}' for score in scores)})"
                for name, scores in zip(names, (c.system_seeds, c.other_seeds), strict=True)
            )
            rows.append(f"(seeds, {c.metric}: {'; '.join(shown)})")
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
