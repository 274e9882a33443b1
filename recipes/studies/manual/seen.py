"""What of a test text stands in the training text: the share of its lines and of its documents.

    python recipes/studies/manual/seen.py --train php_manual_enfr/train.en --parts test=php_manual_enfr/test.en \\
        dev=php_manual_enfr/dev.en --keep recipes/studies/manual/seen.jsonl --corpus manual

Only source sides are read: a sentence a line, an empty line between documents. A line is seen if a line of training is
the same after normalisation: NFKC, lower case, and only words, without punctuation. It is nearly seen if its similarity
to a line of training is at least .9: 1 - (words to insert, delete or replace) / (words of the longer one). A line of
fewer than ten words is nearly seen only if it is seen. Needs rapidfuzz (docnmt[test]).
"""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from measured import keep

from docnmt.cli import command as cli
from docnmt.core.scoring.text_files import read_layout
from docnmt.runtime.system import UserError

try:
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein
except ImportError:
    sys.exit("seen.py: error: needs rapidfuzz; pip install 'docnmt[test]'")

_WORD = re.compile(r"\w+")
#: Similarity from which on a line is nearly seen, and the share of seen lines below which a document is new.
NEARLY, NEW = 0.9, 0.1
#: Where the characters begin that stand for words; beyond the surrogates, which stand for nothing.
_FIRST = 0xE000


def normalised(line: str) -> str:
    """NFKC, lower case, words alone; of a line without words the line."""
    text = unicodedata.normalize("NFKC", line).casefold()
    return " ".join(_WORD.findall(text)) or text.strip()


def seen_lines(lines: Sequence[str], training: Sequence[str]) -> np.ndarray:
    """(S,) bool: the same line, normalised, stands in the training text."""
    there = set(map(normalised, training))
    return np.array([normalised(line) in there for line in lines], dtype=bool)


def nearly_seen_lines(lines: Sequence[str], training: Sequence[str]) -> np.ndarray:
    """(S,) bool: a line of the training text is the same, or has a similarity of NEARLY."""
    seen = seen_lines(lines, training)
    characters: dict[str, str] = {}

    def encode(line: str) -> str:  # one character a word, so that a distance counts words
        return "".join(characters.setdefault(word, chr(_FIRST + len(characters))) for word in normalised(line).split())

    by_length = defaultdict(list)
    for text in sorted(set(map(encode, training))):
        by_length[len(text)].append(text)
    score = Levenshtein.normalized_similarity
    for number in np.flatnonzero(~seen):
        words = encode(lines[number])
        spans = range(int(np.ceil(len(words) * NEARLY)), int(len(words) / NEARLY) + 1)
        near = (process.extractOne(words, by_length[n], scorer=score, score_cutoff=NEARLY) for n in spans)
        seen[number] = len(words) >= 1 / (1 - NEARLY) - 1e-9 and any(near)
    return seen


def new_documents(seen: np.ndarray, offsets: Sequence[int]) -> np.ndarray:
    """(D,) bool: less than NEW of the document's lines are seen."""
    return np.array([seen[begin:end].mean() < NEW for begin, end in pairwise(offsets)], dtype=bool)


def below_half_by_runs(lines: Sequence[str], offsets: Sequence[int], training: Sequence[str]) -> np.ndarray:
    """(D,) bool: less than half of a document's bytes are lines that stand in training beside the same neighbour.

    That is the rule of docnmt-preprocess (`docnmt.core.preprocess`), which looks for copied documents and misses
    lines that recur one by one.
    """
    single, pairs, half = set(training), set(pairwise(training)), []
    for begin, end in pairwise(offsets):
        document = lines[begin:end]
        known = [pair in pairs for pair in pairwise(document)]
        seen = [a or b for a, b in zip([*known, False], [False, *known], strict=True)]
        seen = seen if len(document) > 1 else [document[0] in single]
        size = np.array([len(line.encode()) for line in document])
        half.append(size[seen].sum() < size.sum() / 2)
    return np.array(half)


def shares(path: Path, training: Sequence[str]) -> dict[str, Any]:
    """Counts of one text: its lines and documents, and what of them is verbatim, seen and nearly seen."""
    layout = read_layout(path)
    lines, offsets = layout.sentences, layout.document_offsets
    by_runs = below_half_by_runs(lines, offsets, training)
    within = np.repeat(by_runs, np.diff(offsets))
    there = set(training)
    masks = {
        "verbatim": np.array([line in there for line in lines], dtype=bool),
        "seen": seen_lines(lines, training),
        "nearly": nearly_seen_lines(lines, training),
    }
    whole = {name: np.array([row[b:e].mean() for b, e in pairwise(offsets)]) for name, row in masks.items()}
    return {
        "lines": len(lines),
        "documents": len(offsets) - 1,
        **{f"lines {name}": int(row.sum()) for name, row in masks.items()},
        **{f"documents without a line {name}": int((share == 0).sum()) for name, share in whole.items()},
        **{f"documents below a tenth {name}": int((share < NEW).sum()) for name, share in whole.items()},
        **{f"documents from a half {name}": int((share >= 0.5).sum()) for name, share in whole.items()},
        "by runs: documents below a half": int(by_runs.sum()),
        "by runs: their lines": int(within.sum()),
        **{f"by runs: their lines {name}": int((row & within).sum()) for name, row in masks.items()},
        **{f"by runs: without a line {name}": int((by_runs & (share == 0)).sum()) for name, share in whole.items()},
    }


def body(argv: list[str]) -> None:
    """Parse, count, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--train", type=Path, nargs="+", required=True, metavar="FILE", help="training text, its source"
    )
    parser.add_argument("--parts", nargs="+", required=True, metavar="NAME=FILE", help="evaluated texts")
    parser.add_argument("--corpus", required=True, metavar="NAME", help="under which the counts are kept")
    parser.add_argument("--keep", type=Path, metavar="FILE.jsonl", help="of tools/measured.py; is written")
    options = parser.parse_args(argv)
    training = [line for path in options.train for line in read_layout(path).sentences]
    counts = {}
    for part in options.parts:
        name, _, path = part.partition("=")
        if not path:
            raise UserError(f"--parts {part}: expected NAME=FILE")
        counts[f"{options.corpus}/{name}.json"] = row = shares(Path(path), training)
        print(f"{options.corpus} {name}: {row}", flush=True)
    if options.keep:
        keep(options.keep, counts)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return cli.run("seen.py", body, argv)


if __name__ == "__main__":
    sys.exit(main())
