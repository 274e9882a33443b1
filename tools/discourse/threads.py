"""Threads: an earlier sentence that decides how a later, by itself ambiguous sentence is to be translated.

Threads come in *rival pairs*: two of one kind in the same document, with different answers, told apart only by a cue
that the later sentence shares with its own antecedent: the name of the person it is about.
Which answer is right turns with the antecedent, so both threads can be *rotated* through all answers while their later
sentences stay the same: neither the later sentence nor its translation up to the deciding word tells the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import lexicon as lex
from lexicon import Pair
from senses import WORDS

T = TypeVar("T")


@dataclass(frozen=True)
class Thread:
    """`antecedents[v]` makes `answers[v]` the translation of `source`."""

    kind: str
    source: str
    answers: tuple[str, ...]
    antecedents: tuple[Pair, ...]
    start: int  # the answer at rotation 0

    def answer(self, rotation: int) -> int:
        return (self.start + rotation) % len(self.answers)


Rivals = tuple[Thread, Thread]


def in_split(i: int, j: int, split: str) -> bool:
    """Whether the combination of ambiguous sentence i and antecedent j belongs to a split: a Latin square, so that
    every sentence and every antecedent occurs in training, but the pairs tested never do."""
    return split == ("test", "train", "valid", "train", "train")[(i + j) % 5]


class Pool:
    """Random draws for one document: nothing that identifies a thread is drawn twice."""

    def __init__(self, rng: random.Random, split: str) -> None:
        self.rng, self.split = rng, split
        self._used: set[object] = set()

    def take(self, items: Sequence[T]) -> T:
        """An item that this document has not had yet."""
        item = self.rng.choice([item for item in items if item not in self._used])
        self._used.add(item)
        return item

    def block(self, item: object) -> None:
        self._used.add(item)

    def cell(self, rows: int, columns: int) -> tuple[int, int]:
        """A combination of an ambiguous sentence and an antecedent that belongs to this split."""
        return self.rng.choice([(i, j) for i in range(rows) for j in range(columns) if in_split(i, j, self.split)])

    def column(self, row: int, columns: int) -> int:
        """What may go with `row` in this split."""
        return self.rng.choice([j for j in range(columns) if in_split(row, j, self.split)])

    def starts(self, ways: int) -> tuple[int, int]:
        """Two different answers for a pair of rivals."""
        first, second = self.rng.sample(range(ways), 2)
        return first, second


def _introductions(pool: Pool, name: str, kind: lex.NounClass, triple: int) -> tuple[Pair, ...]:
    """The same sentence with a masculine, a feminine and a neuter thing."""
    pattern, adjective = pool.rng.choice(lex.INTRODUCTIONS), pool.rng.choice(kind.adjectives)
    article = "an" if adjective.en[0] in "aeiou" else "a"
    return tuple(
        Pair(
            pattern.en.format(name=name, thing=f"{article} {adjective.en} {noun.en}"),
            pattern.de.format(name=name, thing=f"{form.format(adjective.de)} {noun.de}"),
        )
        for noun, form in zip(kind.triples[triple], lex.INDEFINITE, strict=True)
    )


def object_pronouns(pool: Pool) -> Rivals:
    """In "Paul wants to keep it", it is Paul's thing, not the thing of the same class that Anna has."""
    kind = lex.CLASSES[pool.take(tuple(lex.CLASSES))]

    def thread(start: int) -> Thread:
        name = pool.take(lex.NAMES)
        i, j = pool.cell(len(lex.OBJECT_SENTENCES), len(kind.triples))
        source, target = lex.OBJECT_SENTENCES[i]
        answers = tuple(target.format(name=name, it=pronoun) for pronoun in lex.PRONOUNS)
        return Thread("object", source.format(name=name), answers, _introductions(pool, name, kind, j), start)

    first, second = pool.starts(3)
    return thread(first), thread(second)


def word_senses(pool: Pool) -> Rivals:
    """In "Paul waited at the bank", it is the river's if Paul was fishing, whatever Anna needed the money for."""
    word = pool.rng.choice(WORDS)
    pool.block(word.avoids)

    def thread(start: int) -> Thread:
        name = pool.take(lex.NAMES)
        i, j = pool.cell(len(word.sources), len(word.topics[0]))
        answers = tuple(f"{name} {sense[i]}" for sense in word.senses)
        antecedents = tuple(Pair(f"{name} {topics[j].en}", f"{name} {topics[j].de}") for topics in word.topics)
        return Thread("sense", f"{name} {word.sources[i]}", answers, antecedents, start)

    first, second = pool.starts(2)
    return thread(first), thread(second)


def addresses(pool: Pool) -> Rivals:
    """In "Can you help me?", you is Sie or du as this speaker's greeting has settled it."""

    def thread(start: int) -> Thread:
        who, name = pool.take(lex.NAMES), pool.take(lex.NAMES)
        i = pool.column(lex.NAMES.index(who), len(lex.UTTERANCES))
        greeting = pool.rng.choice(lex.GREETINGS)
        antecedents = tuple(
            Pair(
                lex.GREETING.en.format(speaker=who, greeting=greeting.en, guest=guest.en),
                lex.GREETING.de.format(speaker=who, greeting=greeting.de, guest=guest.de),
            )
            for guest in (pool.take(lex.SURNAMES), Pair(name, name))
        )
        words, *translations = lex.UTTERANCES[i]
        answers = tuple(lex.UTTERANCE.de.format(speaker=who, words=words) for words in translations)
        return Thread("address", lex.UTTERANCE.en.format(speaker=who, words=words), answers, antecedents, start)

    first, second = pool.starts(2)
    return thread(first), thread(second)


def verbs(pool: Pool) -> Rivals:
    """In "Maria does too, just like Paul", she does what was said of Paul."""
    triple = pool.rng.randrange(len(lex.ACTIVITIES))
    others = [name for i, name in enumerate(lex.NAMES) if in_split(i, triple, pool.split)]
    paul, anna = pool.take(others), pool.take(others)

    def thread(other: str, start: int) -> Thread:
        name = pool.take(lex.NAMES)
        habit, sentence = pool.rng.choice(lex.HABITS), pool.rng.choice(lex.DOES_TOO)
        antecedents = tuple(
            Pair(habit.en.format(name=other, verb=verb.en), habit.de.format(name=other, verb=verb.de))
            for verb in lex.ACTIVITIES[triple]
        )
        answers = tuple(sentence.de.format(name=name, other=other, verb=verb.de) for verb in lex.ACTIVITIES[triple])
        return Thread("verb", sentence.en.format(name=name, other=other), answers, antecedents, start)

    first, second = pool.starts(3)
    return thread(paul, first), thread(anna, second)


#: Phenomenon → the ways to make rivals of it, in the order in which a document draws them: verbs need certain names, a
#: word's sense may block a class of nouns.
PHENOMENA: dict[str, tuple[Callable[[Pool], Rivals], ...]] = {
    "ellipsis": (verbs,),
    "sense": (word_senses,),
    "pronoun": (object_pronouns,),
    "address": (addresses,),
}
