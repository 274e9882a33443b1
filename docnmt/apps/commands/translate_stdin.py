"""The command `docnmt-translate` on stdin: text in, text out, row by row, each document when it has ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from docnmt.apps.commands.config import MemoryConfig, ModelsConfig, TranslateConfig
from docnmt.apps.commands.live_input import TOGETHER, Arriving, Gathered
from docnmt.apps.commands.models import LoadedModels, load_models, open_memory
from docnmt.apps.commands.output import (
    Limited,
    aligned_lines,
    beginning,
    check_explain,
    explained,
    stream_progress,
    with_alignments,
    write_explained,
)
from docnmt.apps.commands.stdin_text import STDIN, ProtectedText, StdinText, beside, read_corpus, read_document
from docnmt.core.batching.formality import note_formless
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.unknown_text import UnknownText
from docnmt.core.formats.columns import parse_columns
from docnmt.core.formats.plain_text import note_separators, separator
from docnmt.core.formats.running_text import RunningText, of_documents, of_sentences, of_table
from docnmt.core.formats.split_sentences import splitter, whole_lines
from docnmt.core.formats.text_lines import TextLines
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.job import source_lengths
from docnmt.core.search.terms import opened_glossary
from docnmt.core.search.translate_corpus import SentenceResult, translate_corpus
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.progress import Progress

if TYPE_CHECKING:
    from docnmt.apps.explain.explain_page import ExplainedSentence


def translate_stream(
    source: BinaryIO,
    out: TextIO,
    config: TranslateConfig,
    models: ModelsConfig,
    memory: MemoryConfig,
    options: GenerationConfig,
    search: SearchConfig,
) -> None:
    """Translate a whole stream; every line of it becomes one line of `out`, written as soon as it is ready.

    A document is translated when it has ended and the input pauses, or when much has arrived; `--given`, and a memory
    for the next document, wait for the end.

    Raises:
        UserError: the models cannot be loaded, or a text is not valid UTF-8 in its format (the message names the line);
            or `--given` does not fit the stream.
    """
    check_explain(config.explain, overwrite=config.overwrite)
    if options.formality == "given" and config.given is None:
        raise UsageError("--formality given: no translations are given; give --given FILE, too")
    loaded = load_models(models)
    loaded.check_formality(options.formality)
    if config.given is not None:
        loaded.note_unread("--given", options.formality)
    recalled = open_memory(memory, loaded)
    read: dict[str, Any] = {"memory": recalled, "context_window": models.context_window}
    with stream_progress(out) as progress:
        translating = _Translating(
            loaded,
            options,
            search,
            read,
            out,
            progress,
            explain=config.explain is not None,
            align=config.print_alignment,
            protect=config.protect,
        )
        if config.input_format == "text" or config.given is not None:
            content = _content(source)
            running = config.input_format == "text"
            given = None if config.given is None else beside(content, Path(config.given), marks=not running)
            if running:
                text = read_document(content, given, config.splitter, loaded.task)
            else:
                text = read_corpus(content, given, loaded.task)
            translating.translate(text, ends=True)
        else:
            whole = recalled is not None and recalled.foreign
            _translate_arriving(source, config, translating, loaded.task, most=None if whole else TOGETHER)
        translating.unknown.warn()
        if translating.separated:
            print(f"note: {note_separators(STDIN, *translating.separated)}", file=sys.stderr)
        translating.limited.note()
    if config.explain is not None:
        write_explained(config.explain, loaded, translating.pages)


class _Translating:
    """Translates the parts of a stream, one after the other.

    Attributes:
        unknown: text that the models do not know. limited: translations that end at the length limit. separated: how
            many sentences have signs of other toolkits between sentences, and the first. pages: documents for
            `--explain`.
    """

    def __init__(
        self, loaded: LoadedModels, options: GenerationConfig, search: SearchConfig, read: dict[str, Any],
        out: TextIO, progress: Progress | None, *, explain: bool, align: bool, protect: bool,
    ) -> None:  # fmt: skip
        self._loaded, self._options, self._search, self._read = loaded, options, search, read
        self._out, self._progress, self._explain, self._align = out, progress, explain, align
        self._protect = protect
        self._glossary = opened_glossary(options)
        self._sentences = self._subwords = 0
        self.unknown = UnknownText(loaded.task.source_tokenizer)
        self.limited = Limited()
        self.separated: tuple[int, str] | None = None
        self.pages: list[list[ExplainedSentence]] = []

    def translate(self, text: StdinText, *, ends: bool, share: float | None = None) -> None:
        """Translate and write a part.

        Args:
            ends: True if it is the last. share: the share of the stream that has been read.
        """
        loaded, read = self._loaded, {"given": text.given, **self._read}
        protected = ProtectedText(text.corpus, text.given, loaded.task, on=self._protect)
        self.unknown.add(protected.changing())
        for sentence in text.corpus.source_text:
            if sign := separator(sentence):
                count, first = self.separated or (0, f"'{sign}' in '{sentence[:40]}'")
                self.separated = count + 1, first
        corpus = loaded.told(text.corpus, self._options.formality, text.given)
        if self._options.formality == "given" and (note := note_formless(text.corpus, corpus)):
            print(note, file=sys.stderr)
        self._subwords += int(source_lengths(corpus).sum())
        if self._progress is not None:
            self._progress.total = self._subwords if ends else None if share is None else int(self._subwords / share)
        results: list[SentenceResult] = []

        def kept(found: Iterator[SentenceResult]) -> Iterator[SentenceResult]:
            for result in found:
                if self._explain:
                    results.append(result)
                yield result

        def again(pieces: ParallelCorpus, given: Sequence[str | None]) -> Iterator[SentenceResult]:
            told = loaded.told(pieces, self._options.formality, given)
            return self._searched(told, given, None)

        found = self._searched(
            corpus, protected.given, protected.fixed, None if self._progress is None else self._progress.update
        )
        found = self.limited.counted(
            protected.results(found, again), lambda number: beginning(corpus.source_text[number])
        )
        for line in self._lines(text, kept(found)):
            print(line, file=self._out, flush=True)
        self._sentences += corpus.num_sentences
        if self._explain:
            self.pages += explained(loaded, corpus, results, **read)

    def _searched(
        self,
        corpus: ParallelCorpus,
        given: Sequence[str | None] | None,
        fixed: Sequence[Sequence[tuple[int, int]]] | None,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[SentenceResult]:
        """Return the results of a search for the sentences that are not given."""
        return translate_corpus(
            self._loaded.models,
            self._loaded.task,
            corpus,
            self._options,
            self._search,
            given=given,
            glossary=self._glossary,
            fixed=fixed,
            before=self._sentences,
            progress=progress,
            **self._read,
        )

    def _lines(self, text: StdinText, found: Iterator[SentenceResult]) -> Iterator[str]:
        """Return the lines of a part of the stream, with their alignments if requested."""
        if not self._align:
            return text.form.joined(text.written(found))
        aligned = with_alignments(self._loaded, text.corpus, found)
        return aligned_lines(chain.from_iterable(text.form.rows), text.corpus.source_text, aligned)


def _translate_arriving(
    source: BinaryIO, config: TranslateConfig, translating: _Translating, task: TranslationTask, *, most: int | None
) -> None:
    """Translate documents as they arrive; `most` as in `Gathered`."""

    def translate(form: RunningText) -> None:
        corpus = ParallelCorpus.from_documents(form.documents, task.source_tokenizer)
        nothing = [None] * corpus.num_sentences
        share = None if not arriving.size else arriving.read / arriving.size
        translating.translate(StdinText(corpus, form, nothing, nothing), ends=arriving.ended, share=share)

    gathered = Gathered(translate, most=most)
    arriving = Arriving(source, name=STDIN, idle=gathered.idle)
    lines = TextLines(_plain(arriving.blocks()), name=STDIN)
    for part in _parts(lines, config, task):
        gathered.add(part)
    gathered.flush()


def _parts(lines: TextLines, config: TranslateConfig, task: TranslationTask) -> Iterator[RunningText]:
    """Yield the documents of a stream, each when it has ended."""
    if config.input_format == "corpus":
        return of_sentences(lines, whole_lines())
    split = splitter(config.splitter, task.source_lang)
    if config.input_format == "lines":
        return of_documents(lines, split)
    return of_table(lines, config.input_format, parse_columns(config.columns)[0], task.source_lang, split)


def _content(source: BinaryIO) -> bytes:
    """Read all of a stream.

    Raises:
        UserError: it cannot be read, or is no text.
    """
    try:
        return b"".join(_plain(iter([source.read()])))
    except OSError as error:
        raise UserError(f"{STDIN}: cannot be read: {error.strerror or error}") from error


def _plain(blocks: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Yield the blocks of a stream after checking its beginning.

    Raises:
        UserError: it is an office document or compressed.
    """
    first = next(blocks, b"")
    if first.startswith(b"PK\x03\x04"):
        raise UserError(
            f"{STDIN}: is a ZIP file, such as DOCX or ODT; give it as a file: docnmt-translate IN.docx -o OUT.docx"
        )
    if first.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        raise UserError(f"{STDIN}: is compressed; unpack it first: zcat FILE.gz | docnmt-translate ...")
    yield first
    yield from blocks
