"""What other searches for a word's sentences would keep: trees and blocks, by what their nodes are judged by.

    python recipes/studies/attention/searches.py runs/discourse/default/model/checkpoint_last.safetensors \\
        --contrastive runs/discourse/corpus/contrastive.tsv --sentences 512 2048
    python recipes/studies/attention/searches.py runs/discourse/default/model/checkpoint_last.safetensors \\
        --text novel.en

Reads a `cond_transformer`, or a `hier_cond_transformer` without `--merge`: sentences are compared by their own keys.
Nodes are made of these keys afterwards, so nothing was trained for any of the searches. A tree halves a document down
to single sentences; at each level the best nodes are kept and their children looked at. Blocks are one level of such a
tree. A node is judged by

    mean           the query's product with the mean of its sentences' keys (MoBA's blocks, Lu et al. 2025)
    mean + spread  the same and the standard deviation of the products, from the keys' variances
    elementwise    the product with the elementwise maximum of the keys
    bound          Σ max(q·maximum, q·minimum) over features (Quest's blocks, Tang et al. 2024)
    log-sum-exp    of the products with its sentences: the best that a node trained to predict it could do
    maximum        of the products, likewise; this finds everything

For each search, over layers and heads:

    recall   of the t most relevant sentences, the share that is kept
    weight   the same, each sentence counting exp(relevance)
    finds    of the question's words that keep the deciding sentence when all are compared, the share that keeps it
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor
from tree_recall import Seen, choices, open_model, pieces, questions

from docnmt.core.scoring.discourse import ForcedExample
from docnmt.runtime.system import UserError, write_json

WORDS = 128  # of a document, drawn at random, beside the question's
WIDTHS = (1, 2, 4)  # nodes that a tree's search keeps, times t
BLOCKS = (8, 16)  # sentences of a block; 2t blocks are kept
#: (q (h, T, d), keys of nodes' sentences (h, N, m, d)) → relevance of the nodes (h, T, N).
Judge = Callable[[Tensor, Tensor], Tensor]
Document = tuple[ForcedExample, int | None]  # and the number of the sentence that decides
Found = dict[str, dict[str, float]]  # search → measure → mean


def mean(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mean(2).mT


def mean_and_spread(q: Tensor, k: Tensor) -> Tensor:
    return mean(q, k) + (q.square() @ k.var(2, correction=0).mT).sqrt()


def elementwise(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.amax(2).mT


def bound(q: Tensor, k: Tensor) -> Tensor:
    return q.clamp(min=0) @ k.amax(2).mT + q.clamp(max=0) @ k.amin(2).mT


def log_sum_exp(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.flatten(1, 2).mT).unflatten(2, k.shape[1:3]).logsumexp(-1)


def maximum(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.flatten(1, 2).mT).unflatten(2, k.shape[1:3]).amax(-1)


JUDGES: dict[str, Judge] = {
    "mean": mean,
    "mean + spread": mean_and_spread,
    "elementwise": elementwise,
    "bound": bound,
    "log-sum-exp": log_sum_exp,
    "maximum": maximum,
}


def nodes(k: Tensor, size: int) -> Tensor:
    """k (h, n, d) → (h, N, size, d), neighbours side by side; the last key is repeated where they are too few."""
    missing = -k.shape[1] % size
    return torch.cat([k, k[:, -1:].expand(-1, missing, -1)], 1).unflatten(1, (-1, size))


def descended(q: Tensor, k: Tensor, judge: Judge, width: int) -> Tensor:
    """(h, T, n) bool: the sentences that a tree's search with so many nodes a level compares in the end."""
    n = k.shape[1]
    size = 1 << math.ceil(math.log2(n))
    kept = torch.zeros(*q.shape[:2], 1, dtype=torch.long)  # the root
    while size > 1:
        size //= 2
        scores = judge(q, nodes(k, size))  # (h, T, N)
        children = torch.cat([2 * kept, 2 * kept + 1], 2)
        there = scores.gather(2, children.clamp(max=scores.shape[2] - 1))
        there = there.masked_fill(children >= scores.shape[2], -torch.inf)
        best = there.topk(min(width, children.shape[2]), dim=2).indices
        kept = children.gather(2, best)
    kept = kept.clamp(max=n - 1)
    return torch.zeros(*q.shape[:2], n, dtype=torch.bool).scatter_(2, kept, True)


def in_blocks(q: Tensor, k: Tensor, judge: Judge, size: int, count: int) -> Tensor:
    """(h, T, n) bool: the sentences of the best blocks."""
    scores = judge(q, nodes(k, size))
    best = scores.topk(min(count, scores.shape[2]), dim=2).indices
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter_(2, best, True)
    return chosen.repeat_interleave(size, 2)[..., : k.shape[1]]


def compared(q: Tensor, k: Tensor, t: int) -> dict[str, Tensor]:
    """Search → (h, T, n) bool, the sentences that it compares."""
    masks = {}
    for name, judge in JUDGES.items():
        for times in WIDTHS:
            masks[f"tree, {name}, {times}t"] = descended(q, k, judge, times * t)
        for size in BLOCKS:
            masks[f"blocks of {size}, {name}"] = in_blocks(q, k, judge, size, 2 * t)
    return masks


def measured(seen: Seen, deciding: int | None) -> Found:
    """Search → measure → mean over heads and words of one document."""
    own, queries, keys, policy, _ = seen
    last = torch.arange(*queries.layout.sentence_offsets[-2:].tolist())
    rows = torch.cat([torch.randperm(len(queries.words))[:WORDS], last])
    q = (queries.sentences[rows] / math.sqrt(own.shape[-1])).transpose(0, 1)  # (h, T, d)
    k = own.transpose(0, 1)  # (h, n, d)
    if bool((keys.layout.sentence_offsets.diff() == 0).any()):
        raise UserError("a document has an empty sentence; leave it out")
    relevance = q @ k.mT
    t = min(policy.top_t, k.shape[1])
    best = relevance.topk(t, dim=2)
    measures: Found = {}
    for name, looked_at in compared(q, k, t).items():
        kept = relevance.masked_fill(~looked_at, -torch.inf).topk(t, dim=2)
        weight = (kept.values.logsumexp(-1) - best.values.logsumexp(-1)).exp()
        measures[name] = {
            "compared": looked_at.sum(-1).float().mean().item(),
            "recall": looked_at.gather(2, best.indices).float().mean().item(),
            "weight": weight.mean().item(),
        }
        if deciding is not None:
            all_find = (best.indices == deciding).any(-1)[:, -len(last) :]
            finds = (kept.indices == deciding).any(-1)[:, -len(last) :] & all_find
            measures[name] |= {"finds": finds.sum().item(), "of": all_find.sum().item()}
    return measures


def table(means: dict[int, Found]) -> str:
    """Markdown, a row a search."""
    sizes = list(means)
    heads = [f"{n:,}: {what}" for n in sizes for what in ("compared", "recall", "weight", "finds")]
    lines = [f"| search | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for search in means[sizes[0]]:
        cells = []
        for n in sizes:
            measures = means[n][search]
            cells += [f"{measures['compared']:.0f}", f"{measures['recall']:.2f}", f"{measures['weight']:.2f}"]
            cells.append(f"{measures['finds'] / measures['of']:.2f}" if measures.get("of") else "–")
        lines.append(f"| {search} | {' | '.join(cells)} |")
    return "\n".join(lines)


def averages(paths: Sequence[str], documents: Callable[[], Iterator[Document]]) -> Found:
    """Search → measure → mean over models, documents and layers."""
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        loaded = open_model(path)
        for example, deciding in documents():
            for seen in choices(loaded, example):
                for search, measures in measured(seen, deciding).items():
                    for measure, value in measures.items():
                        sums[search][measure].append(value)
    if not sums:
        raise UserError("no context attention with a choice of sentences: give a cond_ or hier_cond_transformer")
    return {search: {name: fmean(values) for name, values in samples.items()} for search, samples in sums.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="CHECKPOINT", nargs="+", help="models, as of several seeds; means over them")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--contrastive", type=Path, metavar="TSV", help="what recipes/quickstart/make.py wrote")
    source.add_argument("--text", type=Path, metavar="FILE", help="a text in the source language, a sentence a line")
    parser.add_argument("--sentences", type=int, nargs="+", default=[512, 2048], metavar="N")
    parser.add_argument("--documents", type=int, default=5, metavar="N", help="of each size and model [5]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if min(options.sentences) < 2 or options.documents < 1:
        parser.error("--sentences: at least 2; --documents: at least 1")
    torch.manual_seed(options.seed)  # draws the words
    make, file = (questions, options.contrastive) if options.contrastive else (pieces, options.text)
    try:
        means = {
            n: averages(options.path, partial(make, file, n, options.documents, options.seed))
            for n in options.sentences
        }
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except UserError as error:
        parser.error(str(error))
    print(table(means))
    if options.json:
        write_json(options.json, {"checkpoints": options.path, "sentences": means})


if __name__ == "__main__":
    main()
