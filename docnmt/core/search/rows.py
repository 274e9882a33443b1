"""The rows of a generator: the tokens written so far, and the limits and given tokens of what follows."""

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
        tokens, log_probs: (R, C) the tokens written and their log-probabilities, padded with zeros.
        length: (R,) number of tokens written.
        sentence: (R,) the place in its unit of the sentence being written. begin: (R,) where that one began in
            `tokens`.
        limits: (R, S) the most tokens of each sentence of the unit; 0 beyond the last.
        sentences: (R,) number of sentences that the unit must have.
        given: (R, G) tokens of the unit's given sentences, one after the other, padded with zeros.
        given_at: (R, S) the place in `given` where each sentence begins, counted from 1; 0 if it is searched.
        tag: (R,) the token that every sentence begins with; -1: none is prescribed.
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
        """Return rows that have written nothing yet."""
        zeros = torch.zeros_like(sentences)
        bos = torch.full_like(sentences, BOS)
        written = (zeros[:, None], zeros[:, None].float(), zeros, zeros, zeros)
        return cls(total, bos, *written, limits, sentences, given, given_at, tag)

    def _map(self, change: Callable[[str, Tensor], Tensor]) -> Rows:
        return Rows(**{f.name: change(f.name, getattr(self, f.name)) for f in fields(self)})

    def take(self, rows: Tensor) -> Rows:
        """Return the rows with these numbers, in this order."""
        return self._map(lambda _, values: values[rows])

    def above(self, other: Rows) -> Rows:
        """Return both sets of rows, `other` behind."""
        return self._map(lambda name, values: stacked(values, getattr(other, name)))


def widened(rows: Tensor, columns: int) -> Tensor:
    """Return a matrix (R, C) padded with zeros on the right to at least `columns` columns."""
    missing = max(columns - rows.shape[1], 0)
    return torch.cat([rows, rows.new_zeros(len(rows), missing)], dim=1) if missing else rows


def stacked(above: Tensor, below: Tensor) -> Tensor:
    """Concatenate along the first axis; matrices are padded to the wider one's columns."""
    if above.dim() == 1:
        return torch.cat([above, below])
    columns = max(above.shape[1], below.shape[1])
    return torch.cat([widened(above, columns), widened(below, columns)])
