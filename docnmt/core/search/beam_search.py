"""Beam search, and greedy search, which is a beam of one."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from docnmt.core.data.tokenizer import EOS
from docnmt.core.search.config import BeamSearchConfig, GreedyConfig
from docnmt.core.search.generator import Advance, Generator
from docnmt.core.search.hypothesis import Slot
from docnmt.core.search.terms import TermRows
from docnmt.runtime.transfer import to_lists

#: Tokens of a run of the vocabulary, of which the largest score is taken first.
_RUN = 64


class BeamSearch(Generator):
    """Beam search: the `beam` best unfinished hypotheses of every slot are kept at each step.

    Among the 2 * beam best continuations, those of the first `beam` that end are finished, and the `beam` best others
    live on (fairseq's rule). A slot ends when `beam` hypotheses are finished, or earlier when `nbest` are and no live
    one can still beat them: a sum of log-probabilities only falls, so a live hypothesis can reach at most
    sum / limit ** lenpen. Given tokens count nowhere: sum and limit are over the tokens that the search chooses.

    Args:
        parts: the beam is divided into this many parts of equal size; each is a beam of its own, with its own end.
    """

    Config: ClassVar[type] = BeamSearchConfig
    takes_terms: ClassVar[bool] = True

    def __init__(self, config: BeamSearchConfig, device: torch.device | str = "cpu", *, parts: int = 1) -> None:
        super().__init__(config.beam, config, device, parts=parts)
        self.config = config
        self._terms = TermRows(config.beam)

    def admit(self, slots: Sequence[Slot]) -> None:
        """Add slots behind the others; in each part the first row is alive and the others are dead."""
        self._enter(slots, ([0.0] + [-torch.inf] * (self.part - 1)) * self.parts)
        self._terms.admit(slots)

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Remove slots, given by their places, together with their remaining terms."""
        self._terms.keep(sorted(set(range(len(self.slots))) - set(slots)))
        return super().leave(slots)

    def advance(self, logits: Tensor) -> Advance:
        """Choose one token for every hypothesis from the model's logits (R, V).

        Raises:
            ValueError: the model's scores are NaN.
        """
        live: tuple[list[Any], ...] = [], [], [], []  # rows, tokens, log-probabilities and sums of what lives on
        for part in zip(*to_lists(self._candidates(logits)), strict=True):
            ends, others = divided(part[1], part[3], self.part)
            for place in ends:
                self._finish(part[0][place], part[2][place], part[3][place])
            for kept, column in zip(live, part, strict=True):
                kept += [column[place] for place in others]
        rows = live[0]
        self.extend(*live)
        self._terms.advance(rows, live[1])
        done = self._done()
        if not done and rows == list(range(len(rows))):
            return Advance(None, [])
        finished = [(self.slots[n], self._best(n)[: self.config.nbest]) for n in done]
        parents = self._there(rows)
        return Advance(parents[self.leave(done)] if done else parents, finished)

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return parent row, token, log-probability and sum of the 2 * part best continuations, each (N * parts, k)."""
        allowed = self.allowed(logits)
        if self._terms:
            self._terms.forbid(allowed, self.room)
        totals = self.totals
        table = best_continuations(allowed, totals, self.part)
        if self._terms:
            self._terms.choose(table, allowed, totals)
        return table

    def _demanded(self, number: int) -> Collection[int]:
        """Return the tokens of the terms that a row lacks."""
        return self._terms.steps(number)

    def _done(self) -> list[int]:
        """Return the slots that are done."""
        done = []
        for n, slot in enumerate(self.slots):
            unfinished = (part for part in self._parts(n) if len(self._finished[part]) < self.part)
            rows = chain.from_iterable(self.rows[part * self.part : (part + 1) * self.part] for part in unfinished)
            live = max((row.total for row in rows), default=-torch.inf)
            reachable = live / slot.longest**self.config.lenpen
            if live == -torch.inf or self._reached(n, reachable):
                done.append(n)
        return done

    def _reached(self, n: int, score: float) -> bool:
        """Return True if slot n has `nbest` hypotheses that are at least as good as `score`."""
        if sum(len(self._finished[part]) for part in self._parts(n)) < self.config.nbest:
            return False
        best = self._best(n)
        return len(best) >= self.config.nbest and score <= best[self.config.nbest - 1].score


class Greedy(BeamSearch):
    """Greedy search, which is beam search with a beam of one: follow the most probable token until it is `</s>`."""

    Config: ClassVar[type] = GreedyConfig

    def __init__(self, config: GreedyConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(BeamSearchConfig(**asdict(config), beam=1, nbest=1), device)


def divided(tokens: Sequence[int], totals: Sequence[float], count: int) -> tuple[list[int], list[int]]:
    """Return the places of a part's candidates, best first, that end among the first `count`, and of the first `count`
    others."""
    if EOS not in tokens:
        return [], list(range(count))
    ends = [token == EOS and total > -torch.inf for token, total in zip(tokens, totals, strict=True)]
    return [place for place in range(count) if ends[place]], [place for place, end in enumerate(ends) if not end][
        :count
    ]


def best_continuations(log_probs: Tensor, totals: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the 2 * width best continuations of each group of `width` rows, best first.

    The best of a group are among the runs of `_RUN` tokens with the largest maxima, so only these runs are sorted.

    Args:
        log_probs: (R, V). totals: (R,) sums so far.

    Returns:
        Row, token, log-probability and sum of each continuation, (R // width, k).

    Raises:
        ValueError: a score is NaN.
    """
    parts, vocabulary, whole = len(totals) // width, log_probs.shape[1], log_probs.shape[1] // _RUN * _RUN
    most, places = min(2 * width, width * vocabulary), _places(width, vocabulary, log_probs.device)
    sums, scores = totals.view(parts, width), log_probs.view(parts, width * vocabulary)
    largest = (log_probs[:, :whole].view(parts, width, -1, _RUN).amax(3) + sums[:, :, None]).flatten(1)
    best = largest.topk(min(most, largest.shape[1]), dim=1).indices  # (P, runs)
    chosen = places.runs[best].flatten(1)  # (P, c), in rows × vocabulary
    if len(places.rest):
        chosen = torch.cat([chosen, places.rest.expand(parts, -1)], dim=1)
    total, which = (sums.gather(1, chosen // vocabulary) + scores.gather(1, chosen)).topk(most, dim=1)
    if math.isnan(float(total.sum())):  # no sum is +inf
        raise ValueError("the model's scores are NaN; its weights or its input are not finite")
    place = chosen.gather(1, which)
    rows = place // vocabulary + width * torch.arange(parts, device=log_probs.device)[:, None]
    return rows, place % vocabulary, scores.gather(1, place), total


class _Places(NamedTuple):
    """Places in the rows × vocabulary of a group: those of all whole runs (n, _RUN), and the others (m,)."""

    runs: Tensor
    rest: Tensor


@lru_cache(maxsize=4)  # of beam × vocabulary numbers each
def _places(width: int, vocabulary: int, device: torch.device) -> _Places:
    every = torch.arange(width * vocabulary, device=device).view(width, vocabulary)
    whole = vocabulary // _RUN * _RUN
    return _Places(every[:, :whole].reshape(-1, _RUN), every[:, whole:].flatten())
