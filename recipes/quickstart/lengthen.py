"""Contrastive questions in longer documents: neutral sentences before the context, until a document has N sentences.

    python recipes/quickstart/lengthen.py corpus/contrastive.tsv --sentences 128 --every 9 > contrastive.128.tsv

The deciding sentence stays as far from the question as it was; what grows is the number of sentences to choose from
and the places in the document, both beyond those of training. With `--same-name` the sentences added are threads about
the person whom the question is about, and some stand behind the deciding one: the name alone finds no answer. With
`--other-name` they are about a person who is not in the document.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import lexicon as lex
from documents import DISTANCES
from lexicon import Pair
from make import SEPARATOR
from threads import PHENOMENA, Pool

#: For a question of each phenomenon, threads about the same person that leave its answer as it is, and words that could
#: change it: a second thing that "it" could be, a deed that tells the sense of "bank", whom the person knows.
_HARMLESS = {
    "ellipsis": (("address",), "-"),
    "sense": (("address", "ellipsis"), "drink|swim|climb|fish"),
    "pronoun": (("address", "ellipsis"), "ticket|letter"),
    "address": (("ellipsis", "pronoun", "sense"), "with friends"),
}


def threads_about(name: str, phenomenon: str, count: int, rng: random.Random) -> list[Pair]:
    """So many sentences that name a person, in pairs of an antecedent and its later sentence."""
    sentences: list[Pair] = []
    kinds, harmful = _HARMLESS[phenomenon]
    while len(sentences) < count:
        for thread in PHENOMENA[rng.choice(kinds)](Pool(rng, "train")):
            pairs = thread.antecedents[thread.start], Pair(thread.source, thread.answers[thread.start])
            cue, said = pairs[0].en.split()[0], " ".join(pair.en for pair in pairs)
            if (cue == name or name not in said) and not re.search(harmful, said):
                sentences += [Pair(*(text.replace(cue, name) for text in pair)) for pair in pairs]
    return sentences[:count]


def among_threads(
    rows: Iterable[dict[str, str]], sentences: int, rng: random.Random, *, same: bool
) -> Iterator[dict[str, str]]:
    """Rows of a contrastive file, with threads between the sentences of their context: about the question's person if
    `same`, else about one person who is not in the document. The deciding sentence stands at most 12 before the
    question, as in training."""
    for (_, context), block in groupby(rows, key=lambda row: (row["src"], row["src_context"].count(SEPARATOR) + 1)):
        answers = list(block)  # of all groups of a block, whose documents differ in two sentences
        words = re.findall(r"\w+", answers[0]["src"])
        names = [word for word in words if word in lex.NAMES]
        name = names[0 if words[0] == "Like" else -1]  # "Like Paul, Maria does too", "Maria does too, just like Paul"
        said = {word for row in answers for word in re.findall(r"\w+", f"{row['src_context']} {row['src']}")}
        person = name if same else rng.choice([other for other in lex.NAMES if other not in said])
        added = threads_about(person, answers[0]["phenomenon"], max(0, sentences - context - 1), rng)
        distance = int(answers[0]["distance"])
        after = min(len(added), max(DISTANCES) - distance)
        places = rng.choices(range(1, context - distance + 1), k=len(added) - after)
        places = sorted(places + rng.choices(range(context - distance + 1, context + 1), k=after))
        for row in answers:
            for column, language in (("src_context", "en"), ("tgt_context", "de")):
                text = row[column].split(SEPARATOR)
                for position, pair in reversed(list(zip(places, added, strict=True))):
                    text.insert(position, getattr(pair, language))
                row[column] = SEPARATOR.join(text)
            yield {**row, "distance": str(distance + after)}


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
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--same-name", action="store_true", help="add threads about the person of the question")
    about.add_argument(
        "--other-name", action="store_true", help="add threads about a person who is not in the document"
    )
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
        chosen, rng = thinned(reader, options.every), random.Random(options.seed)
        if options.same_name or options.other_name:
            writer.writerows(among_threads(chosen, options.sentences, rng, same=options.same_name))
        else:
            writer.writerows(lengthened(chosen, options.sentences, rng))


if __name__ == "__main__":
    main()
