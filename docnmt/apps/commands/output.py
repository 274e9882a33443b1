"""Output of translations: fairseq's `S- T- H- D- P-` lines, and a file parallel to the source file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.search.job import source_lengths
from docnmt.core.search.translate_corpus import SentenceResult
from docnmt.runtime.languages import joined
from docnmt.runtime.progress import Progress


def lines(result: SentenceResult, source: str, reference: str | None, alignments: Sequence[str] = ()) -> Iterator[str]:
    """Yield a sentence's lines: raw source and reference; for each hypothesis its pieces, its text, the piece scores.

    Scores are natural logs; `H-` and `D-` have the length-normalised one. `alignments`: of the hypotheses, if
    requested. for.
    """
    number = result.number
    yield f"S-{number}\t{source}"
    if reference is not None:
        yield f"T-{number}\t{reference}"
    for place, found in enumerate(result.nbest):
        yield f"H-{number}\t{found.score:.6f}\t{' '.join(found.pieces)}"
        yield f"D-{number}\t{found.score:.6f}\t{found.text}"
        yield f"P-{number}\t{' '.join(f'{score:.4f}' for score in found.piece_scores)}"
        if alignments:
            yield f"A-{number}\t{alignments[place]}"


def sentences_of_lines(corpus: ParallelCorpus) -> list[int]:
    """Return the number of sentences in each line of the corpus's source file: 1, or 0 for lines between documents."""
    counts: list[int] = []
    for document, blanks in enumerate(corpus.blank_lines.tolist()):
        sentences = corpus.document_offsets[document : document + 2]
        counts += [0] * blanks + [1] * int(sentences[-1] - sentences[0])
    return counts


def write_lines(counts: Sequence[int], texts: Iterator[str], out: TextIO) -> None:
    """Write a line for each of `counts`: that many of the next `texts`, joined, as soon as they are ready."""
    for count in counts:
        print(joined(next(texts) for _ in range(count)), file=out, flush=True)


@contextlib.contextmanager
def progress_of(corpus: ParallelCorpus, out: TextIO | None) -> Iterator[Callable[[int], object] | None]:
    """Show a bar on stderr while a corpus is translated; none if the results go to the terminal."""
    with stream_progress(out) as bar:
        if bar is not None:
            bar.total = int(source_lengths(corpus).sum())
        yield None if bar is None else bar.update


@contextlib.contextmanager
def stream_progress(out: TextIO | None) -> Iterator[Progress | None]:
    """Show a bar for the translation of a stream, whose total is not known at first; none on a terminal."""
    if out is not None and out.isatty():
        yield None
        return
    with Progress(None, "translating", unit="tok") as bar:
        yield bar
