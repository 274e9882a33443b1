"""The live rows of a search: their tokens so far, and the tokens that may follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, chain

import torch
from torch import Tensor

from docnmt.core.data.tokenizer import BOS, BRK, EOS, MASK, UNK
from docnmt.core.search.config import SearchConfig
from docnmt.core.search.hypothesis import Hypothesis, Slot


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

    @classmethod
    def new(cls, total: Tensor, limits: Tensor, sentences: Tensor, given: Tensor, given_at: Tensor) -> Rows:
        """Rows that have written nothing yet."""
        zeros = torch.zeros_like(sentences)
        bos = torch.full_like(sentences, BOS)
        written = (zeros[:, None], zeros[:, None].float(), zeros, zeros, zeros)
        return cls(total, bos, *written, limits, sentences, given, given_at)

    def _map(self, change: Callable[[str, Tensor], Tensor]) -> Rows:
        return Rows(**{f.name: change(f.name, getattr(self, f.name)) for f in fields(self)})

    def take(self, rows: Tensor) -> Rows:
        """These rows, in that order."""
        return self._map(lambda _, values: values[rows])

    def above(self, other: Rows) -> Rows:
        """Both, the other ones behind."""
        return self._map(lambda name, values: _stack(values, getattr(other, name)))


class LiveRows:
    """R = N * width rows, slot by slot. A row that has ended, or that has not begun, is dead: its total is -inf."""

    def __init__(self, width: int, config: SearchConfig, device: torch.device | str = "cpu") -> None:
        self.width, self.config, self.device = width, config, device
        self.slots: list[Slot] = []
        none = torch.empty(0, dtype=torch.int64, device=device)
        self.rows = Rows.new(none.float(), none[:, None], none, none[:, None], none[:, None])

    def admit(self, slots: Sequence[Slot], total: Sequence[float]) -> None:
        """New slots behind the others; `total` (width,) is what their rows begin with: 0, or -inf for a dead row."""
        counts = torch.tensor([len(slot.limits) for slot in slots], dtype=torch.int64, device=self.device)
        new = Rows.new(
            torch.tensor(total, device=self.device).repeat(len(slots)),
            self._table([slot.limits for slot in slots]),
            counts.repeat_interleave(self.width),
            self._table([list(chain.from_iterable(slot.given.values())) for slot in slots]),
            self._table([_given_at(slot) for slot in slots]),
        )
        self.rows = self.rows.above(new) if self.slots else new
        self.slots = [*self.slots, *slots]

    def _table(self, values: Sequence[Sequence[int]]) -> Tensor:
        """(R, C) each slot's values in all of its rows, with zeros behind them."""
        most = max(map(len, values), default=0)
        table = torch.tensor([[*row, *[0] * (most - len(row))] for row in values], dtype=torch.int64)
        return table.to(self.device).view(len(values), most).repeat_interleave(self.width, dim=0)

    @property
    def room(self) -> Tensor:
        """(R,) tokens that a row's sentence may still have before its end."""
        rows = self.rows
        return rows.limits.gather(1, rows.sentence[:, None])[:, 0] - 1 - (rows.length - rows.begin)

    def allowed(self, logits: Tensor) -> Tensor:
        """(R, V) log-probabilities, -inf where a unit of exactly its number of sentences may not go on like that.

        `<brk>` ends every sentence but the last and `</s>` the last, not before `min_len` tokens but always at the
        sentence's limit; `<s>` and `<mask>` are never written. Of a given sentence only the next token
        may follow, and it is certain.
        """
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        log_probs[:, UNK] -= self.config.unkpen
        log_probs[:, [BOS, MASK]] = -torch.inf
        rows = self.rows
        is_last = rows.sentence == rows.sentences - 1
        end = torch.where(is_last, EOS, BRK)[:, None]
        other = torch.where(is_last, BRK, EOS)[:, None]
        log_probs.scatter_(1, other, -torch.inf)
        written = rows.length - rows.begin
        full = written + 1 >= rows.limits.gather(1, rows.sentence[:, None])[:, 0]
        early = (written < self.config.min_len) & ~full
        ends = log_probs.gather(1, end).masked_fill_(early[:, None], -torch.inf)
        if bool(full.any()):
            log_probs.masked_fill_(full[:, None], -torch.inf)
        return self._forced(log_probs.scatter_(1, end, ends), written)

    def _forced(self, log_probs: Tensor, written: Tensor) -> Tensor:
        """(R, V) as they are, but in rows inside a given sentence 0 for its next token and -inf for all others."""
        rows = self.rows
        if not rows.given.shape[1]:
            return log_probs
        begin = rows.given_at.gather(1, rows.sentence[:, None])  # (R, 1)
        place = (begin - 1 + written[:, None]).clamp(0, rows.given.shape[1] - 1)  # a dead row may be anywhere
        only = torch.full_like(log_probs, -torch.inf).scatter_(1, rows.given.gather(1, place), 0.0)
        return torch.where(begin > 0, only, log_probs)

    def extend(self, parents: Tensor, tokens: Tensor, log_probs: Tensor, total: Tensor) -> None:
        """Row r becomes row `parents[r]` and one token more; all (R,)."""
        old = self.rows
        place, width = old.length[:, None], old.tokens.shape[1]  # the rows of a slot are equally long
        if len(place) and int(place.max()) >= width:
            width *= 2
        breaks = tokens == BRK  # a dead row may hold anything; it must only stay inside its limits
        self.rows = replace(
            old,
            total=total,
            last=tokens,
            tokens=_widen(old.tokens, width)[parents].scatter_(1, place, tokens[:, None]),
            log_probs=_widen(old.log_probs, width)[parents].scatter_(1, place, log_probs[:, None]),
            length=old.length + 1,
            sentence=torch.minimum(old.sentence[parents] + breaks, old.sentences - 1),
            begin=torch.where(breaks, old.length + 1, old.begin[parents]),
        )

    def hypotheses(self, parents: Tensor, log_probs: Tensor, total: Tensor) -> list[Hypothesis]:
        """Rows `parents` (F,) closed by `</s>` of these log-probabilities, with the sums that result."""
        given = [self.slots[row // self.width].given_tokens for row in parents.tolist()]
        lengths = self.rows.length[parents].tolist()
        histories = self.rows.tokens[parents].tolist()
        scores = self.rows.log_probs[parents].tolist()
        return [
            Hypothesis(
                tokens=(*tokens[:length], EOS),
                score=sum_ / (length + 1 - certain) ** self.config.lenpen,
                token_scores=(*row[:length], last),
            )
            for tokens, row, length, certain, last, sum_ in zip(
                histories, scores, lengths, given, log_probs.tolist(), total.tolist(), strict=True
            )
        ]

    def keep(self, slots: Sequence[int]) -> Tensor:
        """Only these slots stay. Returns (R',) the rows that do, by the numbers they had."""
        self.slots = [self.slots[n] for n in slots]
        first = torch.tensor(slots, dtype=torch.int64, device=self.device) * self.width
        rows = (first[:, None] + torch.arange(self.width, device=self.device)).flatten()
        self.rows = self.rows.take(rows)
        return rows


def _given_at(slot: Slot) -> list[int]:
    """For each sentence of a slot where it begins in all that is given, counted from 1; 0 where it is not given."""
    begins = dict(zip(slot.given, accumulate(map(len, slot.given.values()), initial=1), strict=False))
    return [begins.get(place, 0) for place in range(len(slot.limits))]


def _widen(rows: Tensor, columns: int) -> Tensor:
    """(R, C) with zeros behind, up to `columns`."""
    missing = max(columns - rows.shape[1], 0)
    return torch.cat([rows, rows.new_zeros(len(rows), missing)], dim=1) if missing else rows


def _stack(above: Tensor, below: Tensor) -> Tensor:
    """Both on top of each other; matrices as wide as the wider one."""
    if above.dim() == 1:
        return torch.cat([above, below])
    columns = max(above.shape[1], below.shape[1])
    return torch.cat([_widen(above, columns), _widen(below, columns)])
