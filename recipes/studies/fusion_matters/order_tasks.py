"""Generated texts whose label needs positions of a known kind: tables for docnmt-preprocess, as of make_data.py.

    python recipes/studies/fusion_matters/order_tasks.py first tables/order_first

Texts are trained on and validated at 17 to 64 words, and tested at 64, 128, … 4,096. No word tells the label by being
there, but in short texts of `kth` and `copy` the commonest word is the label more often than by chance (1/8):

    first     two marks among other words: which comes first                         order, at any distance
    kth       the tenth word                                                          one absolute place
    distance  two equal marks, 1 to 8 words apart: how many                           a relative distance
    brackets  brackets of two kinds among other words: do they match; where they do   nesting
              not, two closing ones have changed places, neither next to its opening
    copy      the first word names a place, 1 to 16: the word there                   a place that content names
    clauses   `dog bites man` and `man bites dog`: which comes first, among dogs and  local order, then order
              men that bite nobody

The same seed gives the same tables. Accuracy by length is in the report's table "by the length of the texts".
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from docnmt.cli import command as cli
from docnmt.runtime.system import UsageError, write_text

Random = np.random.Generator
Example = tuple[str, list[str]]
WORDS = [f"w{number}" for number in range(8)]
PLACE, FARTHEST, PLACES, PAIRS = 10, 8, 16, 4
#: Shortest text, so that every task fits.
LEAST = 1 + PLACES
CLAUSES = (("dog", "bites", "man"), ("man", "bites", "dog"))


def filler(random: Random, length: int) -> list[str]:
    """Words that say nothing."""
    return [WORDS[number] for number in random.integers(len(WORDS), size=length)]


def first(random: Random, length: int) -> Example:
    """Which of two marks comes first."""
    words = filler(random, length)
    marks = ["a", "b"] if random.random() < 0.5 else ["b", "a"]
    for position, mark in zip(places(random, length, 2), marks, strict=True):
        words[position] = mark
    return marks[0], words


def kth(random: Random, length: int) -> Example:
    """The word at a place that is always the same."""
    words = filler(random, length)
    return words[PLACE - 1], words


def distance(random: Random, length: int) -> Example:
    """How far apart two equal marks are."""
    words, apart = filler(random, length), int(random.integers(1, FARTHEST + 1))
    begin = int(random.integers(length - apart))
    words[begin] = words[begin + apart] = "a"
    return str(apart), words


def brackets(random: Random, length: int) -> Example:
    """Whether brackets of two kinds match; as many of each, and the same depth, where they do not.

    An opening bracket whose closing one is the next bracket always matches it, so that only nesting tells.
    """
    words, outer = filler(random, length), [list[int](), list[int]()]
    while not all(outer):
        sequence = nested(random)
        outer = [
            [i for i, bracket in enumerate(sequence) if bracket == ("close", kind) and sequence[i - 1][0] == "close"]
            for kind in (0, 1)
        ]
    matches = bool(random.random() < 0.5)
    if not matches:
        one, other = (int(random.choice(of_kind)) for of_kind in outer)
        sequence[one], sequence[other] = sequence[other], sequence[one]
    for position, (what, kind) in zip(places(random, length, 2 * PAIRS), sequence, strict=True):
        words[position] = f"{what}{kind}"
    return "match" if matches else "differ", words


def nested(random: Random) -> list[tuple[str, int]]:
    """Brackets that match, of both kinds."""
    sequence, stack = list[tuple[str, int]](), list[int]()
    kinds = random.permutation([0, 1, *random.integers(2, size=PAIRS - 2).tolist()]).tolist()
    while kinds or stack:
        if kinds and (not stack or random.random() < 0.5):
            stack.append(kinds.pop())
            sequence.append(("open", stack[-1]))
        else:
            sequence.append(("close", stack.pop()))
    return sequence


def copy(random: Random, length: int) -> Example:
    """The word at the place that the first word names, counted from the word behind it."""
    words, position = filler(random, length), int(random.integers(1, PLACES + 1))
    words[0] = f"at{position}"
    return words[position], words


def clauses(random: Random, length: int) -> Example:
    """Which of two clauses of the same words comes first; the first and the last of their words are in neither."""
    alone = [(word,) for word in random.permutation(["dog", "man"] * 2).tolist()]
    parts: list[tuple[str, ...]] = [*CLAUSES, *alone[2:]]
    parts = [alone[0], *(parts[i] for i in random.permutation(len(parts))), alone[1]]
    spare = sum(map(len, parts)) - len(parts)  # places that clauses take beyond their first
    words = filler(random, length - spare)
    for position, part in reversed([*zip(places(random, len(words), len(parts)), parts, strict=True)]):
        words[position : position + 1] = part
    return " ".join(next(part for part in parts if len(part) > 1)), words


TASKS: dict[str, Callable[[Random, int], Example]] = {
    "first": first, "kth": kth, "distance": distance, "brackets": brackets, "copy": copy, "clauses": clauses,
}  # fmt: skip


def places(random: Random, length: int, count: int) -> list[int]:
    """So many places, in order."""
    return sorted(random.choice(length, size=count, replace=False).tolist())


def split(task: str, name: str, lengths: list[tuple[int, int]], count: int) -> Iterator[Example]:
    """`count` texts of lengths between those of every pair; drawn from the task's and the split's names."""
    random = np.random.default_rng(zlib.crc32(f"{task} {name}".encode()))
    for least, most in lengths:
        for _ in range(count):
            yield TASKS[task](random, int(random.integers(least, most + 1)))


def body(argv: list[str]) -> None:
    """Parse, draw, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("target", type=Path, metavar="DESTDIR", help="where the tables go")
    parser.add_argument("--training-texts", type=int, default=8_000, metavar="N", help="[8000]")
    parser.add_argument("--test-texts", type=int, default=100, metavar="N", help="of each length [100]")
    parser.add_argument(
        "--longest", type=int, default=4_096, metavar="N", help="words of the longest test texts [4096]"
    )
    options = parser.parse_args(argv)
    given = {"--training-texts": options.training_texts, "--test-texts": options.test_texts}
    wrong = [f"{name}: must be at least 1, got {number}" for name, number in given.items() if number < 1]
    if options.longest < 64:
        wrong.append(f"--longest: must be at least 64, got {options.longest}")
    if wrong:
        raise UsageError(wrong)
    tested = [64 * 2**k for k in range(20) if 64 * 2**k <= options.longest]
    for name, lengths, texts in (
        ("train", [(LEAST, 64)], options.training_texts), ("valid", [(LEAST, 64)], 1_000),
        ("test", [(length, length) for length in tested], options.test_texts),
    ):  # fmt: skip
        rows = split(options.task, name, lengths, texts)
        lines = (json.dumps({"label": label, "text": " ".join(words)}) + "\n" for label, words in rows)
        write_text(options.target / f"{name}.jsonl", "".join(lines))
    print(f"{options.target}: {options.task}, tested at {', '.join(map(str, tested))} words", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(cli.run("order_tasks.py", body))
