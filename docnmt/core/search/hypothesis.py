"""Hypotheses, which are finished target texts, and slots, which are texts to be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from docnmt.core.data.tokenizer import BRK, Tokenizer

if TYPE_CHECKING:
    from docnmt.core.search.glossary import Terms


@dataclass(frozen=True)
class Hypothesis:
    """A finished target text with its score.

    Attributes:
        tokens: token ids, `</s>` at the end included, `<s>` not.
        score: sum of `token_scores` / (number of tokens that the search chose) ** lenpen.
        token_scores: natural log-probability of each token, given those before it; 0 where the token was given.
        limited: True if it ends at the length limit.
    """

    tokens: tuple[int, ...]
    score: float
    token_scores: tuple[float, ...]
    limited: bool = False

    def sentences(self, lenpen: float, tag: int = -1) -> list[Hypothesis]:
        """Split the hypothesis of a joined unit into one per sentence; each ends in its `<brk>`, the last in `</s>`.

        Args:
            tag: as in `Slot`. It is certain, and no token of the mean that a sentence's score is.
        """
        ends = [place + 1 for place, token in enumerate(self.tokens) if token == BRK]
        if not ends and (tag < 0 or self.tokens[0] != tag):
            return [self]
        cuts = zip([0, *ends], [*ends, len(self.tokens)], strict=True)
        return [
            Hypothesis(
                self.tokens[a:b],
                sum(self.token_scores[a:b]) / (b - a - (self.tokens[a] == tag)) ** lenpen,
                self.token_scores[a:b],
            )
            for a, b in cuts
        ]

    def text(self, tokenizer: Tokenizer) -> str:
        """Return the detokenised text without `</s>` and surrounding spaces."""
        return tokenizer.decode(self.tokens[:-1]).strip()


@dataclass(frozen=True)
class Slot:
    """One unit of text to be written.

    Attributes:
        number: the unit's number, which is that of its first kept sentence; results are ordered by it.
        limits: for each sentence of the unit, the most tokens it may have; its end (`<brk>` between
            sentences, `</s>` after the last) is counted.
        before: number of the unit's sentences before those that are kept.
        wanted: False for a copy whose result is not used (see `Scheduler`).
        given: tokens, with the end, of the sentences that are not searched, by their place in the unit, in order.
        terms: target terms that its sentences must have, if a glossary demands any.
        group: the name of its group, in a search that several jobs share.
        stream: the number of its random stream, for sampling; None: `number`.
        tag: the token that each of its sentences begins with; -1: none is prescribed.
    """

    number: int
    limits: tuple[int, ...]
    before: int = 0
    wanted: bool = True
    given: Mapping[int, tuple[int, ...]] = field(default_factory=dict, hash=False)
    terms: Terms | None = field(default=None, hash=False)
    group: int = 0
    stream: int | None = None
    tag: int = -1

    @cached_property
    def given_tokens(self) -> int:
        """The number of tokens that are given."""
        return sum(map(len, self.given.values()))

    @cached_property
    def longest(self) -> int:
        """The most tokens that the search can choose."""
        return sum(limit for place, limit in enumerate(self.limits) if place not in self.given)
