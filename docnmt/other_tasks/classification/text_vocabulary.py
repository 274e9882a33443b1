"""Vocabularies of text classification: whole words between white space, or SentencePiece subwords.

Hallam and Tseng, "Fusion Matters", train on lower-cased words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from docnmt.core.tokenizer import Tokenizer

#: The entry for every word that is not in the vocabulary.
UNKNOWN = "<unk>"


class WordVocabulary:
    """A vocabulary of words by number; 0 is any other word.

    Args:
        words: the words of numbers 1, 2, …
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (UNKNOWN, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def count(cls, texts: Iterable[str], *, size: int, min_frequency: int) -> WordVocabulary:
        """Build a vocabulary of the `size` − 1 most frequent words that occur `min_frequency` times, ties sorted."""
        counts = Counter(word for text in texts for word in tokenise(text))
        counts.pop(UNKNOWN, None)
        frequent = sorted((word for word, n in counts.items() if n >= min_frequency), key=lambda w: (-counts[w], w))
        return cls(frequent[: size - 1])

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the numbers of each line's words."""
        return [[self._numbers.get(word, 0) for word in tokenise(line)] for line in lines]

    @property
    def vocab_size(self) -> int:
        """The number of words, the unknown one included."""
        return len(self.words)

    def to_bytes(self) -> bytes:
        """Return the words from number 1 on, one per line."""
        return "".join(f"{word}\n" for word in self.words[1:]).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> WordVocabulary:
        """Invert `to_bytes`; words have no white space, so none can contain a line break."""
        return cls(content.decode().split("\n")[:-1])


def tokenise(text: str) -> list[str]:
    """Split a text, in lower case, at white space."""
    return text.lower().split()


TextVocabulary = WordVocabulary | Tokenizer

#: The kinds of vocabulary, by their name in `meta.json`.
VOCABULARIES: dict[str, type[WordVocabulary] | type[Tokenizer]] = {"words": WordVocabulary, "sentencepiece": Tokenizer}
