"""What `docnmt-translate` does: text in, text out, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, TextIO

from docnmt.data.corpus import ParallelCorpus
from docnmt.data.sentences import split_sentences
from docnmt.data.text import TextLines, is_blank
from docnmt.generation.config import GenerationConfig, ModelsConfig, SearchConfig
from docnmt.generation.models import load_models
from docnmt.generation.output import progress_of
from docnmt.generation.translate import translate_corpus


@dataclass(frozen=True)
class LinesOfText:
    """Documents, and where their sentences stand.

    Attributes:
        documents: the sentences of each document.
        counts: for each input line, how many sentences it has; 0 for a blank one.
    """

    documents: list[list[str]]
    counts: list[int]


def translate_stream(
    source: BinaryIO, out: TextIO, form: str, models: ModelsConfig, options: GenerationConfig, search: SearchConfig
) -> None:
    """Translate a whole stream; every line of it becomes one line of `out`, written as soon as it is ready.

    Args:
        form: see `read_text`.

    Raises:
        UserError: the models cannot be loaded, or the text cannot be read.
    """
    loaded = load_models(models)
    text = read_text(source, form, loaded.task.source_lang)
    corpus = ParallelCorpus.from_lines(text.documents, loaded.task.source_tokenizer)
    with progress_of(corpus, out) as progress:
        results = translate_corpus(loaded.models, loaded.task, corpus, options, search, progress=progress)
        for count in text.counts:
            print(" ".join(filter(None, (next(results).text for _ in range(count)))), file=out, flush=True)


def read_text(source: BinaryIO, form: str, language: str) -> LinesOfText:
    """stdin as sentences in documents.

    Args:
        form: `text`, one document whose lines are split into sentences; `corpus`, a sentence a line and an empty line
            between documents.
        language: of the text, for splitting it.

    Raises:
        UserError: it is not UTF-8, or holds NUL or a lone carriage return; line and byte are named.
    """
    documents: list[list[str]] = [[]]
    counts = []
    for line in TextLines(source, name="stdin"):
        if form == "text":
            sentences = split_sentences(line, language)
        else:
            sentences = [] if is_blank(line) else [line]
            if not sentences and documents[-1]:
                documents.append([])
        documents[-1] += sentences
        counts.append(len(sentences))
    return LinesOfText([document for document in documents if document], counts)
