"""Output of translations: fairseq's `S- T- H- D- P-` lines, and a file parallel to the source file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.search.job import source_lengths
from docnmt.core.search.translate_corpus import SentenceResult
from docnmt.runtime.errors import printable
from docnmt.runtime.languages import joined
from docnmt.runtime.progress import Progress, how_many

#: So many translations that end at the length limit are named.
_NAMED = 5


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


class Limited:
    """Counts the translations that end at the length limit, and says so on stderr in one line."""

    def __init__(self) -> None:
        self._searched = self._limited = 0
        self._names: list[str] = []

    def counted(self, results: Iterable[SentenceResult], name: Callable[[int], str]) -> Iterator[SentenceResult]:
        """Yield the results, and count them; `name` gives a sentence's name in the note by its number."""
        for result in results:
            self._searched += 1
            if result.nbest[0].limited:
                self._limited += 1
                if self._limited <= _NAMED:
                    self._names.append(name(result.number))
            yield result

    def note(self) -> None:
        """Print the note if there is anything to say."""
        if self._limited:
            print(
                f"note: {how_many(self._searched, 'translation')}, of which {self._limited:,} end at the length limit "
                f"(--max-len-a, --max-len-b), cut off or in repetitions: {', '.join(self._names)}"
                f"{', …' if self._limited > _NAMED else ''}; see --no-repeat-ngram-size",
                file=sys.stderr,
            )


def beginning(text: str) -> str:
    """Return the beginning of a text, for messages."""
    return f"'{printable(text[:40])}{'…' if len(text) > 40 else ''}'"


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
