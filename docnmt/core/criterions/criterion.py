"""What training needs from a criterion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor
from typing_extensions import Self


class Criterion(Protocol):
    """A loss.

    `metrics` are the names of the sums it logs, so that a misspelt `--best-checkpoint-metric` is refused at the start.
    """

    metrics: tuple[str, ...]

    @classmethod
    def build(cls, config: Any, task: Any) -> Self:  # Any: each criterion has a configuration class of its own
        """The criterion of a configuration, for the labels of a task."""

    def __call__(  # Any: those that it judges
        self, model: Any, batch: Any
    ) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """The summed loss, the sample size it is divided by, and further sums to log (divided likewise).

        Sums of no dimension may be left on the device: all of an update are read together.
        """
