"""Diverse beam search: groups of hypotheses, each of which avoids what the groups before it have written."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from docnmt.core.search.beam_search import BeamSearch, best_continuations, divided
from docnmt.core.search.config import DiverseBeamSearchConfig
from docnmt.core.search.hypothesis import Hypothesis


class DiverseBeamSearch(BeamSearch):
    """Beam search in groups: each group is a beam search of its own with its own end.

    At every step the groups choose one after the other. A token is worth `strength` less to a group for each hypothesis
    that an earlier group has just given this token (Vijayakumar et al. 2018, "Diverse Beam Search for Improved
    Description of Complex Scenes", algorithm 1, with Hamming diversity). This only decides what is chosen at this step:
    sums and scores are the model's. A given token is not avoided. A text that several groups find is given once.
    """

    Config: ClassVar[type] = DiverseBeamSearchConfig
    takes_terms: ClassVar[bool] = False

    def __init__(self, config: DiverseBeamSearchConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(config, device, parts=config.groups)
        self._strength = config.diverse_beam_strength

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return all groups' candidates as `BeamSearch` does; each group's are ordered by its diminished scores."""
        allowed, slots = self.allowed(logits), len(self.slots)
        totals = self._open_totals()
        rows = torch.arange(len(totals), device=totals.device).view(slots, self.parts, self.part)
        taken = allowed.new_zeros(slots, allowed.shape[1])  # how many hypotheses have just been given each token
        found = []
        for part in range(self.parts):
            own = rows[:, part].flatten()
            log_probs = allowed[own]
            avoided = self._strength * taken.repeat_interleave(self.part, dim=0) * (log_probs < 0)
            places, tokens, _, _ = best_continuations(log_probs - avoided, totals[own], self.part)
            parents = own[places]
            scores = allowed[parents, tokens]
            total = totals[parents] + scores
            self._take(taken, tokens, total)
            found.append((parents, tokens, scores, total))
        parents, tokens, scores, total = (torch.stack(each, dim=1).flatten(0, 1) for each in zip(*found, strict=True))
        return parents, tokens, scores, total

    def _open_totals(self) -> Tensor:
        """Return the rows' sums (R,), -inf in parts that have finished as many hypotheses as they have rows."""
        totals = self.totals
        closed = torch.tensor([len(found) >= self.part for found in self._finished], device=totals.device)
        return totals.masked_fill(closed.repeat_interleave(self.part), -torch.inf)

    def _take(self, taken: Tensor, tokens: Tensor, total: Tensor) -> None:
        """Add to `taken` (N, V) the tokens that a part chooses among its candidates (N, k), ending or not."""
        found: list[tuple[int, int]] = []  # slot and token
        for n, (own, sums) in enumerate(zip(tokens.tolist(), total.tolist(), strict=True)):
            ends, others = divided(own, sums, self.part)
            found += [(n, own[place]) for place in (*ends, *others) if sums[place] > -torch.inf]
        places = torch.tensor(found, dtype=torch.int64, device=taken.device).view(-1, 2)
        taken.index_put_((places[:, 0], places[:, 1]), taken.new_ones(()), accumulate=True)

    def _best(self, n: int) -> list[Hypothesis]:
        """Return the finished hypotheses of slot n, best first, each text once."""
        found: dict[tuple[int, ...], Hypothesis] = {}
        for hypothesis in super()._best(n):
            found.setdefault(hypothesis.tokens, hypothesis)
        return list(found.values())
