"""How a translation grows: beam search, sampling, minimum Bayes risk.

logits (R, V) → `allowed` → candidates of each slot → those that end and those that live on → `Advance`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from docnmt.core.search import glossary
from docnmt.core.search.config import BeamSearchConfig, GreedyConfig, SamplingConfig, SearchConfig
from docnmt.core.search.rows import Advance, Generator, Hypothesis, Slot
from docnmt.core.tokenizer import EOS, Tokenizer
from docnmt.runtime.device import to_lists

# Beam search, and greedy search, which is a beam of one.

#: Tokens of a run of the vocabulary, of which the largest score is taken first.
_RUN = 64


class BeamSearch(Generator):
    """Beam search: the `beam` best unfinished hypotheses of every slot are kept at each step.

    Among the 2 * beam best continuations, those of the first `beam` that end are finished, and the `beam` best others
    live on (fairseq's rule). A slot ends when `beam` hypotheses are finished, or earlier when `nbest` are and no live
    one can still beat them: a sum of log-probabilities only falls, so a live hypothesis can reach at most
    sum / limit ** lenpen. Given tokens count nowhere: sum and limit are over the tokens that the search chooses.
    """

    Config: ClassVar[type] = BeamSearchConfig
    takes_terms: ClassVar[bool] = True
    config: BeamSearchConfig

    def __init__(self, config: BeamSearchConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(config.beam, config, device)

    def admit(self, slots: Sequence[Slot]) -> None:
        """Add slots behind the others; the first row of each is alive and the others are dead."""
        self._enter(slots, [0.0] + [-torch.inf] * (self.width - 1))

    def advance(self, logits: Tensor) -> Advance:
        """Choose one token for every hypothesis from the model's logits (R, V)."""
        allowed, totals = self.allowed(logits), self.totals
        constrained = any(slot.terms is not None for slot in self.slots)
        if constrained:
            glossary.forbid(self.rows, self.width, allowed, self.room)
        candidates = best_continuations(allowed, totals, self.width)
        if constrained:
            glossary.choose(self.rows, self.width, candidates, allowed, totals)
        live: tuple[list[Any], ...] = [], [], [], []  # rows, tokens, log-probabilities and sums of what lives on
        for rows, tokens, scores, sums in zip(*to_lists(candidates), strict=True):  # of each slot, best first
            ends, others = divided(tokens, sums, self.width)
            for n in ends:
                self._finish(rows[n], scores[n], sums[n])
            for living, values in zip(live, (rows, tokens, scores, sums), strict=True):
                living += [values[n] for n in others]
        return self._grow(*live)

    def _grow(
        self, parents: list[int], tokens: list[int], log_probs: Sequence[float], totals: Sequence[float]
    ) -> Advance:
        self.extend(parents, tokens, log_probs, totals)
        done = list(filter(self._over, range(len(self.slots))))
        if not done and parents == list(range(len(parents))):
            return Advance(None, [])
        finished = [(self.slots[n], self._best(n)[: self.config.nbest]) for n in done]
        rows = self._there(parents)
        return Advance(rows[self.leave(done)] if done else rows, finished)

    def _over(self, n: int) -> bool:
        """True if slot n has all its hypotheses, or no live one can still be among the `nbest`."""
        live = max(row.total for row in self.rows[n * self.width : (n + 1) * self.width])
        if live == -torch.inf or self._full(n):
            return True
        reachable = live / self.slots[n].longest ** self.config.lenpen
        best, nbest = self._best(n), self.config.nbest
        return len(best) >= nbest and reachable <= best[nbest - 1].score

    def _full(self, n: int) -> bool:
        return len(self._finished[n]) >= self.width


class Greedy(BeamSearch):
    """Greedy search, which is beam search with a beam of one: follow the most probable token until it is `</s>`."""

    Config: ClassVar[type] = GreedyConfig

    def __init__(self, config: GreedyConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(BeamSearchConfig(**asdict(config), beam=1, nbest=1), device)


def divided(tokens: Sequence[int], totals: Sequence[float], count: int) -> tuple[list[int], list[int]]:
    """Return the places of a slot's candidates, best first, that end among the first `count`, and of the first `count`
    others."""
    if EOS not in tokens:
        return [], list(range(count))
    ends, others = list[int](), list[int]()
    for number, (token, total) in enumerate(zip(tokens, totals, strict=True)):
        (ends if token == EOS and total > -torch.inf else others).append(number)
    return [number for number in ends if number < count], others[:count]


def best_continuations(log_probs: Tensor, totals: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The 2 * width best continuations of each group of `width` rows, best first: log_probs (R, V), sums so far (R,) →
    row, token, log-probability and sum of each, (R // width, k).

    The best of a group are among the runs of `_RUN` tokens with the largest maxima, so only these runs are sorted.
    """
    groups, vocabulary = len(totals) // width, log_probs.shape[1]
    whole = vocabulary // _RUN * _RUN
    most, (runs, rest) = min(2 * width, width * vocabulary), _runs(width, vocabulary, log_probs.device)
    sums, scores = totals.view(groups, width), log_probs.view(groups, width * vocabulary)
    largest = (log_probs[:, :whole].view(groups, width, -1, _RUN).amax(3) + sums[:, :, None]).flatten(1)
    best = largest.topk(min(most, largest.shape[1]), dim=1).indices  # (G, runs)
    chosen = runs[best].flatten(1)  # (G, c), in rows × vocabulary
    if len(rest):
        chosen = torch.cat([chosen, rest.expand(groups, -1)], dim=1)
    total, which = (sums.gather(1, chosen // vocabulary) + scores.gather(1, chosen)).topk(most, dim=1)
    if math.isnan(float(total.sum())):  # no sum is +inf
        raise ValueError("the model's scores are NaN; its weights or its input are not finite")
    index = chosen.gather(1, which)
    rows = index // vocabulary + width * torch.arange(groups, device=log_probs.device)[:, None]
    return rows, index % vocabulary, scores.gather(1, index), total


@lru_cache(maxsize=4)  # of beam × vocabulary numbers each
def _runs(width: int, vocabulary: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The places in the rows × vocabulary of a group: of all whole runs (n, _RUN), and the others (m,)."""
    places = torch.arange(width * vocabulary, device=device).view(width, vocabulary)
    whole = vocabulary // _RUN * _RUN
    return places[:, :whole].reshape(-1, _RUN), places[:, whole:].flatten()


# Minimum Bayes risk decoding: among samples of a sentence, choose the one that is most like the others.


def ranking(search: SearchConfig, tokenizer: Tokenizer) -> Callable[[list[Hypothesis]], list[Hypothesis]]:
    """What orders a sentence's hypotheses, best first: `--mbr`, or the generator's own order.

    `--mbr` takes the sample of highest mean utility, where all samples represent the model's distribution (Eikema and
    Aziz 2020, "Is MAP Decoding All You Need?"; 2022, "Sampling-Based Approximations to Minimum Bayes Risk Decoding for
    Neural Machine Translation"). Utility is sacreBLEU's sentence chrF. Equally useful samples keep their order.
    """
    if not isinstance(search, SamplingConfig) or search.mbr is None:
        return lambda hypotheses: hypotheses
    nbest = search.nbest

    def by_utility(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        utilities = mean_utilities([hypothesis.text(tokenizer) for hypothesis in hypotheses])
        order = np.argsort(-np.array(utilities), kind="stable")
        return [hypotheses[n] for n in order[:nbest]]

    return by_utility


def mean_utilities(texts: Sequence[str]) -> list[float]:
    """Each text's mean chrF, in [0, 100], against the n - 1 others as references (n >= 2).

    A text that occurs twice counts twice. Sums are rounded once, so the order of the texts changes nothing.
    """
    distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    numbers = [distinct[text] for text in texts]
    scores = chrf_of_pairs(list(distinct))[np.ix_(numbers, numbers)]
    np.fill_diagonal(scores, 0.0)
    return [math.fsum(row) / (len(texts) - 1) for row in scores.tolist()]


def chrf_of_pairs(texts: Sequence[str]) -> np.ndarray:
    """sacreBLEU's sentence chrF (n, n) of text i with text j as its reference, equal to the last bit.

    N-grams are counted once per text. The number of matches, a sum of min(count, count), is the intersection of two
    sets in which an n-gram's k-th occurrence is a member of its own: a product of matrices of 0 and 1.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.helpers import extract_all_char_ngrams

    grams = [extract_all_char_ngrams(text, CHRF.CHAR_ORDER) for text in texts]
    precisions = np.zeros((len(texts), len(texts)))
    recalls, orders = precisions.copy(), precisions.copy()
    for counts in zip(*grams, strict=True):  # n-grams of one order, of each text
        columns: dict[tuple[str, int], int] = {}
        columns_of = [
            [columns.setdefault((gram, k), len(columns)) for gram, count in of_text.items() for k in range(count)]
            for of_text in counts
        ]
        members = np.zeros((len(texts), len(columns)), dtype=np.float32)  # whole numbers below 2^24 are exact
        for text, columns_of_text in zip(members, columns_of, strict=True):
            text[columns_of_text] = 1
        matches = (members @ members.T).astype(np.float64)  # n-grams that two texts have in common
        totals = members.sum(1, dtype=np.float64)
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


# Sampling: tokens drawn from the model's distribution, from a random stream of each sentence's own.


class Sampling(Generator):
    """Draws `samples` independent samples for every slot.

    A slot's draws come from the stream (seed, slot's `stream`): batch size, order and neighbours change nothing.
    Scores are the model's own log-probabilities, before temperature, top-k and top-p.
    """

    Config: ClassVar[type] = SamplingConfig
    config: SamplingConfig

    def __init__(self, config: SamplingConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(config.samples, config, device)
        self._streams: list[np.random.Generator] = []

    def admit(self, slots: Sequence[Slot]) -> None:
        self._enter(slots, [0.0] * self.width)
        numbers = [slot.number if slot.stream is None else slot.stream for slot in slots]
        self._streams += [np.random.default_rng([self.config.seed, number]) for number in numbers]

    def advance(self, logits: Tensor) -> Advance:
        log_probs = self.allowed(logits)
        if bool(log_probs.isnan().any()):
            raise ValueError("the model's scores are NaN; its weights or its input are not finite")
        # a token of probability 0 is never drawn: where the cumulative distribution reaches a number in (0, 1]
        probabilities = truncate(log_probs / self.config.temperature, self.config.top_k, self.config.top_p)
        cumulative = probabilities.double().cumsum(1)
        draws = np.concatenate([1.0 - stream.random(self.width) for stream in self._streams])
        points = torch.from_numpy(draws).to(cumulative.device) * cumulative[:, -1]
        tokens = torch.searchsorted(cumulative, points[:, None])[:, 0]
        drawn = log_probs.gather(1, tokens[:, None])[:, 0]
        columns = to_lists([tokens, drawn, self.totals + drawn])
        totals = []
        for row, (token, log_prob, total) in enumerate(zip(*columns, strict=True)):
            ends = token == EOS and total > -torch.inf
            if ends:
                self._finish(row, log_prob, total)
            totals.append(-torch.inf if ends else total)
        self.extend(range(len(totals)), columns[0], columns[1], totals)
        done = [n for n, hypotheses in enumerate(self._finished) if len(hypotheses) == self.width]
        if not done:
            return Advance(None, [])
        finished = [(self.slots[n], self._best(n)) for n in done]
        return Advance(self.leave(done), finished)

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Remove slots, given by their places, and their random streams."""
        gone = set(slots)
        self._streams = [stream for n, stream in enumerate(self._streams) if n not in gone]
        return super().leave(slots)


def truncate(log_probs: Tensor, top_k: int, top_p: float) -> Tensor:
    """Probabilities (R, V) that sum to 1 over the tokens that may be drawn and are 0 elsewhere.

    `log_probs` (R, V), up to a constant per row; `top_k`: only the k most probable tokens, 0: all; `top_p`: only the
    fewest most probable tokens that hold at least this much probability.
    """
    if 0 < top_k < log_probs.shape[1]:
        best = log_probs.topk(top_k, dim=1)
        log_probs = torch.full_like(log_probs, -torch.inf).scatter_(1, best.indices, best.values)
    probabilities = log_probs.softmax(dim=1)
    if top_p < 1:
        ordered, tokens = probabilities.sort(dim=1, descending=True, stable=True)
        before = ordered.cumsum(1) - ordered
        ordered = ordered.masked_fill(before >= top_p, 0.0)
        probabilities = torch.zeros_like(probabilities).scatter_(1, tokens, ordered)
        probabilities = probabilities / probabilities.sum(1, keepdim=True)
    return probabilities
