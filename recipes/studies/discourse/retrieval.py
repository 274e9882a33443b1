"""A control for the discourse corpus: look up the most similar earlier sentence, count, and train nothing.

    python recipes/quickstart/make.py --out runs/quickstart/corpus --groups 24
    python recipes/studies/discourse/retrieval.py runs/quickstart/corpus \\
        --keep recipes/studies/discourse/retrieval.jsonl

The most similar sentence shares the words of the largest summed inverse document frequency with the source sentence; of
equals the nearest is taken. By `name` the nearest earlier sentence with the same name is looked up: a word that the
training text never writes in lower case. `found` is the share of questions for which it is the deciding one. The answer
is then chosen by counts: how often, in the training text, each target word is in a sentence whose looked-up sentence
has a word v. The score of an answer is the sum over its words, those that all answers share left out, of the largest
log P(word | v). The words of a context are those of its human translation. For comparison the nearest sentence is asked
in the same way, and so are all earlier ones at once.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from measured import keep

from docnmt.core.scoring.text_files import read_layout

Choose = Callable[[str, Sequence[str]], list[int]]
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower case, without punctuation."""
    return _WORD.findall(text.casefold())


def most_similar(training: Sequence[str]) -> Choose:
    """The index of the most similar earlier sentence, by the frequencies of a training text."""
    frequency = Counter(word for line in training for word in set(words(line)))

    def choose(source: str, earlier: Sequence[str]) -> list[int]:
        own = set(words(source))
        weight = [sum(-math.log(max(frequency[w], 1) / len(training)) for w in own & set(words(e))) for e in earlier]
        return [max(range(len(earlier)), key=lambda n: (weight[n], n))] if earlier else []

    return choose


def same_name(training: Sequence[str]) -> Choose:
    """The index of the nearest earlier sentence that shares a word which a training text only capitalises."""
    lower = {word for line in training for word in _WORD.findall(line) if not word[0].isupper()}

    def names(text: str) -> set[str]:
        return {word for word in _WORD.findall(text) if word[0].isupper() and word.casefold() not in lower}

    def choose(source: str, earlier: Sequence[str]) -> list[int]:
        mentioned = names(source)
        return [n for n, sentence in enumerate(earlier) if mentioned & names(sentence)][-1:]

    return choose


def nearest(source: str, earlier: Sequence[str]) -> list[int]:
    """The sentence before."""
    return [len(earlier) - 1] if earlier else []


def whole(source: str, earlier: Sequence[str]) -> list[int]:
    """All of them."""
    return list(range(len(earlier)))


class Table:
    """How often a target word stands in a sentence that was read beside a word of its context."""

    def __init__(self) -> None:
        self.pairs: dict[str, Counter[str]] = defaultdict(Counter)
        self.context: Counter[str] = Counter()

    def add(self, context: set[str], target: set[str]) -> None:
        """Count one sentence."""
        self.context.update(context)
        for word in target:
            self.pairs[word].update(context)

    def score(self, context: set[str], answer: set[str]) -> float:
        """The sum over an answer's words of the largest log P(word | word of the context)."""
        ratio = (
            max(((self.pairs[w][v] + 0.1) / (self.context[v] + 10) for v in context), default=1.0)
            for w in sorted(answer)
        )
        return sum(map(math.log, ratio))


def learn(folder: Path, choose: Choose) -> Table:
    """Count over the training documents."""
    source = read_layout(folder / "train.en")
    target, table = source.align(folder / "train.de"), Table()
    for begin, end in pairwise(source.document_offsets):
        for n in range(begin, end):
            read = choose(source.sentences[n], source.sentences[begin:n])
            table.add({w for i in read for w in words(target[begin + i])}, set(words(target[n])))
    return table


def ask(path: Path, table: Table, choose: Choose) -> dict[str, float | int]:
    """Percent of the questions whose deciding sentence is read, and of those answered rightly; equal scores share."""
    groups = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            groups[row["group"]].append(row)
    hits, right, by_kind = 0, 0.0, defaultdict(list)
    for rows in groups.values():
        source, target = (rows[0][f"{side}_context"].split("<SEP>") for side in ("src", "tgt"))
        read = choose(rows[0]["src"], source)
        hits += len(source) - int(rows[0]["distance"]) in read
        context = {w for i in read for w in words(target[i])}
        answers = [set(words(row["tgt"])) for row in rows]
        shared = set.intersection(*answers)
        scores = [table.score(context, answer - shared) for answer in answers]
        best = [n for n, score in enumerate(scores) if score == max(scores)]
        mine = sum(rows[n]["correct"] == "1" for n in best) / len(best)
        right += mine
        by_kind[rows[0]["phenomenon"]].append(mine)
    percent = {kind: round(100 * sum(shares) / len(shares), 1) for kind, shares in sorted(by_kind.items())}
    return {
        "questions": len(groups), "found": round(100 * hits / len(groups), 1),
        "right": round(100 * right / len(groups), 1), **percent,
    }  # fmt: skip


def main() -> None:
    """Parse, count, ask, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, metavar="FOLDER", help="of make.py; with lengthen.py's files, if there")
    parser.add_argument("--keep", type=Path, metavar="FILE.jsonl", help="of tools/measured.py; is written")
    parser.add_argument("--reads", nargs="+", metavar="NAME", help="only these: similar, name, nearest, all [all four]")
    options = parser.parse_args()
    training = read_layout(options.corpus / "train.en").sentences
    similar, named = most_similar(training), same_name(training)
    sets = sorted(options.corpus.glob("contrastive*.tsv"))
    ways: dict[str, Choose] = {"similar": similar, "name": named, "nearest": nearest, "all": whole}
    for name in options.reads or ways:
        choose = ways[name]
        table = learn(options.corpus, choose)
        for path in sets:
            row = ask(path, table, choose)
            print(name, path.stem, row, flush=True)
            if options.keep:
                keep(options.keep, {f"{name}/{path.stem}.json": row})


if __name__ == "__main__":
    main()
