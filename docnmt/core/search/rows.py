"""The rows of a generator: what each has written, and what it still has to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from docnmt.core.data.tokenizer import BOS


@dataclass(frozen=True, eq=False)
class Rows:
    """The state of R rows.

    Attributes:
        total: (R,) sum of the log-probabilities of a row's tokens.
        last: (R,) the token that the model reads next.
        tokens, log_probs: (R, C) what has been written; zeros behind it.
        length: (R,) tokens written.
        sentence: (R,) the sentence of its unit that a row writes. begin: (R,) where in `tokens` that one began.
        limits: (R, S) the most tokens of each sentence of the unit; 0 beyond the last.
        sentences: (R,) how many sentences the unit must have.
        given: (R, G) the tokens of the unit's sentences that are given, one after the other; zeros behind them.
        given_at: (R, S) where in `given` each sentence begins, counted from 1; 0 where search chooses its tokens.
        tag: (R,) the token that every sentence begins with; -1: any.
    """

    total: Tensor
    last: Tensor
    tokens: Tensor
    log_probs: Tensor
    length: Tensor
    sentence: Tensor
    begin: Tensor
    limits: Tensor
    sentences: Tensor
    given: Tensor
    given_at: Tensor
    tag: Tensor

    @classmethod
    def new(
        cls, total: Tensor, limits: Tensor, sentences: Tensor, given: Tensor, given_at: Tensor, tag: Tensor
    ) -> Rows:
        """Rows that have written nothing yet."""
        zeros = torch.zeros_like(sentences)
        bos = torch.full_like(sentences, BOS)
        written = (zeros[:, None], zeros[:, None].float(), zeros, zeros, zeros)
        return cls(total, bos, *written, limits, sentences, given, given_at, tag)

    def _map(self, change: Callable[[str, Tensor], Tensor]) -> Rows:
        return Rows(**{f.name: change(f.name, getattr(self, f.name)) for f in fields(self)})

    def take(self, rows: Tensor) -> Rows:
        """These rows, in that order."""
        return self._map(lambda _, values: values[rows])

    def above(self, other: Rows) -> Rows:
        """Both, the other ones behind."""
        return self._map(lambda name, values: stacked(values, getattr(other, name)))


def widened(rows: Tensor, columns: int) -> Tensor:
    """(R, C) with zeros behind, up to `columns`."""
    missing = max(columns - rows.shape[1], 0)
    return torch.cat([rows, rows.new_zeros(len(rows), missing)], dim=1) if missing else rows


def stacked(above: Tensor, below: Tensor) -> Tensor:
    """Both on top of each other; matrices as wide as the wider one."""
    if above.dim() == 1:
        return torch.cat([above, below])
    columns = max(above.shape[1], below.shape[1])
    return torch.cat([widened(above, columns), widened(below, columns)])
