"""How many of the reference's terms a translation has: those of the title, first and later mentions.

    python recipes/studies/manual/term_accuracy.py test.fr results/document/hypotheses.txt \\
        results/sentence/hypotheses.txt
    python recipes/studies/manual/term_accuracy.py test.fr results/half/hypotheses.txt --prefix-references 0.5 \\
        --json terms.json

A term is a word of the reference of four letters or more that at most a tenth of its documents have (or three). Each
sentence counts it once, lower-case and in the very form that the reference has; it is right if the translation of the
sentence has that form. A mention is

- title: of a word of the document's first sentence, which itself does not count,
- later: of a word that an earlier sentence of the document has, the first one included,
- first: of a word that only later sentences have,
- single: of a word that no other sentence of the document has.

With --prefix-references, as docnmt-generate has it, translations are of the rest of each document: earlier mentions may
stand in what was given. Of several translations the first is compared with each other one; intervals bound the middle
95 % of a bootstrap over documents.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.core.scoring.text_files import LineLayout, read_layout
from docnmt.core.search.translate import first_of_documents
from docnmt.runtime.system import UserError, write_json

KINDS = ("all", "title", "later", "first", "single")
LETTERS, SHARE, LEAST = 4, 10, 3  # of a term: letters; one of so many documents may have it, or so many
SAMPLES, SEED = 1000, 12345
_WORD = re.compile(r"[^\W\d_]+")


def words(sentence: str) -> frozenset[str]:
    """Its words in lower case."""
    return frozenset(_WORD.findall(sentence.lower()))


@dataclass(frozen=True)
class Mention:
    """A term in a sentence of the reference, and of which kinds it is."""

    document: int
    sentence: int
    term: str
    kinds: tuple[str, ...]


def mentions(sentences: Sequence[str], document_offsets: Sequence[int]) -> list[Mention]:
    """All mentions of terms, in order."""
    documents = [[words(sentence) for sentence in sentences[a:b]] for a, b in pairwise(document_offsets)]
    having = Counter(word for document in documents for word in frozenset().union(*document))
    most = max(LEAST, len(documents) // SHARE)
    terms = {word for word, count in having.items() if count <= most and len(word) >= LETTERS}
    mentioned = []
    for number, (document, begin) in enumerate(zip(documents, document_offsets, strict=False)):
        total, before = Counter(word for sentence in document for word in sentence), Counter[str]()
        for position, sentence in enumerate(document):
            for term in sorted(sentence & terms):
                kind = "later" if before[term] else "first" if total[term] > 1 else "single"
                title = ("title",) if position and term in document[0] else ()
                mentioned.append(Mention(number, begin + position, term, ("all", *title, kind)))
            before.update(sentence)
    return mentioned


@dataclass(frozen=True, eq=False)
class Counts:
    """Of each document (D,) the mentions of a kind, and how many each system (N, D) has."""

    mentions: np.ndarray
    right: np.ndarray

    @classmethod
    def of(
        cls, kind: str, mentioned: Sequence[Mention], systems: Sequence[Sequence[str | None]], documents: int
    ) -> Counts:
        """`systems` have None where they translate nothing."""
        asked = [m for m in mentioned if kind in m.kinds and systems[0][m.sentence] is not None]
        where = np.array([m.document for m in asked], dtype=np.int64)
        right = [[m.term in words(system[m.sentence] or "") for m in asked] for system in systems]
        counts = [np.bincount(where, np.array(hits, dtype=float), documents) for hits in right]
        return cls(np.bincount(where, minlength=documents), np.array(counts))

    def to_dict(self) -> dict[str, Any]:
        """In percent; the differences are those of the first system to each other one."""
        kept = np.flatnonzero(self.mentions)
        if not len(kept):
            return {"mentions": 0, "accuracy": [], "against": []}
        draws = np.random.default_rng(SEED).multinomial(len(kept), np.full(len(kept), 1 / len(kept)), SAMPLES)
        total = self.mentions[kept]
        sampled = 100 * (draws @ self.right[:, kept].T) / (draws @ total)[:, None]  # (B, N)
        accuracy = 100 * self.right.sum(1) / total.sum()
        against = []
        for other in range(1, len(accuracy)):
            low, high = np.quantile(sampled[:, 0] - sampled[:, other], [0.025, 0.975])
            difference = float(accuracy[0] - accuracy[other])
            against.append({"difference": difference, "low": float(low), "high": float(high)})
        return {"mentions": int(total.sum()), "accuracy": accuracy.tolist(), "against": against}


def rest_of(layout: LineLayout, share: float) -> tuple[LineLayout, list[int]]:
    """What --prefix-references leaves of a text, and which sentences these are."""
    given = first_of_documents(layout.sentences, layout.document_offsets, share)
    numbers = [number for number, text in enumerate(given) if text is None]
    left = iter(text is None for text in given)
    rows = tuple(row for row in layout.rows if not row or next(left))
    offsets = np.searchsorted(numbers, layout.document_offsets).tolist()
    return LineLayout(layout.path, rows, tuple(offsets), tuple(map(bool, rows))), numbers


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ref", type=Path, metavar="REF", help="reference, the whole documents")
    parser.add_argument("sys", type=Path, nargs="+", metavar="SYS", help="translations, line by line")
    parser.add_argument("--prefix-references", type=float, default=0.0, metavar="SHARE", help="that was given [0]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all numbers")
    options = parser.parse_args(arguments)
    if not 0 <= options.prefix_references < 1:
        parser.error(f"--prefix-references: must be in [0, 1), got {options.prefix_references}")
    try:
        reference = read_layout(options.ref)
        rest, numbers = rest_of(reference, options.prefix_references)
        systems: list[list[str | None]] = []
        for path in options.sys:
            systems.append([None] * len(reference.sentences))
            for number, text in zip(numbers, rest.align(path), strict=True):
                systems[-1][number] = text
    except UserError as error:
        parser.error(str(error))
    mentioned = mentions(reference.sentences, reference.document_offsets)
    documents = len(reference.document_offsets) - 1
    content = {kind: Counts.of(kind, mentioned, systems, documents).to_dict() for kind in KINDS}
    print("\t".join(["terms", "mentions", *map(str, options.sys), *("difference" for _ in options.sys[1:])]))
    for kind, row in content.items():
        accuracy = [f"{value:.1f} %" for value in row["accuracy"]]
        against = [f"{gap['difference']:+.1f} [{gap['low']:+.1f}, {gap['high']:+.1f}]" for gap in row["against"]]
        print("\t".join([kind, f"{row['mentions']:,}", *accuracy, *against]))
    if options.json:
        share = options.prefix_references
        write_json(
            options.json, {"systems": [str(path) for path in options.sys], "prefix_references": share, **content}
        )


if __name__ == "__main__":
    main()
