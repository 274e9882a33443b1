"""What the criteria can be told. No torch here: these dataclasses are also the command line."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.config import option


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Nothing to set."""


@dataclass(frozen=True)
class LabelSmoothedCrossEntropyConfig:
    """Cross-entropy against a softened truth."""

    label_smoothing: float = option(0.1, "share of the probability given to all labels alike")
    r_drop: float = option(
        0.0, "R-Drop: two passes an update, and this weight on how differently they predict (5 in its paper)",
        metavar="ALPHA",
    )  # fmt: skip

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        inside = 0 <= self.label_smoothing < 1
        found = [] if inside else [f"--label-smoothing: must be in [0, 1), got {self.label_smoothing}"]
        return found + ([f"--r-drop: must be at least 0, got {self.r_drop}"] if self.r_drop < 0 else [])
