"""What the text classification task can be told. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from docnmt.config import below, option


@dataclass(frozen=True)
class TextClassificationConfig:
    """How much of a text is read."""

    default_criterion: ClassVar[str] = "classification"

    max_length: int | None = option(None, "read the first N tokens of a text only [all]")

    def problems(self) -> list[str]:
        """Values out of range."""
        return below(self, 1, "max_length")
