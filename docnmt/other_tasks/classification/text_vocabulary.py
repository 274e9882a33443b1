"""What turns texts into numbers: whole words between white space, or SentencePiece subwords.

Lower-cased words are what Hallam and Tseng, "Fusion Matters", train on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from docnmt.core.data.tokenizer import Tokenizer

#: Every word that is not in the vocabulary.
UNKNOWN = "<unk>"


class WordVocabulary:
    """Words by number; 0 is every other word.

    Args:
        words: the words of numbers 1, 2, …
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (UNKNOWN, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def count(cls, texts: Iterable[str], *, size: int, min_frequency: int) -> WordVocabulary:
        """The `size` − 1 most frequent words that occur `min_frequency` times or more; ties in alphabetical order."""
        counts = Counter(word for text in texts for word in tokenise(text))
        counts.pop(UNKNOWN, None)
        frequent = sorted((word for word, n in counts.items() if n >= min_frequency), key=lambda w: (-counts[w], w))
        return cls(frequent[: size - 1])

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The numbers of each line's words."""
        return [[self._numbers.get(word, 0) for word in tokenise(line)] for line in lines]

    @property
    def vocab_size(self) -> int:
        """Words, the unknown one included."""
        return len(self.words)

    def to_bytes(self) -> bytes:
        """A word a line, from number 1 on."""
        return "".join(f"{word}\n" for word in self.words[1:]).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> WordVocabulary:
        """The inverse of `to_bytes`; words hold no white space, so none can hold a line's end."""
        return cls(content.decode().split("\n")[:-1])


def tokenise(text: str) -> list[str]:
    """Lower-cased, split at white space."""
    return text.lower().split()


Vocabulary = WordVocabulary | Tokenizer

#: By the name it has in `meta.json`.
VOCABULARIES: dict[str, type[WordVocabulary] | type[Tokenizer]] = {"words": WordVocabulary, "sentencepiece": Tokenizer}
