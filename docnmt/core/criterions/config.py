"""The options of the criteria. No torch here: these dataclasses are also the command line."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.registry.options import below, no_share, option


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Nothing to set."""


@dataclass(frozen=True)
class LabelSmoothedCrossEntropyConfig:
    """Cross-entropy against a softened truth."""

    label_smoothing: float = option(0.1, "share of the probability given to all labels alike", basic=True)
    r_drop: float = option(
        0.0, "R-Drop: two passes an update, and this weight on how differently they predict (5 in its paper); of "
        "copy_transformer without what is copied",
        metavar="ALPHA",
    )  # fmt: skip

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        return no_share(self, "label_smoothing") + below(self, 0, "r_drop")
