"""Resegmentation: a translation with other sentences is divided into the reference's, document by document.

The division minimises the word error rate (Matusov et al. 2005; Post and Hoang 2025), by the package
`mweralign`. Words are compared without case and apart from the punctuation around them; Chinese and Japanese, character
by character. Nothing but white space between sentences is lost or added, and no word is cut.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from docnmt.core.corpus import DocumentStart
from docnmt.core.data_options import Columns
from docnmt.core.formats.corpus_side import side_lines
from docnmt.core.formats.running_text import BREAK
from docnmt.core.scoring.align_lines import ANY, DOCUMENT, PARAGRAPH, LineLayout
from docnmt.core.scoring.document_names import places_by_name
from docnmt.runtime.errors import UserError

#: A document is reported if its length, as a share of its reference's, is outside of this range.
USUAL = 0.5, 2.0
_CJK = "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+(?:[^\w\s{_CJK}]+[^\W{_CJK}]+)*|[^\w\s]")
_IS_CJK = re.compile(rf"[{_CJK}]")
_BEGIN = "<begin>"  # equals no token: mweralign always puts the first one into the first sentence
_OPENING = frozenset("\"'([{<“„‘‚«‹»›¿¡–—-*「『（《〈【")

#: A function of the reference's sentences, one per line, and a text; it returns the text in as many lines. Tokens are
#: separated by spaces.
Align = Callable[[str, str], str]


@dataclass(frozen=True)
class Resegmented:
    """A translation divided into the reference's sentences, with a note for each document of unusual length."""

    sentences: list[str]
    notes: list[str]


def resegment(path: Path, layout: LineLayout, reference: Sequence[str], columns: Columns = ANY) -> Resegmented:
    """Divide the documents of a file into the reference's sentences.

    Args:
        layout: the documents of the reference. reference: its sentences.
        columns: of a table, whose rows are the lines.

    Raises:
        UserError: mweralign is not installed, or the file has another number of documents.
    """
    align = mweralign()
    spans = list(pairwise(layout.document_offsets))
    documents = read_documents(path, columns, number=len(spans))
    names, texts = [name for name, _ in documents], [text for _, text in documents]
    texts = [texts[number] for number in places_by_name(path, names, layout.path, layout.names)]
    if len(texts) != len(spans):
        raise UserError(
            f"{path}: {len(texts):,} documents, but {layout.path} has {len(spans):,}; separate them by empty lines, or "
            f"begin each with a line {DOCUMENT}, after which nothing stands where a translation is missing"
        )
    sentences, notes = [], []
    for number, (text, (begin, end)) in enumerate(zip(texts, spans, strict=True), 1):
        sentences += divide(text, reference[begin:end], align)
        share = len(text) / max(1, len(" ".join(reference[begin:end])))
        if not USUAL[0] <= share <= USUAL[1]:
            what = f"has {100 * share:.0f} % of its reference's characters" if text else "is empty"
            notes.append(f"{path}: document {number:,} {what}")
    return Resegmented(sentences, notes)


def read_documents(path: Path, columns: Columns = ANY, *, number: int | None = None) -> list[tuple[str | None, str]]:
    """Read the name, if a table gives it, and the text of every document of a file, its lines joined by spaces.

    Empty lines, one or more, separate documents. Or each document begins with a line `<d>`, or is named by a table:
    then empty lines mean nothing, and a document may be empty. Without an empty line, if there are `number` lines, the
    expected number of documents, then each is one, as `docnmt-translate --input-format lines` writes.

    Raises:
        UserError: the file cannot be read or is not valid UTF-8 text.
    """
    items = list(side_lines(path, columns, "hypothesis"))
    lines = [line.strip() for line in items if isinstance(line, str)]
    may_be_empty = len(lines) < len(items)
    if not may_be_empty:  # a text, or a table without documents
        may_be_empty = DOCUMENT in lines
        opening = DOCUMENT if may_be_empty else ""
        items = [DocumentStart() if line == opening else line for line in lines if line != PARAGRAPH]
    documents: list[tuple[str | None, list[str]]] = [(None, [])]
    for item in items:
        if isinstance(item, DocumentStart):
            documents.append((item.name, []))
        elif item:
            documents[-1][1].append(item)
    texts = [(name, " ".join(lines)) for name, lines in documents]
    if may_be_empty:
        return texts[0 if texts[0][1] else 1 :]
    found = [each for each in texts if each[1]]
    if len(lines) == number and "" not in lines:
        return [(None, line.replace(BREAK, " ")) for line in lines]
    return found


def divide(text: str, reference: Sequence[str], align: Align) -> list[str]:
    """Divide one document's text into as many pieces as the reference has sentences.

    Pieces may be empty, and are if their reference is; the first has everything if there is nothing to compare.
    """
    tokens, known = list(_TOKEN.finditer(text)), [sentence for sentence in reference if sentence]
    if not tokens or not known:
        return [text, *[""] * (len(reference) - 1)]
    found = align(f"{_BEGIN} " + "\n".join(map(_tokenised, known)), f"{_BEGIN} {_tokenised(text)}").split("\n")
    if len(found) != len(known):
        raise RuntimeError(f"mweralign gave {len(found)} lines for {len(known)} sentences")
    ends = [_clean_cut(end - 1, tokens) for end in accumulate(len(line.split()) for line in found)]
    places = [0, *(tokens[end].start() if end < len(tokens) else len(text) for end in ends)]
    pieces = iter([text[begin:end].strip() for begin, end in pairwise(places)])
    return [next(pieces) if sentence else "" for sentence in reference]


def _tokenised(text: str) -> str:
    return " ".join(token.lower() for token in _TOKEN.findall(text))


def _clean_cut(end: int, tokens: Sequence[re.Match[str]]) -> int:
    """Move a cut before token `end` to where words and their punctuation stay together."""

    def attached() -> bool:
        return 0 < end < len(tokens) and tokens[end - 1].end() == tokens[end].start()

    while attached() and tokens[end - 1][0] in _OPENING:
        end -= 1
    while attached() and not (_begins(tokens[end][0]) and _IS_CJK.search(tokens[end - 1][0] + tokens[end][0])):
        end += 1
    return end


def _begins(token: str) -> bool:
    """Return True if a sentence can begin with the token."""
    return token[0].isalnum() or token in _OPENING


def mweralign() -> Align:
    """Return the package's function, with its output suppressed.

    Raises:
        UserError: the package is not installed.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        from mweralign import align_texts
    except ImportError as error:
        raise UserError("--resegment needs mweralign: pip install 'docnmt[evaluation]'") from error
    finally:
        root.handlers[:] = handlers  # the package changes the process's logging
        root.setLevel(level)

    def align(reference: str, text: str) -> str:
        with _without_stderr():
            return str(align_texts(reference, text))

    return align


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Suppress all output on the process's stderr, that of C++ included."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
