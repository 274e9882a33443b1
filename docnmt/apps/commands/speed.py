"""How fast a command translated."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.runtime.progress import how_many


@dataclass(frozen=True)
class Speed:
    """How fast a corpus was translated; tokens are subwords of the best translations, `</s>` included."""

    seconds: float
    sentences: int
    tokens: int

    def to_dict(self) -> dict[str, float]:
        """What `scores.json` holds."""
        return {
            "seconds": round(self.seconds, 3),
            "sentences_per_second": round(self.sentences / self.seconds, 2),
            "tokens_per_second": round(self.tokens / self.seconds, 1),
        }

    def __str__(self) -> str:
        rates = f"{self.sentences / self.seconds:.1f} sentences/s, {self.tokens / self.seconds:.0f} tokens/s"
        return f"{how_many(self.sentences, 'sentence')} in {self.seconds:.1f} s ({rates})"
