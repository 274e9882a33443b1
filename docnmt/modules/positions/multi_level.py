"""Multi-level positions: one encoding for each structural level, added up (Trankova et al., section 1.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from docnmt.modules.document_part import DocumentPart
from docnmt.modules.positions.tables import Learned, Sinusoidal


class MultiLevel(nn.Module, DocumentPart):
    """PE(word) + Σ_level scale_level · PE_level(index): where a word stands in its sentence, paragraph and section.

    The word level is sinusoidal. Were the higher levels encoded alike, word 3 of sentence 5 and word 5 of sentence 3
    would be the same point; so each level's features are rotated against the word's, fast frequencies onto slow ones,
    which makes the levels nearly orthogonal for the indices that texts have. With scales of 0 it
    is `Sinusoidal`.

    A level that is unknown (-1) has its own embedding, initially 0. In training a level that a corpus may lack
    (paragraph, section) is hidden from a whole batch with probability `level_dropout`, so that it is learned.

    Args:
        d_model: width of the encoding; even.
        levels: how many levels, 1 (words only) to 4.
        learned: encode the higher levels by learned tables of `length` rows instead.
        length: rows of those tables.
        level_dropout: probability of hiding a level.
        scale: of each higher level at the start; learned.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        d_model: int,
        *,
        levels: int = 2,
        learned: bool = False,
        length: int = 1024,
        level_dropout: float = 0.1,
        scale: float = 0.7,
    ) -> None:
        super().__init__()
        if not 1 <= levels <= 4:
            raise ValueError(f"levels: expected 1 (word) to 4 (word, sentence, paragraph, section), got {levels}")
        if not 0 <= level_dropout <= 1:
            raise ValueError(f"level_dropout: expected a probability, got {level_dropout}")
        self.level_dropout = level_dropout
        self.word = Sinusoidal(d_model)
        self.higher = nn.ModuleList(
            Learned(d_model, length=length, column=column, std=0.5**0.5, option="--learned-levels")
            if learned
            else Sinusoidal(d_model, column=column, shift=(0, 2, 1, 3)[column] * (d_model // 4))
            for column in range(1, levels)
        )
        self.scale = nn.Parameter(torch.full((levels - 1,), scale))
        self.unknown = nn.Parameter(torch.zeros(levels - 1, d_model))

    def start_closed(self) -> None:
        """Only the word's place in its sentence is known."""
        with torch.no_grad():
            self.scale.zero_()

    def forward(self, positions: Tensor) -> Tensor:
        """(T, 4) → (T, d_model)."""
        encoded: Tensor = self.word(positions)
        for i, level in enumerate(self.higher):
            column = i + 1
            known = positions[:, column : column + 1] >= 0
            if self.training and column >= 2 and torch.rand(()).item() < self.level_dropout:
                known = torch.zeros_like(known)
            encoded = encoded + self.scale[i] * torch.where(known, level(positions), self.unknown[i])
        return encoded
