"""The rows of a generator: the tokens written so far, as chains whose beginnings rows share."""

from __future__ import annotations

from typing import NamedTuple

from docnmt.core.data.tokenizer import BOS, BRK


class Row(NamedTuple):
    """An unfinished hypothesis: that of `before` with one more token. A row is dead if its total is -inf.

    Fields:
        total: sum of the log-probabilities of its tokens.
        before: None: nothing is written yet, and `token` is what the model reads first.
        log_prob: of `token`.
        length: number of tokens written.
        place: the place in its unit of the sentence being written. begin: the length at which that one began.
    """

    total: float
    before: Row | None = None
    token: int = BOS
    log_prob: float = 0.0
    length: int = 0
    place: int = 0
    begin: int = 0

    def after(self, token: int, log_prob: float, total: float) -> Row:
        """Return the row with one more token."""
        length = self.length + 1
        if token == BRK:
            return Row(total, self, token, log_prob, length, self.place + 1, length)
        return Row(total, self, token, log_prob, length, self.place, self.begin)

    def sentence(self) -> list[int]:
        """Return the tokens of the sentence being written, from its first on."""
        tokens, row = [], self
        while row.before is not None and row.length > self.begin:
            tokens.append(row.token)
            row = row.before
        return tokens[::-1]

    def written(self) -> tuple[list[int], list[float]]:
        """Return the tokens and their log-probabilities, from the first on."""
        tokens, log_probs, row = [], [], self
        while row.before is not None:
            tokens.append(row.token)
            log_probs.append(row.log_prob)
            row = row.before
        return tokens[::-1], log_probs[::-1]
