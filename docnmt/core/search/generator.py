"""The base class of all generators: slots and their rows, the tokens that may follow, and finished hypotheses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import ClassVar

import torch
from torch import Tensor

from docnmt.core.data.tokenizer import BOS, BRK, EOS, MASK, UNK
from docnmt.core.search.config import SearchConfig
from docnmt.core.search.hypothesis import Hypothesis, Slot
from docnmt.core.search.rows import Rows, widened


@dataclass(frozen=True, eq=False)
class Advance:
    """The changes of one step.

    Attributes:
        rows: (R',) the previous numbers of the rows that live on; None if all stay in their order.
        finished: the slots that ended, each with its hypotheses, best first.
    """

    rows: Tensor | None
    finished: list[tuple[Slot, list[Hypothesis]]]


class Generator(ABC):
    """A running search. It owns slots and rows and works on log-probabilities; it has no model.

    There are R = N * width rows, slot by slot. A row that has ended, or has not begun, is dead: its total is -inf.
    Subclasses choose: `admit` says how new rows begin, `advance` which token each row takes.

    Args:
        width: rows of a slot. parts: number of equal parts of a slot's rows, each with its own finished hypotheses.

    Attributes:
        slots: the current slots, in the order of their rows. rows: their rows. part: number of rows of one part.
    """

    #: True if slots may have `terms`, which translations must contain.
    takes_terms: ClassVar[bool] = False

    def __init__(self, width: int, config: SearchConfig, device: torch.device | str = "cpu", *, parts: int = 1) -> None:
        self.width, self.parts, self.part = width, parts, width // parts
        self._config, self._device = config, device
        self.slots: list[Slot] = []
        none = torch.empty(0, dtype=torch.int64, device=device)
        self.rows = Rows.new(none.float(), none[:, None], none, none[:, None], none[:, None], none)
        self._finished: list[list[Hypothesis]] = []

    @abstractmethod
    def admit(self, slots: Sequence[Slot]) -> None:
        """Add slots behind the others."""

    @abstractmethod
    def advance(self, logits: Tensor) -> Advance:
        """Choose one token for every row from the model's logits (R, V)."""

    @property
    def tokens(self) -> Tensor:
        """The tokens (R,) that the model reads next."""
        return self.rows.last

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Remove slots, given by their places, without a result; return the old numbers (R',) of the rows that stay."""
        stay = sorted(set(range(len(self.slots))) - set(slots))
        self._finished = [self._finished[part] for n in stay for part in self._parts(n)]
        self.slots = [self.slots[n] for n in stay]
        first = torch.tensor(stay, dtype=torch.int64, device=self._device) * self.width
        rows = (first[:, None] + torch.arange(self.width, device=self._device)).flatten()
        self.rows = self.rows.take(rows)
        return rows

    def _enter(self, slots: Sequence[Slot], total: Sequence[float]) -> None:
        """Append slots; `total` (width,) has the initial totals of a slot's rows: 0, or -inf for a dead row."""
        counts = torch.tensor([len(slot.limits) for slot in slots], dtype=torch.int64, device=self._device)
        new = Rows.new(
            torch.tensor(total, device=self._device).repeat(len(slots)),
            self._table([slot.limits for slot in slots]),
            counts.repeat_interleave(self.width),
            self._table([list(chain.from_iterable(slot.given.values())) for slot in slots]),
            self._table([_given_at(slot) for slot in slots]),
            torch.tensor([slot.tag for slot in slots], device=self._device).repeat_interleave(self.width),
        )
        self.rows = self.rows.above(new) if self.slots else new
        self.slots = [*self.slots, *slots]
        self._finished += [[] for _ in range(self.parts * len(slots))]

    def _table(self, values: Sequence[Sequence[int]]) -> Tensor:
        """Return a matrix (R, C) with each slot's values in all of its rows, padded with zeros on the right."""
        most = max(map(len, values), default=0)
        table = torch.tensor([[*row, *[0] * (most - len(row))] for row in values], dtype=torch.int64)
        return table.to(self._device).view(len(values), most).repeat_interleave(self.width, dim=0)

    @property
    def room(self) -> Tensor:
        """The number of tokens (R,) that each row's sentence may still have before its end."""
        rows = self.rows
        return rows.limits.gather(1, rows.sentence[:, None])[:, 0] - 1 - (rows.length - rows.begin)

    def allowed(self, logits: Tensor) -> Tensor:
        """Return log-probabilities (R, V), -inf for tokens that may not follow: each sentence must end exactly once.

        `<brk>` ends every sentence but the last and `</s>` the last, not before `min_len` tokens but always at the
        sentence's limit; `<s>` and `<mask>` are never written. In a given sentence only the next token may
        follow, with probability 1; likewise for the tag that a sentence begins with.
        """
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        if self._config.unkpen:
            log_probs[:, UNK] -= self._config.unkpen
        for never in (BOS, MASK):
            log_probs[:, never].fill_(-torch.inf)
        rows = self.rows
        is_last = rows.sentence == rows.sentences - 1
        end = torch.where(is_last, EOS, BRK)[:, None]
        other = torch.where(is_last, BRK, EOS)[:, None]
        log_probs.scatter_(1, other, -torch.inf)
        written = rows.length - rows.begin
        full = written + 1 >= rows.limits.gather(1, rows.sentence[:, None])[:, 0]
        early = (written < self._config.min_len) & ~full
        ends = log_probs.gather(1, end).masked_fill_(early[:, None], -torch.inf)
        if bool(full.any()):
            log_probs.masked_fill_(full[:, None], -torch.inf)
        log_probs.scatter_(1, end, ends)
        if any(slot.tag >= 0 for slot in self.slots):
            due = (written == 0) & ~full & (rows.tag >= 0)
            log_probs = torch.where(due[:, None], _only(rows.tag.clamp(min=0)[:, None], log_probs), log_probs)
        return self._forced(log_probs, written)

    def _forced(self, log_probs: Tensor, written: Tensor) -> Tensor:
        """Return `log_probs` (R, V), in rows inside a given sentence 0 for its next token and -inf for others."""
        rows = self.rows
        if not rows.given.shape[1]:
            return log_probs
        begin = rows.given_at.gather(1, rows.sentence[:, None])  # (R, 1)
        place = (begin - 1 + written[:, None]).clamp(0, rows.given.shape[1] - 1)  # a dead row may be anywhere
        return torch.where(begin > 0, _only(rows.given.gather(1, place), log_probs), log_probs)

    def extend(self, parents: Tensor, tokens: Tensor, log_probs: Tensor, total: Tensor) -> None:
        """Replace row r by row `parents[r]` with one more token; all arguments (R,)."""
        old = self.rows
        place, width = old.length[:, None], old.tokens.shape[1]  # the rows of a slot are equally long
        if len(place) and int(place.max()) >= width:
            width *= 2
        breaks = tokens == BRK  # a dead row may hold anything; it must only stay inside its limits
        self.rows = replace(
            old,
            total=total,
            last=tokens,
            tokens=widened(old.tokens, width)[parents].scatter_(1, place, tokens[:, None]),
            log_probs=widened(old.log_probs, width)[parents].scatter_(1, place, log_probs[:, None]),
            length=old.length + 1,
            sentence=torch.minimum(old.sentence[parents] + breaks, old.sentences - 1),
            begin=torch.where(breaks, old.length + 1, old.begin[parents]),
        )

    def _hypotheses(self, parents: Tensor, log_probs: Tensor, total: Tensor) -> list[Hypothesis]:
        """Return the hypotheses of rows `parents` (F,) ended by `</s>`, given its log-probabilities and new sums."""
        given = [self.slots[row // self.width].given_tokens for row in parents.tolist()]
        lengths = self.rows.length[parents].tolist()
        histories = self.rows.tokens[parents].tolist()
        scores = self.rows.log_probs[parents].tolist()
        return [
            Hypothesis(
                tokens=(*tokens[:length], EOS),
                score=sum_ / (length + 1 - certain) ** self._config.lenpen,
                token_scores=(*row[:length], last),
            )
            for tokens, row, length, certain, last, sum_ in zip(
                histories, scores, lengths, given, log_probs.tolist(), total.tolist(), strict=True
            )
        ]

    def _finish(self, parents: Tensor, log_probs: Tensor, total: Tensor) -> None:
        """Record rows `parents` (F,) as finished, with the log-probabilities of `</s>` and the sums."""
        if len(parents):
            found = self._hypotheses(parents, log_probs, total)
            for row, hypothesis in zip(parents.tolist(), found, strict=True):
                self._finished[row // self.part].append(hypothesis)

    def _best(self, n: int) -> list[Hypothesis]:
        """Return the finished hypotheses of slot n, best first; among equal scores the one found first comes first."""
        found = chain.from_iterable(self._finished[part] for part in self._parts(n))
        return sorted(found, key=lambda hypothesis: -hypothesis.score)

    def _parts(self, n: int) -> range:
        """Return the numbers of the parts of slot n."""
        return range(n * self.parts, (n + 1) * self.parts)


def _only(tokens: Tensor, log_probs: Tensor) -> Tensor:
    """Return scores (R, V): 0 for each row's token in `tokens` (R, 1), -inf for all others."""
    return torch.full_like(log_probs, -torch.inf).scatter_(1, tokens, 0.0)


def _given_at(slot: Slot) -> list[int]:
    """Return where each sentence of a slot begins in the given tokens, counted from 1; 0 if it is not given."""
    begins = dict(zip(slot.given, accumulate(map(len, slot.given.values()), initial=1), strict=False))
    return [begins.get(place, 0) for place in range(len(slot.limits))]
