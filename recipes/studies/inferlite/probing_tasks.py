"""Three probing tasks that need no parser, from any sentences: what does a vector know of its sentence?

    python recipes/studies/inferlite/probing_tasks.py reviews.txt senteval
    docnmt-senteval --data senteval --path runs/inferlite --tasks Length WordContent BigramShift

As in Conneau et al. (2018), "What you can cram into a single vector": `Length`, six classes of 5 to 28 words;
`WordContent`, which one of so many words of middling frequency is in it; `BigramShift`, whether two neighbours have
changed places. Ours are of other sentences, with fewer of them and with 100 words in place of 1,000, and the classifier
is logistic regression: the figures compare encoders with each other, not with published ones.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docnmt.cli import command as cli
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.senteval import LENGTHS, PROBING, PROBING_WORDS
from docnmt.runtime.system import UsageError, UserError, write_text

Sentence = tuple[str, ...]
Rows = list[tuple[str, Sentence]]
#: The commonest words are left out: they tell a sentence's grammar, not its content.
COMMONEST = 200


def length(sentences: Sequence[Sentence]) -> Rows:
    """Class 0 to 5 by the number of words, as many sentences of each class."""
    bins = [(str(i), s) for s in sentences for i, (least, most) in enumerate(LENGTHS) if least <= len(s) <= most]
    return balanced(bins)


def word_content(sentences: Sequence[Sentence]) -> Rows:
    """Which of the words is in the sentence: the commonest after `COMMONEST`, sentences with just one of them."""
    counts = Counter(word for s in sentences for word in set(s) if word.isalpha() and word.islower())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    chosen = {word: str(i) for i, word in enumerate(ranked[COMMONEST : COMMONEST + PROBING_WORDS])}
    if len(chosen) < PROBING_WORDS:
        raise UserError(f"the sentences have {len(ranked):,} words in small letters; WordContent needs more of them")
    labelled = [(chosen[hit[0]], s) for s in sentences if len(hit := [word for word in s if word in chosen]) == 1]
    return balanced(labelled)


def bigram_shift(sentences: Sequence[Sentence], random: np.random.Generator) -> Rows:
    """`I`: two different neighbours among the words before the last one have changed places; `O`: as it was."""
    rows: Rows = []
    for number, sentence in enumerate(sentences):
        different = [i for i in range(len(sentence) - 2) if sentence[i].lower() != sentence[i + 1].lower()]
        if different and number % 2:
            position = int(random.choice(different))
            swapped = (*sentence[:position], sentence[position + 1], sentence[position], *sentence[position + 2 :])
            rows.append(("I", swapped))
        else:
            rows.append(("O", sentence))
    return balanced(rows)


def balanced(rows: Rows) -> Rows:
    """The first sentences of each class, as many as the rarest class has, in their order."""
    by_class: dict[str, Rows] = defaultdict(list)
    for row in rows:
        by_class[row[0]].append(row)
    count = min(map(len, by_class.values()), default=0)
    kept = Counter[str]()
    result: Rows = []
    for label, sentence in rows:
        if kept[label] < count:
            kept[label] += 1
            result.append((label, sentence))
    return result


def body(argv: list[str]) -> None:
    """Parse, draw, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("text", type=Path, help="sentences, one a line")
    parser.add_argument("target", type=Path, metavar="DIR", help="the folder that docnmt-senteval --data reads")
    parser.add_argument("--sentences", type=int, default=20_000, metavar="N", help="of a task, at most [20000]")
    options = parser.parse_args(argv)
    if options.sentences < 10:
        raise UsageError(f"--sentences: must be at least 10, got {options.sentences}")
    random = np.random.default_rng(0)
    lines = options.text.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    known = list(dict.fromkeys(tuple(words(line)) for line in lines))
    sentences = [s for s in known if LENGTHS[0][0] <= len(s) <= LENGTHS[-1][1]]
    sentences = [sentences[i] for i in random.permutation(len(sentences))]
    made = {
        "Length": length(sentences),
        "WordContent": word_content(sentences),
        "BigramShift": bigram_shift(sentences, random),
    }
    for name, rows in made.items():
        rows = [rows[i] for i in random.permutation(len(rows))[: options.sentences]]
        if len(rows) < 10:
            raise UserError(f"{options.text}: {len(rows)} sentences for {name}, expected 10 at least")
        test = len(rows) // 10
        for split, part in (("test", rows[:test]), ("dev", rows[test : 2 * test]), ("train", rows[2 * test :])):
            text = "".join(f"{label}\t{' '.join(sentence)}\n" for label, sentence in part)
            write_text(options.target / PROBING[name].files[split][0], "label\ttext\n" + text)
        print(f"{name}: {len(rows):,} sentences, {len({label for label, _ in rows})} classes", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(cli.run("probing_tasks.py", body))
