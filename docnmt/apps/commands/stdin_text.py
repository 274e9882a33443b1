"""Text of stdin as sentences, with given translations, and the reassembly of translations to lines."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.formats.plain_text import kind_of
from docnmt.core.formats.running_text import RunningText, of_sentences
from docnmt.core.formats.split_sentences import splitter, whole_lines
from docnmt.core.formats.text_lines import TextLines, is_blank
from docnmt.core.models.translation_model import TranslationTask
from docnmt.core.search.translate_corpus import SentenceResult
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
        kind, own = (kind_of(each) for each in (line, translation))
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
        kinds = [kind_of(line) for line in _lines(content)]
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
