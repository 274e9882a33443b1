"""Word vectors of one's own from raw text: positive pointwise mutual information, factored (Levy & Goldberg 2014).

A further embedding type where no other is available, from text of another kind than the others.
    python recipes/studies/inferlite/ppmi_vectors.py --output reviews.bin imdb/train.jsonl imdb/test.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from npz_vectors import write_bin

try:
    from scipy import sparse
    from scipy.sparse.linalg import svds
except ImportError:
    sys.exit("ppmi_vectors.py: error: needs scipy; pip install -e '.[evaluation]'")

from docnmt.other_tasks.sentence_vectors.data import words


def texts(paths: list[Path]) -> Iterator[list[str]]:
    """Each text's words in lower case; `.jsonl` files have it under `text`, others a text a line."""
    for path in paths:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield words((json.loads(line)["text"] if path.suffix == ".jsonl" else line).lower())


def cooccurrences(documents: list[np.ndarray], size: int, window: int) -> sparse.csr_matrix:
    """How often word j stands up to `window` places from word i, nearer ones counting more (1 / distance)."""
    # Places between documents, and words outside the vocabulary, hold `size` and are dropped.
    row = np.concatenate([np.append(document, [size] * window) for document in documents])
    total = sparse.csr_matrix((size, size), dtype=np.float64)
    for distance in range(1, window + 1):
        left, right = row[:-distance], row[distance:]
        inside = (left < size) & (right < size)
        keys, counts = np.unique(left[inside] * size + right[inside], return_counts=True)
        total = total + sparse.csr_matrix((counts / distance, (keys // size, keys % size)), shape=(size, size))
    return (total + total.T).tocsr()


def ppmi(counts: sparse.csr_matrix, smoothing: float = 0.75) -> sparse.csr_matrix:
    """max(0, log p(i, j) / (p(i) p(j)^smoothing)) of every pair that was seen."""
    pairs = counts.tocoo()
    own = np.asarray(counts.sum(1)).ravel()
    context = own**smoothing
    values = np.log(pairs.data * context.sum() / (own[pairs.row] * context[pairs.col]))
    return sparse.csr_matrix((np.maximum(values, 0), (pairs.row, pairs.col)), shape=counts.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--vocabulary", type=int, default=30_000)
    parser.add_argument("--dimensions", type=int, default=100)
    parser.add_argument("--window", type=int, default=5)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for text in texts(options.texts):
        counts.update(text)
    vocabulary = [word for word, _ in counts.most_common(options.vocabulary)]
    index = {word: i for i, word in enumerate(vocabulary)}
    documents = [np.array([index.get(word, len(index)) for word in text]) for text in texts(options.texts)]
    matrix = ppmi(cooccurrences(documents, len(vocabulary), options.window))
    left, strength, _ = svds(matrix, k=options.dimensions, random_state=1)
    vectors = (left * np.sqrt(strength)).astype(np.float32)
    write_bin(options.output, vocabulary, vectors)
    print(f"{options.output}: {vectors.shape} from {counts.total():,} words", file=sys.stderr)


if __name__ == "__main__":
    main()
