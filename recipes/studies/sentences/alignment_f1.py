"""How well docnmt-align finds the sentences of a corpus again after some were merged, divided or taken out.

    python recipes/studies/sentences/alignment_f1.py ~/corpora/docmix_ende/dev --languages en de [--share 0.1] \\
        [--seed 1]

The corpus is PREFIX.LANGUAGE (a sentence a line, an empty line between documents) with PREFIX.levels.tsv, whose first
two columns number section and paragraph. A share of the sentences, drawn by the seed, is changed on one side, drawn
too: merged with the next of its paragraph, divided between two words of its middle third, or taken out. F1 is over
pairs that have both sides; a pair counts if it is exactly one of the expected ones.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from docnmt.apps.align import AlignedSide, Bead, align, aligner_of
from docnmt.apps.options import AlignConfig

Unit = tuple[str, str]


@dataclass
class Piece:
    """A sentence as it stands after the changes, and the numbers of those that it was."""

    text: str
    unit: Unit
    was: set[int]


def documents(prefix: Path, languages: list[str]) -> list[list[tuple[str, str, Unit]]]:
    """The sentences of each document, source and target, with section and paragraph."""
    files = [Path(f"{prefix}.{ending}") for ending in (*languages, "levels.tsv")]
    corpus: list[list[tuple[str, str, Unit]]] = [[]]
    for source, target, levels in zip(*(file.read_text(encoding="utf-8").split("\n") for file in files), strict=True):
        if source:
            section, paragraph = levels.split("\t")[:2]
            corpus[-1].append((source, target, (section, paragraph)))
        elif corpus[-1]:
            corpus.append([])
    return [document for document in corpus if document]


def change(side: list[Piece], number: int, kind: str, draw: random.Random) -> None:
    """Merge, divide or take out the sentence that has `number`; nothing where that cannot be done."""
    position = next((k for k, piece in enumerate(side) if number in piece.was), None)
    if position is None:
        return
    own, words = side[position], side[position].text.split()
    if kind == "delete" and len(side) > 1:
        del side[position]
    elif kind == "merge" and position + 1 < len(side) and side[position + 1].unit == own.unit:
        after = side.pop(position + 1)
        side[position] = Piece(f"{own.text} {after.text}", own.unit, own.was | after.was)
    elif kind == "divide" and len(words) >= 4:
        cut = draw.randint(max(1, len(words) // 3), max(2, 2 * len(words) // 3))
        parts = (" ".join(words[:cut]), " ".join(words[cut:]))
        side[position : position + 1] = [Piece(part, own.unit, set(own.was)) for part in parts]


def expected(sides: tuple[list[Piece], list[Piece]]) -> set[Bead]:
    """What belongs together: all that comes from one sentence, and from what it was merged with."""
    group: dict[int, int] = {}

    def root(number: int) -> int:
        while group.setdefault(number, number) != number:
            number = group[number]
        return number

    for piece in (*sides[0], *sides[1]):
        first, *rest = piece.was
        for other in rest:
            group[root(other)] = root(first)
    beads: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, pieces in enumerate(sides):
        for k, piece in enumerate(pieces):
            beads[root(min(piece.was))][side].append(k)
    return {Bead(tuple(source), tuple(target)) for source, target in beads.values()}


def measure(
    corpus: list[list[tuple[str, str, Unit]]],
    share: float,
    seed: int,
    aligned: Callable[[AlignedSide, AlignedSide], list[Bead]],
) -> str:
    """Precision, recall and F1 over all documents."""
    draw, both, there, here = random.Random(seed), 0, 0, 0
    for document in corpus:
        sides = tuple([Piece(row[side], row[2], {n}) for n, row in enumerate(document)] for side in (0, 1))
        for number in [n for n in range(len(document)) if draw.random() < share]:
            change(draw.choice(sides), number, draw.choice(["merge", "divide", "delete"]), draw)
        one, other = (AlignedSide([piece.text for piece in side], [piece.unit for piece in side]) for side in sides)
        wanted = {bead for bead in expected((sides[0], sides[1])) if bead.source and bead.target}
        proposed = {bead for bead in aligned(one, other) if bead.source and bead.target}
        both, there, here = both + len(wanted & proposed), there + len(wanted), here + len(proposed)
    f1 = 2 * both / max(here + there, 1)
    return f"precision {both / max(here, 1):.4f}, recall {both / max(there, 1):.4f}, F1 {f1:.4f} ({there:,} pairs)"


def main() -> None:
    """Parse and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, help="only the first N documents")
    parser.add_argument("--path", help="a translation model that judges, too")
    given = parser.parse_args()
    corpus = documents(given.prefix, given.languages)[: given.first]
    config = AlignConfig(source="a", target="b", output="c", path=given.path)
    aligner, _ = aligner_of(config, (None, None))
    print("lengths and structure:", measure(corpus, given.share, given.seed, align))
    print("docnmt-align:", measure(corpus, given.share, given.seed, aligner))


if __name__ == "__main__":
    main()
