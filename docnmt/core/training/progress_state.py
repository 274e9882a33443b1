"""The progress of a training run, which a continued run needs besides tensors."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from docnmt.runtime.errors import UserError
from docnmt.runtime.structured import Count, checked

#: [update, score]
Scored = Annotated[list[float], Meta(min_length=2, max_length=2)]


@dataclass
class TrainingState:
    """The progress of a run. Random numbers follow from (seed, update) and (seed, epoch), so none are stored.

    Attributes:
        update: optimizer steps done.
        epoch: the current pass over the data, from 1.
        batches: batches of this epoch done.
        validated: the update of the last scheduled validation; so a validation that a signal interrupted is repeated.
        concluded: the update of a validation outside the schedule, run because a limit was reached here; else 0.
        history: [update, score] of every scheduled validation, in the metric's own direction.
        best: [update, score] of checkpoint_best.
        interval: sums since the last line of the log.
        whole_epoch: sums since the epoch began.
        seconds: time spent training, validations included.
    """

    update: Count = 0
    epoch: Count = 1
    batches: Count = 0
    validated: Count = 0
    concluded: Count = 0
    history: list[Scored] = field(default_factory=list)
    best: Scored | None = None
    interval: dict[str, float] = field(default_factory=dict)
    whole_epoch: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, from which numbers are restored exactly."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any], *, where: str) -> TrainingState:
        """Restore the state from the values of `to_json`.

        Raises:
            UserError: a value is missing, unknown or not of its type; `where` names the file.
        """
        advice = "use another checkpoint"
        checked(values, cls, f"{where}: the progress in its header is damaged", advice)
        if different := sorted(values.keys() ^ {field.name for field in dataclasses.fields(cls)}):
            raise UserError(f"{where}: the progress in its header is damaged: '{different[0]}'; {advice}")
        return cls(**values)  # as it is: a whole number stays one

    def advance(self, *, batches: int, sums: dict[str, float]) -> None:
        """Count one update over `batches` batches and add its sums to those of the interval and the epoch."""
        self.update += 1
        self.concluded = 0
        self.batches += batches
        self.seconds += sums["seconds"]
        for total in (self.interval, self.whole_epoch):
            for name, value in {**sums, "updates": 1}.items():
                total[name] = total.get(name, 0.0) + value


#: Sums that are not divided by the number of labels.
_NOT_PER_LABEL = ("size", "updates", "seconds", "tokens", "gnorm", "busy", "slowest")


def averages(sums: dict[str, float]) -> dict[str, float]:
    """Turn an interval's sums into logged values: per label, with perplexity, mean gradient norm and tokens per second.

    `sums` has `size`, `loss` and the criterion's own; after updates also `updates`, `seconds`, `tokens`
    and `gnorm`; with several ranks `busy` and `slowest`, seconds of the mean rank and of the slowest, whose difference
    gives the share of time spent waiting (`idle`).
    """
    size = max(sums.get("size", 0.0), 1.0)
    values = {k: v / size for k, v in sums.items() if k not in _NOT_PER_LABEL}
    if "nll" in values:
        values["ppl"] = math.exp(min(values["nll"], 700.0))
    if sums.get("updates"):
        values["gnorm"] = sums["gnorm"] / sums["updates"]
        values["tokens_per_second"] = sums["tokens"] / max(sums["seconds"], 1e-9)
    if sums.get("slowest"):
        values["idle"] = 1 - sums["busy"] / sums["slowest"]
    return values
