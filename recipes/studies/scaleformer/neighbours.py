"""A generated task that needs relative positions and no others: does a model do at 2 L and 4 L what it learned at L?

    python recipes/studies/scaleformer/neighbours.py --out data/neighbours [--sentences 8] [--distance 2]

Word for word, each word has two translations, and the word --distance places before it in its sentence decides between
them: one of 40 source words, half of which ask for either; nothing before it counts as the first half. So a translation
stands where its source word stands in the document, and the word that decides is always as far away. One layer with
a horizon r below the distance cannot tell it from other words; positions from the document's start are new beyond the
length of training.

Writes train, valid and test of --sentences a document, test-2-times and test-4-times of as many times more.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from docnmt.runtime.system import write_text

WORDS = ["".join(syllable) for syllable in product("bdfgklmn", "aeiou")]
LENGTHS = (3, 7)  # words of a sentence


def translated(words: Sequence[int], distance: int) -> list[str]:
    """Word n as `xN` or `yN`, by the half of the words to which that `distance` places before belongs."""
    deciding = [0] * distance + list(words)
    return [f"{'xy'[before % 2]}{WORDS[word]}" for word, before in zip(words, deciding, strict=False)]


def texts(documents: int, sentences: int, distance: int, numbers: random.Random) -> tuple[str, str]:
    """Both sides: a sentence a line, an empty line between documents."""
    sides: tuple[list[str], list[str]] = ([], [])
    for _ in range(documents):
        drawn = [numbers.choices(range(len(WORDS)), k=numbers.randint(*LENGTHS)) for _ in range(sentences)]
        sides[0].append("".join(" ".join(WORDS[word] for word in words) + "\n" for words in drawn))
        sides[1].append("".join(" ".join(translated(words, distance)) + "\n" for words in drawn))
    return "\n".join(sides[0]), "\n".join(sides[1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write, made if missing")
    parser.add_argument("--sentences", type=int, default=8, metavar="N", help="of a training document [8]")
    parser.add_argument("--distance", type=int, default=2, metavar="N", help="of the word that decides [2]")
    parser.add_argument("--documents", type=int, default=3000, metavar="N", help="of the training text [3000]")
    parser.add_argument("--tested", type=int, default=100, metavar="N", help="documents of every other text [100]")
    parser.add_argument("--seed", type=int, default=1, help="the same seed writes the same files [1]")
    options = parser.parse_args(arguments)
    if min(options.sentences, options.distance, options.documents, options.tested) < 1:
        parser.error("--sentences, --distance, --documents, --tested: expected numbers of at least 1")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, times in (("train", 1), ("valid", 1), ("test", 1), ("test-2-times", 2), ("test-4-times", 4)):
        documents = options.documents if name == "train" else options.tested
        numbers = random.Random(f"{options.seed} {name}")
        sides = texts(documents, times * options.sentences, options.distance, numbers)
        for language, text in zip(("src", "tgt"), sides, strict=True):
            write_text(options.out / f"{name}.{language}", text)


if __name__ == "__main__":
    main()
