"""Processor time of beam search in documents, of each architecture against the first.

    python tools/bench/document_decoding.py [--arch NAME[:OPTION=VALUE …] …] [--sentences 60 240 960] [--documents 1]

Models and text as in `generation.py`, without sentences that run on. Architectures take turns; encoding is left out.
With own text, as in `cond_transformer_small:target_context=conditional`, a document's sentences are written one after
the other, so several documents are needed to fill a batch.
"""

from __future__ import annotations

import argparse
from typing import Any

import generation
import numpy as np
import yaml

from docnmt.core.search.hypothesis import Slot
from docnmt.runtime.tuning import tune


def build(name: str) -> Any:
    """The model of `ARCH:OPTION=VALUE:…`."""
    arch, *changes = name.split(":")
    values = {key: yaml.safe_load(value) for key, _, value in (change.partition("=") for change in changes)}
    return generation.build(arch, **values)


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=["transformer_small", "hier_cond_transformer_small"])
    parser.add_argument("--sentences", nargs="+", type=int, default=[60, 240, 960], help="of each document")
    parser.add_argument("--documents", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(tune())
    models = [build(arch) for arch in options.arch]
    for sentences in options.sentences:
        rng = np.random.default_rng(0)
        source = generation.source_text(options.documents, rng, sentences)
        lengths = source.layout.sentences.lengths
        limits = np.maximum(lengths * rng.uniform(0.6, 1.4, len(lengths)), 2).astype(int)
        slots = [Slot(int(n), (int(limits[n]),)) for n in np.argsort(-lengths, kind="stable")]
        turns = [
            [generation.measure(model, source, slots, options.beam, options.batch_size).total for model in models]
            for _ in range(options.repeats)
        ]
        seconds = np.array(turns)  # (repeats, architectures)
        ratios = seconds / seconds[:, :1]
        for arch, taken, ratio in zip(options.arch, seconds.T, ratios.T, strict=True):
            spread = f"{np.median(ratio):.2f} times the first ({ratio.min():.2f} to {ratio.max():.2f})"
            print(
                f"{len(slots):5} sentences  {arch:<28} {len(slots) / taken.min():6.1f} a second, {spread}", flush=True
            )


if __name__ == "__main__":
    main()
