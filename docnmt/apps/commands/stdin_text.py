"""Text outside of documents as sentences: with given translations, reassembled to lines, protected as in documents."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from docnmt.apps.documents.document_sentences import accept, piece_by_piece, pieces_of
from docnmt.apps.documents.segment import Segment
from docnmt.apps.documents.segment_parts import SegmentPart
from docnmt.apps.documents.untranslatable import between, fixed_spans
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.formats.plain_text import kind_of_line
from docnmt.core.formats.running_text import RunningText, of_sentences
from docnmt.core.formats.split_sentences import splitter, whole_lines
from docnmt.core.formats.text_lines import TextLines, is_blank
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.translate_corpus import SentenceResult, Translation
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import one_line

STDIN = "stdin"


@dataclass(frozen=True, eq=False)
class StdinText:
    """Running text as a corpus.

    Attributes:
        form: reassembles the translations of its sentences.
        given: for each sentence its translation, or None. printed: the output for it, if it is given.
    """

    corpus: ParallelCorpus
    form: RunningText
    given: Sequence[str | None]
    printed: Sequence[str | None]

    def written(self, results: Iterator[SentenceResult]) -> Iterator[str]:
        """Yield the output for each sentence; `results` are those of the searched sentences."""
        for text in self.printed:
            yield next(results).text if text is None else text


#: A search for the translations of a corpus's sentences, some of which are given.
Search = Callable[[ParallelCorpus, Sequence[str | None]], Iterator[SentenceResult]]


class ProtectedText:
    """Sentences whose placeholders, addresses, tags and the like come through as in documents.

    The model reads them as they are. A sentence whose translation does not have all of them is translated again,
    between them, with all other translations of its document given. A sentence of nothing else stays as it is.

    Args:
        given: for each sentence its translation, or None. on: False: nothing is protected.

    Attributes:
        given: the same, with the sentences that stay as they are. fixed: what is protected of each sentence.
        whole: the numbers of the sentences that stay as they are.
    """

    def __init__(
        self, corpus: ParallelCorpus, given: Sequence[str | None] | None, task: TranslationTask, *, on: bool = True
    ) -> None:
        self._corpus, self._task = corpus, task
        self._known = [None] * corpus.num_sentences if given is None else list(given)
        self.given: Sequence[str | None] | None = given
        self.fixed: list[list[tuple[int, int]]] | None = None
        self.whole: frozenset[int] = frozenset()
        self._parts: dict[int, SegmentPart] = {}
        if not on:
            return
        self.fixed = [fixed_spans(text) for text in corpus.source_text]
        self._parts = {
            number: SegmentPart(Segment(text), 0, len(text), fixed=self.fixed[number], number=number)
            for number, text in enumerate(corpus.source_text)
            if self.fixed[number] and self._known[number] is None
        }
        self.whole = frozenset(n for n, part in self._parts.items() if not pieces_of(part))
        if self.whole:
            self.given = [self._parts[n].source if n in self.whole else text for n, text in enumerate(self._known)]

    def changing(self) -> ParallelCorpus:
        """Return what translations may lose of the sentences: their text without what is protected, if anything is."""
        if not self._parts:
            return self._corpus
        texts = [
            " ".join(" ".join(between(text, self._parts[n].fixed)).split()) if n in self._parts else text
            for n, text in enumerate(self._corpus.source_text)
        ]
        return ParallelCorpus.from_lines([[text for text in texts if text]], self._task.source_tokenizer)

    def unchanged(self, number: int) -> Translation:
        """Return the translation of a sentence that stays as it is."""
        return Translation.of_given(self._parts[number].source, self._task.target_tokenizer)

    def kept(self, number: int, translation: Translation) -> bool:
        """Return whether all that is protected of a sentence is in its translation."""
        return number not in self._parts or accept(self._parts[number], translation.text)

    def again(self, lost: Sequence[int], found: Mapping[int, Translation]) -> tuple[ParallelCorpus, list[str | None]]:
        """Return the documents of sentences that lost something, with these in pieces and all others given.

        Args:
            found: the translations of all sentences of these documents that were not given.
        """
        offsets, known = self._corpus.document_offsets.tolist(), self._known
        documents: list[list[str]] = []
        given: list[str | None] = []
        numbers: list[int] = []
        wanted = frozenset(lost)
        for document in sorted({bisect_right(offsets, number) - 1 for number in lost}):
            documents.append([])
            for number in range(offsets[document], offsets[document + 1]):
                pieces = pieces_of(self._parts[number]) if number in wanted else [self._corpus.source_text[number]]
                text = found[number].text if known[number] is None and number not in wanted else known[number]
                documents[-1] += pieces
                given += [text] * len(pieces)
                numbers += [number] * len(pieces)
        corpus = ParallelCorpus.from_lines(documents, self._task.source_tokenizer)
        return replace(corpus, levels=self._corpus.levels[numbers]), given

    def joined(self, number: int, pieces: Iterator[Translation]) -> Translation:
        """Return the translation of a sentence from those of its pieces; its score is their mean."""
        part = self._parts[number]
        parts = list(islice(pieces, len(pieces_of(part))))
        piece_by_piece(part, iter([each.text for each in parts]))
        text = part.text or ""
        tokens = tuple(self._task.target_tokenizer.pieces(self._task.target_tokenizer.encode([text])[0]))
        sizes = [len(each.pieces) + 1 for each in parts]
        score = sum(each.score * size for each, size in zip(parts, sizes, strict=True)) / sum(sizes)
        limited = next((piece for piece in parts if piece.limited), parts[0])
        return replace(limited, text=text, pieces=tokens, score=score, piece_scores=(0.0,) * len(tokens))

    def results(self, found: Iterator[SentenceResult], search: Search) -> Iterator[SentenceResult]:
        """Yield the results of a search for all sentences that were not given, in order.

        From the first that lost something on they wait for the end, when this is searched again in pieces.
        """
        held: dict[int, Translation] = {}
        lost: list[int] = []
        ready = dict[int, Translation]()
        for number in (n for n, text in enumerate(self._known) if text is None):
            if number in self.whole:
                best = self.unchanged(number)
                result = SentenceResult(number, (best,))
            else:
                result = next(found)
                best = result.nbest[0]
                if not self.kept(number, best):
                    lost.append(number)
            if self._parts:
                ready[number] = best
            if lost:
                held[number] = best
            else:
                yield result
        if next(found, None) is not None:
            raise ValueError("more translations than sentences")
        if lost:
            pieces = (result.nbest[0] for result in search(*self.again(lost, ready)))
            joined = {number: self.joined(number, pieces) for number in lost}
            for number, best in held.items():
                yield SentenceResult(number, (joined.get(number, best),))


def beside(content: bytes, path: Path, *, marks: bool) -> list[str]:
    """Read the lines of `--given`; with `marks`, both texts have `<d>` and `<p>` lines, as corpora do.

    Raises:
        UserError: their number differs from that of stdin, or one of them translates a line that is no text.
    """
    lines, given = list(_lines(content)), list(TextLines(path))
    if len(given) != len(lines):
        raise UserError(
            f"--given {path}: {len(given):,} lines, and {STDIN} has {len(lines):,}; expected one for each, empty where "
            "there is no translation yet"
        )
    for number, (line, translation) in enumerate(zip(lines, given, strict=True), 1):
        here = f"--given {path}:{number}: '{translation[:40]}'"
        if is_blank(line) and not is_blank(translation):
            raise UserError(f"{here} translates an empty line of {STDIN}")
        kind, own = (kind_of_line(each) for each in (line, translation))
        if marks and own not in ("", kind):
            wanted = "a translation" if kind == "text" else kind
            raise UserError(f"{here} is beside '{line[:40]}' of {STDIN}; expected {wanted} or an empty line")
    return given


def _lines(content: bytes, name: str = STDIN) -> TextLines:
    return TextLines(io.BytesIO(content), name=name)


def read_document(
    content: bytes, given: Sequence[str] | None, rules: str, task: TranslationTask, *, name: str = STDIN,
    whole: bool = False,
) -> StdinText:  # fmt: skip
    """Read one document, its lines split into sentences; with `whole`, each line is one.

    A line with a given translation is split if both have equally many sentences, else it is read as one sentence.

    Raises:
        UserError: the text, called `name` in messages, is not valid UTF-8; the message names the line.
    """
    sentences: list[str] = []
    texts: list[str | None] = []
    printed: list[str | None] = []
    counts: list[int] = []
    split, split_target = (
        whole_lines() if whole else splitter(rules, language) for language in (task.source_lang, task.target_lang)
    )
    lines = list(_lines(content, name))
    for line, translation in zip(lines, given or [""] * len(lines), strict=True):
        found = split(line)
        if is_blank(translation):
            texts += [None] * len(found)
            printed += [None] * len(found)
        else:
            parts = split_target(translation)
            if len(parts) != len(found):
                found, parts = [one_line(line)], [one_line(translation)]
            texts += parts
            printed += [translation, *[""] * (len(found) - 1)]
        sentences += found
        counts.append(len(found))
    corpus = ParallelCorpus.from_lines([sentences], task.source_tokenizer)
    return StdinText(corpus, RunningText.of(counts), texts, printed)


def read_corpus(content: bytes, given: Sequence[str] | None, task: TranslationTask) -> StdinText:
    """Read the plain form of a corpus: one sentence per line, empty lines between documents."""
    texts: list[str] = []
    if given is not None:
        kinds = [kind_of_line(line) for line in _lines(content)]
        texts = [translation for kind, translation in zip(kinds, given, strict=True) if kind == "text"]
    cut, waiting, translations = whole_lines(), iter(texts), list[str | None]()

    def split(line: str) -> list[str]:
        """Return a line with a translation as one sentence, and cut others if they are too long."""
        translation = next(waiting, "")
        pieces = cut(line) if is_blank(translation) else [line]
        translations.extend([None if is_blank(translation) else translation] * len(pieces))
        return pieces

    form = RunningText.together(of_sentences(_lines(content), split))
    corpus = ParallelCorpus.from_documents(form.documents, task.source_tokenizer)
    return StdinText(corpus, form, translations, translations)
