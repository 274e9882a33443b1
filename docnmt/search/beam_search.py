"""Beam search over any function that gives the next token's scores. No model class in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import ClassVar

import torch
from torch import Tensor

from docnmt.data.tokenizer import EOS
from docnmt.models.protocol import StateT
from docnmt.search.config import BeamSearchConfig, GreedyConfig
from docnmt.search.decode import Advance, run
from docnmt.search.hypothesis import Hypothesis, Slot
from docnmt.search.rows import SearchOverRows
from docnmt.search.terms import TermRows


class BeamSearch(SearchOverRows):
    """The `beam` best unfinished hypotheses of every slot live on.

    Of the 2 * beam best continuations those among the first `beam` that end are finished, and the `beam` best others
    live on (fairseq's rule). A slot ends when `beam` hypotheses are finished, or earlier when `nbest` are and no live
    one can still beat them: a sum of log-probabilities only falls, so a live hypothesis can reach at most
    sum / limit ** lenpen. What is given counts nowhere: sum and limit are of the tokens that search chooses.
    """

    Config: ClassVar[type] = BeamSearchConfig
    #: Slots may have `terms`.
    takes_terms: ClassVar[bool] = True

    def __init__(self, config: BeamSearchConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(config.beam, config, device)
        self.config = config
        self._terms = TermRows(config.beam)

    def admit(self, slots: Sequence[Slot]) -> None:
        """New slots, of whose rows the first lives."""
        self._admit(slots, [0.0] + [-torch.inf] * (self.width - 1))
        self._terms.admit(slots)

    def leave(self, slots: Sequence[int]) -> Tensor:
        """As `SearchOverRows.leave`."""
        self._terms.keep(sorted(set(range(len(self.slots))) - set(slots)))
        return super().leave(slots)

    def advance(self, logits: Tensor) -> Advance:
        """One token for every hypothesis.

        Raises:
            ValueError: the model's scores are NaN.
        """
        beam, slots = self.width, len(self.slots)
        parents, tokens, log_probs, total = self._candidates(logits)  # (N, k), best first
        ends = (tokens == EOS) & (total > -torch.inf)
        among = ends[:, :beam].nonzero(as_tuple=True)  # those that end among the first `beam` candidates
        self._finish(parents[among], log_probs[among], total[among])
        order = torch.arange(total.shape[1], device=total.device) + total.shape[1] * ends
        chosen = order.topk(beam, dim=1, largest=False).indices.sort(dim=1).values  # (N, beam) the best that go on
        live = [matrix.gather(1, chosen).flatten() for matrix in (parents, tokens, log_probs, total)]
        self._rows.extend(*live)
        self._terms.advance(live[0], live[1])
        done = self._done(self._rows.rows.total.view(slots, beam)[:, 0].tolist())
        finished = [(self.slots[n], self._best(n)[: self.config.nbest]) for n in done]
        rows = live[0]
        if done:
            rows = rows[self.leave(done)]
        elif torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            return Advance(None, [])
        return Advance(rows, finished)

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The 2 * beam best continuations of each slot: parent row, token, log-probability, sum; each (N, 2 * beam)."""
        beam, slots = self.width, len(self.slots)
        each = min(2 * beam, logits.shape[1])
        allowed = self._rows.allowed(logits)
        if self._terms:
            self._terms.forbid(allowed, self._rows.room)
        log_probs, tokens = allowed.topk(each, dim=1)  # a slot's best hold at most these of a row
        total = (self._rows.rows.total[:, None] + log_probs).view(slots, beam * each)
        total, place = total.topk(min(2 * beam, beam * each), dim=1)
        if bool(total.isnan().any()):
            raise ValueError("the model's scores are NaN; its weights or its input are not finite")
        parents = place // each + beam * torch.arange(slots, device=place.device)[:, None]
        table = (parents, tokens.view(slots, -1).gather(1, place), log_probs.view(slots, -1).gather(1, place), total)
        if self._terms:
            self._terms.choose(table, allowed, self._rows.rows.total)
        return table

    def _done(self, best_live: list[float]) -> list[int]:
        """The slots that have nothing left to do; `best_live` (N,) is the largest sum of each one's live rows."""
        done = []
        for n, (slot, finished, live) in enumerate(zip(self.slots, self._finished, best_live, strict=True)):
            enough = len(finished) >= self.config.nbest
            reachable = live / slot.longest**self.config.lenpen
            if (
                len(finished) >= self.width
                or live == -torch.inf
                or (enough and reachable <= self._best(n)[self.config.nbest - 1].score)
            ):
                done.append(n)
        return done


class Greedy(BeamSearch):
    """Greedy search, which is beam search with a beam of one: follow the most probable token until it is `</s>`."""

    Config: ClassVar[type] = GreedyConfig

    def __init__(self, config: GreedyConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(BeamSearchConfig(**asdict(config), beam=1, nbest=1), device)


def beam_search(
    step: Callable[[Tensor, StateT], Tensor], state: StateT, options: BeamSearchConfig, *, slots: Sequence[Slot]
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of every slot, best first.

    Args:
        step: `(tokens (R,), state)` → logits or log-probabilities (R, V); R = slots * beam rows, slot by slot,
            the first tokens are `<s>`. Finished slots leave in between, so R shrinks.
        state: begun with `options.beam` rows a slot; has `reorder(rows)`.
        slots: the units to be written.
    """
    return run(step, state, BeamSearch(options), slots)
