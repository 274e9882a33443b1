"""Nats a subword of the reference by its place in what a model writes at once: a sentence, a window, a document.

    python recipes/studies/scaleformer/loss_by_position.py data-bin --path runs/one --gen-subset test test1 --width 64

Places are counted in subwords from the beginning of the text, in bins of --width. As in training, the model reads the
reference before each place. `right` is the share of subwords that the model finds most likely.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from docnmt.apps.commands.translating import check_vocabulary, load_models
from docnmt.apps.options import ModelsConfig
from docnmt.core.batch import IGNORE, collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.runtime.system import UserError, write_json


@torch.inference_mode()
def by_place(model: torch.nn.Module, corpus: ParallelCorpus, width: int, device: str) -> np.ndarray:
    """(bins, 3): nats of the labels in each bin of places, how many are the most likely ones, how many there are."""
    rows: list[np.ndarray] = []
    units = planned_units(model.reading, corpus)  # type: ignore[arg-type]  # a plan, as every translation model has
    for unit in range(len(units)):
        batch = collate(corpus, units, np.array([unit]), model.reading).to(device)  # type: ignore[arg-type]
        features = model(batch)
        places = (batch.labels != IGNORE).nonzero()[:, 0]
        scores = model.output(features[places]).log_softmax(-1)  # type: ignore[operator]
        labels = batch.labels[places]
        starts = batch.target.layout.sentence_offsets[:-1][batch.target.layout.sentence_of_token[places]]
        columns = (places - starts) // width, -scores.gather(1, labels[:, None])[:, 0], scores.argmax(1) == labels
        rows.append(torch.stack([column.double() for column in columns], 1).cpu().numpy())
    bins, nats, right = np.concatenate(rows).T
    return np.stack([np.bincount(bins.astype(int), weight) for weight in (nats, right, np.ones_like(nats))], 1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA", help="folder written by docnmt-preprocess")
    parser.add_argument("--path", required=True, metavar="CKPT", help="checkpoint file, or a --save-dir")
    parser.add_argument("--gen-subset", nargs="+", default=["test"], metavar="NAME", help="splits [test]")
    parser.add_argument("--width", type=int, default=64, metavar="N", help="places in a bin [64]")
    parser.add_argument("--device", default="auto", help="cpu, cuda … [auto]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all numbers")
    options = parser.parse_args(arguments)
    if options.width < 1:
        parser.error(f"--width: expected at least 1, got {options.width}")
    by_split: dict[str, list[dict[str, float]]] = {}
    try:
        loaded = load_models(ModelsConfig(path=options.path, device=options.device))
        check_vocabulary(loaded, options.data)
        model = loaded.models[0]
        if len(loaded.models) > 1 or model.reading.reads_translations:
            raise UserError(f"--path {options.path}: expected one model that reads no translations")
        for split in options.gen_subset:
            corpus = ParallelCorpus.open(options.data, split)
            if corpus.target is None:
                raise UserError(f"{options.data}: the split {split} has no references")
            sums = by_place(model, corpus, options.width, str(model.output.weight.device))
            by_split[split] = [
                {"first": n * options.width, "subwords": count, "nats": nats / count, "right": right / count}
                for n, (nats, right, count) in enumerate(sums.tolist())
                if count
            ]
    except UserError as error:
        parser.error(str(error))
    for split, rows in by_split.items():
        print(f"\n### {split}\n\n| from place | subwords | nats | right, % |\n| ---: | ---: | ---: | ---: |")
        for row in rows:
            print(f"| {row['first']:,} | {row['subwords']:,.0f} | {row['nats']:.4f} | {100 * row['right']:.1f} |")
    if options.json:
        write_json(options.json, {"model": [str(path) for path in loaded.paths], "splits": by_split})


if __name__ == "__main__":
    main()
