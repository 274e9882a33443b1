"""One finished target text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from docnmt.core.data.tokenizer import BRK, Tokenizer

if TYPE_CHECKING:
    from docnmt.core.search.terms import Terms


@dataclass(frozen=True)
class Hypothesis:
    """What a search found.

    Attributes:
        tokens: token ids, `</s>` at the end included, `<s>` not.
        score: sum of `token_scores` / (number of tokens that search chose) ** lenpen.
        token_scores: natural log-probability of each token, given those before it; 0 where the token was given.
    """

    tokens: tuple[int, ...]
    score: float
    token_scores: tuple[float, ...]

    def sentences(self, lenpen: float) -> list[Hypothesis]:
        """One for each sentence of a joined unit; each ends in its `<brk>`, the last in `</s>`."""
        ends = [place + 1 for place, token in enumerate(self.tokens) if token == BRK]
        if not ends:
            return [self]
        cuts = zip([0, *ends], [*ends, len(self.tokens)], strict=True)
        return [
            Hypothesis(self.tokens[a:b], sum(self.token_scores[a:b]) / (b - a) ** lenpen, self.token_scores[a:b])
            for a, b in cuts
        ]

    def text(self, tokenizer: Tokenizer) -> str:
        """Detokenised, without its end and without spaces around it."""
        return tokenizer.decode(self.tokens[:-1]).strip()


@dataclass(frozen=True)
class Slot:
    """One unit of text to be written.

    Attributes:
        number: which unit this is, by its first sentence that is kept: puts results in order.
        limits: for each sentence that the unit must have, the most tokens it may have; its end (`<brk>` between
            sentences, `</s>` after the last) is counted.
        before: how many of its sentences come before those that are kept.
        wanted: False for a copy whose result is not used (see `decode`).
        given: the sentences that are not searched, in order: their place in the unit, and their tokens with the end.
        terms: what its sentences must have, where a glossary asks for something.
        group: whose it is, in a search that several share.
        stream: the number of its random stream, for sampling; None: `number`.
        tag: the token that each of its sentences begins with; -1: any.
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
        """How many tokens are given."""
        return sum(map(len, self.given.values()))

    @cached_property
    def longest(self) -> int:
        """The most tokens that search can choose."""
        return sum(limit for place, limit in enumerate(self.limits) if place not in self.given)
