"""What document models have besides the parts of a sentence model."""

from __future__ import annotations

from abc import ABC, abstractmethod


class DocumentPart(ABC):
    """A module that a sentence model lacks and that can begin without an effect on the rest."""

    @abstractmethod
    def start_closed(self) -> None:
        """Set the weights such that it adds nothing, and that its gradients are not 0."""
