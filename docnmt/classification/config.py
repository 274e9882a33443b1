"""What the text classification task can be told. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from docnmt.config import option


@dataclass(frozen=True)
class TextClassificationConfig:
    """How much of a text is read."""

    default_criterion: ClassVar[str] = "classification"

    max_length: int | None = option(None, "read the first N tokens of a text only [all]")

    def problems(self) -> list[str]:
        """Values out of range."""
        wrong = self.max_length is not None and self.max_length < 1
        return [f"--max-length: must be at least 1, got {self.max_length}"] if wrong else []
