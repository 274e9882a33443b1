"""What the true context of a sentence is worth to a model: nats a subword and a word of the reference.

    python recipes/studies/manual/context_worth.py data-bin --path runs/one --gen-subset valid --within 1 2 4 \\
        --json worth.json

The same checkpoint is asked for the reference of a sentence with

- true: its own document, as the model reads it in translation,
- within K: at most K sentences before it (and K after it, where sentences are no part of one text),
- shuffled: the other sentences of its document in another order,
- foreign: random sentences of other documents in their place,
- none: the sentence alone.

A sentence of the context is source and reference together. The sentence itself stays at its place in its document, in
its section and paragraph. What true saves against none is the conditional cross-mutual information of Fernandes et al.
2021 (Measuring and Increasing Context Usage in Context-Aware Machine Translation). Intervals bound the middle 95 % of a
bootstrap over documents, in which two contexts are compared on the same ones.

With shuffled and foreign each sentence needs a document of its own, so at most --per-document sentences of each are
asked, drawn once, the same in every context. Subwords are counted with the end of each sentence, as in the loss.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contexts import Asked, Reader, losses

from docnmt.apps.commands.translating import check_vocabulary, load_models
from docnmt.apps.options import ModelsConfig
from docnmt.core.corpus import ParallelCorpus
from docnmt.runtime.system import UserError, write_json

SAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Report:
    """Losses by context, and what they are divided by: subwords and words (Q,) of the references."""

    asked: Asked
    losses: dict[str, np.ndarray]
    subwords: np.ndarray
    words: np.ndarray
    seed: int

    def mean(self, values: np.ndarray, count: np.ndarray, of: np.ndarray | None = None) -> dict[str, float]:
        """The sum of `values` (Q,) by that of `count`, with its interval; `of` (Q,) says of which sentences."""
        chosen = np.ones(len(values), dtype=bool) if of is None else of
        documents = self.asked.corpus.num_documents
        sums = [np.bincount(self.asked.documents, part * chosen, documents) for part in (values, count)]  # (D,) each
        kept = np.flatnonzero(sums[1])
        draws = np.random.default_rng(self.seed).multinomial(len(kept), np.full(len(kept), 1 / len(kept)), SAMPLES)
        low, high = np.quantile((draws @ sums[0][kept]) / (draws @ sums[1][kept]), [0.025, 0.975])
        return {"nats": float(sums[0].sum() / sums[1].sum()), "low": float(low), "high": float(high)}

    def to_dict(self) -> dict[str, Any]:
        """What `--json` writes."""
        true, none = self.losses["true"], self.losses["none"]
        contexts = {}
        for name, values in self.losses.items():
            contexts[name] = {"nll": self.mean(values, self.subwords)}
            for by, count in (("subword", self.subwords), ("word", self.words)):
                contexts[name][f"true saves a {by}"] = self.mean(values - true, count)
                contexts[name][f"saves a {by}"] = self.mean(none - values, count)
        positions = {}
        for first, last in self._positions():
            of = (self.asked.places >= first) & (self.asked.places < last)
            row = {
                name: self.mean(self.losses[name] - true, self.subwords, of) for name in ("shuffled", "foreign", "none")
            }
            positions[str(last) if last == first + 1 else f"{first + 1}-{last}"] = {"sentences": int(of.sum()), **row}
        counts = {"sentences": len(true), "documents": len(np.unique(self.asked.documents))}
        counts |= {"subwords": int(self.subwords.sum()), "words": int(self.words.sum())}
        return {**counts, "contexts": contexts, "positions": positions}

    def _positions(self) -> Iterator[tuple[int, int]]:
        """Places in documents, from 0: the first sentence, the second, two, four …"""
        first, last = 0, 1
        while first <= self.asked.places.max():
            yield first, last
            first, last = last, 2 * last

    def __str__(self) -> str:
        content = self.to_dict()
        lines = [
            "context      nll   true context saves, a subword         this context saves     … and a word, true, this"
        ]
        for name, row in content["contexts"].items():
            saved = [row[f"{who} a {by}"] for by in ("subword", "word") for who in ("true saves", "saves")]
            lines.append(f"{name:<10} {row['nll']['nats']:.4f}   {'   '.join(map(_interval, saved))}")
        lines += ["", "sentence   asked   true context saves, a subword, against shuffled, foreign, none"]
        for name, row in content["positions"].items():
            saved = [row[context] for context in ("shuffled", "foreign", "none")]
            lines.append(f"{name:<8} {row['sentences']:7,}   {'   '.join(map(_interval, saved))}")
        counts = [f"{content[name]:,} {name}" for name in ("sentences", "documents", "subwords", "words")]
        return "\n".join([*lines, f"({', '.join(counts)}; 95 % by {SAMPLES:,} bootstrap samples of documents)"])


def _interval(value: dict[str, float]) -> str:
    return f"{value['nats']:+.4f} [{value['low']:+.4f}, {value['high']:+.4f}]"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA", help="folder written by docnmt-preprocess")
    parser.add_argument("--path", required=True, metavar="CKPT", help="checkpoint file, or a --save-dir")
    parser.add_argument("--gen-subset", default="test", metavar="NAME", help="split [test]")
    parser.add_argument("--within", nargs="*", type=int, default=[], metavar="K", help="also the nearest K sentences")
    parser.add_argument("--per-document", type=int, default=20, metavar="N", help="sentences asked of a document [20]")
    parser.add_argument("--seed", type=int, default=1, help="of orders, foreign sentences and the bootstrap [1]")
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="subwords read at once [4000]")
    parser.add_argument("--device", default="auto", help="cpu, cuda … [auto]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all numbers")
    options = parser.parse_args(arguments)
    if min([options.per_document, options.max_tokens, *options.within]) < 1:
        parser.error("--within, --per-document and --max-tokens: expected numbers of at least 1")
    try:
        loaded = load_models(ModelsConfig(path=options.path, device=options.device))
        check_vocabulary(loaded, options.data)
        corpus = ParallelCorpus.open(options.data, options.gen_subset)
        if corpus.target is None or len(loaded.models) > 1:
            raise UserError(f"{options.data}: expected a split with references, and one model of --path")
        asked = Asked.draw(corpus, options.per_document, options.seed)
        reader = Reader(loaded.models[0], loaded.task.max_doc_tokens, options.max_tokens)
        by_context = losses(reader, asked, options.within, options.seed)
    except UserError as error:
        parser.error(str(error))
    words = np.array([len(corpus.references[0][int(number)].split()) for number in asked.numbers])
    report = Report(asked, by_context, corpus.target.lengths()[asked.numbers] + 1, words, options.seed)
    print(report)
    if options.json:
        of = {"model": [str(path) for path in loaded.paths], "data": str(options.data), "split": options.gen_subset}
        write_json(options.json, {**of, "per_document": options.per_document, "seed": options.seed, **report.to_dict()})


if __name__ == "__main__":
    main()
