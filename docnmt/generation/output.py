"""How translations are written: fairseq's `S- T- H- D- P-` lines, and a file that follows the source line by line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TextIO

from docnmt.data.corpus import ParallelCorpus
from docnmt.generation.translate import SentenceResult, source_lengths
from docnmt.progress import Progress


def lines(result: SentenceResult, source: str, reference: str | None) -> Iterator[str]:
    """A sentence's lines: raw source and reference, and of each hypothesis its pieces, its text, its pieces' scores.

    Scores are natural logs; `H-` and `D-` carry the length-normalised one.
    """
    number = result.number
    yield f"S-{number}\t{source}"
    if reference is not None:
        yield f"T-{number}\t{reference}"
    for found in result.nbest:
        yield f"H-{number}\t{found.score:.6f}\t{' '.join(found.pieces)}"
        yield f"D-{number}\t{found.score:.6f}\t{found.text}"
        yield f"P-{number}\t{' '.join(f'{score:.4f}' for score in found.piece_scores)}"


def hypotheses_text(corpus: ParallelCorpus, texts: Sequence[str]) -> str:
    """The translations (S,) as a file whose lines are the source file's, its empty lines included."""
    offsets, blanks = corpus.document_offsets.tolist(), corpus.blank_lines.tolist()
    rows: list[str] = []
    for document, (first, last) in enumerate(pairwise(offsets)):
        rows += [""] * blanks[document] + list(texts[first:last])
    rows += [""] * blanks[-1]
    return "".join(f"{row}\n" for row in rows)


@contextlib.contextmanager
def progress_of(corpus: ParallelCorpus, out: TextIO | None) -> Iterator[Callable[[int], object] | None]:
    """A bar on stderr for translating a corpus; none where the results themselves run over the terminal."""
    if out is not None and out.isatty():
        yield None
        return
    with Progress(int(source_lengths(corpus).sum()), "translating", unit="tok") as bar:
        yield bar.update
