"""Training text in which documents with context-dependent lines stand several times.

    python compose.py DOCMIX OUT [--times 4] [--share .25]

A line depends on its context by one of three rules, on text alone:

- pronoun: *it* or *its* in the source, no other pronoun of the third person and no *you*; a gendered or feminine
  pronoun in the translation; an earlier line in the document
- answer: two to four words that end as a sentence does; an earlier line in the document
- word: a source word that at most five documents of training have, and that an earlier line of this document has

In each domain the documents with the largest shares of such lines, up to a quarter of the domain's lines, are written
four times, at random places. So the domains keep their shares, and documents stay whole.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from prepare import Document, read, write

WORD = re.compile(r"\w+")
IT = {"it", "its"}
OTHERS = {"he", "him", "his", "she", "her", "hers", "they", "them", "their", "theirs", "you", "your", "yours"}
GENDERED = re.compile(r"(?i:er|ihn|ihm|sie|ihr|ihre[mnrs]?|sein|seine[mnrs]?|dessen|deren)")
LONGEST_ANSWER = 4
RARE = 5  # documents
FEWEST_LINES = 4


def words(line: str) -> list[str]:
    return [word.lower() for word in WORD.findall(line)]


def spread(documents: Sequence[Document]) -> Counter[str]:
    """Count in how many documents each source word stands."""
    return Counter(word for document in documents for word in {w for en, _ in document.lines for w in words(en)})


def dependent(document: Document, documents_with: Counter[str]) -> Counter[str]:
    """Count the document's context-dependent lines by the first rule that finds them."""
    counts: Counter[str] = Counter()
    earlier: set[str] = set()
    for number, (en, de) in enumerate(document.lines):
        source = words(en)
        if number:
            if IT & {*source} and not OTHERS & {*source} and any(map(GENDERED.fullmatch, WORD.findall(de))):
                counts["pronoun"] += 1
            elif 2 <= len(source) <= LONGEST_ANSWER and en.rstrip().endswith((".", "!", "?", "…")):
                counts["answer"] += 1
            elif any(w in earlier and len(w) > 3 and documents_with[w] <= RARE and not w.isdigit() for w in source):
                counts["word"] += 1
        earlier |= {*source}
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    """Write OUT.en and OUT.de, and say what they hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docmix", type=Path)
    parser.add_argument("out", type=Path, help="prefix of the text")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.25, help="of a domain's lines in repeated documents")
    options = parser.parse_args(argv)
    documents = read(options.docmix / "train")
    documents_with = spread(documents)
    domains: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    counts = []
    for number, document in enumerate(documents):
        counts.append(dependent(document, documents_with))
        share = counts[-1].total() / len(document.lines) if len(document.lines) >= FEWEST_LINES else 0.0
        domains[document.domain].append((-share, number))
    repeated: set[int] = set()
    for domain, ranked in sorted(domains.items()):
        wanted = options.share * sum(len(documents[number].lines) for _, number in ranked)
        lines = hits = 0
        for _, number in sorted(ranked):
            if lines >= wanted:
                break
            repeated.add(number)
            lines += len(documents[number].lines)
            hits += counts[number].total()
        print(f"{domain}: {hits / max(lines, 1):.1%} of the lines of the repeated documents depend on context")
    order = [number for number in range(len(documents)) for _ in range(options.times if number in repeated else 1)]
    random.Random(1).shuffle(order)
    write(options.out, [documents[number] for number in order], tagged=False)
    for name, numbers in (("all", range(len(documents))), ("repeated", sorted(repeated)), ("written", order)):
        total = sum((counts[number] for number in numbers), Counter())
        lines = sum(len(documents[number].lines) for number in numbers)
        rules = ", ".join(f"{rule} {total[rule]:,}" for rule in ("pronoun", "answer", "word"))
        share = total.total() / max(lines, 1)
        print(f"{name}: {len(numbers):,} documents, {lines:,} lines; {rules}: {share:.1%} of the lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
