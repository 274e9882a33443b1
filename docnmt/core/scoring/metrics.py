"""Metrics from counts: BLEU, chrF, TER, COMET; intervals and paired comparison by bootstrap over documents.

lines → counts of each (`Metric.counts`) → sums over a document, a part, a sample → `Metric.score`
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from statistics import fmean
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
from sacrebleu.metrics.base import Metric as SacreBleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from docnmt.core.scoring.config import DEFAULT, SAMPLES, SEED
from docnmt.registry import METRICS
from docnmt.runtime.languages import base
from docnmt.runtime.progress import how_many
from docnmt.runtime.system import UsageError, UserError, needing

# Metrics of sentences; d-BLEU compares documents, each its sentences joined by a space (Liu et al. 2020).


class Score(Protocol):
    """A score of summed counts."""

    @property
    def signature(self) -> str:
        """Everything that the number depends on, as in sacreBLEU's signatures (``nrefs:1|case:lc``)."""

    def score(self, sums: np.ndarray) -> float:
        """Return the score of summed counts (K,); those of no line are zeros."""


class Metric(Score, Protocol):
    """A metric of a plug-in, made for some references (`register_metric`)."""

    def counts(self, lines: Sequence[str]) -> np.ndarray:
        """Return the counts (n, K) of the lines of a translation; those of any lines together are their sums."""


@dataclass(frozen=True)
class _SacreBleu:
    """A metric of sacreBLEU, by the counts that its own bootstrap resamples."""

    metric: SacreBleuMetric

    @property
    def signature(self) -> str:
        return str(self.metric.get_signature())

    def counts(self, lines: Sequence[str]) -> np.ndarray:
        return np.asarray(self.metric._extract_corpus_statistics(list(lines), None), dtype=np.float64)

    def score(self, sums: np.ndarray) -> float:
        return float(self.metric._compute_score_from_stats(sums.tolist()).score)


def bleu(tokenize: str, references: Sequence[Sequence[str]], *, lowercase: bool = False) -> BLEU:
    """Return BLEU."""
    try:
        return BLEU(tokenize=tokenize, references=references, lowercase=lowercase)
    except (KeyError, AssertionError, ValueError):
        names = ", ".join(name for name in BLEU.TOKENIZERS if name != "none")
        raise UsageError(f"sacreBLEU has no tokenizer '{tokenize}'; there are {names}") from None
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(
            f"sacreBLEU's tokenizer '{tokenize}' needs a package or a download: {' '.join(str(error).split())}"
        ) from error


def chrf(tokenize: str, references: Sequence[Sequence[str]], *, word_order: int = 0) -> CHRF:
    """Return chrF, or with words chrF++."""
    return CHRF(references=references, word_order=word_order)


lower_cased_bleu, chrf_of_words = partial(bleu, lowercase=True), partial(chrf, word_order=2)


def ter(tokenize: str, references: Sequence[Sequence[str]]) -> TER:
    """Return TER."""
    return TER(references=references)


def lower_is_better(metric: str) -> bool:
    """Tell whether lower is better: as its registration says, or as for losses, perplexities and edit rates."""
    if metric in METRICS:
        return METRICS.get(metric).lower_is_better
    return metric.lower() in ("loss", "nll", "ppl", "ter")


def bleu_tokenizer(language: str) -> str:
    """Return the name of sacreBLEU's tokenizer for a target language, by sacreBLEU's own choices."""
    return {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}.get(base(language), "13a")


# COMET (Rei et al. 2022), if its package is installed: a learned metric that also reads the source. A window of N
# sentences is read as one text and slides over each document (SLIDE: Raunak et al. 2024). The score is the mean over
# windows. Every sentence of a window has an equal share of it, so shares add up to documents and to the whole.


def require_comet() -> ModuleType:
    """Import the package `comet`."""
    with needing("COMET is not installed; leave --comet away, or", "comet"):
        return importlib.import_module("comet")


@dataclass(frozen=True)
class Comet:
    """A COMET model and its input; as a metric, the mean of shares, times 100."""

    model: str  # name at the model hub, or the path of a checkpoint
    window: int = 1  # sentences read at once
    stride: int = 1  # from the beginning of a window to the next
    reference_free: bool = False  # is the model given no reference?

    def counts(
        self,
        systems: Sequence[Sequence[str]],
        sources: Sequence[str],
        reference: Sequence[str],
        document_offsets: Sequence[int] | np.ndarray,
    ) -> list[np.ndarray]:
        """Return for each system, (S, 2): the sum of every sentence's shares of scores, and the sum of its shares."""
        comet = require_comet()
        try:
            path = self.model if self.model.endswith(".ckpt") else comet.download_model(self.model)
            scorer = comet.load_from_checkpoint(path)
        except (OSError, KeyError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"COMET's model '{self.model}' cannot be loaded: {reason}; give the path of a .ckpt file"
            ) from error
        if self.reference_free and scorer.requires_references():
            raise UserError(f"--comet-qe: '{self.model}' needs references; Unbabel/wmt22-cometkiwi-da does not")
        spans = list(windows(document_offsets, self.window, self.stride))
        shares = []
        for hypotheses in systems:
            texts = {"src": sources, "mt": hypotheses} | ({} if self.reference_free else {"ref": reference})
            rows = [{name: " ".join(filter(None, lines[a:b])) for name, lines in texts.items()} for a, b in spans]
            counts = np.zeros((len(sources), 2))
            for (a, b), score in zip(spans, scorer.predict(rows, batch_size=16, gpus=0).scores, strict=True):
                counts[a:b] += np.array([float(score), 1]) / (b - a)
            shares.append(counts)
        return shares

    def score(self, sums: np.ndarray) -> float:
        """Return the score of summed shares; no text scores 0, as in BLEU."""
        total, shares = sums.tolist()
        return 100 * total / shares if shares else 0.0

    @property
    def signature(self) -> str:
        """Everything that the number depends on."""
        nrefs = 0 if self.reference_free else 1
        return f"nrefs:{nrefs}|model:{self.model}|window:{self.window}|stride:{self.stride}"


def windows(document_offsets: Sequence[int] | np.ndarray, window: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of `window` sentences, one every `stride` sentences of a document, which is one window if it has
    fewer; the last ends with the document."""
    for begin, end in pairwise(np.asarray(document_offsets).tolist()):
        last = max(begin, end - window)
        for first in [*range(begin, last, stride), *([last] if begin < end else [])]:
            yield first, min(first + window, end)


# Match counts and scores: counts add up, so the score of any part of a text is the same function of other sums.


@dataclass(frozen=True)
class Scores:
    """A system's scores on a corpus by metric, with sacreBLEU's signatures, which say how each was computed."""

    values: dict[str, float]
    signatures: dict[str, str]
    sentences: int
    documents: int

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def __str__(self) -> str:
        width = max(map(len, self.values))
        lines = [f"{name:<{width}} = {value:6.2f}  {self.signatures[name]}" for name, value in self.values.items()]
        counts = how_many(self.sentences, "sentence"), how_many(self.documents, "document")
        return "\n".join([*lines, f"({' in '.join(counts)})"])

    def to_dict(self) -> dict[str, Any]:
        """Return the entry in `scores.json`: every metric under its name, signatures and counts."""
        counts = {"sentences": self.sentences, "documents": self.documents}
        return {**self.values, "signatures": self.signatures, **counts}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A system's match counts."""

    counts: dict[str, np.ndarray]  # metric → (D, K) float64, the additive counts of every document
    metrics: dict[str, Score]  # what computes a score from summed counts
    document_offsets: np.ndarray  # (D+1,) sentence index where each document begins
    sentence_counts: dict[str, np.ndarray]  # metric → (S, K), for all metrics but d-BLEU

    @property
    def documents(self) -> int:
        """The number of documents D."""
        return len(self.document_offsets) - 1

    def score(self, name: str, counts: np.ndarray) -> float:
        """Return the metric's value for summed counts (K,)."""
        return float(self.metrics[name].score(counts))

    @cached_property
    def scores(self) -> Scores:
        """The scores of the whole corpus."""
        values = {name: self.score(name, counts.sum(axis=0)) for name, counts in self.counts.items()}
        signatures = {name: self.metrics[name].signature for name in self.counts}
        return Scores(values, signatures, int(self.document_offsets[-1]), self.documents)

    def of_documents(self) -> list[dict[str, float]]:
        """Return every document's own scores."""
        return [
            {name: self.score(name, counts[document]) for name, counts in self.counts.items()}
            for document in range(self.documents)
        ]

    def of_sentences(self, name: str) -> list[float]:
        """Return every sentence's own score by a metric."""
        return [self.score(name, counts) for counts in self.sentence_counts[name]]

    def of_part(self, sentences: np.ndarray, documents: np.ndarray | None = None) -> dict[str, float]:
        """Return the scores of sentences (n,); d-BLEU only if `documents` are given, which must consist of them."""
        if documents is not None:
            parts = {name: counts[documents] for name, counts in self.counts.items()}
        else:
            parts = {name: counts[sentences] for name, counts in self.sentence_counts.items()}
        return {name: self.score(name, counts.sum(axis=0)) for name, counts in parts.items()}

    def including(self, name: str, metric: Score, counts: np.ndarray) -> Evaluation:
        """Return the evaluation with one more metric, of which every sentence has `counts` (S, K)."""
        return replace(
            self,
            counts={**self.counts, name: sum_documents(counts, self.document_offsets)},
            metrics={**self.metrics, name: metric},
            sentence_counts={**self.sentence_counts, name: counts},
        )


def sum_documents(counts: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum counts of sentences (S, K) to counts of documents (D, K)."""
    sums = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    return cast(np.ndarray, sums[offsets[1:]] - sums[offsets[:-1]])


def scored_sentences(references: Sequence[Sequence[str]]) -> list[int]:
    """Return the sentences that every reference has: others cannot be scored."""
    return [number for number, lines in enumerate(zip(*references, strict=True)) if all(lines)]


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    tokenize: str = "13a",
    metrics: Sequence[str] = DEFAULT,
) -> Evaluation:
    """Count the matches of a system's sentences; see `evaluate_systems`."""
    return evaluate_systems([hypotheses], references, document_offsets, tokenize=tokenize, metrics=metrics)[0]


def evaluate_systems(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    document_offsets: Sequence[int] | np.ndarray,
    *,
    tokenize: str = "13a",
    metrics: Sequence[str] = DEFAULT,
) -> list[Evaluation]:
    """Count the matches of several systems' sentences by registered metrics; the references' n-grams, half of the work,
    are counted once. All texts have S sentences, an empty one is a missing translation; `document_offsets` (D+1,) say
    where each document begins, the last that S. `tokenize` is sacreBLEU's tokenizer for BLEU."""
    offsets = np.asarray(document_offsets, dtype=np.int64)
    lengths = [len(lines) for lines in (*references, *systems)]
    if not references or not lengths[0] or len({*lengths, int(offsets[-1])}) > 1:
        raise ValueError(f"expected sentences, as many of each text as of documents ({offsets[-1]}), got {lengths}")
    evaluations = [Evaluation({}, {}, offsets, {}) for _ in systems]
    for name in dict.fromkeys(metrics):
        kind = METRICS.get(name)

        def units(lines: Sequence[str], whole: bool = kind.of == "documents") -> Sequence[str]:
            return [" ".join(filter(None, lines[a:b])) for a, b in pairwise(offsets.tolist())] if whole else lines

        made = kind.made(tokenize, [units(lines) for lines in references])
        metric: Metric = _SacreBleu(made) if isinstance(made, SacreBleuMetric) else made
        for evaluation, hypotheses in zip(evaluations, systems, strict=True):
            lines = units(hypotheses)
            counts = np.asarray(metric.counts(lines), dtype=np.float64)
            if counts.ndim != 2 or len(counts) != len(lines):
                raise UserError(
                    f"metric '{name}': counts() of {len(lines):,} lines has the shape {counts.shape}; expected "
                    f"({len(lines)}, K)"
                )
            evaluation.metrics[name] = metric
            evaluation.counts[name] = counts if kind.of == "documents" else sum_documents(counts, offsets)
            if kind.of == "sentences":
                evaluation.sentence_counts[name] = counts
        if isinstance(made, SacreBleuMetric):
            made._ref_cache = None  # n-grams take more memory than all else
    return evaluations


# The share of people who agree: among pairs of systems whose scores differ by a given amount, the share that human
# judges order in the same way, by a curve fitted for each metric (Kocmi et al. 2024, Navigating the Metrics Maze).


INSTALLED = importlib.util.find_spec("mt_thresholds") is not None
#: The package's names of metrics; those it does not have (TER, d-BLEU, COMET in windows) have no agreement.
_AGREEMENTS = {
    "tok:flores101|": "spbleu101",
    "tok:flores200|": "spbleu200",
    "model:Unbabel/wmt20-comet-da|window:1|": "comet20",
    "model:Unbabel/wmt22-comet-da|window:1|": "comet22",
    "model:Unbabel/wmt22-cometkiwi-da|window:1|": "cometkiwi22",
    "model:Unbabel/XCOMET-XL|window:1|": "xcometxl",
    "model:Unbabel/XCOMET-XXL|window:1|": "xcometxxl",
}


def human_agreement(name: str, metric: Score, difference: float) -> float | None:
    """Return the share in percent, at least the 50 of chance; None for an unknown metric or without the package."""
    known = {"s-BLEU": "bleu", "chrF": "chrf"}.get(name)
    if name in ("s-BLEU", "COMET"):
        known = next((curve for part, curve in _AGREEMENTS.items() if part in metric.signature), known)
    if known is None or not INSTALLED:
        return None
    import mt_thresholds

    return max(50.0, float(mt_thresholds.accuracy(abs(difference), known)))


# Paired bootstrap over documents (Koehn 2004): tests whether the difference of two systems may be due to chance.
# Sentences of a document are not independent, so documents are resampled. The p-value is sacreBLEU's (Riezler and
# Maxwell 2005): the share of samples whose difference departs from the samples' mean by as much as the systems differ.


#: With fewer, equal systems come out as different more often than p says: at p < .05 in 48 % of all cases with 2
#: documents, 18 % with 5, 10 % with 10 and 6 % with 30 (`tests/unit/test_scoring.py`).
FEW_DOCUMENTS = 30


@dataclass(frozen=True)
class Comparison:
    """The comparison of two systems by one metric; `low` and `high` bound the middle 95 % of the sampled
    differences."""

    metric: str
    system: float  # of several seeds, the mean
    other: float
    difference: float
    low: float
    high: float
    p_value: float
    agreement: float | None  # the percent of people who prefer the better of systems so far apart, if known
    system_seeds: tuple[float, ...] = ()
    other_seeds: tuple[float, ...] = ()

    @property
    def several(self) -> bool:
        """True if a system has several seeds."""
        return len(self.system_seeds) > 1 or len(self.other_seeds) > 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; `seeds` only if there are several."""
        content = asdict(self)
        seeds = {name: of_seeds(content.pop(f"{name}_seeds")) for name in ("system", "other")}
        return {**content, "seeds": seeds} if self.several else content


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
    """Compare two systems' translations of the same documents, metric by metric. Of a system with several seeds the
    mean score is compared: each sample draws documents, the same for all seeds. So the interval is about other
    documents, not about other seeds."""
    systems, others = ([side] if isinstance(side, Evaluation) else list(side) for side in (system, other))
    first = systems[0]
    if first.documents < 2:
        raise UserError(
            "--paired and --foreign draw whole documents and the reference is one document; separate its documents by "
            "empty lines"
        )
    drawn = _drawn(first.documents, samples, seed)
    comparisons = []
    for name in first.counts:
        seeds = [tuple(evaluation.scores[name] for evaluation in evaluations) for evaluations in (systems, others)]
        ours, theirs = map(fmean, seeds)
        metric = first.metrics[name]
        counts = [[evaluation.counts[name] for evaluation in side] for side in (systems, others)]
        sampled = _sampled(metric, counts[0], drawn) - _sampled(metric, counts[1], drawn)
        extreme = int((np.abs(sampled - sampled.mean()) >= abs(ours - theirs)).sum())
        low, high = np.quantile(sampled, [0.025, 0.975]).tolist()
        agreement = human_agreement(name, metric, ours - theirs)
        p_value = (extreme + 1) / (len(drawn) + 1)
        comparisons.append(Comparison(name, ours, theirs, ours - theirs, low, high, p_value, agreement, *seeds))
    return comparisons


def interval(metric: Score, counts: np.ndarray, *, samples: int = SAMPLES, seed: int = SEED) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of a metric in samples of documents with these counts (D, K)."""
    low, high = np.quantile(_sampled(metric, [counts], _drawn(len(counts), samples, seed)), [0.025, 0.975])
    return float(low), float(high)


@lru_cache(maxsize=1)  # metrics and systems follow one another
def _drawn(documents: int, samples: int, seed: int) -> np.ndarray:
    """Draw samples (B, D): how often each has each document."""
    return np.random.default_rng(seed).multinomial(documents, np.full(documents, 1 / documents), size=samples)


def _sampled(metric: Score, seeds: Sequence[np.ndarray], drawn: np.ndarray) -> np.ndarray:
    """Return the scores (B,), means over seeds with counts (D, K), of documents that are drawn (B, D) so often."""
    return np.asarray(np.mean([[metric.score(sums) for sums in drawn @ counts] for counts in seeds], axis=0))


def format_comparisons(
    comparisons: Sequence[Comparison], documents: int, samples: int, names: tuple[str, str] = ("system", "other")
) -> str:
    """Format the comparisons as a table; `names` are those of the two systems."""
    width = max(len("metric"), *(len(c.metric) for c in comparisons))
    rows = [f"{'metric':<{width}} {names[0]:>7} {names[1]:>7}    diff.            95 %      p  people"]
    for c in comparisons:
        people = "" if c.agreement is None else f"  {c.agreement:4.0f} %"
        scores = f"{c.metric:<{width}} {c.system:7.2f} {c.other:7.2f} {c.difference:+7.2f}"
        rows.append(f"{scores}  [{c.low:+6.2f}, {c.high:+6.2f}]  {c.p_value:.4f}{people}")
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


def reservations(drawn: int, kind: str = "documents") -> list[str]:
    """Return the reservations about a comparison on this many documents, or what else is drawn."""
    few = f"with fewer than {FEW_DOCUMENTS} {kind} to draw from, intervals are too narrow and p is too small"
    return [few] if drawn < FEW_DOCUMENTS else []
