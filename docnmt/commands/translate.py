"""What `docnmt-translate` does: text in, text out, row by row."""

from __future__ import annotations

from typing import BinaryIO, TextIO

from docnmt.commands.config import ModelsConfig, TranslateConfig
from docnmt.commands.models import load_models
from docnmt.commands.output import progress_of, sentences_of_lines, write_lines
from docnmt.data.corpus import ParallelCorpus
from docnmt.formats.columns import parse_columns
from docnmt.formats.running_text import RunningText, of_documents, of_lines, of_table
from docnmt.formats.sentences import splitter
from docnmt.formats.text import TextLines
from docnmt.search.config import GenerationConfig, SearchConfig
from docnmt.search.translate import translate_corpus


def translate_stream(
    source: BinaryIO,
    out: TextIO,
    config: TranslateConfig,
    models: ModelsConfig,
    options: GenerationConfig,
    search: SearchConfig,
) -> None:
    """Translate a whole stream; every line of it becomes one line of `out`, written as soon as it is ready.

    Raises:
        UserError: the models cannot be loaded, or the text is not clean UTF-8 in the format that it should have; the
            line is named.
    """
    loaded = load_models(models)
    lines, tokenizer = TextLines(source, name="stdin"), loaded.task.source_tokenizer
    text = None if config.input_format == "corpus" else _running_text(lines, config, loaded.task.source_lang)
    if text is None:
        corpus = ParallelCorpus.from_text(lines, tokenizer)
    else:
        corpus = ParallelCorpus.from_lines(text.documents, tokenizer)
    with progress_of(corpus, out) as progress:
        results = translate_corpus(
            loaded.models, loaded.task, corpus, options, search, context_window=models.context_window, progress=progress
        )
        texts = (result.text for result in results)
        if text is None:
            write_lines(sentences_of_lines(corpus), texts, out)
        else:
            for line in text.joined(texts):
                print(line, file=out, flush=True)


def _running_text(lines: TextLines, config: TranslateConfig, language: str) -> RunningText:
    """Text in any form but that of a corpus."""
    split = splitter(config.splitter, language)
    if config.input_format == "text":
        return of_lines(lines, split)
    if config.input_format == "lines":
        return of_documents(lines, split)
    return of_table(lines, config.input_format, parse_columns(config.columns)[0], language, split)
