"""What the commands that translate print: hypotheses, word alignments, speed."""

from __future__ import annotations

import contextlib
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TextIO

from docnmt.apps.explain.attention import AlignedPiece, Span, word_pairs
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.search.scheduler import source_lengths
from docnmt.core.search.translate import SentenceResult
from docnmt.runtime.languages import joined
from docnmt.runtime.progress import Progress, how_many
from docnmt.runtime.system import printable


def lines(result: SentenceResult, source: str, reference: str | None, alignments: Sequence[str] = ()) -> Iterator[str]:
    """Yield a sentence's lines: raw source and reference; for each hypothesis its pieces, its text, the piece scores.

    Scores are natural logs; `H-` and `D-` have the length-normalised one.
    """
    number = result.number
    yield f"S-{number}\t{source}"
    if reference is not None:
        yield f"T-{number}\t{reference}"
    for rank, translation in enumerate(result.nbest):
        yield f"H-{number}\t{translation.score:.6f}\t{' '.join(translation.pieces)}"
        yield f"D-{number}\t{translation.score:.6f}\t{translation.text}"
        yield f"P-{number}\t{' '.join(f'{score:.4f}' for score in translation.piece_scores)}"
        if alignments:
            yield f"A-{number}\t{alignments[rank]}"


class Limited:
    """Counts the translations that end at the length limit, and says so on stderr in one line, which names five."""

    def __init__(self) -> None:
        self._searched = self._limited = 0
        self._names: list[str] = []

    def counted(self, results: Iterable[SentenceResult], name: Callable[[int], str]) -> Iterator[SentenceResult]:
        """Yield the results, and count them; `name` gives a sentence's name in the note by its number."""
        for result in results:
            self._searched += 1
            if result.nbest[0].limited:
                self._limited += 1
                if self._limited <= 5:
                    self._names.append(name(result.number))
            yield result

    def note(self) -> None:
        """Print the note if there is anything to say."""
        if self._limited:
            ends = "ends" if self._limited == 1 else "end"
            print(
                f"note: {self._limited:,} of {how_many(self._searched, 'translation')} {ends} at the length limit "
                f"(--max-len-a, --max-len-b), cut off or in repetitions: {', '.join(self._names)}"
                f"{', …' if self._limited > 5 else ''}; see --no-repeat-ngram-size",
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


#: A result, and for each of its translations the pairs of words; empty if not requested.
Aligned = tuple[SentenceResult, list[list[Span]]]


def with_alignments(
    align: Callable[[Sequence[tuple[str, str]]], Sequence[Sequence[AlignedPiece]]], corpus: ParallelCorpus,
    results: Iterator[SentenceResult], *, wanted: bool = True,
) -> Iterator[Aligned]:  # fmt: skip
    """Yield results in the order of the corpus, each document when complete; if not `wanted`, at once and without.

    `align` is `Translating.aligned`.
    """
    if not wanted:
        yield from ((result, []) for result in results)
        return
    offsets = corpus.document_offsets.tolist()
    for _, group in groupby(results, lambda result: bisect_right(offsets, result.number)):
        document = list(group)
        pairs = [(corpus.source_text[result.number], best.text) for result in document for best in result.nbest]
        words = (word_pairs(*pair, pieces) for pair, pieces in zip(pairs, align(pairs), strict=True))
        yield from ((result, list(islice(words, len(result.nbest)))) for result in document)


def pharaoh(pairs: Iterable[Span]) -> str:
    """Format pairs of word numbers, source and target, as `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def aligned_lines(counts: Iterable[int], sources: Sequence[str], aligned: Iterator[Aligned]) -> Iterator[str]:
    """Yield a line for each of `counts` sentences: translation, ` ||| `, pairs of words, numbered in the line."""
    for count in counts:
        texts: list[str] = []
        pairs: list[Span] = []
        read = written = 0
        for result, (words, *_) in islice(aligned, count):
            pairs += [(read + source, written + target) for source, target in words]
            texts += [result.text] if result.text else []
            read, written = read + len(sources[result.number].split()), written + len(result.text.split())
        yield f"{' '.join(texts)} ||| {pharaoh(pairs)}" if count else ""


@dataclass(frozen=True)
class Speed:
    """The speed of translating a corpus; tokens are subwords of the best translations, `</s>` included."""

    seconds: float
    sentences: int
    tokens: int

    def to_dict(self) -> dict[str, float]:
        """Return the entry in `scores.json`."""
        sentences, tokens = round(self.sentences / self.seconds, 2), round(self.tokens / self.seconds, 1)
        return {"seconds": round(self.seconds, 3), "sentences_per_second": sentences, "tokens_per_second": tokens}

    def __str__(self) -> str:
        rates = f"{self.sentences / self.seconds:.1f} sentences/s, {self.tokens / self.seconds:.0f} tokens/s"
        return f"{how_many(self.sentences, 'sentence')} in {self.seconds:.1f} s ({rates})"
