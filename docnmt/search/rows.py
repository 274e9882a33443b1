"""The live rows of a search: what has been written so far, and what may be written next."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from docnmt.data.tokenizer import BOS, BRK, EOS, MASK, UNK
from docnmt.search.config import SearchConfig
from docnmt.search.hypothesis import Hypothesis, Slot


class LiveRows:
    """R = N * width rows, slot by slot. A row that has ended, or that has not begun, is dead: its total is -inf.

    Attributes:
        slots: the N slots.
        total: (R,) sum of the log-probabilities of a row's tokens.
        last: (R,) the token that the model reads next.
    """

    def __init__(self, width: int, config: SearchConfig, device: torch.device | str = "cpu") -> None:
        self.width, self.config = width, config
        self.slots: list[Slot] = []
        self.total = torch.empty(0, device=device)
        self.last = torch.empty(0, dtype=torch.int64, device=device)
        self._history = torch.empty(0, 0, dtype=torch.int64, device=device)  # (R, C)
        self._log_probs = torch.empty(0, 0, device=device)  # (R, C)
        self._length = torch.empty(0, dtype=torch.int64, device=device)  # (R,) tokens written
        self._sentence = torch.empty(0, dtype=torch.int64, device=device)  # (R,) the sentence being written
        self._begin = torch.empty(0, dtype=torch.int64, device=device)  # (R,) where in the history it began
        self._limits = torch.empty(0, 0, dtype=torch.int64, device=device)  # (R, S) 0 beyond the last sentence
        self._sentences = torch.empty(0, dtype=torch.int64, device=device)  # (R,) how many the unit must have

    def admit(self, slots: Sequence[Slot], total: Sequence[float]) -> None:
        """New slots behind the others; `total` (width,) is what their rows begin with: 0, or -inf for a dead row."""
        device, count = self.last.device, len(slots) * self.width
        most = max((len(slot.limits) for slot in slots), default=0)
        limits = torch.tensor([[*s.limits, *[0] * (most - len(s.limits))] for s in slots], dtype=torch.int64)
        zeros = torch.zeros(count, dtype=torch.int64, device=device)
        self.slots = [*self.slots, *slots]
        self.total = torch.cat([self.total, torch.tensor(total, device=device).repeat(len(slots))])
        self.last = torch.cat([self.last, torch.full_like(zeros, BOS)])
        self._history = _stack(self._history, zeros[:, None])
        self._log_probs = _stack(self._log_probs, zeros[:, None].float())
        self._length = torch.cat([self._length, zeros])
        self._sentence = torch.cat([self._sentence, zeros])
        self._begin = torch.cat([self._begin, zeros])
        self._limits = _stack(self._limits, limits.to(device).repeat_interleave(self.width, dim=0))
        counts = torch.tensor([len(slot.limits) for slot in slots], dtype=torch.int64, device=device)
        self._sentences = torch.cat([self._sentences, counts.repeat_interleave(self.width)])

    def allowed(self, logits: Tensor) -> Tensor:
        """(R, V) log-probabilities, -inf where a unit of exactly its number of sentences may not go on like that.

        `<brk>` ends every sentence but the last and `</s>` the last, not before `min_len` tokens and at the latest
        at the sentence's limit; `<s>` and `<mask>` are never written.
        """
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        log_probs[:, UNK] -= self.config.unkpen
        log_probs[:, [BOS, MASK]] = -torch.inf
        is_last = self._sentence == self._sentences - 1
        end = torch.where(is_last, EOS, BRK)[:, None]
        other = torch.where(is_last, BRK, EOS)[:, None]
        log_probs.scatter_(1, other, -torch.inf)
        written = self._length - self._begin
        ends = log_probs.gather(1, end).masked_fill_((written < self.config.min_len)[:, None], -torch.inf)
        full = written + 1 >= self._limits.gather(1, self._sentence[:, None])[:, 0]
        if bool(full.any()):
            log_probs.masked_fill_(full[:, None], -torch.inf)
        return log_probs.scatter_(1, end, ends)

    def extend(self, parents: Tensor, tokens: Tensor, log_probs: Tensor, total: Tensor) -> None:
        """Row r becomes row `parents[r]` and one token more; all (R,)."""
        position = self._length  # the rows of a slot are equally long
        if len(position) and int(position.max()) >= self._history.shape[1]:
            self._history = _widen(self._history, 2 * self._history.shape[1])
            self._log_probs = _widen(self._log_probs, 2 * self._log_probs.shape[1])
        self._history = self._history[parents].scatter_(1, position[:, None], tokens[:, None])
        self._log_probs = self._log_probs[parents].scatter_(1, position[:, None], log_probs[:, None])
        self._length = position + 1
        breaks = tokens == BRK  # a dead row may hold anything; it must only stay inside its limits
        sentence = self._sentence[parents]
        self._sentence = torch.minimum(sentence + breaks, self._sentences - 1)
        self._begin = torch.where(breaks, self._length, self._begin[parents])
        self.total, self.last = total, tokens

    def hypotheses(self, parents: Tensor, log_probs: Tensor, total: Tensor) -> list[Hypothesis]:
        """Rows `parents` (F,) closed by `</s>` of these log-probabilities, with the sums that result."""
        lengths = self._length[parents].tolist()
        histories = self._history[parents].tolist()
        scores = self._log_probs[parents].tolist()
        return [
            Hypothesis(
                tokens=(*tokens[:length], EOS),
                score=sum_ / (length + 1) ** self.config.lenpen,
                token_scores=(*row[:length], last),
            )
            for tokens, row, length, last, sum_ in zip(
                histories, scores, lengths, log_probs.tolist(), total.tolist(), strict=True
            )
        ]

    def keep(self, slots: Sequence[int]) -> Tensor:
        """Only these slots stay. Returns (R',) the rows that do, by the numbers they had."""
        self.slots = [self.slots[n] for n in slots]
        first = torch.tensor(slots, dtype=torch.int64, device=self.last.device) * self.width
        rows = (first[:, None] + torch.arange(self.width, device=first.device)).flatten()
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value[rows])
        return rows


def _widen(rows: Tensor, columns: int) -> Tensor:
    """(R, C) with zeros behind, up to `columns`."""
    missing = max(columns - rows.shape[1], 0)
    return torch.cat([rows, rows.new_zeros(len(rows), missing)], dim=1) if missing else rows


def _stack(above: Tensor, below: Tensor) -> Tensor:
    """Both on top of each other, as wide as the wider one."""
    columns = max(above.shape[1], below.shape[1])
    return torch.cat([_widen(above, columns), _widen(below, columns)])
