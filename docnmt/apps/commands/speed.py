"""The translation speed of a command."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.runtime.progress import how_many


@dataclass(frozen=True)
class Speed:
    """The speed of translating a corpus; tokens are subwords of the best translations, `</s>` included."""

    seconds: float
    sentences: int
    tokens: int

    def to_dict(self) -> dict[str, float]:
        """Return the entry in `scores.json`."""
        return {
            "seconds": round(self.seconds, 3),
            "sentences_per_second": round(self.sentences / self.seconds, 2),
            "tokens_per_second": round(self.tokens / self.seconds, 1),
        }

    def __str__(self) -> str:
        rates = f"{self.sentences / self.seconds:.1f} sentences/s, {self.tokens / self.seconds:.0f} tokens/s"
        return f"{how_many(self.sentences, 'sentence')} in {self.seconds:.1f} s ({rates})"
