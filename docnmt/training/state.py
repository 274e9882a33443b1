"""The progress of a training run: what continuing it needs besides tensors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from docnmt.errors import UserError


@dataclass
class TrainingState:
    """Progress of a run. Random numbers follow from (seed, update) and (seed, epoch), so none are kept.

    Attributes:
        update: optimizer steps done.
        epoch: the pass over the data under way, from 1.
        batches: batches of this epoch done.
        validated: the update of the last scheduled validation; so a validation that a signal stopped is repeated.
        concluded: the update of a validation outside the schedule, made because a limit was reached here; else 0.
        history: [update, score] of every scheduled validation, in the metric's own direction.
        best: [update, score] of checkpoint_best.
        interval: sums since the last line of the log.
        whole_epoch: sums since the epoch began.
        seconds: time spent training, validations included.
    """

    update: int = 0
    epoch: int = 1
    batches: int = 0
    validated: int = 0
    concluded: int = 0
    history: list[list[float]] = field(default_factory=list)
    best: list[float] | None = None
    interval: dict[str, float] = field(default_factory=dict)
    whole_epoch: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; numbers survive the way there and back exactly."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any], *, where: str) -> TrainingState:
        """The state back from `to_json`.

        Raises:
            UserError: a value is missing, unknown or not of its type; `where` names the file.
        """
        known = isinstance(values, dict) and values.keys() == _CHECKS.keys()
        if not known or not all(check(values[name]) for name, check in _CHECKS.items()):
            raise UserError(f"{where}: the progress in its header is damaged; use another checkpoint")
        return cls(**values)

    def advance(self, *, batches: int, sums: dict[str, float]) -> None:
        """One update over `batches` batches is done; add its sums to those of the interval and of the epoch."""
        self.update += 1
        self.concluded = 0
        self.batches += batches
        self.seconds += sums["seconds"]
        for total in (self.interval, self.whole_epoch):
            for name, value in {**sums, "updates": 1}.items():
                total[name] = total.get(name, 0.0) + value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _are_sums(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


#: What a stored value of each attribute must be.
_CHECKS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("update", "epoch", "batches", "validated", "concluded"), _is_count),
    "history": lambda value: isinstance(value, list) and all(map(_is_pair, value)),
    "best": lambda value: value is None or _is_pair(value),
    **dict.fromkeys(("interval", "whole_epoch"), _are_sums),
    "seconds": _is_number,
}


def averages(sums: dict[str, float]) -> dict[str, float]:
    """Sums of an interval as what is logged: per label, with perplexity, mean gradient norm and tokens a second.

    `sums` holds `size`, `loss` and the criterion's own; where there were updates also `updates`, `seconds`, `tokens`
    and `gnorm`.
    """
    size = max(sums.get("size", 0.0), 1.0)
    values = {k: v / size for k, v in sums.items() if k not in ("size", "updates", "seconds", "tokens", "gnorm")}
    if "nll" in values:
        values["ppl"] = math.exp(min(values["nll"], 700.0))
    if sums.get("updates"):
        values["gnorm"] = sums["gnorm"] / sums["updates"]
        values["tokens_per_second"] = sums["tokens"] / max(sums["seconds"], 1e-9)
    return values
