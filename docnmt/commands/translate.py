"""What `docnmt-translate` does: text in, text out, line by line."""

from __future__ import annotations

from itertools import chain
from typing import BinaryIO, TextIO

from docnmt.commands.config import ModelsConfig
from docnmt.commands.models import load_models
from docnmt.commands.output import progress_of, sentences_of_lines, write_lines
from docnmt.data.corpus import ParallelCorpus
from docnmt.formats.sentences import split_sentences
from docnmt.formats.text import TextLines
from docnmt.search.config import GenerationConfig, SearchConfig
from docnmt.search.translate import translate_corpus


def translate_stream(
    source: BinaryIO, out: TextIO, form: str, models: ModelsConfig, options: GenerationConfig, search: SearchConfig
) -> None:
    """Translate a whole stream; every line of it becomes one line of `out`, written as soon as it is ready.

    Args:
        form: `text`, one document whose lines are split into sentences; `corpus`, the plain form of a corpus, a
            sentence a line and empty lines between documents.

    Raises:
        UserError: the models cannot be loaded, or the text is not clean UTF-8; line and byte are named.
    """
    loaded = load_models(models)
    lines, tokenizer = TextLines(source, name="stdin"), loaded.task.source_tokenizer
    if form == "text":
        split = [split_sentences(line, loaded.task.source_lang) for line in lines]
        corpus = ParallelCorpus.from_lines([list(chain.from_iterable(split))], tokenizer)
        counts = [len(sentences) for sentences in split]
    else:
        corpus = ParallelCorpus.from_text(lines, tokenizer)
        counts = sentences_of_lines(corpus)
    with progress_of(corpus, out) as progress:
        results = translate_corpus(
            loaded.models, loaded.task, corpus, options, search, context_window=models.context_window, progress=progress
        )
        write_lines(counts, (result.text for result in results), out)
