"""The options of the optimizer and of the learning rate. This file imports no torch: the command line reads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docnmt.registry.options import option


@dataclass(frozen=True)
class OptimizationConfig:
    """Options of AdamW and a schedule. No schedule depends on a limit, so prolonging a run does not change its past."""

    lr: float = option(5e-4, "peak learning rate", basic=True)
    lr_scheduler: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = option(
        "inverse_sqrt", "how the rate falls after the warm-up"
    )
    warmup_updates: int = option(4000, "updates over which the rate rises linearly from 0; 0 for none", basic=True)
    lr_period_updates: int | None = option(None, "cosine: updates from the peak down to --min-lr (required)")
    min_lr: float | None = option(None, "cosine, plateau: the rate never falls below it [0]")
    adam_betas: tuple[float, ...] = option((0.9, 0.98), "decay rates of Adam's two moments", metavar="F")
    weight_decay: float = option(0.0, "decoupled (AdamW), on matrices only")
    clip_norm: float = option(1.0, "largest norm of the gradient; 0 does not clip")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        found = []
        if not self.lr > 0:
            found.append(f"--lr: must be above 0, got {self.lr}")
        for name in ("warmup_updates", "weight_decay", "clip_norm", "min_lr"):
            if (getattr(self, name) or 0) < 0:
                found.append(f"--{name.replace('_', '-')}: must not be negative, got {getattr(self, name)}")
        if len(self.adam_betas) != 2 or not all(0 <= beta < 1 for beta in self.adam_betas):
            found.append(f"--adam-betas: expected two numbers in [0, 1), got {' '.join(map(str, self.adam_betas))}")
        if self.min_lr is not None and self.min_lr > self.lr:
            found.append(f"--min-lr {self.min_lr} is above --lr {self.lr}")
        return found + self._schedule_problems()

    def _schedule_problems(self) -> list[str]:
        found = []
        if self.lr_scheduler == "cosine" and (self.lr_period_updates or 0) < 1:
            found.append("--lr-scheduler cosine needs --lr-period-updates, the length of its fall, of at least 1")
        users = {
            "lr_period_updates": ("cosine",), "min_lr": ("cosine", "plateau"),
        }  # fmt: skip
        for name, schedules in users.items():
            if getattr(self, name) is not None and self.lr_scheduler not in schedules:
                found.append(
                    f"--{name.replace('_', '-')} has no effect with --lr-scheduler {self.lr_scheduler}; "
                    f"it belongs to {' and '.join(schedules)}"
                )
        return found
