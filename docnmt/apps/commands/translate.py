"""docnmt-translate: standard input or files in, their translations out, line by line or in their own format.
Text → sentences (`core/split_sentences`) → search (`core/search`) → text. Formats are in `apps/documents`.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO

from docnmt.apps.commands.output import Limited, aligned_lines, beginning, progress_of, stream_progress, with_alignments
from docnmt.apps.commands.translating import ProtectedText, StdinText, Translating, of_first_sentences, read_document
from docnmt.apps.documents.kinds import ENDINGS, kind_of, read, reader_of
from docnmt.apps.documents.projection import Span
from docnmt.apps.documents.segments import DocumentFile
from docnmt.apps.documents.sentences import SegmentSentence, changing_text, translated
from docnmt.apps.explain.attention import beginnings
from docnmt.apps.explain.explain import ExplainedSentence, check_explain, write_explanation
from docnmt.apps.options import MemoryConfig, ModelsConfig, TranslateConfig
from docnmt.core.corpus import ParallelCorpus, UnknownText, unit_numbers
from docnmt.core.data_options import parse_columns
from docnmt.core.formality import note_formless
from docnmt.core.models.encoder_decoder import TranslationTask
from docnmt.core.read_corpus import TextLines, is_blank, kind_of_line, note_separators, separator
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.scheduler import source_lengths
from docnmt.core.search.translate import SentenceResult
from docnmt.core.split_sentences import RunningText, of_documents, of_sentences, of_table, splitter, whole_lines
from docnmt.options import same_path
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UsageError, UserError, check_new, check_readable, reading, replacing

# Live input: documents that have ended are translated together, and never wait for further input.

#: Characters of ended documents that are translated together: enough for full batches, few enough for endless input.
TOGETHER = 1 << 20
#: Bytes read at once, and seconds to wait for more input before ended documents are translated.
_BLOCK, _MOMENT = 1 << 16, 0.05


class Arriving:
    """A binary stream, read as input arrives, whose ended documents are translated together.

    `translate` gets them from `most` characters on, or before a read that would wait; with None as `most` at the end.
    """

    def __init__(
        self, source: BinaryIO, *, name: str, translate: Callable[[RunningText], object], most: int | None = TOGETHER
    ) -> None:
        self._source, self._name, self._translate, self._most = source, name, translate, most
        self._documents, self._size = list[RunningText](), 0
        self.read, self.ended = 0, False  # bytes so far; True at the end
        self._descriptor: int | None = None
        with suppress(OSError, AttributeError):  # a stream in memory
            self._descriptor = source.fileno()
        status = None if self._descriptor is None else os.fstat(self._descriptor)
        self.size = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None  # of a file

    def _waits(self) -> bool:
        """Return True if nothing has arrived for a moment."""
        try:
            return self._descriptor is not None and not select.select([self._descriptor], [], [], _MOMENT)[0]
        except (OSError, ValueError):  # select does not support it
            return True

    def blocks(self) -> Generator[bytes, None, None]:
        """Yield the input, block by block."""
        read = getattr(self._source, "read1", self._source.read)
        while True:
            if self._waits() and self._most is not None:
                self.flush()
            with reading(self._name):
                block = read(_BLOCK)
            if not block:
                self.ended = True
                return
            self.read += len(block)
            yield block

    def add(self, document: RunningText) -> None:
        """Add a document that has ended, and translate all if there are enough."""
        self._documents.append(document)
        self._size += document.size
        if self._most is not None and self._size >= self._most:
            self.flush()

    def flush(self) -> None:
        """Translate all collected documents."""
        if self._documents:
            together, self._documents, self._size = RunningText.together(self._documents), [], 0
            self._translate(together)


# Text outside of documents as sentences: with given translations, reassembled to lines, protected as in documents.

STDIN = "stdin"


def beside(content: bytes, path: Path, *, marks: bool, option: str = "--given") -> list[str]:
    """Read the lines of `--given` or `--prefix`; with `marks`, both texts have `<d>` and `<p>` lines, as corpora do."""
    lines, given = list(_lines(content)), list(TextLines(path))
    if len(given) != len(lines):
        raise UserError(
            f"{option} {path}: {len(given):,} lines, and {STDIN} has {len(lines):,}; expected one for each line, empty "
            "where there is none"
        )
    for number, (line, translation) in enumerate(zip(lines, given, strict=True), 1):
        where = f"{option} {path}:{number}: '{translation[:40]}'"
        if is_blank(line) and not is_blank(translation):
            raise UserError(f"{where} translates an empty line of {STDIN}")
        kind, own_kind = (kind_of_line(text) for text in (line, translation))
        if marks and own_kind not in ("", kind):
            wanted = "a translation" if kind == "text" else kind
            raise UserError(f"{where} is beside '{line[:40]}' of {STDIN}; expected {wanted} or an empty line")
    return given


def _lines(content: bytes) -> TextLines:
    return TextLines(io.BytesIO(content), name=STDIN)


def read_corpus(
    content: bytes, given: Sequence[str] | None, task: TranslationTask, prefixes: Sequence[str] | None = None
) -> StdinText:
    """Read the plain form of a corpus: one sentence per line, empty lines between documents."""
    kinds = [kind_of_line(line) for line in _lines(content)]
    texts, begins = (
        [text for kind, text in zip(kinds, lines or [""] * len(kinds), strict=True) if kind == "text"]
        for lines in (given, prefixes)
    )
    cut, waiting, translations, counts = whole_lines(), iter(texts), list[str | None](), list[int]()

    def split(line: str) -> list[str]:
        translation = next(waiting, "")
        pieces = cut(line) if is_blank(translation) else [line]
        translations.extend([None if is_blank(translation) else translation] * len(pieces))
        counts.append(len(pieces))
        return pieces

    form = RunningText.together(of_sentences(_lines(content), split))
    corpus = ParallelCorpus.from_documents(form.documents, task.source_tokenizer)
    begins_of_all = None if prefixes is None else of_first_sentences(begins, counts)
    return StdinText(corpus, form, translations, translations, begins_of_all)


# The command `docnmt-translate FILE…`: translate documents into documents of the same kind.


def translate_files(
    out: TextIO, config: TranslateConfig, models: ModelsConfig, memory: MemoryConfig, options: GenerationConfig,
    search: SearchConfig,
) -> None:  # fmt: skip
    """Translate every file; each translation is written completely or not at all, to `out` if no name is given."""
    jobs = _jobs(config)
    check_explain(config.explain, overwrite=config.overwrite)
    for source, target in jobs:
        for path in filter(None, (source, target)):
            if same_path(config.explain, str(path)):
                raise UsageError(f"--explain {config.explain}: is {path}, a document; give another name")
    translating = Translating.open(models, memory, options, search)
    task = translating.loaded.task
    for source, _ in jobs[1:]:  # a damaged file is reported before the first is translated
        _document(source, task)
    pages: list[list[ExplainedSentence]] = []
    unknown = UnknownText(task.source_tokenizer)
    model = DocumentModel(translating, out)
    for source, target in jobs:
        if config.explain is not None:
            pages.append([])
            model = replace(model, page=pages[-1])
        document = _document(source, task)
        if lines := ", ".join(str(line) for line in document.left if isinstance(line, int)):
            why = "stays as it is: its markup cannot be told from its text"
            print(f"note: {source}: what begins in line {lines} {why}", file=sys.stderr)
        if parts := "; ".join(part for part in document.left if isinstance(part, str)):
            print(f"note: {source}: stays as it is: {parts}", file=sys.stderr)
        changing = [text for text in map(changing_text, document.segments) if text]
        unknown.add(ParallelCorpus.from_lines([changing], task.source_tokenizer))
        split, split_target = (splitter(config.splitter, language) for language in task.languages)
        texts = translated(
            document, model, split=split, split_target=split_target, align=model.align, protect=config.protect
        )
        content = document.write(texts)
        for note in document.notes:
            print(f"note: {source}: {note}", file=sys.stderr)
        if target is None:
            out.flush()
            out.buffer.write(content)
            out.buffer.flush()
        else:
            with replacing(target) as temporary:
                temporary.write_bytes(content)
            print(f"{target}: written, the translation of {source}", file=sys.stderr)
    unknown.warn()
    model.limited.note()
    if config.explain is not None:
        write_explanation(Path(config.explain), pages, translating.loaded)


def _jobs(config: TranslateConfig) -> list[tuple[Path, Path | None]]:
    """Return each file and the path of its translation, checked before any work."""
    sources = [Path(name) for name in config.files]
    for source in sources:
        if source.is_dir():
            raise UserError(f"{source}: is a folder; give the documents in it: {source}/*.docx")
        kind_of(str(source))
        check_readable(source)
    if config.output is None:
        return [(source, None) for source in sources]
    out = Path(config.output)
    if len(sources) > 1 or out.is_dir() or config.output.endswith("/"):
        if out.exists() and not out.is_dir():
            raise UserError(f"{out}: is a file; several documents go into a folder, choose another name")
        if out.suffix.lower() in ENDINGS and not out.is_dir() and not config.output.endswith("/"):
            raise UsageError(f"-o {out}: is named like one document; several go into a folder, for one give {out}/")
        targets = [out / source.name for source in sources]
    else:
        targets = [out]
        if kind_of(str(out)) != kind_of(str(sources[0])):
            raise UsageError(f"-o {out}: a document keeps its kind, and {sources[0]} is .{kind_of(str(sources[0]))}")
    if len(set(targets)) < len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise UsageError(f"-o {out}: two of the files would be {twice}; translate them into two folders")
    lost = [path for path in sources if not reader_of(kind_of(str(path)), name=str(path)).bilingual]  # were it replaced
    for target in targets:
        check_new(target, overwrite=config.overwrite, reads=lost)
    return list(zip(sources, targets, strict=True))


def _document(path: Path, task: TranslationTask) -> DocumentFile:
    with reading(path):
        content = path.read_bytes()
    return read(content, kind_of(str(path)), name=str(path), source_lang=task.source_lang, target_lang=task.target_lang)


@dataclass(frozen=True, eq=False)
class DocumentModel:
    """Models that translate the sentences of one document at a time."""

    translating: Translating
    out: TextIO | None = None
    page: list[ExplainedSentence] | None = None  # collects what was read, if this is wanted
    limited: Limited = field(default_factory=Limited)

    def __call__(self, sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        """Yield the translation of each sentence without a given one, in order; given translations are read."""
        given = [sentence.given for sentence in sentences]
        corpus = self.translating.tagged(corpus_of(sentences, self.translating.loaded.task), given)
        wanted = self.page == []  # later calls only translate parts again
        results: list[SentenceResult] = []
        with progress_of(corpus, self.out) as progress:
            fixed = [sentence.fixed for sentence in sentences]
            searched = self.translating.results(corpus, given, fixed=fixed, progress=progress)
            for result in self.limited.counted(searched, lambda number: beginning(sentences[number].text)):
                if wanted:
                    results.append(result)
                yield result.text
        if self.page is not None and wanted:
            (document,) = self.translating.explained(corpus, results, given)
            self.page.extend(document)

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """Return, for sentences and their translations, the characters where aligned subwords begin."""
        return [*map(beginnings, self.translating.aligned(pairs))]


def corpus_of(sentences: Sequence[SegmentSentence], task: TranslationTask) -> ParallelCorpus:
    """Return the sentences of one document, with the levels that the task's models know."""
    corpus = ParallelCorpus.from_lines([[sentence.text for sentence in sentences]], task.source_tokenizer)
    known = getattr(task, "known_levels", 0)  # a plug-in's task may lack it
    if known and sentences:
        corpus = replace(corpus, levels=unit_numbers([sentence.units[-known:] for sentence in sentences]))
    return corpus


# The command `docnmt-translate` on stdin: text in, text out, row by row, each document when it has ended.


def translate_stream(
    source: BinaryIO, out: TextIO, config: TranslateConfig, models: ModelsConfig, memory: MemoryConfig,
    options: GenerationConfig, search: SearchConfig,
) -> None:  # fmt: skip
    """Translate a whole stream; every line of it becomes one line of `out`, written as soon as it is ready.

    A document is translated when it has ended and the input pauses, or when much has arrived; `--given` waits for all.
    """
    check_explain(config.explain, overwrite=config.overwrite)
    if options.formality == "given" and config.given is None:
        raise UsageError("--formality given: no translations are given; give --given FILE, too")
    translating = Translating.open(models, memory, options, search)
    loaded = translating.loaded
    if config.given is not None:
        loaded.note_unread("--given", options.formality)
    with stream_progress(out) as progress:
        stream = _Stream(translating, config, out, progress)
        if config.input_format == "text" or config.given is not None or config.prefix is not None:
            with reading(STDIN):
                content = b"".join(_plain(iter([source.read()])))
            running = config.input_format == "text"
            given, prefixes = (
                None if path is None else beside(content, Path(path), marks=not running, option=option)
                for option, path in (("--given", config.given), ("--prefix", config.prefix))
            )
            for number, (translation, begin) in enumerate(zip(given or (), prefixes or (), strict=False), 1):
                if not (is_blank(translation) or is_blank(begin)):
                    where = f"--prefix {config.prefix}:{number}: '{begin[:40]}'"
                    raise UserError(f"{where} is beside a translation that --given has; leave one of them empty")
            if running:
                lines = list(_lines(content))
                text = read_document(lines, given, config.splitter, loaded.task, prefixes=prefixes)
            else:
                text = read_corpus(content, given, loaded.task, prefixes)
            stream.translate(text, ends=True)
        else:
            _translate_arriving(source, config, stream)
        stream.unknown.warn()
        if stream.separated:
            print(f"note: {note_separators(STDIN, *stream.separated)}", file=sys.stderr)
        stream.limited.note()
    if config.explain is not None:
        write_explanation(Path(config.explain), stream.pages, loaded)


class _Stream:
    """Translates the parts of a stream, one after the other."""

    def __init__(
        self, translating: Translating, config: TranslateConfig, out: TextIO, progress: Progress | None
    ) -> None:
        self.translating, self._config, self._out, self._progress = translating, config, out, progress
        self._sentences = self._subwords = 0
        self.unknown = UnknownText(translating.loaded.task.source_tokenizer)
        self.limited = Limited()
        self.separated: tuple[int, str] | None = None  # how many sentences have other toolkits' signs, and the first
        self.pages: list[list[ExplainedSentence]] = []

    def translate(self, text: StdinText, *, ends: bool, share: float | None = None) -> None:
        """Translate and write a part."""
        translating, config, progress = self.translating, self._config, self._progress
        task, on = translating.loaded.task, config.protect
        protected = ProtectedText(text.corpus, text.given, task, prefixes=text.prefixes, on=on)
        self.unknown.add(protected.changing())
        for sentence in text.corpus.source_text:
            if sign := separator(sentence):
                count, first = self.separated or (0, f"'{sign}' in '{sentence[:40]}'")
                self.separated = count + 1, first
        corpus = translating.tagged(text.corpus, text.given)
        if translating.options.formality == "given" and (note := note_formless(text.corpus, corpus)):
            print(note, file=sys.stderr)
        self._subwords += int(source_lengths(corpus).sum())
        if progress is not None:
            progress.total = self._subwords if ends else None if share is None else int(self._subwords / share)
        searched = protected.results(
            translating, corpus, before=self._sentences, progress=None if progress is None else progress.update
        )
        searched = self.limited.counted(searched, lambda number: beginning(corpus.source_text[number]))
        results: list[SentenceResult] = []
        if config.explain is not None:
            searched = _recorded(searched, results)
        if config.print_alignment:
            aligned = with_alignments(translating.aligned, text.corpus, searched)
            lines = aligned_lines(chain.from_iterable(text.form.rows), text.corpus.source_text, aligned)
        else:
            lines = text.form.joined(text.written(searched))
        for line in lines:
            print(line, file=self._out, flush=True)
        self._sentences += corpus.num_sentences
        if config.explain is not None:
            self.pages += translating.explained(corpus, results, text.given)


def _recorded(results: Iterator[SentenceResult], record: list[SentenceResult]) -> Iterator[SentenceResult]:
    for result in results:
        record.append(result)
        yield result


def _translate_arriving(source: BinaryIO, config: TranslateConfig, stream: _Stream) -> None:
    """Translate documents as they arrive; with a memory of the next document, all at the end."""
    task, memory = stream.translating.loaded.task, stream.translating.memory

    def translate(form: RunningText) -> None:
        corpus = ParallelCorpus.from_documents(form.documents, task.source_tokenizer)
        nothing = [None] * corpus.num_sentences
        share = arriving.read / arriving.size if arriving.size else None
        stream.translate(StdinText(corpus, form, nothing, nothing), ends=arriving.ended, share=share)

    most = None if memory is not None and memory.foreign else TOGETHER
    arriving = Arriving(source, name=STDIN, translate=translate, most=most)
    for document in _parts(TextLines(_plain(arriving.blocks()), name=STDIN), config, task):
        arriving.add(document)
    arriving.flush()


def _parts(lines: TextLines, config: TranslateConfig, task: TranslationTask) -> Iterator[RunningText]:
    """Yield the documents of a stream, each when it has ended."""
    if config.input_format == "corpus":
        return of_sentences(lines, whole_lines())
    split = splitter(config.splitter, task.source_lang)
    if config.input_format == "lines":
        return of_documents(lines, split)
    return of_table(lines, config.input_format, parse_columns(config.columns)[0], task.source_lang, split)


def _plain(blocks: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Yield the blocks of a stream after checking its beginning."""
    first = next(blocks, b"")
    if first.startswith(b"PK\x03\x04"):
        advice = "give it as a file: docnmt-translate IN.docx -o OUT.docx"
        raise UserError(f"{STDIN}: is a ZIP file, such as DOCX or ODT; {advice}")
    if first.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        raise UserError(f"{STDIN}: is compressed; unpack it first: zcat FILE.gz | docnmt-translate ...")
    yield first
    yield from blocks
