"""Output of `--print-alignment`: the source word of each word of a translation, document by document."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

from docnmt.apps.commands.models import LoadedModels
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.search.translate_corpus import SentenceResult

if TYPE_CHECKING:
    from docnmt.apps.explain.attention_alignment import Span

#: A result, and for each of its translations the pairs of words; empty if not requested.
Aligned = tuple[SentenceResult, list[list["Span"]]]


def with_alignments(
    loaded: LoadedModels, corpus: ParallelCorpus, found: Iterator[SentenceResult], *, wanted: bool = True
) -> Iterator[Aligned]:
    """Yield results in the order of the corpus, each document when complete; if not `wanted`, at once and without.

    A document's alignments depend on this document alone.
    """
    if not wanted:
        yield from ((result, []) for result in found)
        return
    from docnmt.apps.explain.attention_alignment import aligned, read_pairs, word_pairs

    offsets = corpus.document_offsets.tolist()
    for _, group in groupby(found, lambda result: bisect_right(offsets, result.number)):
        results = list(group)
        pairs = [(corpus.source_text[result.number], each.text) for result in results for each in result.nbest]
        pieces = aligned(read_pairs(loaded.models[0], loaded.task, pairs))
        words = (word_pairs(*pair, each) for pair, each in zip(pairs, pieces, strict=True))
        yield from ((result, list(islice(words, len(result.nbest)))) for result in results)


def pharaoh(pairs: Iterable[Span]) -> str:
    """Format pairs of word numbers, source and target, as `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def aligned_lines(counts: Iterable[int], sources: Sequence[str], found: Iterator[Aligned]) -> Iterator[str]:
    """Yield a line for each of `counts` sentences: translation, ` ||| `, pairs of words, numbered in the line."""
    for count in counts:
        texts: list[str] = []
        pairs: list[Span] = []
        read = written = 0
        for result, (words, *_) in islice(found, count):
            pairs += [(read + source, written + target) for source, target in words]
            texts += [result.text] if result.text else []
            read, written = read + len(sources[result.number].split()), written + len(result.text.split())
        yield f"{' '.join(texts)} ||| {pharaoh(pairs)}" if count else ""
