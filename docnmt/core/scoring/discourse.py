"""Contrastive and generative test sets: their files, contexts and reports.

file → `ContrastiveGroup`s or `Question`s → other contexts, if wished → a model's scores or translations → report
"""

from __future__ import annotations

import glob
import random
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, field

from docnmt.core.lines import TextLines
from docnmt.core.scoring.config import CONTEXT_SEED
from docnmt.core.tables import open_table, text_rows
from docnmt.runtime.system import Count, Name, OpenObject, UserError, checked, needing, parse_json, read_limited

# Contrastive evaluation: a group is one source sentence in its context with several translations, exactly one right. A
# model scores each (`docnmt.core.search.forced`); the group counts as solved when the right one scores strictly best
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
        given, surplus = self.target_context, len(self.target_context) - len(source)
        if surplus <= 0:
            return source, ("",) * -surplus + given
        return source, (" ".join(given[: surplus + 1]), *given[surplus + 1 :])


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


class _Report:
    """The results of a test by its labels; subclasses say what a cell of the table is."""

    columns: Sequence[tuple[str, int, str]]  # the figures of a printed row: name, width, form

    def __init__(self, labels: Sequence[Mapping[str, str]], right: Sequence[bool]) -> None:
        self._labels, self.right = labels, right

    def cell(self, numbers: Sequence[int]) -> dict[str, float]:
        """Return the figures of the questions with these numbers."""
        raise NotImplementedError

    def by(self, *names: str) -> dict[tuple[str, ...], dict[str, float]]:
        """Return the figures of the questions with each combination of these labels' values, in natural order."""
        numbers: dict[tuple[str, ...], list[int]] = {}
        for number, labels in enumerate(self._labels):
            numbers.setdefault(tuple(labels[name] for name in names), []).append(number)
        return {values: self.cell(numbers[values]) for values in sorted(numbers, key=lambda v: [*map(_natural, v)])}

    def _by_label(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the figures for every value of each label that all questions have."""
        names = [name for name in self._labels[0] if all(name in labels for labels in self._labels)]
        return {name: {value: cell for (value,), cell in self.by(name).items()} for name in names}

    def __str__(self) -> str:
        forms = {name: form for name, _, form in self.columns}

        def row(name: str, figures: Mapping[str, str]) -> str:
            return " ".join([f"{name:<24}", *(f"{figures.get(key, '-'):>{width}}" for key, width, _ in self.columns)])

        def written(cell: Mapping[str, float]) -> dict[str, str]:
            return {key: forms[key].format(value) for key, value in cell.items()}

        lines = [row("", dict(zip(forms, forms, strict=True))), row("all", written(self.by()[()]))]
        for name, cells in self._by_label().items():
            lines += ["", *(row(f"{name} {value or '-'}", written(cell)) for value, cell in cells.items())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {**self.by()[()], "by": self._by_label()}


class _ContrastiveReport(_Report):
    """Which groups were solved; `chance` is the accuracy of guessing, in percent."""

    columns = (("accuracy", 8, "{:.1f}%"), ("chance", 8, "{:.1f}%"), ("groups", 8, "{:,}"))

    def __init__(self, groups: Sequence[ContrastiveGroup], solved: Sequence[bool]) -> None:
        super().__init__([group.labels for group in groups], solved)
        self._groups = groups

    def cell(self, numbers: Sequence[int]) -> dict[str, float]:
        chance = sum(1 / len(self._groups[i].variants) for i in numbers) / len(numbers)
        accuracy = 100 * sum(self.right[i] for i in numbers) / len(numbers)
        return {"accuracy": accuracy, "chance": 100 * chance, "groups": len(numbers)}

    def to_dict(self) -> dict[str, Any]:
        solved = zip(self._labels, self.right, strict=True)
        return {**super().to_dict(), "solved": [{**labels, "solved": done} for labels, done in solved]}


def contrastive_report(
    groups: Sequence[ContrastiveGroup], score: Callable[[list[ForcedExample]], list[float]]
) -> _ContrastiveReport:
    """Score all variants of all groups and report which groups are solved. `score` returns the log-probabilities of the
    examples' last target sentences, in order."""
    if not groups:
        raise ValueError("there is no contrastive group to judge")
    examples = [variant for group in groups for variant in group.variants]
    scores = score(examples)
    if len(scores) != len(examples):
        raise ValueError(f"{len(scores)} scores for {len(examples)} examples")
    rest = iter(scores)
    return _ContrastiveReport(groups, [group.solved([next(rest) for _ in group.variants]) for group in groups])


def with_contexts(groups: Sequence[ContrastiveGroup], kind: str, *, seed: int = CONTEXT_SEED) -> list[ContrastiveGroup]:
    """Return the same questions in other contexts, which shows whether the model uses its context: `true` (unchanged),
    `shuffled` (the group's own context sentences in another order, if they are different), `foreign` (the context of a
    group with another source sentence), `none`."""
    rng = random.Random(seed)
    if kind == "true":
        return list(groups)
    if kind == "shuffled":
        if not any(len(set(group.variants[0].source_context)) > 1 for group in groups):
            raise UserError("no group has two different context sentences that could be shuffled; use another context")
        return [_shuffled(group, rng) for group in groups]
    if kind not in ("none", "foreign"):
        raise ValueError(f"no context '{kind}'; there are true, shuffled, foreign, none")
    changed = []
    for group in groups:
        other = ForcedExample((), "", (), "")
        if kind == "foreign":
            other = _asking_otherwise(groups, group.variants[0].source, rng)
        source, target = other.source_context, other.target_context
        variants = (replace(variant, source_context=source, target_context=target) for variant in group.variants)
        changed.append(replace(group, variants=tuple(variants)))
    return changed


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


def _asking_otherwise(groups: Sequence[ContrastiveGroup], source: str, rng: random.Random) -> ForcedExample:
    for _ in range(1000):
        if (other := groups[rng.randrange(len(groups))].variants[0]).source != source:
            return other
    raise UserError(f"no other group's context can replace that of '{source}': all ask about the same sentence")


def _natural(value: str) -> tuple[bool, float, str]:
    """A sorting key that puts numbers, by size, before words."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value


# Reading of contrastive test sets in their known formats.
# - TSV with a row for every translation: `group correct src_context src tgt_context tgt` and label columns; also
#   `ctx_en src_en ctx_de tgt_de`, any two languages. Contexts are sentences joined by `<SEP>`.
# - ContraPro's JSON (Müller et al. 2018), with the OpenSubtitles documents it was made from, or without context.
# - DiscEvalMT's JSON (Bawden et al. 2018): anaphora and lexical choice.


_SEPARATOR = "<SEP>"
#: The sentences of a text, one or more.
_Texts = Annotated[list[str], Meta(min_length=1)]
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


def _read_contrastive_tsv(path: Path) -> list[ContrastiveGroup]:
    header, table_rows = _read_rows(path)
    columns = _column_names(header)
    if not {"group", "correct"} <= set(header) or len(columns) < len(_COLUMNS):
        raise UserError(
            f"{path}:1: expected the columns group, correct, {', '.join(_COLUMNS)} "
            f"(or ctx_en, src_en, ctx_de, tgt_de), got {', '.join(header)[:200]}"
        )
    rows: dict[str, list[dict[str, str]]] = {}
    for _, row in table_rows:
        rows.setdefault(row["group"], []).append(row)
    names = [columns[name] for name in _COLUMNS]
    labels = [name for name in header if name not in ("group", "correct", *names)]
    return [_group_of_rows(path, name, members, names, labels) for name, members in rows.items()]


def _read_rows(path: Path) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """Read the columns of a table, and the place and texts of each row; empty lines are left out."""
    table = open_table(path)
    if taken := [name for name in _RESULTS if name in table.names]:
        raise UserError(f"{path}:1: rename the column '{taken[0]}', which is the name of what is found")
    rows = [(place, row) for place, row in text_rows(table, table.names) if any(map(str.strip, row.values()))]
    for place, row in rows:
        if row.get("correct", "1") not in ("0", "1"):
            raise UserError(f"{place}: column 'correct' must be 0 or 1, got '{row['correct']}'")
    return table.names, rows


def _column_names(header: Sequence[str]) -> dict[str, str]:
    """Map the present columns of `_COLUMNS` to their names in this header."""
    names = {name: name for name in _COLUMNS if name in header}
    for language in [name[4:] for name in header if name.startswith("ctx_")]:
        for side in ("src", "tgt"):
            if f"{side}_{language}" in header:
                names |= {f"{side}_context": f"ctx_{language}", side: f"{side}_{language}"}
    return names


def _group_of_rows(
    path: Path, name: str, rows: Sequence[dict[str, str]], columns: Sequence[str], labels: Sequence[str]
) -> ContrastiveGroup:
    right = [i for i, row in enumerate(rows) if row["correct"] == "1"]
    if len(right) != 1 or len(rows) < 2:
        raise UserError(
            f"{path}: group {name} has {len(right)} correct of {len(rows)} rows; expected one of two or more"
        )
    source_context, source, target_context, target = columns
    variants = tuple(
        ForcedExample(_sentences_of(row[source_context]), row[source], _sentences_of(row[target_context]), row[target])
        for row in rows
    )
    if len({(variant.source_context, variant.source) for variant in variants}) != 1:
        raise UserError(f"{path}: the rows of group {name} must be translations of one source sentence in one context")
    if not variants[0].source.strip():
        raise UserError(f"{path}: group {name} has no source sentence; expected text in the column {source}")
    return ContrastiveGroup(variants, right[0], {label: rows[right[0]][label] for label in labels})


def _sentences_of(context: str) -> tuple[str, ...]:
    return tuple(sentence.strip() for sentence in context.split(_SEPARATOR)) if context.strip() else ()


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
    if block.examples is None and (block.src is None or block.trg is None):
        raise UserError(
            f"{where}: neither ContraPro's nor DiscEvalMT's JSON form: no 'examples', and no 'src' and 'trg'"
        )
    for example in block.examples or ():
        yield _discevalmt_pair(where, example.src, example.trg, {"type": block.type})
    for target in block.trg or () if block.examples is None else ():
        right = "semi-correct" if target.correct is None else "correct"
        yield _discevalmt_pair(where, block.src or [], target, {"type": target.type, "antecedent": right})


def _discevalmt_pair(where: str, source: Sequence[str], target: _Target, labels: dict[str, str]) -> ContrastiveGroup:
    """Build a group whose target context is the right side's, also for the wrong side's last sentence."""
    right = target.semi_correct if target.correct is None else target.correct
    if right is None:
        raise UserError(f"{where}: expected 'correct' or 'semi-correct' beside 'incorrect'")
    context, variants = tuple(right[:-1]), (right[-1], target.incorrect[-1])
    examples = (ForcedExample(tuple(source[:-1]), source[-1], context, variant) for variant in variants)
    return ContrastiveGroup(tuple(examples), 0, labels)


# Generative evaluation of discourse: whether translations have the word forms that depend on context.
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


class GenerativeReport(_Report):
    """Which questions were answered by these translations, and by the references where there are some."""

    columns = (("accuracy", 8, "{:.1f}%"), ("reference", 9, "{:.1f}%"), ("questions", 9, "{:,}"))

    def __init__(self, questions: Sequence[Question], translations: Sequence[str]) -> None:
        answered = [question.answered(text) for question, text in zip(questions, translations, strict=True)]
        super().__init__([question.labels for question in questions], answered)
        self._questions = questions

    def cell(self, numbers: Sequence[int]) -> dict[str, float]:
        """Return accuracies of system and references in percent, and the number of questions."""
        cell = {"accuracy": 100 * sum(self.right[i] for i in numbers) / len(numbers), "questions": len(numbers)}
        questions = [self._questions[i] for i in numbers]
        if all(question.example.target for question in questions):
            references = sum(question.answered(question.example.target) for question in questions)
            cell["reference"] = 100 * references / len(numbers)
        return cell

    def to_dict(self) -> dict[str, Any]:
        """Return accuracies overall and by each label, and for every question whether it was answered."""
        results = zip(self._questions, self.right, strict=True)
        answered = [{**one.labels, "expected": one.expected, "answered": done} for one, done in results]
        return {**super().to_dict(), "answered": answered}


# Reading of generative test sets, with the form expected in each translation, and of translations.
# - TSV with a row per question: `expected` (or `pronoun`) and, if known, `src_context src tgt_context tgt` (or
#   `ctx_en src_en ctx_de tgt_de`), and labels. In a contrastive test set the rows that are `correct` are questions.
# - ctxpro's JSON (Wicks and Post 2023), which has no contexts; ContraPro's JSON with its documents.


def read_questions(path: Path, *, documents: Path | None = None) -> list[Question]:
    """Read the questions of a file, in order; `documents` as in `read_contrastive`."""
    questions = _read_generative_json(path, documents) if path.suffix == ".json" else _read_generative_tsv(path)
    if not questions:
        raise UserError(f"{path}: holds no question")
    return questions


def _read_generative_tsv(path: Path) -> list[Question]:
    header, rows = _read_rows(path)
    columns = _column_names(header)
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
        source_context, source, target_context, target = (row.get(columns.get(name, ""), "") for name in _COLUMNS)
        example = ForcedExample(_sentences_of(source_context), source, _sentences_of(target_context), target)
        questions.append(Question(example, row[expected].strip(), {name: row[name] for name in labels}))
    return questions


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


def in_contexts(questions: Sequence[Question], kind: str, *, seed: int) -> list[Question]:
    """Return the same questions in other contexts (see `with_contexts`)."""
    groups = [ContrastiveGroup((question.example,), 0, question.labels) for question in questions]
    changed = with_contexts(groups, kind, seed=seed)
    return [replace(question, example=group.variants[0]) for question, group in zip(questions, changed, strict=True)]


def read_answers(path: Path, number: int, language: str | None) -> list[str]:
    """Read the translations of `number` questions, one per line. With a language, a line begins with the context's
    translation, and the answer is its last sentence by ctxpro's rules."""
    lines = list(TextLines(path))
    if len(lines) != number:
        raise UserError(f"{path}: {len(lines):,} lines, but there are {number:,} questions; expected a line for each")
    return lines if language is None else [*map(_last_sentence(language), lines)]


def _last_sentence(language: str) -> Callable[[str], str]:
    with needing("--last-sentence needs sentence-splitter", "evaluation"):
        from sentence_splitter import SentenceSplitter, SentenceSplitterException
    try:
        split = SentenceSplitter(language=language).split
    except SentenceSplitterException as error:
        raise UserError(f"--last-sentence {language}: {' '.join(str(error).split())}") from error
    return lambda line: [line, *split(text=line.strip())][-1]
