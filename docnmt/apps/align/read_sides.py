"""Reading of documents and corpora as sides of an alignment."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePath

from docnmt.apps.align.align import AlignedSide
from docnmt.apps.documents.kinds import ENDINGS, kind_of, read, reader_of
from docnmt.core.formats.plain_text import read_text
from docnmt.core.formats.structure import Facts, Sentence
from docnmt.core.formats.text_lines import TextLines
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import check_readable

Split = Callable[[str], list[str]]
_LANGUAGE = re.compile(r"[a-z]{2}([-_][A-Za-z]{2,4})?|[a-z]{3}_[A-Z][a-z]{3}")


def is_document(path: Path) -> bool:
    """Return True if a file is a document of `docnmt.apps.documents`, by its ending; else it is a corpus."""
    return PurePath(path.name).suffix.lower() in ENDINGS


def language_of(path: Path) -> str | None:
    """Return the language in a file's name: `de` for letter.de.docx and dev.de, deu_Latn for dev.deu_Latn."""
    parts = path.name.split(".")[1:]
    if is_document(path):
        parts = parts[:-1]
    return parts[-1] if parts and _LANGUAGE.fullmatch(parts[-1]) else None


def detected(side: list[AlignedSide], path: Path, name: str) -> str:
    """Identify the language of a text.

    Raises:
        UsageError: py3langid, which identifies it, is not installed.
    """
    try:
        from py3langid import classify
    except ImportError as error:
        raise UsageError(
            f"{name} is required: {path} does not name its language, and py3langid, which would find it, is not "
            "installed; pip install 'docnmt[langid]'"
        ) from error
    text = " ".join(text for each in side for text in each.texts)[:20_000]
    return str(classify(text)[0])


def sides_of(path: Path, split: Split) -> list[AlignedSide]:
    """Read the documents of a file that have at least one sentence.

    Raises:
        UserError: the file is damaged, has no sentence, or already has both languages.
    """
    check_readable(path)
    found = [_document(path, split)] if is_document(path) else _corpus(path)
    if not any(side.texts for side in found):
        raise UserError(f"{path}: has no text; expected sentences to align")
    return found


def _document(path: Path, split: Split) -> AlignedSide:
    kind = kind_of(path.name)
    if reader_of(kind, name=str(path)).bilingual:
        raise UserError(f"{path}: a file of both languages is aligned already; docnmt-translate reads it as it is")
    document = read(path.read_bytes(), kind, name=str(path), source_lang="", target_lang="")
    texts, units = list[str](), list[tuple[str, str]]()
    for segment in document.segments:
        own = [sentence for line in segment.text.split("\n") for sentence in split(line)]
        texts += own
        units += [segment.units] * len(own)
    return AlignedSide(texts, units)


def _corpus(path: Path) -> list[AlignedSide]:
    documents: list[list[Sentence]] = [[]]
    for event in read_text([TextLines(path)], Facts()):
        if isinstance(event, Sentence):
            documents[-1].append(event)
        elif documents[-1]:
            documents.append([])
    return [
        AlignedSide([each.texts[0] for each in own], [("0", each.units[-1]) for each in own])
        for own in documents
        if own
    ]
