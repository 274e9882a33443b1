"""Paper 002's table 1 measured, and what conditional attention and the tree cost against what else one could use.

    OMP_NUM_THREADS=1 python tools/bench/attention.py [--what table1 conditional tree layer …] [--plot docs]

One document of n sentences of 25 words, eight heads of width 64, t = 4, float32. All ways run with the same settings of
`docnmt.runtime.tune` and take turns; medians of forward + backward. A way is left out ("–") from the size on at which a
call would last longer than --limit seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from measuring import Series, Way, forward_backward, in_turns, limit_memory, peak_memory, print_series
from torch import Tensor, nn

from docnmt import runtime
from docnmt.functional import (
    SentenceTree,
    build_tree,
    conditional_attention,
    hierarchical_conditional_attention,
    packed_attention,
    source2token,
)
from docnmt.functional.descent import descend
from docnmt.functional.selection import select_sentences
from docnmt.functional.tree import cumulative_keys
from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.attention import SelfAttention
from docnmt.modules.context import ConditionalAttention, SummaryEncoder
from docnmt.modules.layers import EncoderLayer, FeedForward, Residual
from docnmt.modules.source2token import build_merge

HEADS, WIDTH, WORDS, TOP_T = 8, 64, 25, 4
LONGEST_DENSE = 3_200  # words at which (heads × words × words) tensors are still small enough to hold many
QUERIES = 1024  # words that select, where only selection is measured


class Document(NamedTuple):
    """Random inputs of one document."""

    layout: DocumentLayout
    tree: SentenceTree
    q: Tensor
    k: Tensor
    v: Tensor
    sentence_q: Tensor
    sentence_k: Tensor
    node_k: Tensor

    @classmethod
    def of(cls, sentences: int) -> Document:
        layout = DocumentLayout.from_lengths([[WORDS] * sentences])
        random = torch.Generator().manual_seed(sentences)
        tree = build_tree(torch.zeros(sentences, 1), layout.document_offsets, lambda left, right: left)

        def draw(rows: int) -> Tensor:
            return torch.randn(rows, HEADS, WIDTH, generator=random, requires_grad=True)

        words = [draw(layout.num_tokens) for _ in range(4)]
        return cls(layout, tree, *words, draw(sentences), draw(len(tree.nodes)))


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(T, h, d) → (T, h, d) over the whole document."""
    by_head = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    return F.scaled_dot_product_attention(*by_head)[0].transpose(0, 1)


def conditional(document: Document, backend: str, given: Tensor | None = None) -> Way:
    def attend(*x: Tensor) -> Tensor:
        layout = document.layout
        return conditional_attention(*x, query_layout=layout, key_layout=layout, top_t=TOP_T, backend=backend)

    return forward_backward(attend, [*document[2:6], document.sentence_k], given)


def hierarchical(document: Document, backend: str, given: Tensor | None = None) -> Way:
    def attend(*x: Tensor) -> Tensor:
        layout = document.layout
        return hierarchical_conditional_attention(
            *x, document.tree, query_layout=layout, key_layout=layout, top_t=TOP_T, backend=backend
        )

    return forward_backward(attend, [*document[2:6], document.node_k], given)


def table1_ways(sentences: int) -> dict[str, Way]:
    """The layer types of table 1 in its order."""
    document = Document.of(sentences)
    layout, (q, k, v) = document.layout, document[2:5]
    query = torch.randn(HEADS, WIDTH, requires_grad=True)
    summaries = [document.sentence_k, torch.randn_like(document.sentence_k).requires_grad_()]
    return {
        "sentence by sentence": forward_backward(
            lambda *x: packed_attention(*x, layout.sentences, layout.sentences), [q, k, v]
        ),
        "whole document": forward_backward(sdpa, [q, k, v]),
        "sentence encodings": forward_backward(
            lambda *x: packed_attention(*x, layout.documents, layout.document_sentences), [q, *summaries]
        ),
        "conditional": conditional(document, "auto"),
        "hierarchical conditional": hierarchical(document, "auto"),
        "source2token": forward_backward(lambda *x: source2token(*x, layout.sentence_offsets), [query, k, v]),
    }


def conditional_ways(sentences: int) -> dict[str, Way]:
    document = Document.of(sentences)
    backends = ["dispatch", "auto"]
    if sentences * WORDS <= LONGEST_DENSE:
        backends += ["padded", "dense"]
    return {"SDPA": forward_backward(sdpa, document[2:5]), **{b: conditional(document, b) for b in backends}}


def tree_ways(sentences: int) -> dict[str, Way]:
    """Selection alone, for as many words at every size."""
    document = Document.of(sentences)
    queries = DocumentLayout.from_lengths([[QUERIES]])
    keys = DocumentLayout.from_lengths([[1] * sentences])
    sentence_q = torch.randn(QUERIES, HEADS, WIDTH)
    sentence_k, index = document.sentence_k.detach(), document.tree.index
    sums = cumulative_keys(document.node_k.detach(), index)
    return {
        "flat": lambda: select_sentences(sentence_q, sentence_k, queries, keys, TOP_T, "document"),
        "tree": lambda: descend(sentence_q, sums, None, index, queries, keys, TOP_T),
    }


class DocumentHeads(nn.Module):
    """Attention heads that read the whole document, in place of self-attention: plain, conditional or hierarchical."""

    def __init__(self, layout: DocumentLayout, merge: str | None) -> None:
        super().__init__()
        self.layout = layout
        width = HEADS * WIDTH
        made = build_merge(merge, d_model=width, heads=HEADS) if merge else None
        self.summarise = SummaryEncoder(d_model=width, heads=HEADS, merge=made)
        self.attention = ConditionalAttention(d_model=width, heads=HEADS, d_head=WIDTH, top_t=TOP_T)

    def forward(self, x: Tensor, spans: Spans) -> Tensor:
        del spans  # of the sentences
        keys = self.attention.project(self.summarise(x, self.layout))
        return self.attention(x, keys, self.layout)


class WholeDocument(SelfAttention):
    """Self-attention over the document instead of the sentence."""

    layout: DocumentLayout

    def forward(self, x: Tensor, spans: Spans) -> Tensor:
        return super().forward(x, self.layout.documents)


def layer_ways(sentences: int) -> dict[str, Way]:
    """A layer of width 512 and 2,048 with each attention, parameters' gradients included."""
    layout = DocumentLayout.from_lengths([[WORDS] * sentences])
    width = HEADS * WIDTH
    x = torch.randn(layout.num_tokens, width, requires_grad=True)
    whole = WholeDocument(d_model=width, heads=HEADS, d_head=WIDTH)
    whole.layout = layout
    attentions = {
        "sentence by sentence": SelfAttention(d_model=width, heads=HEADS, d_head=WIDTH),
        "whole document": whole,
        "conditional": DocumentHeads(layout, None),
        "hierarchical conditional": DocumentHeads(layout, "source2token"),
    }
    ways = {}
    for name, attention in attentions.items():
        layer = EncoderLayer(
            attention=attention,
            feed_forward=FeedForward(d_model=width, d_inner=4 * width, activation="relu"),
            residual=lambda: Residual(d_model=width, dropout=0.0, norm="pre"),
        )
        inputs = [x, *layer.parameters()]
        ways[name] = forward_backward(lambda x, *_, layer=layer: layer(x, layout), inputs)
    return ways


def print_skew(sentences: int, repeats: int) -> None:
    """All queries choosing the same sentences against each its own."""
    uniform, same = Document.of(sentences), Document.of(sentences)
    same.sentence_q.data.fill_(1.0)
    times = in_turns(
        {"uniform": conditional(uniform, "dispatch"), "same": conditional(same, "dispatch")}, repeats=repeats
    )
    words = sentences * WORDS
    print(f"\n### All queries choose the same sentences, {words:,} words\n")
    print(
        f"{times['same'] * 1e3:,.1f} ms against {times['uniform'] * 1e3:,.1f} ms: "
        f"×{times['same'] / times['uniform']:.2f}"
    )


def print_memory(sentences: int) -> None:
    """Kilobytes a word that forward and backward take beyond the inputs, gradients included, in a fresh process."""
    print(f"\n### Memory, {sentences * WORDS:,} words, forward + backward, peak beyond the inputs\n")
    for kind in (conditional, hierarchical):
        extra = peak_memory(_dispatch, kind, sentences) / (sentences * WORDS)
        print(f"{kind.__name__}: {extra:.1f} KB a word, of which {4 * HEADS * WIDTH * 4 // 1024} are the gradients")


def _dispatch(kind: Callable[..., Way], sentences: int) -> tuple[Way, Way]:
    document = Document.of(sentences)
    return kind(Document.of(16), "dispatch"), kind(document, "dispatch", torch.randn_like(document.q))


def print_flops(sentences: int, repeats: int) -> None:
    """Products that equation 7 needs (two forward, five backward, scores twice; selection once) over time and peak."""
    document = Document.of(sentences)
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    seconds = in_turns({"peak": lambda: a @ b, "conditional": conditional(document, "dispatch")}, repeats=repeats)
    peak = 2 * 2048**3 / seconds["peak"]
    words = sentences * WORDS
    useful = 2 * HEADS * WIDTH * words * (7 * TOP_T * WORDS + sentences)
    reached = useful / seconds["conditional"]
    print(f"\n### Share of the peak, {words:,} words\n")
    print(f"{reached / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s (a product of 2,048 × 2,048): {reached / peak:.0%}")


def plot(series: Series, names: list[str], path: Path, *, title: str, unit: str, least: int) -> None:
    """Milliseconds over size, both logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name in names:
        points = series.of(name)
        label = f"{name}, exponent {series.exponent(name, least=least):.2f}"
        axes.loglog(list(points), [s * 1e3 for s in points.values()], marker="o", label=label)
    what = "selection alone" if "Selection" in title else "forward + backward"
    axes.set(xlabel=unit, ylabel=f"{what}, ms", title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"\nplot: {path}")


PARTS: dict[str, tuple[Callable[[int], dict[str, Way]], str, str, int, tuple[tuple[str, str], ...]]] = {
    # ways, title, unit, words a size, ratios
    "table1": (table1_ways, "Table 1 of paper 002, measured", "sentences", 1, ()),
    "conditional": (
        conditional_ways,
        "Conditional attention",
        "words",
        WORDS,
        (("SDPA", "dispatch"), ("dense", "dispatch"), ("padded", "dispatch"), ("auto", "dispatch")),
    ),
    "tree": (tree_ways, f"Selection of {QUERIES:,} words", "sentences", 1, (("flat", "tree"),)),
    "layer": (
        layer_ways,
        "A whole layer",
        "words",
        WORDS,
        (("whole document", "conditional"), ("conditional", "sentence by sentence")),
    ),
}
SIZES = {
    "table1": [8, 32, 128, 512, 2048],
    "conditional": [8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "tree": [8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384],
    "layer": [8, 16, 32, 128, 512],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*PARTS, "skew", "memory", "flops"]
    parser.add_argument("--what", nargs="+", choices=every, default=every)
    parser.add_argument("--sentences", nargs="+", type=int, help="sizes [each part its own]")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--most", type=float, default=16.0, metavar="GB", help="addresses this process may take")
    parser.add_argument("--plot", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    limit_memory(options.most)
    print(runtime.tune())
    torch.set_num_threads(1)
    for part in options.what:
        if part in PARTS:
            ways, title, unit, words, ratios = PARTS[part]
            series = Series(repeats=options.repeats, limit=options.limit)
            for sentences in options.sentences or SIZES[part]:
                series.add(sentences * words, ways(sentences))
            names = list(ways(2))
            least = 1600 if unit == "words" else 64
            print_series(title, series, names, unit=unit, ratios=ratios, least=least)
            if options.plot:
                plot(series, names, options.plot / f"attention-{part}.png", title=title, unit=unit, least=least)
        elif part == "skew":
            print_skew(512, options.repeats)
        elif part == "memory":
            print_memory(512)
        else:
            print_flops(512, options.repeats)


if __name__ == "__main__":
    main()
