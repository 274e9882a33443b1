"""Reading of generative test sets, with the form expected in each translation, and of translations.

- TSV with a row per question: `expected` (or `pronoun`) and, if known, `src_context src tgt_context tgt` (or
  `ctx_en src_en ctx_de tgt_de`), and labels. In a contrastive test set the rows that are `correct` are questions.
- ctxpro's JSON (Wicks and Post 2023), which has no contexts; ContraPro's JSON with its documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import field

from docnmt.core.lines import TextLines
from docnmt.core.scoring.contrastive import ContrastiveGroup, ForcedExample, with_contexts
from docnmt.core.scoring.contrastive_files import (
    COLUMNS,
    column_names,
    read_contrastive,
    read_json,
    read_rows,
    sentences_of,
)
from docnmt.core.scoring.generative import Question
from docnmt.runtime.errors import UserError
from docnmt.runtime.structured import OpenObject, checked


def read_questions(path: Path, *, documents: Path | None = None) -> list[Question]:
    """Read the questions of a file, in order.

    Args:
        documents: for ContraPro's JSON, the folder of OpenSubtitles documents that its `setup_opensubs.sh` makes.

    Raises:
        UserError: the file is unreadable or in none of the formats above; the message names the line or entry.
    """
    questions = _read_generative_json(path, documents) if path.suffix == ".json" else _read_generative_tsv(path)
    if not questions:
        raise UserError(f"{path}: holds no question")
    return questions


def _read_generative_tsv(path: Path) -> list[Question]:
    header, rows = read_rows(path)
    columns = column_names(header)
    expected = next((name for name in ("expected", "pronoun") if name in header), None)
    if expected is None:
        raise UserError(f"{path}:1: expected a column 'expected' or 'pronoun', got {', '.join(header)[:200]}")
    labels = [name for name in header if name not in ("group", "correct", "expected", *columns.values())]
    questions = []
    for place, row in rows:
        if row.get("correct", "1") != "1":
            continue
        if not row[expected].strip():
            raise UserError(f"{place}: nothing in the column '{expected}'; expected what a translation should have")
        source_context, source, target_context, target = (row.get(columns.get(name, ""), "") for name in COLUMNS)
        example = ForcedExample(sentences_of(source_context), source, sentences_of(target_context), target)
        questions.append(Question(example, row[expected].strip(), {name: row[name] for name in labels}))
    return questions


class _CtxproEntry(OpenObject):
    source: str = field(name="src segment")
    reference: str = field(name="ref segment")
    expected: str
    rule: str


def _read_generative_json(path: Path, documents: Path | None) -> list[Question]:
    content = read_json(path)
    if isinstance(content, list) and content and isinstance(content[0], dict) and "expected" in content[0]:
        return [
            Question(ForcedExample((), entry.source, (), entry.reference), entry.expected, {"rule": entry.rule})
            for entry in checked(content, list[_CtxproEntry], f"{path}: not ctxpro's JSON form")
        ]
    groups = read_contrastive(path, documents=documents)
    if "pronoun" not in groups[0].labels:
        raise UserError(f"{path}: neither ctxpro's nor ContraPro's JSON form, which say what is expected")
    return [
        Question(group.variants[group.correct], group.labels["pronoun"].rpartition(":")[2], group.labels)
        for group in groups
    ]


def in_contexts(questions: Sequence[Question], kind: str, *, seed: int) -> list[Question]:
    """Return the same questions in other contexts (see `docnmt.core.scoring.contrastive.with_contexts`).

    Raises:
        UserError: see there.
    """
    groups = [ContrastiveGroup((question.example,), 0, question.labels) for question in questions]
    changed = with_contexts(groups, kind, seed=seed)
    return [replace(each, example=group.variants[0]) for each, group in zip(questions, changed, strict=True)]


def read_answers(path: Path, number: int, language: str | None) -> list[str]:
    """Read the translations of `number` questions, one per line.

    Args:
        language: if given, each line begins with the context's translation, and the answer is its last sentence by
            ctxpro's rules for this language.

    Raises:
        UserError: another number of lines, or the package with ctxpro's rules is missing or does not know the language.
    """
    lines = list(TextLines(path))
    if len(lines) != number:
        raise UserError(f"{path}: {len(lines):,} lines, but there are {number:,} questions; expected a line for each")
    return lines if language is None else [*map(_last_sentence(language), lines)]


def _last_sentence(language: str) -> Callable[[str], str]:
    try:
        from sentence_splitter import SentenceSplitter, SentenceSplitterException
    except ImportError as error:
        raise UserError("--last-sentence needs sentence-splitter: pip install 'docnmt[ctxpro]'") from error
    try:
        split = SentenceSplitter(language=language).split
    except SentenceSplitterException as error:
        raise UserError(f"--last-sentence {language}: {' '.join(str(error).split())}") from error
    return lambda line: [line, *split(text=line.strip())][-1]
