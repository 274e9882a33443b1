"""Sampling: tokens drawn from the model's distribution, from a random stream of each sentence's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from docnmt.core.data.tokenizer import EOS
from docnmt.core.search.config import SamplingConfig
from docnmt.core.search.generator import Advance, Generator
from docnmt.core.search.hypothesis import Slot
from docnmt.runtime.transfer import to_lists


class Sampling(Generator):
    """Draws `samples` independent samples for every slot.

    A slot's draws come from the stream (seed, slot's `stream`): batch size, order and neighbours change nothing.
    Scores are the model's own log-probabilities, before temperature, top-k and top-p.
    """

    Config: ClassVar[type] = SamplingConfig

    def __init__(self, config: SamplingConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(config.samples, config, device, parts=config.samples)
        self.config = config
        self._streams: list[np.random.Generator] = []

    def admit(self, slots: Sequence[Slot]) -> None:
        """Add slots behind the others; all of their rows are alive."""
        self._enter(slots, [0.0] * self.width)
        numbers = [slot.number if slot.stream is None else slot.stream for slot in slots]
        self._streams += [np.random.default_rng([self.config.seed, number]) for number in numbers]

    def advance(self, logits: Tensor) -> Advance:
        """Draw one token for every row.

        Raises:
            ValueError: the model's scores are NaN.
        """
        log_probs = self.allowed(logits)
        if bool(log_probs.isnan().any()):
            raise ValueError("the model's scores are NaN; its weights or its input are not finite")
        tokens = self._draw(log_probs)
        drawn = log_probs.gather(1, tokens[:, None])[:, 0]
        columns = to_lists([tokens, drawn, self.totals + drawn])
        totals = []
        for row, (token, log_prob, total) in enumerate(zip(*columns, strict=True)):
            ends = token == EOS and total > -torch.inf
            if ends:
                self._finish(row, log_prob, total)
            totals.append(-torch.inf if ends else total)
        self.extend(range(len(totals)), columns[0], columns[1], totals)
        done = [n for n in range(len(self.slots)) if all(self._finished[part] for part in self._parts(n))]
        if not done:
            return Advance(None, [])
        finished = [(self.slots[n], self._best(n)) for n in done]
        return Advance(self.leave(done), finished)

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Remove slots, given by their places, and their random streams."""
        gone = set(slots)
        self._streams = [stream for n, stream in enumerate(self._streams) if n not in gone]
        return super().leave(slots)

    def _draw(self, log_probs: Tensor) -> Tensor:
        """Draw tokens (R,) by inverting the cumulative distribution; a token of probability 0 is never drawn."""
        probabilities = truncate(log_probs / self.config.temperature, self.config.top_k, self.config.top_p)
        cumulative = probabilities.double().cumsum(1)
        draws = np.concatenate([1.0 - stream.random(self.width) for stream in self._streams])  # in (0, 1]
        points = torch.from_numpy(draws).to(cumulative.device) * cumulative[:, -1]
        return torch.searchsorted(cumulative, points[:, None])[:, 0]


def truncate(log_probs: Tensor, top_k: int, top_p: float) -> Tensor:
    """Return probabilities (R, V) that sum to 1 over the tokens that may be drawn and are 0 elsewhere.

    Args:
        log_probs: (R, V), up to a constant per row.
        top_k: keep only the k most probable tokens; 0 keeps all.
        top_p: keep only the fewest most probable tokens that hold at least this much probability.
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
