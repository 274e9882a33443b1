"""Documents out of threads: which threads, in which order, with which antecedents."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import lexicon as lex
from lexicon import Pair
from threads import PHENOMENA, Pool, Rivals, Thread

#: Both 2-way and 3-way threads come back to their first answer after so many rotations.
ROTATIONS = 6
MIN_SENTENCES, MAX_SENTENCES = 10, 16
DISTANCES = (1, 2, 3, 4, 5, 6, 7, 8, 12)

Document = list[Pair]
#: A place in a document: a fixed sentence, or a thread's antecedent (True) or later sentence (False).
Slot = Pair | tuple[Thread, bool]
Maker = Callable[[Pool], Rivals]


class Group(NamedTuple):
    """A contrastive question: which of `answers` translates the last sentence of the document?"""

    phenomenon: str
    kind: str
    distance: int
    context: Document
    source: str
    answers: tuple[str, ...]
    correct: int


def render(slots: Sequence[Slot], rotations: dict[Thread, int]) -> Document:
    """The sentences of a document whose threads are rotated as told."""
    document = []
    for slot in slots:
        if isinstance(slot, Pair):
            document.append(slot)
            continue
        thread, opens = slot
        answer = thread.answer(rotations[thread])
        document.append(thread.antecedents[answer] if opens else Pair(thread.source, thread.answers[answer]))
    return document


def _mix(rivals: Sequence[Rivals], fixed: Sequence[Pair], rng: random.Random) -> list[Slot]:
    """A random order in which both antecedents of a pair of rivals stand before both later sentences.

    Were a later sentence free to stand before its rival's antecedent, the nearest antecedent would mostly be the right
    one, and a model could do without the cue.
    """
    places: list[Pair | int] = [i for i in range(len(rivals)) for _ in range(4)] + list(fixed)
    rng.shuffle(places)
    queues: list[list[Slot]] = []
    for pair in rivals:
        opening, later = (rng.sample([(thread, opens) for thread in pair], 2) for opens in (True, False))
        queues.append([*opening, *later])
    return [queues[turn].pop(0) if isinstance(turn, int) else turn for turn in places]


def _makers(rng: random.Random, count: int, first: Maker | None = None) -> list[Maker]:
    """Kinds of rivals, all different, in the order in which they are to be drawn."""
    makers = list(PHENOMENA.values())
    chosen = set(rng.sample([maker for maker in makers if maker is not first], count))
    return [maker for maker in makers if maker in chosen or maker is first]


def text_documents(split: str, count: int, rng: random.Random) -> list[Document]:
    """Documents in which every later sentence has each of its answers equally often.

    Each set of threads is used for `ROTATIONS` documents, every time with the answers rotated, other sentences between
    them and in another order; the documents of a set are spread over the corpus.

    Raises:
        ValueError: `count` is no multiple of `ROTATIONS`.
    """
    if count % ROTATIONS:
        raise ValueError(f"a balanced split needs a multiple of {ROTATIONS} documents, not {count}")
    documents = []
    for _ in range(count // ROTATIONS):
        pool = Pool(rng, split)
        rivals = [make(pool) for make in _makers(rng, rng.choice((2, 3, 3, 3)))]
        threads = [thread for pair in rivals for thread in pair]
        fewest = max(0, MIN_SENTENCES - 1 - 2 * len(threads))
        for rotation in range(ROTATIONS):
            fillers = rng.sample(lex.FILLERS, rng.randint(fewest, 3))
            slots = [rng.choice(lex.OPENINGS), *_mix(rivals, fillers, rng)]
            documents.append(render(slots, dict.fromkeys(threads, rotation)))
    rng.shuffle(documents)
    return documents


def contrastive_groups(split: str, per_cell: int, rng: random.Random) -> Iterator[Group]:
    """Questions for every phenomenon and distance, `per_cell` of each.

    They come in blocks: the same document once for every answer, only the two rivals' antecedents differ.

    Raises:
        ValueError: `per_cell` does not divide into whole blocks of every kind.
    """
    if per_cell % (2 * ROTATIONS):
        raise ValueError(f"balanced cells need a multiple of {2 * ROTATIONS} groups, not {per_cell}")
    for phenomenon, make in PHENOMENA.items():
        for distance in DISTANCES:
            groups = 0
            while groups < per_cell:
                block = _block(phenomenon, make, distance, Pool(rng, split))
                groups += len(block)
                yield from block


def _block(phenomenon: str, make: Maker, distance: int, pool: Pool) -> list[Group]:
    rng = pool.rng
    length = rng.randint(max(MIN_SENTENCES, distance + 2), MAX_SENTENCES)
    free = length - 4  # beside the opening, the asked thread's two sentences and its rival's antecedent
    others = 2 if free >= 8 else 1
    rivals = {maker: maker(pool) for maker in _makers(rng, others, make)}
    asked, rival = rivals.pop(make)
    threads = [thread for pair in rivals.values() for thread in pair]
    slots = _mix(list(rivals.values()), rng.sample(lex.FILLERS, free - 2 * len(threads)), rng)
    # The rival stands between, so that the nearest antecedent is the wrong one; at distance 1 there is no between.
    antecedent = length - 2 - distance  # its place among the sentences after the opening
    if distance > 1:
        slots[antecedent:antecedent] = [(asked, True)]
        slots.insert(rng.randint(antecedent + 1, length - 3), (rival, True))
    else:
        slots.insert(rng.randint(0, len(slots)), (rival, True))
        slots.append((asked, True))
    slots.insert(0, rng.choice(lex.OPENINGS))
    groups = []
    for rotation in range(len(asked.answers)):
        turned = dict.fromkeys(threads, 0) | {asked: rotation, rival: rotation}
        correct = asked.answer(rotation)
        context = render(slots, turned)
        groups.append(Group(phenomenon, asked.kind, distance, context, asked.source, asked.answers, correct))
    return groups
