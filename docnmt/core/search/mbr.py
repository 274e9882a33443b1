"""Minimum Bayes risk decoding: among samples of a sentence, choose the one that is most like the others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.search.config import SamplingConfig, SearchConfig
from docnmt.core.search.hypothesis import Hypothesis

#: A function from the hypotheses of a sentence to those that are returned, best first.
Ranking = Callable[[list[Hypothesis]], list[Hypothesis]]


def ranking(search: SearchConfig, tokenizer: Tokenizer) -> Ranking:
    """Return the ranking that the search options demand: `--mbr`, or the generator's own order.

    `--mbr` takes the sample of highest mean utility, where all samples represent the model's distribution (Eikema and
    Aziz 2020, "Is MAP Decoding All You Need?"; 2022, "Sampling-Based Approximations to Minimum Bayes Risk Decoding for
    Neural Machine Translation"). Utility is sacreBLEU's sentence chrF. Equally useful samples keep their order.
    """
    if not isinstance(search, SamplingConfig) or search.mbr is None:
        return lambda hypotheses: hypotheses
    nbest = search.nbest

    def _by_utility(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        utilities = mean_utilities([hypothesis.text(tokenizer) for hypothesis in hypotheses])
        order = sorted(range(len(hypotheses)), key=lambda n: -utilities[n])
        return [hypotheses[n] for n in order[:nbest]]

    return _by_utility


def mean_utilities(texts: Sequence[str]) -> list[float]:
    """Return each text's mean chrF, in [0, 100], against the n - 1 others as references (n >= 2).

    A text that occurs twice counts twice. Sums are rounded once, so the order of the texts changes nothing.
    """
    distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    places = [distinct[text] for text in texts]
    scores = chrf_of_pairs(list(distinct))[np.ix_(places, places)]
    np.fill_diagonal(scores, 0.0)
    return [math.fsum(row) / (len(texts) - 1) for row in scores.tolist()]


def chrf_of_pairs(texts: Sequence[str]) -> np.ndarray:
    """Return sacreBLEU's sentence chrF (n, n) of text i with text j as its reference, equal to the last bit.

    N-grams are counted once per text. The number of matches, a sum of min(count, count), is the intersection of two
    sets in which an n-gram's k-th occurrence is a member of its own: a product of matrices of 0 and 1.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.helpers import extract_all_char_ngrams

    grams = [extract_all_char_ngrams(text, CHRF.CHAR_ORDER) for text in texts]
    precisions = np.zeros((len(texts), len(texts)))
    recalls, orders = precisions.copy(), precisions.copy()
    for of_order in zip(*grams, strict=True):
        matches, totals = _matches(of_order)
        counted = (totals[:, None] > 0) & (totals > 0)
        precisions += np.divide(matches, totals[:, None], out=np.zeros_like(matches), where=counted)
        recalls += np.divide(matches, totals, out=np.zeros_like(matches), where=counted)
        orders += counted
    precisions /= np.maximum(orders, 1)
    recalls /= np.maximum(orders, 1)
    factor = CHRF.BETA**2
    above, below = (1 + factor) * precisions * recalls, factor * precisions + recalls
    scores: np.ndarray = 100 * np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return scores


def _matches(counts: Sequence[Counter[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of n-grams that each pair of texts has in common (n, n), and that each text has (n,)."""
    columns: dict[tuple[str, int], int] = {}
    rows = [
        [columns.setdefault((gram, k), len(columns)) for gram, count in each.items() for k in range(count)]
        for each in counts
    ]
    members = np.zeros((len(counts), len(columns)), dtype=np.float32)  # whole numbers below 2^24 are exact
    for place, own in enumerate(rows):
        members[place, own] = 1
    return (members @ members.T).astype(np.float64), members.sum(1, dtype=np.float64)
