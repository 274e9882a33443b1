"""Lines of a translation beside those of a reference: aligned, named, resegmented, doubted.

reference → `LineLayout` (which lines are sentences, of which documents) → `align` or `resegment` → a sentence for each
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from pathlib import Path

from docnmt.core.data_options import Columns
from docnmt.core.scoring.metrics import scored_sentences
from docnmt.core.split_sentences import BREAK
from docnmt.core.tables import DocumentStart, side_lines
from docnmt.core.training.run_folder import ModelRecord
from docnmt.runtime.languages import CJK, SOUTHEAST
from docnmt.runtime.system import OpenObject, UserError, needing, read_json

# Matching of the documents of two tables by their names.


def _order_by_name(
    path: Path, names: Sequence[str | None], reference_path: Path, reference: Sequence[str | None]
) -> list[int]:
    """Return for each document of the reference its number in `path`, by names if they have some in common."""
    if list(names) == list(reference) or None in names or None in reference or not set(names) & set(reference):
        return list(range(len(names)))
    sides = (path, names), (reference_path, reference)
    for (file, documents), (other, others) in (sides, sides[::-1]):
        if twice := [name for name, count in Counter(documents).items() if count > 1]:
            raise UserError(
                f"{file}: document '{twice[0]}' stands in two places, and {other} has its documents in another order; "
                "put the rows of each document together"
            )
        known = set(others)
        if surplus := [name for name in documents if name not in known]:
            raise UserError(
                f"{file}: document '{surplus[0]}' is not in {other} ({len(surplus):,} such documents); both must have "
                "the same documents, in any order; a missing translation is a row without text"
            )
    numbers = {name: number for number, name in enumerate(names)}
    return [numbers[name] for name in reference]


# Alignment of the lines of hypotheses with those of references, and the documents that they form.
# An empty line in a file of hypotheses is a document break or a missing translation; the reference (or the source),
# which has no empty sentence, tells which. Lines that are only `<d>` or `<p>` mark documents and paragraphs, and need
# not be in the other files. In tables that name their documents each row is a sentence, also one without text.


_DOCUMENT, _PARAGRAPH = "<d>", "<p>"
#: Columns found by the names that known tables have.
_ANY = Columns()


@dataclass(frozen=True)
class LineLayout:
    """The lines of a file that are sentences, and the documents that they form."""

    path: Path
    rows: tuple[str, ...]  # its lines without marks; an empty one separates documents
    document_offsets: tuple[int, ...]  # (D+1) the sentence where each document begins, and their number
    lines: tuple[bool, ...]  # for every line, marks included: is it a sentence?
    names: tuple[str | None, ...] = ()  # of the documents of a table that marks them: every row is a sentence

    @property
    def sentences(self) -> list[str]:
        """The lines that are sentences, in order."""
        return [row for row in self.rows if row or self.names]

    def only(self, numbers: Sequence[int]) -> LineLayout:
        """Return the layout of some of its sentences, in order; documents that keep none are left out."""
        sentences = self.sentences
        offsets = sorted({bisect_left(numbers, offset) for offset in self.document_offsets})
        names = tuple(self.names[number] for number in self.documents_with(numbers)) if self.names else ()
        return LineLayout(
            self.path, tuple(sentences[i] for i in numbers), tuple(offsets), (True,) * len(numbers), names
        )

    def documents_with(self, numbers: Sequence[int]) -> list[int]:
        """Return the documents that have some of these sentences, which must be in ascending order."""
        borders = [bisect_left(numbers, offset) for offset in self.document_offsets]
        return [document for document, (begin, end) in enumerate(pairwise(borders)) if begin < end]

    def written(self, sentences: Sequence[str]) -> str:
        """Return a text with one line for each line of this file, from sentences that translate its own."""
        rest = iter(sentences)
        is_sentence = self._between() if self.names else map(bool, self.rows)
        return "".join(f"{next(rest) if sentence else ''}\n" for sentence in is_sentence)

    def align(self, path: Path, columns: Columns = _ANY, role: str = "hypothesis") -> list[str]:
        """Return the sentences of another file, one for each of this one's; an empty one is a missing translation.
        `columns` and `role` are as in `read_layout`.

        Documents that both files name are matched by name. Line by line, a text is empty where this one is (with or
        without lines for marks), or has one empty line between the documents. Or it has as many sentences, with the
        same documents (two empty lines for one, empty lines at the end) or with no break at all. Rows that are empty in
        this table may be missing there."""
        other = read_layout(path, columns, role, may_be_empty=True)
        if other.names and None not in other.names:
            order = _order_by_name(path, other.names, self.path, self.names)
            spans = [other.rows[begin:end] for begin, end in pairwise(other.document_offsets)]
            offsets = tuple(accumulate((len(spans[number]) for number in order), initial=0))
            rows = tuple(row for number in order for row in spans[number])
            other = replace(other, rows=rows, document_offsets=offsets)
        ways: list[Sequence[bool]] = [self.lines, self._between()]  # which lines are sentences, if this is line by line
        if not self.names:
            ways.insert(0, [row != "" for row in self.rows])
        for is_sentence in [] if other.names else ways:
            pairs = list(zip(is_sentence, other.rows, strict=False))
            if len(other.rows) == len(is_sentence) and not any(row for sentence, row in pairs if not sentence):
                return [row for sentence, row in pairs if sentence]
        one_document = len(other.document_offsets) <= 2
        if len(other.sentences) == len(self.sentences):
            if one_document or other.document_offsets == self.document_offsets:
                return other.sentences
            offset_pairs = zip(other.document_offsets, self.document_offsets, strict=False)
            sentence = next(min(pair) for pair in offset_pairs if pair[0] != pair[1])
            raise UserError(f"{path}: its documents are not those of {self.path}; they part after sentence {sentence}")
        texts = [number for number, sentence in enumerate(self.sentences) if sentence]
        if len(texts) < len(self.sentences):  # rows that are empty here may have no line there
            translated = dict(zip(texts, self.only(texts).align(path, columns, role), strict=True))
            return [translated.get(number, "") for number in range(len(self.sentences))]
        hint = " (an empty line is a break between documents, unless --src has a sentence there)"
        raise UserError(
            f"{path}: {len(other.sentences):,} sentences in {len(other.rows):,} lines, but {self.path} has "
            f"{len(self.sentences):,} in {len(self.rows):,}; there must be one line for each of its lines"
            f"{hint if len(other.rows) == len(self.rows) else ''}"
        )

    def _between(self) -> list[bool]:
        """Return for each line of a text with one empty line between documents whether it is a sentence."""
        between: list[bool] = []
        for begin, end in pairwise(self.document_offsets):
            between += [False] * (begin > 0) + [True] * (end - begin)
        return between


def read_layout(path: Path, columns: Columns = _ANY, role: str = "target", *, may_be_empty: bool = False) -> LineLayout:
    """Read the sentences and documents of a text, or of a table's column `role`; `may_be_empty` permits no text."""
    rows, lines, names, offsets = list[str](), list[bool](), list[str | None](), [0]
    sentences = 0
    for item in side_lines(path, columns, role):
        if isinstance(item, DocumentStart):
            names.append(item.name)
            line, sentence = _DOCUMENT, False
        else:
            line = item.strip()
            sentence = bool(names) or line not in ("", _DOCUMENT, _PARAGRAPH)
        if not sentence and line != _PARAGRAPH and offsets[-1] != sentences:
            offsets.append(sentences)
        lines.append(sentence)
        if sentence or line == "":
            rows.append(line)
            sentences += sentence
    if not any(rows) and not may_be_empty:
        raise UserError(f"{path}: holds no sentence")
    if offsets[-1] != sentences:
        offsets.append(sentences)
    return LineLayout(path, tuple(rows), tuple(offsets), tuple(lines), tuple(names))


def with_partners(
    layout: LineLayout, references: Sequence[Sequence[str]], systems: Sequence[Sequence[str]]
) -> tuple[list[int], LineLayout, Sequence[Sequence[str]], Sequence[Sequence[str]]]:
    """Leave out sentences that the layout's own file or a reference lacks; return the numbers of the others, too."""
    numbers = scored_sentences([layout.sentences, *references])
    if not numbers:
        raise UserError(f"{layout.path}: no sentence has a reference, expected one a line")
    if len(numbers) == len(layout.sentences):
        return numbers, layout, references, systems
    references, systems = ([[lines[i] for i in numbers] for lines in texts] for texts in (references, systems))
    return numbers, layout.only(numbers), references, systems


# Warnings about scores that would mean little: tags as words, text without spaces, systems trained for other times.


_TAG = re.compile(r"\s*</?(?:refset|srcset|tstset|doc|hl|p|seg)\b[^<>]*>", re.IGNORECASE)
_NO_SPACES = re.compile(f"[{CJK}{SOUTHEAST}]")
_LETTER = re.compile(r"[^\W\d_]")
#: Number of lines that are examined.
_MOST = 1000
#: The translations of a results folder, and the file beside them that has the models' records under "models".
HYPOTHESES, SCORES = "hypotheses.txt", "scores.json"


class _Results(OpenObject):
    """A results folder's scores.json, as far as it is read here."""

    models: tuple[ModelRecord, ...] = ()


def records_beside(paths: Iterable[str]) -> list[ModelRecord]:
    """Return the records of the models that wrote these files, as far as they lie in results folders that have them."""
    records: list[ModelRecord] = []
    for path in map(Path, paths):
        if path.name == HYPOTHESES and (path.parent / SCORES).is_file():
            with contextlib.suppress(UserError):  # another's file
                records += read_json(path.parent / SCORES, _Results).models
    return records


def training_doubt(system: Sequence[ModelRecord], other: Sequence[ModelRecord]) -> str | None:
    """Return one line if one system was started from the other, or had other updates; None also if this is unknown."""
    names = {"the system": system, "the other": other}
    for (longer, models), (shorter, starts) in (pair := list(names.items())), pair[::-1]:
        for model, start in product(models, starts):
            weights = [record.weights for record in model.lineage]
            if start.weights in weights[1:]:
                more = sum(record.update for record in model.lineage[: weights.index(start.weights)])
                return (
                    f"{longer} was started from {shorter} ({start.checkpoint}, --finetune-from-model) and has {more:,} "
                    f"updates more, which the difference holds, too: compare with {start.checkpoint} trained "
                    f"{more:,} updates further"
                )
    updates = {name: sorted({model.updates for model in models}) for name, models in names.items()}
    if all(updates.values()) and updates["the system"] != updates["the other"]:
        shown = (f"{name} {' and '.join(f'{number:,}' for number in numbers)}" for name, numbers in updates.items())
        return f"they had other numbers of updates, those of their starts included: {', '.join(shown)}"
    return None


def doubts(references: Sequence[str], tokenize: str) -> Iterator[str]:
    """Yield warnings, one line each, about a reference to be scored with this tokenizer."""
    lines = [line for line in references if line.strip()][:_MOST]
    tagged = sum(_TAG.match(line) is not None for line in lines)
    if lines and 2 * tagged > len(lines):
        yield (
            f"{tagged:,} of {len(lines):,} lines begin with tags of SGML, which are scored as words; "
            "give the sentences alone, a line each"
        )
    letters = "".join(_LETTER.findall("".join(lines)))
    if tokenize == "13a" and 2 * len(_NO_SPACES.findall(letters)) > len(letters):
        yield (
            "the text has no spaces between words, and the tokenizer 13a takes whole sentences for words; "
            "give --sacrebleu-tokenize zh, ja-mecab or char"
        )


# Resegmentation: a translation with other sentences is divided into the reference's, document by document.
# The division minimises the word error rate (Matusov et al. 2005; Post and Hoang 2025), by the package `mweralign`.
# Words are compared without case and apart from the punctuation around them; Chinese and Japanese, character by
# character. Nothing but white space between sentences is lost or added, and no word is cut.


#: A document is reported if its length, as a share of its reference's, is outside of this range.
_USUAL = 0.5, 2.0
_CJK = "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+(?:[^\w\s{_CJK}]+[^\W{_CJK}]+)*|[^\w\s]")
_IS_CJK = re.compile(rf"[{_CJK}]")
_BEGIN = "<begin>"  # equals no token: mweralign always puts the first one into the first sentence
_OPENING = frozenset("\"'([{<“„‘‚«‹»›¿¡–—-*「『（《〈【")

#: A function of the reference's sentences, a line each, and a text, in tokens; it returns the text in as many lines.
_Align = Callable[[str, str], str]


def resegment(
    path: Path, layout: LineLayout, reference: Sequence[str], columns: Columns = _ANY
) -> tuple[list[str], list[str]]:
    """Divide the documents of a file, or of a table with these columns, into the reference's sentences; return these,
    and a note for each document of unusual length."""
    align = mweralign()
    spans = list(pairwise(layout.document_offsets))
    documents = read_documents(path, columns, number=len(spans))
    names, texts = [name for name, _ in documents], [text for _, text in documents]
    texts = [texts[number] for number in _order_by_name(path, names, layout.path, layout.names)]
    if len(texts) != len(spans):
        raise UserError(
            f"{path}: {len(texts):,} documents, but {layout.path} has {len(spans):,}; separate them by empty lines, or "
            f"begin each with a line {_DOCUMENT}, after which nothing stands where a translation is missing"
        )
    sentences, notes = [], []
    for number, (text, (begin, end)) in enumerate(zip(texts, spans, strict=True), 1):
        sentences += divide(text, reference[begin:end], align)
        share = len(text) / max(1, len(" ".join(reference[begin:end])))
        if not _USUAL[0] <= share <= _USUAL[1]:
            length = f"has {100 * share:.0f} % of its reference's characters" if text else "is empty"
            notes.append(f"{path}: document {number:,} {length}")
    return sentences, notes


def read_documents(path: Path, columns: Columns = _ANY, *, number: int | None = None) -> list[tuple[str | None, str]]:
    """Read the name, if a table gives it, and the text of every document of a file, its lines joined by spaces.

    Empty lines, one or more, separate documents. Or each begins with a line `<d>`, or is named by a table: then empty
    lines mean nothing, and a document may be empty. Without an empty line, if there are `number` lines, the expected
    number of documents, then each is one, as `docnmt-translate --input-format lines` writes."""
    items = list(side_lines(path, columns, "hypothesis"))
    lines = [line.strip() for line in items if isinstance(line, str)]
    may_be_empty = len(lines) < len(items)
    if not may_be_empty:  # a text, or a table without documents
        may_be_empty = _DOCUMENT in lines
        opening = _DOCUMENT if may_be_empty else ""
        items = [DocumentStart() if line == opening else line for line in lines if line != _PARAGRAPH]
    documents: list[tuple[str | None, list[str]]] = [(None, [])]
    for item in items:
        if isinstance(item, DocumentStart):
            documents.append((item.name, []))
        elif item:
            documents[-1][1].append(item)
    texts = [(name, " ".join(lines)) for name, lines in documents]
    if may_be_empty:
        return texts[0 if texts[0][1] else 1 :]
    if len(lines) == number and "" not in lines:
        return [(None, line.replace(BREAK, " ")) for line in lines]
    return [(name, text) for name, text in texts if text]


def divide(text: str, reference: Sequence[str], align: _Align) -> list[str]:
    """Divide one document's text into as many pieces as the reference has sentences. Pieces may be empty, and are if
    their reference is; the first has everything if there is nothing to compare."""
    tokens, known = list(_TOKEN.finditer(text)), [sentence for sentence in reference if sentence]
    if not tokens or not known:
        return [text, *[""] * (len(reference) - 1)]
    lines = align(f"{_BEGIN} " + "\n".join(map(_tokenised, known)), f"{_BEGIN} {_tokenised(text)}").split("\n")
    if len(lines) != len(known):
        raise RuntimeError(f"mweralign gave {len(lines)} lines for {len(known)} sentences")
    ends = [_clean_cut(end - 1, tokens) for end in accumulate(len(line.split()) for line in lines)]
    bounds = [0, *(tokens[end].start() if end < len(tokens) else len(text) for end in ends)]
    pieces = iter([text[begin:end].strip() for begin, end in pairwise(bounds)])
    return [next(pieces) if sentence else "" for sentence in reference]


def _tokenised(text: str) -> str:
    return " ".join(token.lower() for token in _TOKEN.findall(text))


def _clean_cut(end: int, tokens: Sequence[re.Match[str]]) -> int:
    """Move a cut before token `end` to where words and their punctuation stay together."""

    def attached() -> bool:
        return 0 < end < len(tokens) and tokens[end - 1].end() == tokens[end].start()

    while attached() and tokens[end - 1][0] in _OPENING:
        end -= 1
    while attached():
        last, token = tokens[end - 1][0], tokens[end][0]
        if (token[0].isalnum() or token in _OPENING) and _IS_CJK.search(last + token):  # a sentence can begin here
            break
        end += 1
    return end


def mweralign() -> _Align:
    """Return the package's function, with its output suppressed."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with needing("--resegment needs mweralign", "evaluation"):
            from mweralign import align_texts
    finally:
        root.handlers[:] = handlers  # the package changes the process's logging
        root.setLevel(level)

    def align(reference: str, text: str) -> str:
        sys.stderr.flush()
        stderr = os.dup(2)  # C++ writes there, too
        try:
            with open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), 2)
            return str(align_texts(reference, text))
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)

    return align
