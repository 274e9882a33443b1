"""How often the paired bootstrap calls two equal systems different at p < .05, by the number of documents.

    python tools/bench/bootstrap.py [--trials 2000] [--samples 500]

Differences of documents are drawn from a normal distribution around 0; `docnmt.core.scoring.bootstrap` says what p is.
"""

from __future__ import annotations

import argparse

import numpy as np


def rejected(documents: int, trials: int, samples: int, rng: np.random.Generator) -> float:
    """Share of `trials` in which p < .05 for two systems that do not differ."""
    differences = rng.normal(size=(trials, documents))
    drawn = rng.multinomial(documents, np.full(documents, 1 / documents), size=(trials, samples))  # (trials, B, D)
    sampled = np.einsum("tbd,td->tb", drawn, differences)
    departs = np.abs(sampled - sampled.mean(1, keepdims=True)) >= np.abs(differences.sum(1, keepdims=True))
    return float(((departs.sum(1) + 1) / (samples + 1) < 0.05).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", nargs="+", type=int, default=[2, 5, 10, 30, 100])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=500)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("documents  p < .05")
    for documents in options.documents:
        print(f"{documents:9,}  {100 * rejected(documents, options.trials, options.samples, rng):6.1f} %")


if __name__ == "__main__":
    main()
