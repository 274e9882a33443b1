"""The interface of criteria that training uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor
from typing_extensions import Self


class Criterion(Protocol):
    """A loss function.

    `metrics` are the names of the sums it logs, so that a misspelt `--best-checkpoint-metric` is rejected at the start.
    """

    metrics: tuple[str, ...]

    @classmethod
    def build(cls, config: Any, task: Any) -> Self:  # Any: each criterion has a configuration class of its own
        """Build the criterion of a configuration, for the labels of a task."""

    def __call__(  # Any: the models and batches that it supports
        self, model: Any, batch: Any
    ) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Return the summed loss, the sample size to divide it by, and further sums to log (divided likewise).

        Scalar sums may be left on the device: all of an update are read together.
        """
