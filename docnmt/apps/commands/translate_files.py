"""The command `docnmt-translate FILE…`: translate documents into documents of the same kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TextIO

from docnmt.apps.commands.config import MemoryConfig, ModelsConfig, TranslateConfig
from docnmt.apps.commands.models import LoadedModels, load_models, open_memory
from docnmt.apps.commands.output import Limited, beginning, check_explain, explained, progress_of, write_explained
from docnmt.apps.documents.document_sentences import SegmentSentence, TranslateSentences, translated
from docnmt.apps.documents.kinds import ENDINGS, kind_of, read
from docnmt.apps.documents.project_marks import Span
from docnmt.apps.documents.segment import DocumentFile
from docnmt.apps.documents.segment_parts import changing_text
from docnmt.apps.explain.attention_alignment import aligned, beginnings, read_pairs
from docnmt.apps.explain.explain_page import ExplainedSentence
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.unknown_text import UnknownText
from docnmt.core.formats.glossary import Glossary
from docnmt.core.formats.split_sentences import splitter
from docnmt.core.formats.structure import Structure, StructureBuilder
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.terms import opened_glossary
from docnmt.core.search.translate_corpus import SentenceResult, translate_corpus
from docnmt.core.search.translation_memory import TranslationMemory
from docnmt.registry.options import same_path
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import check_new, check_readable, replacing


def translate_files(
    out: TextIO,
    config: TranslateConfig,
    models: ModelsConfig,
    memory: MemoryConfig,
    options: GenerationConfig,
    search: SearchConfig,
) -> None:
    """Translate every file; each translation is written completely or not at all, to `out` if no name is given.

    Raises:
        UserError: the models cannot be loaded, a file is damaged, or a translation cannot be written.
    """
    jobs = _jobs(config)
    check_explain(config.explain, overwrite=config.overwrite)
    for source, target in jobs:
        for path in filter(None, (source, target)):
            if same_path(config.explain, str(path)):
                raise UsageError(f"--explain {config.explain}: is {path}, a document; give another name")
    loaded = load_models(models)
    loaded.check_formality(options.formality)
    for source, _ in jobs[1:]:  # a damaged file is reported before the first is translated
        _document(source, loaded)
    pages: list[list[ExplainedSentence]] = []
    unknown = UnknownText(loaded.task.source_tokenizer)
    glossary, known = opened_glossary(options), open_memory(memory, loaded)
    model = DocumentModel(loaded, known, models.context_window, options, search, glossary, out)
    for source, target in jobs:
        if config.explain is not None:
            pages.append([])
            model = replace(model, page=pages[-1])
        document = _document(source, loaded)
        _tell_left(document, source)
        unknown.add(source_text(document, loaded.task))
        content = translate_document(document, model, rules=config.splitter, protect=config.protect)
        for note in document.notes:
            print(f"note: {source}: {note}", file=sys.stderr)
        if target is None:
            out.flush()
            out.buffer.write(content)
            out.buffer.flush()
        else:
            with replacing(target) as temporary:
                temporary.write_bytes(content)
    unknown.warn()
    model.limited.note()
    if config.explain is not None:
        write_explained(config.explain, loaded, pages)


def _tell_left(document: DocumentFile, path: Path) -> None:
    """Print the places of a document that are left untranslated."""
    lines = ", ".join(str(place) for place in document.left if isinstance(place, int))
    if lines:
        why = "stays as it is: its markup cannot be told from its text"
        print(f"note: {path}: what begins in line {lines} {why}", file=sys.stderr)
    parts = "; ".join(place for place in document.left if isinstance(place, str))
    if parts:
        print(f"note: {path}: stays as it is: {parts}", file=sys.stderr)


def source_text(document: DocumentFile, task: TranslationTask) -> ParallelCorpus:
    """Return the text of a document that a translation can lose, one segment per line; fixed text comes through."""
    texts = [text for text in map(changing_text, document.segments) if text]
    return ParallelCorpus.from_lines([texts], task.source_tokenizer)


def _jobs(config: TranslateConfig) -> list[tuple[Path, Path | None]]:
    """Return each file and the path of its translation, checked before any work.

    Raises:
        UserError: a file cannot be read or is of an unknown kind, or its translation cannot be written.
    """
    sources = [Path(name) for name in config.files]
    for source in sources:
        if source.is_dir():
            raise UserError(f"{source}: is a folder; give the documents in it: {source}/*.docx")
        kind_of(source.name)
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
        if kind_of(out.name) != kind_of(sources[0].name):
            raise UsageError(f"-o {out}: a document keeps its kind, and {sources[0]} is .{kind_of(sources[0].name)}")
    if len(set(targets)) < len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise UsageError(f"-o {out}: two of the files would be {twice}; translate them into two folders")
    for target in targets:
        check_new(target, overwrite=config.overwrite)
    return list(zip(sources, targets, strict=True))


def _document(path: Path, loaded: LoadedModels) -> DocumentFile:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    task = loaded.task
    return read(content, kind_of(path.name), name=str(path), source_lang=task.source_lang, target_lang=task.target_lang)


class SegmentTranslator(TranslateSentences, Protocol):
    """A translator of sentences, with its source and target language."""

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""

    def align(self, pairs: Sequence[tuple[str, str]], /) -> Sequence[Sequence[Span]]:
        """Return, for sentences and their translations, the characters where aligned subwords begin."""


@dataclass(frozen=True, eq=False)
class DocumentModel:
    """Models that translate the sentences of one document at a time.

    Attributes:
        out: the stream of results; if it is a terminal, no progress is shown.
        page: collects what was read for each sentence of the document; None: not requested.
        limited: counts translations that end at the length limit.
    """

    loaded: LoadedModels
    memory: TranslationMemory | None
    context_window: int | None
    options: GenerationConfig
    search: SearchConfig
    glossary: Glossary | None = None
    out: TextIO | None = None
    page: list[ExplainedSentence] | None = None
    limited: Limited = field(default_factory=Limited)

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.loaded.task.languages

    def __call__(self, sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        """Yield the translation of each sentence without a given one, in order; given translations are read."""
        task = self.loaded.task
        given = [sentence.given for sentence in sentences]
        corpus = self.loaded.told(corpus_of(sentences, task), self.options.formality, given)
        read: dict[str, Any] = {"given": given, "memory": self.memory, "context_window": self.context_window}
        kept: list[SentenceResult] | None = [] if self.page == [] else None  # later calls only translate parts again
        with progress_of(corpus, self.out) as progress:
            found = translate_corpus(
                self.loaded.models, task, corpus, self.options, self.search, glossary=self.glossary,
                fixed=[sentence.fixed for sentence in sentences], progress=progress, **read,
            )  # fmt: skip
            for result in self.limited.counted(found, lambda number: beginning(sentences[number].text)):
                if kept is not None:
                    kept.append(result)
                yield result.text
        if self.page is not None and kept is not None:
            (document,) = explained(self.loaded, corpus, kept, **read)
            self.page.extend(document)

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """Return, for sentences and their translations, the characters where aligned subwords begin.

        Each pair is read by itself, so that memory does not depend on the document.
        """
        return [*map(beginnings, aligned(read_pairs(self.loaded.models[0], self.loaded.task, pairs)))]


def corpus_of(sentences: Sequence[SegmentSentence], task: TranslationTask) -> ParallelCorpus:
    """Return the sentences of one document, with the levels that the task's models know."""
    corpus = ParallelCorpus.from_lines([[sentence.text for sentence in sentences]], task.source_tokenizer)
    known = getattr(task, "known_levels", 0)  # a plug-in's task may lack it
    if known and sentences:
        corpus = replace(corpus, levels=_structure(sentences, known).levels)
    return corpus


def _structure(sentences: Sequence[SegmentSentence], known: int) -> Structure:
    """Return the `known` innermost levels above the sentences, each counted inside the one around it."""
    builder = StructureBuilder()
    for sentence in sentences:
        builder.sentence(sentence.units[-known:])
    return builder.build()


def translate_document(
    document: DocumentFile, model: SegmentTranslator, *, rules: str = "auto", protect: bool = True
) -> bytes:
    """Translate a document; return its content.

    Args:
        rules: the sentence splitter (`--splitter`). protect: whether placeholders and the like are kept (`--protect`).
    """
    source, target = (splitter(rules, language) for language in model.languages)
    texts = translated(document, model, split=source, split_target=target, align=model.align, protect=protect)
    return document.write(texts)
