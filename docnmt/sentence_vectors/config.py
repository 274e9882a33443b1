"""What the task `nli` can be told. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class NliConfig:
    """Nothing: vectors and vocabulary come with the data."""

    default_criterion: ClassVar[str] = "nli"
