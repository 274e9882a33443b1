"""The part of a test set that does not stand in the training data: documents without overlap, or unseen sentences.

    python tools/unseen.py runs/manual/data-bin --out runs/manual/new --files runs/manual/copy/test/hypotheses.txt …

Writes, for each file (line for line the split's source), OUT/documents/NAME with the documents of which less than half
stands there (the rule of docnmt-preprocess), and OUT/lines/NAME with the sentences that do not occur there at
all; `reference.txt` beside them. NAME is the file's folders joined by '-'. Empty lines divide documents.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from docnmt.data.corpus import ParallelCorpus
from docnmt.data.meta import read_meta
from docnmt.data.overlap import HALF, shares_in_training
from docnmt.data.split_folder import SplitFolder


def kept_sentences(folder: Path, split: str) -> dict[str, np.ndarray]:
    """(S,) bool for each part."""
    meta = read_meta(folder)
    held_out, training = (SplitFolder(folder, name, meta["files"]) for name in (split, "train"))
    share = shares_in_training(held_out, training, meta["source_lang"])
    corpus = ParallelCorpus.open(folder, split)
    seen = set(ParallelCorpus.open(folder, "train").source_text)
    return {
        "documents": np.repeat(share < HALF, np.diff(corpus.document_offsets)),
        "lines": np.array([text not in seen for text in corpus.source_text]),
    }


def select(lines: list[str], kept: np.ndarray) -> str:
    """The sentences that are kept, an empty line between documents that have some left."""
    sentences = iter(kept)
    documents: list[list[str]] = [[]]
    for line in lines:
        if not line:
            documents.append([])
        elif next(sentences):
            documents[-1].append(line)
    if next(sentences, None) is not None:
        raise SystemExit("error: a file has fewer sentences than the split; give translations of all of it")
    return "\n\n".join("\n".join(document) for document in documents if document) + "\n"


def main() -> None:
    """Read, choose, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of docnmt-preprocess")
    parser.add_argument("--split", default="test", help="[test]")
    parser.add_argument("--reference", type=Path, required=True, help="the split's reference text")
    parser.add_argument("--files", type=Path, nargs="+", required=True, help="translations of the split")
    parser.add_argument("--out", type=Path, required=True, help="folder for the parts")
    args = parser.parse_args()
    for part, kept in kept_sentences(args.data, args.split).items():
        (args.out / part).mkdir(parents=True, exist_ok=True)
        for file in [args.reference, *args.files]:
            name = "reference.txt" if file == args.reference else "-".join(file.parts[-3:])
            (args.out / part / name).write_text(select(file.read_text().split("\n")[:-1], kept))
        print(f"{part}: {int(kept.sum()):,} of {len(kept):,} sentences")


if __name__ == "__main__":
    main()
