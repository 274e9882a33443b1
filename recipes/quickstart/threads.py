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
    """Whether the combination of name i and ambiguous sentence j belongs to a split: a Latin square, so that every name
    and every sentence occurs in training, but the pairs tested never do.

    The recipes' settings were found by questions about what is now `valid`; those of `test` were asked afterwards.
    """
    return split == ("valid", "train", "test", "train", "train")[(i + j) % 5]


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

    def use_with(self, name: str, uses: int) -> int:
        """One of so many uses of an ambiguous sentence that may go with a name in this split."""
        row = lex.NAMES.index(name)
        return self.rng.choice([j for j in range(uses) if in_split(row, j, self.split)])

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
        source, target = lex.OBJECT_SENTENCES[pool.use_with(name, len(lex.OBJECT_SENTENCES))]
        answers = tuple(target.format(name=name, it=pronoun) for pronoun in lex.PRONOUNS)
        triple = pool.rng.randrange(len(kind.triples))
        return Thread("object", source.format(name=name), answers, _introductions(pool, name, kind, triple), start)

    first, second = pool.starts(3)
    return thread(first), thread(second)


def word_senses(pool: Pool) -> Rivals:
    """In "Paul waited at the bank", it is the river's if Paul was fishing, whatever Anna needed the money for."""
    word = pool.rng.choice(WORDS)
    pool.block(word.avoids)
    topics = len(word.topics[0])

    def thread(start: int) -> Thread:
        name = pool.take(lex.NAMES)
        i, j = divmod(pool.use_with(name, len(word.sources) * topics), topics)
        answers = tuple(f"{name} {sense[i]}" for sense in word.senses)
        antecedents = tuple(Pair(f"{name} {topic[j].en}", f"{name} {topic[j].de}") for topic in word.topics)
        return Thread("sense", f"{name} {word.sources[i]}", answers, antecedents, start)

    first, second = pool.starts(2)
    return thread(first), thread(second)


def addresses(pool: Pool) -> Rivals:
    """In "Can you help me?", you is Sie or du by whom this speaker has met."""

    def thread(start: int) -> Thread:
        name, friend = pool.take(lex.NAMES), pool.take(lex.NAMES)
        i = pool.use_with(name, len(lex.UTTERANCES))
        meeting = pool.rng.choice(lex.MEETINGS)
        antecedents = tuple(
            Pair(meeting.en.format(name=name, guest=guest.en), meeting.de.format(name=name, guest=guest.de))
            for guest in (pool.take(lex.SURNAMES), Pair(friend, friend))
        )
        words, *translations = lex.UTTERANCES[i]
        answers = tuple(lex.UTTERANCE.de.format(name=name, words=words) for words in translations)
        return Thread("address", lex.UTTERANCE.en.format(name=name, words=words), answers, antecedents, start)

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


#: Phenomenon → how rivals of it are made, in the order in which a document draws them: verbs need certain names, a
#: word's sense may block a class of nouns.
PHENOMENA: dict[str, Callable[[Pool], Rivals]] = {
    "ellipsis": verbs,
    "sense": word_senses,
    "pronoun": object_pronouns,
    "address": addresses,
}
