"""Given translations: they are not searched, and the sentences written after them read them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from docnmt.core.data.tokenizer import Tokenizer


def given_tokens(given: Sequence[str | None] | None, sentences: int, tokenizer: Tokenizer) -> dict[int, list[int]]:
    """Return the tokens of the given target sentences by sentence number.

    Args:
        given: for each sentence its translation or None; None instead of a list gives no translation at all.
        sentences: the number of sentences of the corpus.

    Raises:
        ValueError: `given` has another length.
    """
    if given is None:
        return {}
    if len(given) != sentences:
        raise ValueError(f"given: expected an entry for each of {sentences} sentences, got {len(given)}")
    texts = {number: text for number, text in enumerate(given) if text is not None}
    return dict(zip(texts, tokenizer.encode(list(texts.values())), strict=True))


def first_of_documents(references: Sequence[str], document_offsets: Sequence[int], share: float) -> list[str | None]:
    """Return the first floor(share * n) references of each document of n sentences; None for others and empty ones."""
    given: list[str | None] = [None] * len(references)
    for begin, end in pairwise(document_offsets):
        last = begin + int(Decimal(str(share)) * (end - begin))  # 0.29 of 100 is 29; of floats it would be 28
        given[begin:last] = [text or None for text in references[begin:last]]
    return given
