"""kNN-MT (Khandelwal et al. 2021): a sentence model that also looks up what followed similar states in training.

    python recipes/studies/manual/knn.py runs/manual/data-bin --path runs/manual/sentence/model \\
        --out runs/manual/knn/test/hypotheses.txt

For every target subword of the training text a store has the decoder's state and the subword that followed. A step of
the search finds the `--neighbours` nearest states, p_knn(w) ∝ Σ exp(−distance² / T) over those followed by w, and the
model's probability becomes (1 − λ) p + λ p_knn. T and λ are those with the smallest nll on the development text. States
are looked up in the nearest of √n clusters (k-means), as in the paper's index.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from docnmt.core.batch import plan_batches
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.training.checkpoint import load_model
from docnmt.functional.decoding import RowLists, products
from docnmt.runtime.device import tune
from docnmt.runtime.system import write_text

#: Rows that are looked up at once, and rounds of k-means on so many states a cluster.
ROWS, ROUNDS, SAMPLE = 64, 8, 64
TEMPERATURES, WEIGHTS = (3.0, 10.0, 30.0, 100.0), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


def states(model: Any, task: Any, split: str) -> Iterator[tuple[Tensor, Tensor]]:
    """The decoder's states (n, d) of a split and the subwords (n,) that follow, batch by batch."""
    dataset = task.dataset(split, model)
    for units in plan_batches(dataset.sizes, 8000, seed=0, epoch=0, shuffle=False):
        batch = dataset.batch(units)
        real = batch.labels >= 0
        yield model(batch)[real], batch.labels[real]


@dataclass(frozen=True, eq=False)
class Store:
    """States (n, d) sorted by cluster, their squared lengths, what followed them, and the clusters.

    Attributes:
        centres: (C, d). begins: (C + 1,) where each cluster begins.
    """

    keys: Tensor
    squares: Tensor
    followed: Tensor
    centres: Tensor
    begins: Tensor

    @classmethod
    def of(cls, keys: Tensor, followed: Tensor) -> Store:
        """Divide the states into clusters."""
        number = int(len(keys) ** 0.5)
        draw = torch.Generator().manual_seed(0)
        some = keys[torch.randperm(len(keys), generator=draw)[: SAMPLE * number]]
        centres = some[:number].clone()
        for _ in range(ROUNDS):
            of = nearest(some, centres)
            count = torch.bincount(of, minlength=number)
            sums = torch.zeros_like(centres).index_add_(0, of, some)
            centres = torch.where((count > 0)[:, None], sums / count.clamp(min=1)[:, None], centres)
        of = nearest(keys, centres)
        order = of.argsort(stable=True)
        begins = torch.cat([of.new_zeros(1), torch.bincount(of, minlength=number).cumsum(0)])
        keys = keys[order]
        return cls(keys, keys.square().sum(1), followed[order], centres, begins)

    def look_up(self, q: Tensor, neighbours: int, clusters: int) -> tuple[Tensor, Tensor]:
        """Squared distances of the nearest states to q (R, d) and what followed them, each (R, k); nearest first."""
        parts = [self._look_up(some, neighbours, clusters) for some in q.split(ROWS)]
        distances, followed = zip(*parts, strict=True)
        return torch.cat(distances), torch.cat(followed)

    def _look_up(self, q: Tensor, neighbours: int, clusters: int) -> tuple[Tensor, Tensor]:
        near = torch.cdist(q, self.centres).topk(clusters, largest=False).indices  # (R, c)
        lists = RowLists.of_spans(self.begins[near][:, None], self.begins.diff()[near][:, None])
        product = products(q[:, None], self.keys[:, None], lists)
        closeness = lists.padded(2 * product - self.squares[lists.rows])  # |q|² − distance²
        best, columns = closeness.topk(neighbours)
        at = (lists.offsets[:-1, None] + columns).clamp(max=len(lists.rows) - 1)
        return q.square().sum(1, keepdim=True) - best, self.followed[lists.rows[at]]


def nearest(x: Tensor, centres: Tensor) -> Tensor:
    """(n,) the nearest centre of each x (n, d)."""
    return torch.cat([torch.cdist(some, centres).argmin(1) for some in x.split(4096)])


def mixed(logits: Tensor, distances: Tensor, followed: Tensor, temperature: float, weight: float) -> Tensor:
    """Log-probabilities (R, V) of the model and of the neighbours (R, k) together."""
    near = (-distances / temperature).softmax(1)
    retrieved = torch.zeros_like(logits).scatter_add_(1, followed, near)
    return ((1 - weight) * logits.softmax(1) + weight * retrieved).log()


@torch.inference_mode()
def chosen(model: Any, task: Any, store: Store, options: argparse.Namespace) -> tuple[float, float]:
    """Temperature and weight with the smallest nll on the development text."""
    losses: dict[tuple[float, float], float] = dict.fromkeys(itertools.product(TEMPERATURES, (0.0, *WEIGHTS)), 0.0)
    count = 0
    for features, labels in states(model, task, "valid"):
        own = model.output(features).log_softmax(1).gather(1, labels[:, None])[:, 0].exp()
        distances, followed = store.look_up(features, options.neighbours, options.clusters)
        count += len(labels)
        for temperature in TEMPERATURES:
            near = ((-distances / temperature).softmax(1) * (followed == labels[:, None])).sum(1)
            for weight in (0.0, *WEIGHTS):
                losses[temperature, weight] -= float(((1 - weight) * own + weight * near).log().sum())
    for (temperature, weight), loss in losses.items():
        print(f"temperature {temperature:g}, weight {weight:g}: nll {loss / count:.4f}", file=sys.stderr)
    return min(losses, key=lambda pair: losses[pair])


@torch.inference_mode()
def main() -> None:
    """Fill the store, choose, translate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of docnmt-preprocess")
    parser.add_argument("--path", type=Path, required=True, help="the sentence model")
    parser.add_argument("--out", type=Path, required=True, help="file for the translations of the test set")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--neighbours", type=int, default=16, help="k [16]")
    parser.add_argument("--clusters", type=int, default=16, help="that are searched for them [16]")
    options = parser.parse_args()
    print(tune(), file=sys.stderr)
    loaded = load_model(options.path)
    model: Any = loaded.model  # an `EncoderDecoder`, whose `advance` and `output` are asked for apart
    task: Any = loaded.task
    task.data_dir = options.data
    begun = time.monotonic()
    keys, followed = (torch.cat(parts) for parts in zip(*states(model, task, "train"), strict=True))
    store = Store.of(keys, followed)
    print(f"{len(keys):,} states, {len(store.centres):,} clusters: {time.monotonic() - begun:.0f}s", file=sys.stderr)
    temperature, weight = chosen(model, task, store, options)

    def step(tokens: Tensor, state: Any) -> Tensor:
        features = model.advance(tokens, state)
        neighbours = store.look_up(features, options.neighbours, options.clusters)
        return mixed(model.output(features), *neighbours, temperature, weight)

    model.step = step
    corpus = task.corpus("test")
    results = translate_corpus([model], task, corpus, GenerationConfig(), BeamSearchConfig(beam=options.beam))
    texts = [result.text for result in results]
    offsets = corpus.document_offsets.tolist()
    documents = ["\n".join(texts[begin:end]) for begin, end in itertools.pairwise(offsets)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(options.out, "\n\n".join(documents) + "\n")
    print(f"temperature {temperature:g}, weight {weight:g}; {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
