"""Contrastive and generative test sets: their files, contexts and reports.

file → `ContrastiveGroup`s or `Question`s → other contexts, if wished → a model's scores or translations → report
"""

from __future__ import annotations

import glob
import random
import string
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, field

from docnmt.core.read_corpus import TextLines
from docnmt.core.scoring.config import CONTEXT_SEED
from docnmt.core.tables import open_table, text_rows
from docnmt.runtime.system import Count, Name, OpenObject, UserError, checked, needing, parse_json, read_limited

# Contrastive evaluation: a group is one source sentence in its context with several translations, exactly one right. A
# model scores each (`docnmt.core.search.translate`); the group counts as solved when the right one scores strictly best
# (Sennrich 2017; Müller et al. 2018).


@dataclass(frozen=True)
class ForcedExample:
    """A translation to score: log p(target | source, contexts), where the target context is given, not generated."""

    source_context: tuple[str, ...]  # the sentences before `source` in its document, in order
    source: str
    target_context: tuple[str, ...]  # their translations, as many, or none
    target: str

    def contexts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return source and target context with as many sentences as the source's has; one if only the target has any.
        Missing target sentences are empty, surplus ones are joined with the first."""
        source = self.source_context or ("",) * min(1, len(self.target_context))
        target, surplus = self.target_context, len(self.target_context) - len(source)
        if surplus <= 0:
            return source, ("",) * -surplus + target
        return source, (" ".join(target[: surplus + 1]), *target[surplus + 1 :])


@dataclass(frozen=True)
class ContrastiveGroup:
    """Several translations of one sentence; `correct` is the index of the right one."""

    variants: tuple[ForcedExample, ...]
    correct: int
    labels: dict[str, str]

    @property
    def hopeless(self) -> bool:
        """True if a wrong translation equals the right one, so that no scores can tell them apart."""
        return [variant.target for variant in self.variants].count(self.variants[self.correct].target) > 1

    def solved(self, scores: Sequence[float]) -> bool:
        """Return True if the right variant has strictly the best of `scores`, one per variant."""
        return all(scores[self.correct] > s for i, s in enumerate(scores) if i != self.correct)


# Generative evaluation: whether translations have the word forms that depend on context.
# ctxpro's rule (Wicks and Post 2023, Identifying Context-Dependent Translations for Evaluation Set Production): without
# case and ASCII punctuation, the expected form occurs between spaces, or at an end. So the form counts anywhere in the
# sentence, and another right translation does not count: only differences between systems or contexts matter.

_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Question:
    """A sentence in its context, whose target is a reference or empty, with the form expected in a translation."""

    example: ForcedExample
    expected: str
    labels: dict[str, str]

    @property
    def hopeless(self) -> bool:
        """True if no translation can have the form, because the rule removes its punctuation."""
        return self.expected != self.expected.translate(_PUNCTUATION)

    def answered(self, translation: str) -> bool:
        """Return True if the form occurs in the translation as a word, or as consecutive words."""
        return f" {self.expected.lower()} " in f" {translation.strip().lower().translate(_PUNCTUATION)} "


@dataclass(frozen=True)
class DiscourseReport:
    """Which groups or questions came out right, by their labels; beside it another figure of them, in percent."""

    labels: Sequence[Mapping[str, str]]
    right: Sequence[bool]
    noun: str  # of what is counted, and of its coming out right
    result: str
    beside: str
    figure: Callable[[Sequence[int]], float | None]  # of those with some numbers
    details: Sequence[Mapping[str, str]]  # of each, for JSON

    def by(self, *names: str) -> dict[tuple[str, ...], dict[str, float]]:
        """Return the figures for each combination of these labels' values, numbers by size before words."""

        def natural(value: str) -> tuple[bool, float, str]:
            try:
                return False, float(value), value
            except ValueError:
                return True, 0.0, value

        numbers = defaultdict[tuple[str, ...], list[int]](list)
        for number, labels in enumerate(self.labels):
            numbers[tuple(labels[name] for name in names)].append(number)
        return {values: self._cell(numbers[values]) for values in sorted(numbers, key=lambda v: [*map(natural, v)])}

    def _cell(self, numbers: Sequence[int]) -> dict[str, float]:
        accuracy = 100 * sum(self.right[i] for i in numbers) / len(numbers)
        figures = {"accuracy": accuracy, self.beside: self.figure(numbers), self.noun: len(numbers)}
        return {name: value for name, value in sorted(figures.items()) if value is not None}

    def _by_label(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the figures for every value of each label that all have."""
        names = [name for name in self.labels[0] if all(name in labels for labels in self.labels)]
        return {name: {value: cell for (value,), cell in self.by(name).items()} for name in names}

    def __str__(self) -> str:
        columns = ("accuracy", self.beside, self.noun)

        def row(name: str, cells: Mapping[str, str]) -> str:
            return " ".join([f"{name:<24}", *(f"{cells.get(key, '-'):>{max(8, len(key))}}" for key in columns)])

        def shown(cell: Mapping[str, float]) -> dict[str, str]:
            return {key: f"{value:,}" if key == self.noun else f"{value:.1f}%" for key, value in cell.items()}

        lines = [row("", {name: name for name in columns}), row("all", shown(self.by()[()]))]
        for name, cells in self._by_label().items():
            lines += ["", *(row(f"{name} {value or '-'}", shown(cell)) for value, cell in cells.items())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return figures overall and by each label, and what came of each group or question."""
        results = [{**row, self.result: done} for row, done in zip(self.details, self.right, strict=True)]
        return {**self.by()[()], "by": self._by_label(), self.result: results}


def contrastive_report(
    groups: Sequence[ContrastiveGroup], score: Callable[[list[ForcedExample]], list[float]]
) -> DiscourseReport:
    """Score all variants of all groups and report which groups are solved, beside the accuracy of guessing. `score`
    returns the log-probabilities of the examples' last target sentences, in order."""
    scores = iter(score([variant for group in groups for variant in group.variants]))
    solved = [group.solved([next(scores) for _ in group.variants]) for group in groups]
    labels = [group.labels for group in groups]

    def chance(numbers: Sequence[int]) -> float:
        return 100 * (sum(1 / len(groups[i].variants) for i in numbers) / len(numbers))

    return DiscourseReport(labels, solved, "groups", "solved", "chance", chance, labels)


def generative_report(questions: Sequence[Question], translations: Sequence[str]) -> DiscourseReport:
    """Report which questions are answered by these translations, beside those by the references, if all have one."""
    answered = [question.answered(text) for question, text in zip(questions, translations, strict=True)]

    def of_references(numbers: Sequence[int]) -> float | None:
        some = [questions[i] for i in numbers]
        if not all(question.example.target for question in some):
            return None
        return 100 * sum(question.answered(question.example.target) for question in some) / len(some)

    labels = [question.labels for question in questions]
    details = [{**question.labels, "expected": question.expected} for question in questions]
    return DiscourseReport(labels, answered, "questions", "answered", "reference", of_references, details)


# Other contexts.


def with_contexts(groups: Sequence[ContrastiveGroup], kind: str, *, seed: int = CONTEXT_SEED) -> list[ContrastiveGroup]:
    """Return the same questions in other contexts, which shows whether the model uses its context: `true` (unchanged),
    `shuffled` (the group's own context sentences in another order, if they are different), `foreign` (the context of a
    group with another source sentence), `none`."""
    if kind == "true":
        return list(groups)
    rng = random.Random(seed)
    if kind == "shuffled":
        if not any(len(set(group.variants[0].source_context)) > 1 for group in groups):
            raise UserError("no group has two different context sentences that could be shuffled; use another context")
        return [_shuffled(group, rng) for group in groups]

    def context_for(source: str) -> ForcedExample:
        for _ in range(1000):
            if kind == "none" or (other := groups[rng.randrange(len(groups))].variants[0]).source != source:
                return ForcedExample((), "", (), "") if kind == "none" else other
        raise UserError(f"no other group's context can replace that of '{source}': all ask about the same sentence")

    changed = []
    for group in groups:
        other = context_for(group.variants[0].source)
        source, target = other.source_context, other.target_context
        variants = (replace(variant, source_context=source, target_context=target) for variant in group.variants)
        changed.append(replace(group, variants=tuple(variants)))
    return changed


def in_contexts(questions: Sequence[Question], kind: str, *, seed: int) -> list[Question]:
    """Return the same questions in other contexts (see `with_contexts`)."""
    groups = [ContrastiveGroup((question.example,), 0, question.labels) for question in questions]
    changed = with_contexts(groups, kind, seed=seed)
    return [replace(question, example=group.variants[0]) for question, group in zip(questions, changed, strict=True)]


def _shuffled(group: ContrastiveGroup, rng: random.Random) -> ContrastiveGroup:
    context = group.variants[0].source_context
    order = list(range(len(context)))
    while len(set(context)) > 1 and tuple(context[i] for i in order) == context:
        rng.shuffle(order)
    variants = []
    for variant in group.variants:
        source, target = (tuple(side[i] for i in order) for side in variant.contexts())
        target = target if variant.target_context else ()
        variants.append(replace(variant, source_context=source, target_context=target))
    return replace(group, variants=tuple(variants))


# Tables, of one row for every translation or question; contexts are sentences joined by `<SEP>`.
# - contrastive: `group correct src_context src tgt_context tgt` and label columns; also `ctx_en src_en ctx_de tgt_de`,
#   any two languages.
# - generative: `expected` (or `pronoun`) and, if known, those columns, and labels. In a contrastive test set the rows
#   that are `correct` are questions.

_SEPARATOR = "<SEP>"
_COLUMNS = ("src_context", "src", "tgt_context", "tgt")
#: The keys that `--json` writes for a question besides its labels, which cannot have these names.
_RESULTS = ("solved", "answered")


def read_contrastive(path: Path, *, documents: Path | None = None) -> list[ContrastiveGroup]:
    """Read the groups of a contrastive test set, in the file's order; `documents` is the folder of OpenSubtitles
    documents that ContraPro's `setup_opensubs.sh` makes."""
    if path.suffix != ".json":
        groups = _read_contrastive_tsv(path)
    elif isinstance(content := parse_json(read_limited(path), str(path)), list):
        entries = checked(content, list[_ContraProEntry], f"{path}: not ContraPro's JSON form")
        groups = [_contrapro(entry, documents) for entry in entries]
    else:
        blocks = checked(content, dict[str, _Block], f"{path}: neither ContraPro's nor DiscEvalMT's JSON form")
        groups = [group for number, block in blocks.items() for group in _discevalmt(f"{path}: '{number}'", block)]
    if not groups:
        raise UserError(f"{path}: holds no contrastive group")
    return groups


def read_questions(path: Path, *, documents: Path | None = None) -> list[Question]:
    """Read the questions of a generative test set, in order; `documents` as in `read_contrastive`."""
    questions = _read_generative_json(path, documents) if path.suffix == ".json" else _read_generative_tsv(path)
    if not questions:
        raise UserError(f"{path}: holds no question")
    return questions


class _Rows:
    """The rows of a table, with their places, and the names of its columns; empty lines are left out."""

    def __init__(self, path: Path) -> None:
        table = open_table(path)
        self.header = table.names
        if taken := [name for name in _RESULTS if name in self.header]:
            raise UserError(f"{path}:1: rename the column '{taken[0]}', which is the name of what is found")
        rows = text_rows(table, self.header)
        self.rows = [(where, row) for where, row in rows if any(map(str.strip, row.values()))]
        for where, row in self.rows:
            if row.get("correct", "1") not in ("0", "1"):
                raise UserError(f"{where}: column 'correct' must be 0 or 1, got '{row['correct']}'")
        #: The present columns of `_COLUMNS` by their names there.
        self.columns = {name: name for name in _COLUMNS if name in self.header}
        for language in [name[4:] for name in self.header if name.startswith("ctx_")]:
            for side in ("src", "tgt"):
                if f"{side}_{language}" in self.header:
                    self.columns |= {f"{side}_context": f"ctx_{language}", side: f"{side}_{language}"}

    def labels(self, *others: str) -> list[str]:
        """Return the columns that are labels: none of `others`, nor text."""
        return [name for name in self.header if name not in ("group", "correct", *others, *self.columns.values())]

    def example(self, row: Mapping[str, str]) -> ForcedExample:
        texts = {name: row.get(self.columns.get(name, ""), "") for name in _COLUMNS}
        source_context, target_context = (
            tuple(map(str.strip, context.split(_SEPARATOR))) if context.strip() else ()
            for context in (texts["src_context"], texts["tgt_context"])
        )
        return ForcedExample(source_context, texts["src"], target_context, texts["tgt"])


def _read_contrastive_tsv(path: Path) -> list[ContrastiveGroup]:
    table = _Rows(path)
    if not {"group", "correct"} <= set(table.header) or len(table.columns) < len(_COLUMNS):
        raise UserError(
            f"{path}:1: expected the columns group, correct, {', '.join(_COLUMNS)} "
            f"(or ctx_en, src_en, ctx_de, tgt_de), got {', '.join(table.header)[:200] or 'nothing'}"
        )
    by_group = defaultdict[str, list[dict[str, str]]](list)
    for _, row in table.rows:
        by_group[row["group"]].append(row)
    groups, labels = [], table.labels()
    for name, rows in by_group.items():
        right = [i for i, row in enumerate(rows) if row["correct"] == "1"]
        if len(right) != 1 or len(rows) < 2:
            raise UserError(
                f"{path}: group {name} has {len(right)} correct of {len(rows)} rows; expected one of two or more"
            )
        variants = tuple(map(table.example, rows))
        if len({(variant.source_context, variant.source) for variant in variants}) != 1:
            raise UserError(
                f"{path}: the rows of group {name} must be translations of one source sentence in one context"
            )
        if not variants[0].source.strip():
            column = table.columns["src"]
            raise UserError(f"{path}: group {name} has no source sentence; expected text in the column {column}")
        groups.append(ContrastiveGroup(variants, right[0], {label: rows[right[0]][label] for label in labels}))
    return groups


def _read_generative_tsv(path: Path) -> list[Question]:
    table = _Rows(path)
    expected = next((name for name in ("expected", "pronoun") if name in table.header), None)
    if expected is None:
        raise UserError(f"{path}:1: expected a column 'expected' or 'pronoun', got {', '.join(table.header)[:200]}")
    questions, labels = [], table.labels("expected")
    for where, row in table.rows:
        if row.get("correct", "1") == "1":
            if not (form := row[expected].strip()):
                raise UserError(f"{where}: nothing in the column '{expected}'; expected what a translation should have")
            questions.append(Question(table.example(row), form, {name: row[name] for name in labels}))
    return questions


# JSON: ContraPro's (Müller et al. 2018), with the OpenSubtitles documents it was made from, or without context;
# DiscEvalMT's (Bawden et al. 2018), anaphora and lexical choice; ctxpro's (Wicks and Post 2023), without contexts.

#: The sentences of a text, one or more.
_Texts = Annotated[list[str], Meta(min_length=1)]


class _Wrong(OpenObject):
    contrastive: str


class _ContraProEntry(OpenObject):
    src_segment: str = field(name="src segment")
    ref_segment: str = field(name="ref segment")
    src_pronoun: str = field(name="src pronoun")
    ref_pronoun: str = field(name="ref pronoun")
    ante_distance: int = field(name="ante distance")
    errors: list[_Wrong]
    document_id: Name | None = field(name="document id", default=None)
    segment_id: Count | None = field(name="segment id", default=None)


def _contrapro(entry: _ContraProEntry, documents: Path | None) -> ContrastiveGroup:
    context: dict[str, tuple[str, ...]] = {".en": (), ".de": ()}  # the sentences before this one in its document
    if documents:
        if entry.document_id is None or not entry.segment_id:
            raise UserError(f"{documents}: an entry has no 'document id' and 'segment id', so its context is unknown")
        document = next(documents.glob(f"*/{glob.escape(entry.document_id)}"), None)
        if document is None:
            raise UserError(f"{documents}: no document '{entry.document_id}' in any of its folders")
        before = entry.segment_id - 1
        context = {side: tuple(islice(TextLines(document.with_suffix(side)), before)) for side in context}
    targets = [entry.ref_segment, *(error.contrastive for error in entry.errors)]
    labels = {
        "pronoun": f"{entry.src_pronoun}:{entry.ref_pronoun}".lower(),
        "distance": ">3" if entry.ante_distance > 3 else str(entry.ante_distance),  # as in ContraPro's own report
    }
    variants = (ForcedExample(context[".en"], entry.src_segment, context[".de"], target) for target in targets)
    return ContrastiveGroup(tuple(variants), 0, labels)


class _Target(OpenObject):
    """A right translation (`correct` or `semi-correct`) and a wrong one, each with its context."""

    incorrect: _Texts
    correct: _Texts | None = None
    semi_correct: _Texts | None = field(name="semi-correct", default=None)
    type: str = ""


class _Example(OpenObject):
    src: _Texts
    trg: _Target


class _Block(OpenObject):
    """A block of DiscEvalMT: lexical choice has examples with own sources, anaphora one source with several targets."""

    examples: list[_Example] | None = None
    src: _Texts | None = None
    trg: list[_Target] | None = None
    type: str = ""


def _discevalmt(where: str, block: _Block) -> Iterator[ContrastiveGroup]:
    """Yield groups whose target context is the right side's, also for the wrong side's last sentence."""
    if block.examples is None and (block.src is None or block.trg is None):
        raise UserError(
            f"{where}: neither ContraPro's nor DiscEvalMT's JSON form: no 'examples', and no 'src' and 'trg'"
        )
    pairs = [(example.src, example.trg, {"type": block.type}) for example in block.examples or ()]
    if block.examples is None:
        for target in block.trg or ():
            antecedent = "semi-correct" if target.correct is None else "correct"
            pairs.append((block.src or [], target, {"type": target.type, "antecedent": antecedent}))
    for source, target, labels in pairs:
        right = target.semi_correct if target.correct is None else target.correct
        if right is None:
            raise UserError(f"{where}: expected 'correct' or 'semi-correct' beside 'incorrect'")
        source_context, context = tuple(source[:-1]), tuple(right[:-1])
        lasts = (right[-1], target.incorrect[-1])
        variants = tuple(ForcedExample(source_context, source[-1], context, last) for last in lasts)
        yield ContrastiveGroup(variants, 0, labels)


class _CtxproEntry(OpenObject):
    source: str = field(name="src segment")
    reference: str = field(name="ref segment")
    expected: str
    rule: str


def _read_generative_json(path: Path, documents: Path | None) -> list[Question]:
    content = parse_json(read_limited(path), str(path))
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


# Translations to be evaluated.


def read_answers(path: Path, number: int, language: str | None) -> list[str]:
    """Read the translations of `number` questions, one per line. With a language, a line begins with the context's
    translation, and the answer is its last sentence by ctxpro's rules."""
    lines = list(TextLines(path))
    if len(lines) != number:
        raise UserError(f"{path}: {len(lines):,} lines, but there are {number:,} questions; expected a line for each")
    if language is None:
        return lines
    with needing("--last-sentence needs sentence-splitter", "evaluation"):
        from sentence_splitter import SentenceSplitter, SentenceSplitterException
    try:
        split = SentenceSplitter(language=language).split
    except SentenceSplitterException as error:
        raise UserError(f"--last-sentence {language}: {' '.join(str(error).split())}") from error
    return [[line, *split(text=line.strip())][-1] for line in lines]
