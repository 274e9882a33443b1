"""Contrastive questions in longer documents: neutral sentences before the context, until a document has N sentences.

    python recipes/quickstart/lengthen.py corpus/contrastive.tsv --sentences 128 --every 9 > contrastive.128.tsv

The deciding sentence stays as far from the question as it was; what grows is the number of sentences to choose from
and the places in the document, both beyond those of training.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import lexicon as lex
from make import SEPARATOR


def lengthened(rows: Iterable[dict[str, str]], sentences: int, rng: random.Random) -> Iterator[dict[str, str]]:
    """Rows of a contrastive file, all answers of a group with the same neutral sentences before their context."""
    for _, group in groupby(rows, key=lambda row: row["group"]):
        answers = list(group)
        now = answers[0]["src_context"].count(SEPARATOR) + 2  # the context's sentences and the question's
        added = rng.choices(lex.FILLERS, k=max(0, sentences - now))
        for row in answers:
            for column, language in (("src_context", "en"), ("tgt_context", "de")):
                row[column] = SEPARATOR.join([*(getattr(pair, language) for pair in added), row[column]])
            yield row


def thinned(rows: Iterable[dict[str, str]], every: int) -> Iterator[dict[str, str]]:
    """One of every so many blocks of each phenomenon and distance.

    A block is one question with each of its answers right in turn: whoever reads the last sentence alone is at chance.
    """
    for _, cell in groupby(rows, key=lambda row: (row["phenomenon"], row["distance"])):
        for number, (_, block) in enumerate(groupby(cell, key=lambda row: row["src"])):
            if number % every == 0:
                yield from block


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="TSV", help="what make.py wrote")
    parser.add_argument(
        "--sentences", type=int, required=True, metavar="N", help="of every document, the last included"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="keep one block of questions of N [1]")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.sentences < 1 or options.every < 1:
        parser.error("--sentences and --every: at least 1")
    with options.file.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        columns = list(reader.fieldnames or [])
        if missing := {"group", "src_context", "tgt_context", "phenomenon", "distance"} - set(columns):
            parser.error(
                f"{options.file}, line 1: no column {sorted(missing)[0]!r}; expected make.py's contrastive.tsv"
            )
        writer = csv.DictWriter(
            sys.stdout, columns, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n", quotechar=None
        )
        writer.writeheader()
        writer.writerows(lengthened(thinned(reader, options.every), options.sentences, random.Random(options.seed)))


if __name__ == "__main__":
    main()
