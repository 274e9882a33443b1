"""The part of a test set that is not in the training data: unseen sentences, and documents that have few seen ones.

    python recipes/studies/manual/unseen.py runs/manual/data-bin --reference test.fr --out runs/manual/new \\
        --files runs/manual/copy/test/hypotheses.txt runs/manual/sentence/test/hypotheses.txt

Writes, for each file (documents as the split's, an empty line between them), OUT/lines/NAME with the sentences that are
not seen there (seen.py), and OUT/documents/NAME with the documents of which less than a tenth is seen; `reference.txt`
beside them. The NAME of runs/manual/copy/test/hypotheses.txt is copy-test.txt. Files of
--prefix-references have the rest of each document; of these there are documents only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from seen import new_documents, seen_lines

from docnmt.core.corpus import ParallelCorpus


def read_documents(path: Path) -> list[list[str]]:
    """The sentences of each document."""
    documents: list[list[str]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if line:
            documents[-1].append(line)
        elif documents[-1]:
            documents.append([])
    return [document for document in documents if document]


def unseen(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(D,) bool, documents with less than a tenth seen, and (S,) bool, sentences that are new."""
    held_out, training = (ParallelCorpus.open(folder, name) for name in (split, "train"))
    seen = seen_lines(list(held_out.source_text), list(training.source_text))
    return new_documents(seen, held_out.document_offsets.tolist()), ~seen


def write(path: Path, documents: Iterable[list[str]]) -> None:
    """An empty line between documents; those of which nothing is left are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join("\n".join(document) for document in documents if document) + "\n", encoding="utf-8")


def main() -> None:
    """Read, choose, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of docnmt-preprocess")
    parser.add_argument("--split", default="test", help="[test]")
    parser.add_argument("--reference", type=Path, required=True, help="the split's reference text")
    parser.add_argument("--files", type=Path, nargs="+", required=True, help="translations of the split")
    parser.add_argument("--out", type=Path, required=True, help="folder for the parts")
    args = parser.parse_args()
    documents, sentences = unseen(args.data, args.split)
    for file in [args.reference, *args.files]:
        name = "reference.txt" if file == args.reference else "-".join(file.parts[-3:-1]) + ".txt"
        text = read_documents(file)
        if len(text) != len(documents):
            raise SystemExit(f"error: {file} has {len(text)} documents, and the split {len(documents)}")
        write(args.out / "documents" / name, (document for document, new in zip(text, documents, strict=True) if new))
        if sum(map(len, text)) == len(sentences):
            new = iter(sentences.tolist())
            write(args.out / "lines" / name, ([line for line in document if next(new)] for document in text))
    print(f"{documents.sum():,} of {len(documents):,} documents, {sentences.sum():,} of {len(sentences):,} sentences")


if __name__ == "__main__":
    main()
