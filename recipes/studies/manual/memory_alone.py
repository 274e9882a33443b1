"""A translation memory without any model: every line takes the translation of the most similar training line.

    python recipes/studies/manual/memory_alone.py --corpus manual --train php_manual_enfr/train \\
        --test php_manual_enfr/test \\
        --languages en fr --keep recipes/studies/manual/memory.jsonl

A line without a match of LEAST stays as it is, in the source language. Scores are of the whole text, of its lines that
are not seen in training, and of its documents with less than a tenth of their lines seen (seen.py). What a memory adds
to a system: translation_memory.py. Needs rapidfuzz (docnmt[test]).
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from measured import keep
from seen import new_documents, seen_lines
from translation_memory import Memory, Words

from docnmt.core.read_corpus import side
from docnmt.core.scoring.metrics import bleu_tokenizer, evaluate
from docnmt.core.scoring.text_files import read_layout

METRICS = ("s-BLEU", "d-BLEU", "chrF", "TER")
#: Below this similarity a match is of no use.
LEAST = 0.3


def main() -> None:
    """Parse, look up, score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, metavar="NAME", help="under which the scores are kept")
    parser.add_argument("--train", required=True, metavar="PREFIX")
    parser.add_argument("--test", required=True, metavar="PREFIX")
    parser.add_argument("--languages", nargs=2, required=True, metavar="LANGUAGE", help="the files' suffixes")
    parser.add_argument("--keep", type=Path, metavar="FILE.jsonl", help="of tools/measured.py; is written")
    options = parser.parse_args()
    source, target = options.languages
    train, test = (read_layout(side(prefix, source)) for prefix in (options.train, options.test))
    references = test.align(side(options.test, target))
    memory = Memory(Words(), train.sentences, train.align(side(options.train, target)))
    matches = {line: memory.best(line, LEAST) for line in dict.fromkeys(test.sentences)}
    translations = [match.translation if (match := matches[line]) else line for line in test.sentences]

    def score(part: np.ndarray) -> dict[str, float | int]:
        spans = [np.flatnonzero(part[begin:end]) + begin for begin, end in pairwise(test.document_offsets)]
        offsets = [0, *np.cumsum([len(span) for span in spans if len(span)]).tolist()]
        chosen = np.flatnonzero(part)
        scores = evaluate(
            [translations[i] for i in chosen],
            [[references[i] for i in chosen]],
            offsets,
            tokenize=bleu_tokenizer(target),
            metrics=METRICS,
        ).scores
        return {"lines": len(chosen), **{metric: round(scores[metric], 2) for metric in METRICS}}

    seen = seen_lines(test.sentences, train.sentences)
    new = np.repeat(new_documents(seen, test.document_offsets), np.diff(test.document_offsets))
    parts = {"all lines": np.ones_like(seen), "unseen lines": ~seen, "documents with less than a tenth seen": new}
    kept = {f"{options.corpus}/{name}.json": score(part) for name, part in parts.items()}
    for name, row in kept.items():
        print(name, row, flush=True)
    if options.keep:
        keep(options.keep, kept)


if __name__ == "__main__":
    main()
