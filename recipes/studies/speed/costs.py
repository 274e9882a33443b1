"""What half and double of each tuning constant of `docnmt/functional/` cost on this CPU.

    OMP_NUM_THREADS=1 python recipes/studies/speed/costs.py [--repeats 5] [NAME …]

The three values of a constant take turns on one thread. Each row gives the median processor time with the kept value
and the ratios of half and double to it, for work that reads the constant: attention forward and backward, selection
forward only. Constants that only a GPU reads are left out.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time
from types import ModuleType

import torch
from torch import Tensor

from docnmt import functional
from docnmt.functional import conditional as conditional_chapter
from docnmt.functional import dispatch, packed, selection
from docnmt.functional import linear as linear_chapter
from docnmt.functional.conditional import select
from docnmt.functional.selection import Keys, Queries, SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.runtime import device as tuning

Work = Callable[[], object]
HEADS, WIDTH, TOP_T = 8, 64, 4
_LEAST = 0.1  # seconds of a measurement


def _leaves(*rows: int) -> list[Tensor]:
    return [torch.randn(n, HEADS, WIDTH, requires_grad=True) for n in rows]


def _both(compute: Callable[[], Tensor]) -> Work:
    """Compute and differentiate; the output's gradient is random and lies in memory as a layer's does."""
    given = torch.randn_like(compute())
    return lambda: compute().backward(given)


def conditional(documents: int, sentences: int, words: int, backend: str) -> Work:
    """Compute conditional attention in documents of so many sentences of so many words, and all gradients."""
    layout = DocumentLayout.from_lengths([[words] * sentences] * documents)
    tokens = layout.num_tokens
    inputs = _leaves(tokens, tokens, tokens, tokens, layout.num_sentences)
    attend = partial(functional.conditional_attention, query_layout=layout, key_layout=layout, top_t=TOP_T)
    return _both(lambda: attend(*inputs, backend=backend))


def selecting(documents: int, sentences: int, *, tree: bool) -> Work:
    """Select for 1,024 words in all, among the sentences of each document."""
    keys = DocumentLayout.from_lengths([[1] * sentences] * documents)
    queries = DocumentLayout.from_lengths([[1024 // documents] + [0] * (sentences - 1)] * documents)
    index = functional.build_tree(torch.zeros(len(keys.sentences), 1), keys.document_offsets, lambda a, b: a).index
    asked = Queries(*(x.detach() for x in _leaves(queries.num_tokens, queries.num_tokens)), queries)
    nodes = index.num_nodes if tree else keys.num_sentences
    words = torch.zeros(keys.num_tokens, HEADS, WIDTH)
    given = Keys(words, words, torch.randn(nodes, HEADS, WIDTH), keys, index if tree else None).choosing()
    return lambda: select(asked, given, SelectionPolicy(TOP_T))


def spans(number: int, words: int) -> Work:
    """Compute softmax attention inside spans, and all gradients."""
    offsets = DocumentLayout.from_lengths([[words] * number]).sentences
    inputs = _leaves(*[number * words] * 3)
    return _both(lambda: packed.packed_attention(*inputs, offsets, offsets))


def linear(words: int, *, relative: bool, causal: bool) -> Work:
    """Compute linear attention and all gradients."""
    q, k, v = (torch.randn(1, HEADS, words, WIDTH, requires_grad=True) for _ in range(3))
    rel = torch.randn(33, WIDTH, requires_grad=True) if relative else None
    return _both(lambda: functional.linear_attention(q, k, v, rel, causal=causal))


#: The work that reads a constant; where it is a threshold, work near it.
WORKS: dict[str, Callable[[], Work]] = {
    "PADDED_WORDS": lambda: conditional(8, 8, 20, "auto"),
    "PADDED_FEW": lambda: conditional(1, 8, 12, "auto"),
    "DISPATCH_QUERY": lambda: conditional(1, 30, 12, "auto"),
    "DISPATCH_WORD": lambda: conditional(1, 24, 25, "auto"),
    "TILE": lambda: conditional(1, 128, 25, "dispatch"),
    "TILE_BATCH": lambda: conditional(1, 128, 25, "dispatch"),
    "TILE_SPREAD": lambda: conditional(1, 128, 25, "dispatch"),
    "TILE_ASSIGNMENTS": lambda: conditional(1, 512, 25, "dispatch"),
    "SELECT_CHUNK": lambda: selecting(1, 1024, tree=False),
    "SELECT_JOINT": lambda: selecting(64, 16, tree=True),
    "TREE_WIDE": lambda: selecting(1, 512, tree=True),
    "TREE_CHUNK": lambda: selecting(1, 1024, tree=True),
    "TREE_DOTS": lambda: selecting(1, 1024, tree=True),
    "BLOCK_PRODUCTS": lambda: selecting(1, 4096, tree=False),
    "SPAN_LONG": lambda: spans(8, 256),
    "SPAN_BLOCK": lambda: spans(1, 2048),
    "LINEAR_RELATIVE": lambda: linear(230, relative=True, causal=False),
    "LINEAR_CAUSAL": lambda: linear(270, relative=False, causal=True),
    "LINEAR_PLAIN": lambda: linear(72, relative=False, causal=False),
    "LINEAR_PIECE": lambda: linear(2048, relative=True, causal=True),
    "LINEAR_BLOCK": lambda: linear(2048, relative=True, causal=True),
    "LINEAR_SEGMENT": lambda: linear(2048, relative=True, causal=True),
}  # fmt: skip


CHAPTERS = (conditional_chapter, dispatch, linear_chapter, packed, selection)


def chapter_of(name: str) -> ModuleType:
    """The chapter that holds a constant."""
    return next(chapter for chapter in CHAPTERS if hasattr(chapter, name))


def measured(name: str, repeats: int) -> tuple[float, float, float]:
    """Return the median seconds with the kept value, and the ratios of half and double of it to that."""
    chapter = chapter_of(name)
    work, kept = WORKS[name](), getattr(chapter, name)
    seconds = defaultdict(list)
    for turn in range(repeats + 1):
        for factor in (1.0, 0.5, 2.0):
            setattr(chapter, name, type(kept)(kept * factor))
            work()  # which plans
            calls, begin = 0, process_time()
            while process_time() - begin < _LEAST or not calls:
                work()
                calls += 1
            if turn:
                seconds[factor].append((process_time() - begin) / calls)
    setattr(chapter, name, kept)
    now, half, double = (statistics.median(seconds[factor]) for factor in (1.0, 0.5, 2.0))
    return now, half / now, double / now


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="constants; all if none is given")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    if unknown := set(options.names) - set(WORKS):
        parser.error(f"{', '.join(sorted(unknown))}: expected names of {', '.join(WORKS)}")
    tuning.tune()
    torch.set_num_threads(1)
    print("| constant | value | ms | half | double |\n| --- | ---: | ---: | ---: | ---: |")
    for name in options.names or WORKS:
        torch.manual_seed(0)
        now, half, double = measured(name, options.repeats)
        kept = getattr(chapter_of(name), name)
        print(f"| {name} | {kept:,} | {now * 1e3:.1f} | {half:.2f} | {double:.2f} |", flush=True)


if __name__ == "__main__":
    main()
