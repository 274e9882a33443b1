"""What `docnmt-translate` does: text in, text out, row by row."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from docnmt.commands.config import MemoryConfig, ModelsConfig, TranslateConfig
from docnmt.commands.memory import open_memory
from docnmt.commands.models import load_models
from docnmt.commands.output import progress_of, sentences_of_lines
from docnmt.data.corpus import ParallelCorpus
from docnmt.errors import UserError
from docnmt.formats.columns import parse_columns
from docnmt.formats.plain_text import kind_of
from docnmt.formats.running_text import RunningText, of_documents, of_table
from docnmt.formats.sentences import splitter
from docnmt.formats.text import TextLines, is_blank
from docnmt.models.protocol import TranslationTask
from docnmt.search.config import GenerationConfig, SearchConfig
from docnmt.search.translate import SentenceResult, translate_corpus

STDIN = "stdin"


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

    Raises:
        UserError: the models cannot be loaded, or a text is not clean UTF-8 in the format that it should have, its line
            is named; or `--given` does not fit the stream.
    """
    loaded = load_models(models)
    recalled = open_memory(memory, loaded)
    try:
        content = source.read()
    except OSError as error:
        raise UserError(f"{STDIN}: cannot be read: {error.strerror or error}") from error
    given = None if config.given is None else _beside(content, Path(config.given))
    text = _read(content, given, config, loaded.task)
    with progress_of(text.corpus, out) as progress:
        results = translate_corpus(
            loaded.models, loaded.task, text.corpus, options, search,
            given=text.given, memory=recalled, context_window=models.context_window, progress=progress,
        )  # fmt: skip
        for line in text.form.joined(text.written(results)):
            print(line, file=out, flush=True)


@dataclass(frozen=True, eq=False)
class _Text:
    """What is translated.

    Attributes:
        form: what puts the translations of its sentences together again.
        given: for each sentence its translation, or None. printed: what is written for it, if it is given.
    """

    corpus: ParallelCorpus
    form: RunningText
    given: Sequence[str | None]
    printed: Sequence[str | None]

    def written(self, results: Iterator[SentenceResult]) -> Iterator[str]:
        """What is written for each sentence; `results` are of those that are not given."""
        for text in self.printed:
            yield next(results).text if text is None else text


def _beside(content: bytes, path: Path) -> list[str]:
    """The lines of `--given`.

    Raises:
        UserError: they are not as many as those of stdin, or one of them translates an empty line.
    """
    lines, given = list(_lines(content)), list(TextLines(path))
    if len(given) != len(lines):
        raise UserError(
            f"--given {path}: {len(given):,} lines, and {STDIN} has {len(lines):,}; expected one for each, empty where "
            "there is no translation yet"
        )
    for number, (line, translation) in enumerate(zip(lines, given, strict=True), 1):
        if is_blank(line) and not is_blank(translation):
            raise UserError(f"--given {path}:{number}: '{translation[:40]}' translates an empty line of {STDIN}")
    return given


def _lines(content: bytes) -> TextLines:
    return TextLines(io.BytesIO(content), name=STDIN)


def _read(content: bytes, given: Sequence[str] | None, config: TranslateConfig, task: TranslationTask) -> _Text:
    """Text in any of the formats; `given` only in those that `TranslateConfig` allows it for."""
    form, lines, language = config.input_format, _lines(content), task.source_lang
    if form == "corpus":
        return _corpus(content, given, task)
    if form == "text":
        return _document(content, given, config.splitter, task)
    split = splitter(config.splitter, language)
    if form == "lines":
        text = of_documents(lines, split)
    else:
        text = of_table(lines, form, parse_columns(config.columns)[0], language, split)
    corpus = ParallelCorpus.from_lines(text.documents, task.source_tokenizer)
    nothing = [None] * corpus.num_sentences
    return _Text(corpus, text, nothing, nothing)


def _document(content: bytes, given: Sequence[str] | None, rules: str, task: TranslationTask) -> _Text:
    """One document, its lines split into sentences.

    A line whose translation is given is split where both have equally many sentences, else it is read as one sentence.
    """
    sentences: list[str] = []
    texts: list[str | None] = []
    printed: list[str | None] = []
    counts: list[int] = []
    split, split_target = splitter(rules, task.source_lang), splitter(rules, task.target_lang)
    lines = list(_lines(content))
    for line, translation in zip(lines, given or [""] * len(lines), strict=True):
        found = split(line)
        if is_blank(translation):
            texts += [None] * len(found)
            printed += [None] * len(found)
        else:
            parts = split_target(translation)
            if len(parts) != len(found):
                found, parts = [" ".join(line.split())], [" ".join(translation.split())]
            texts += parts
            printed += [translation, *[""] * (len(found) - 1)]
        sentences += found
        counts.append(len(found))
    corpus = ParallelCorpus.from_lines([sentences], task.source_tokenizer)
    return _Text(corpus, RunningText.of(counts), texts, printed)


def _corpus(content: bytes, given: Sequence[str] | None, task: TranslationTask) -> _Text:
    """The plain form of a corpus: a sentence a line, empty lines between documents."""
    corpus = ParallelCorpus.from_text(_lines(content), task.source_tokenizer)
    translations: list[str | None] = [None] * corpus.num_sentences
    if given is not None:
        kinds = [kind_of(line) for line in _lines(content)]
        for number, (kind, translation) in enumerate(zip(kinds, given, strict=True), 1):
            if kind != "text" and kind_of(translation) not in ("", kind):
                raise UserError(f"--given: line {number} is '{translation[:40]}', and that of {STDIN} is {kind}")
        texts = [translation for kind, translation in zip(kinds, given, strict=True) if kind == "text"]
        translations = [None if is_blank(text) else text for text in texts]
    return _Text(corpus, RunningText.of(sentences_of_lines(corpus)), translations, translations)
