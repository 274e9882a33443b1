"""Beam search, and greedy search, which is a beam of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import ClassVar

import torch
from torch import Tensor

from docnmt.core.data.tokenizer import EOS
from docnmt.core.search.config import BeamSearchConfig, GreedyConfig
from docnmt.core.search.generator import Advance, Generator
from docnmt.core.search.hypothesis import Slot
from docnmt.core.search.terms import TermRows

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
        parents, tokens, log_probs, total = self._candidates(logits)  # (N * parts, k), best first
        ends = ending(tokens, total)
        among = ends[:, : self.part].nonzero(as_tuple=True)  # those that end among the first `part` candidates
        self._finish(parents[among], log_probs[among], total[among])
        chosen = going_on(ends, self.part)
        live = [matrix.gather(1, chosen).flatten() for matrix in (parents, tokens, log_probs, total)]
        self.extend(*live)
        self._terms.advance(live[0], live[1])
        done = self._done(self.rows.total.view(-1, self.part).amax(1).tolist())
        finished = [(self.slots[n], self._best(n)[: self.config.nbest]) for n in done]
        rows = live[0]
        if done:
            rows = rows[self.leave(done)]
        elif torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            return Advance(None, [])
        return Advance(rows, finished)

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return parent row, token, log-probability and sum of the 2 * part best continuations, each (N * parts, k)."""
        allowed = self.allowed(logits)
        if self._terms:
            self._terms.forbid(allowed, self.room)
        table = best_continuations(allowed, self.rows.total, self.part)
        if self._terms:
            self._terms.choose(table, allowed, self.rows.total)
        return table

    def _done(self, best_live: list[float]) -> list[int]:
        """Return the slots that are done; `best_live` (N * parts,) is the largest sum among each part's live rows."""
        done = []
        for n, slot in enumerate(self.slots):
            left = [best_live[part] for part in self._parts(n) if len(self._finished[part]) < self.part]
            live = max(left, default=-torch.inf)
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


def ending(tokens: Tensor, total: Tensor) -> Tensor:
    """Return a mask of the candidates that end a live hypothesis."""
    return (tokens == EOS) & (total > -torch.inf)


def going_on(ends: Tensor, count: int) -> Tensor:
    """Return the places (N, count) of the best candidates that do not end, from `ends` (N, k), best first."""
    order = torch.arange(ends.shape[1], device=ends.device) + ends.shape[1] * ends
    return order.topk(count, dim=1, largest=False).indices.sort(dim=1).values


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
    parts, vocabulary, device = len(totals) // width, log_probs.shape[1], log_probs.device
    most, whole = min(2 * width, width * vocabulary), vocabulary // _RUN * _RUN
    sums, scores = totals.view(parts, width), log_probs.view(parts, width * vocabulary)
    largest = (log_probs[:, :whole].view(parts, width, -1, _RUN).amax(3) + sums[:, :, None]).flatten(1)
    begins = vocabulary * torch.arange(width, device=device)[:, None]  # of each row, in rows × vocabulary
    runs = (begins + torch.arange(0, whole, _RUN, device=device)).flatten()
    best = runs[largest.topk(min(most, len(runs)), dim=1).indices][:, :, None] + torch.arange(_RUN, device=device)
    rest = (begins + torch.arange(whole, vocabulary, device=device)).expand(parts, -1, -1)
    places = torch.cat([best.flatten(1), rest.flatten(1)], dim=1)  # (P, c)
    total, which = (sums.gather(1, places // vocabulary) + scores.gather(1, places)).topk(most, dim=1)
    if bool(total.isnan().any()):
        raise ValueError("the model's scores are NaN; its weights or its input are not finite")
    place = places.gather(1, which)
    rows = place // vocabulary + width * torch.arange(parts, device=device)[:, None]
    return rows, place % vocabulary, scores.gather(1, place), total
