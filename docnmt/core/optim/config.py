"""The options of the optimizer and of the learning rate. This file imports no torch: the command line reads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docnmt.registry.options import Needs, Open, option


@dataclass(frozen=True)
class OptimizationConfig:
    """Options of AdamW and a schedule. No schedule depends on a limit, so prolonging a run does not change its past."""

    lr: float = option(5e-4, "peak learning rate", basic=True, between=(Open(0), None))
    lr_scheduler: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = option(
        "inverse_sqrt", "how the rate falls after the warm-up"
    )
    warmup_updates: int = option(
        4000, "updates over which the rate rises linearly from 0; 0 for none", basic=True, between=(0, None)
    )
    lr_period_updates: int | None = option(
        None, "updates from the peak down to --min-lr", between=(1, None), needs=Needs("lr_scheduler", ("cosine",))
    )
    min_lr: float | None = option(
        None, "the rate never falls below it [0]", between=(0, None), needs=Needs("lr_scheduler", ("cosine", "plateau"))
    )
    adam_betas: tuple[float, ...] = option(
        (0.9, 0.98), "decay rates of Adam's two moments", metavar="F", between=(0, Open(1))
    )
    weight_decay: float = option(0.0, "decoupled (AdamW), on matrices only", between=(0, None))
    clip_norm: float = option(1.0, "largest norm of the gradient; 0 does not clip", between=(0, None))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = []
        if len(self.adam_betas) != 2:
            found.append(f"--adam-betas: expected two numbers, got {' '.join(map(str, self.adam_betas))}")
        if (self.min_lr or 0) > self.lr:
            found.append(f"--min-lr {self.min_lr} is above --lr {self.lr}")
        if self.lr_scheduler == "cosine" and self.lr_period_updates is None:
            found.append("--lr-scheduler cosine needs --lr-period-updates, the length of its fall")
        return found
