"""Word vectors of an .npz file in word2vec's binary form, which docnmt-preprocess --vectors takes.

The archive has `words` (texts, or one text with a word a line), `vectors` and perhaps `row` (the row of each word
in `vectors`, where words share them).
    python recipes/studies/inferlite/npz_vectors.py vectors.npz vectors.bin
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docnmt.runtime.system import replacing


def write_bin(path: Path, words: Sequence[str], vectors: np.ndarray, row: np.ndarray | None = None) -> None:
    """Write the words with their vectors, in single precision; a space inside a word becomes `_`."""
    places = np.arange(len(words)) if row is None else row
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, position in zip(words, places, strict=True):
            name = "_".join(word.split(" ")).replace("\n", "_")
            file.write(name.encode() + b" " + vectors[position].astype("<f4").tobytes() + b"\n")


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args(argv)
    with np.load(options.archive) as archive:
        names = archive["words"]
        words = str(names).split("\n") if names.ndim == 0 else [str(word) for word in names]
        write_bin(options.output, words, archive["vectors"], archive["row"] if "row" in archive.files else None)


if __name__ == "__main__":
    main()
