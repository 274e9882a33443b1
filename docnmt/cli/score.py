"""The command docnmt-score: translations against references, or a model on discourse tests.

words ─ scored: --contrastive, --generative, --sys, --path decide ─ the options of that work ─ a report
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from docnmt.apps.options import ModelsConfig
from docnmt.cli.command import SEARCH, Chosen, Command, Given, sections_of
from docnmt.core.scoring.config import (
    CONTEXT_SEED,
    AnswersConfig,
    ContrastiveConfig,
    GenerativeConfig,
    GivenContextConfig,
    QuestionsConfig,
    ReportConfig,
    ScoreConfig,
)
from docnmt.core.search.config import GenerationConfig
from docnmt.options import Section
from docnmt.runtime.launch import job_process
from docnmt.runtime.system import UsageError

if TYPE_CHECKING:
    from docnmt.core.scoring.discourse import Question

TRANSLATION = (Section("translation", ScoreConfig, use="to score a translation"), Section("report", ReportConfig))
QUESTIONS = (Section("questions", QuestionsConfig), Section("models", ModelsConfig, use="with --contrastive"))
CONTRASTIVE = (Section("contrastive", ContrastiveConfig, use="for contrastive scoring"), *QUESTIONS)
GENERATIVE = (
    Section("generative", GenerativeConfig, use="to look for expected words"),
    Section("answers", AnswersConfig),
)
_SEARCHING = (Section("given", GivenContextConfig), Section("generation", GenerationConfig), SEARCH)


class Report(Protocol):
    """The result of a command, printed as text or as JSON."""

    def to_dict(self) -> dict[str, object]:
        """Return the result as plain JSON types."""


#: A report, None in all processes of a job but the first, and whether it is wanted as JSON.
_Scored = tuple[Report | None, bool]


def _score(given: Given) -> None:
    report, as_json = scored(given)
    if report is not None:
        print(json.dumps(report.to_dict(), ensure_ascii=False, indent=1) if as_json else report)


def scored(given: Given) -> _Scored:
    """Score what the options name."""
    given.read_choices("contrastive", "generative", "sys", "path")
    if given.help is not None:
        SCORE.config(given)
    contrastive, generative, translations, path = (
        given.get(name) is not None for name in ("contrastive", "generative", "sys", "path")
    )
    if contrastive or (generative and path and not translations):  # the processes of a job divide it among them
        from docnmt.runtime.jobs import joined

        with joined():
            if contrastive:
                return _contrastive(_config(given, CONTRASTIVE, "with --contrastive"))
            return _generative(_config(given, (GENERATIVE[0], *QUESTIONS, *_SEARCHING), "with --generative and --path"))
    if job_process().rank:
        return None, False  # without a model the first process of a job does it all
    if not generative:
        config = _config(given, TRANSLATION, "without --contrastive FILE or --generative FILE")
        from docnmt.core.scoring.report import score_translation

        return score_translation(config["translation"], config["report"]), config["translation"].json
    if not translations:
        raise UsageError("--generative: give translations (--sys FILE) or a model (--path CKPT)")
    return _answers(_config(given, GENERATIVE, "with --generative and --sys"))


def _config(given: Given, parts: Sequence[Section | Chosen], when: str) -> dict[str, Any]:
    """The options of one kind of scoring; those of the others have no effect `when` it is done."""
    every = [section for part in SCORE.sections for section in sections_of(part)]
    names = {setting.name for section in every for setting in section.settings}
    return SCORE.config(given, parts, lambda name: when if name in names else "")


def _contrastive(config: dict[str, Any]) -> _Scored:
    options, models, path = config["questions"], config["models"], Path(config["contrastive"].contrastive)
    documents = _documents(options, models, path)
    from docnmt.apps.commands.generate import scorer
    from docnmt.core.scoring.discourse import contrastive_report, read_contrastive, with_contexts

    groups = read_contrastive(path, documents=documents)
    if hopeless := sum(group.hopeless for group in groups):
        print(
            f"note: in {hopeless:,} of {len(groups):,} groups a wrong translation is the right one, word for word; "
            "they count as not solved",
            file=sys.stderr,
        )
    changed = with_contexts(groups, options.context, seed=_seed(options))
    _note_unchanged(options, groups, changed)
    return contrastive_report(changed, scorer(models)), options.json


def _answers(config: dict[str, Any]) -> _Scored:
    from docnmt.core.scoring.discourse import generative_report, read_answers, read_questions

    answers = config["answers"]
    questions = read_questions(Path(config["generative"].generative))
    _note_hopeless(questions)
    texts = read_answers(Path(answers.sys), len(questions), answers.last_sentence)
    return generative_report(questions, texts), answers.json


def _generative(config: dict[str, Any]) -> _Scored:
    check_one_translation(config)
    options, models, path = config["questions"], config["models"], Path(config["generative"].generative)
    documents = _documents(options, models, path)
    from docnmt.apps.commands.generate import answers
    from docnmt.core.scoring.discourse import generative_report, in_contexts, read_questions

    questions = read_questions(path, documents=documents)
    _note_hopeless(questions)
    if not any(question.example.source_context for question in questions):
        print(f"note: no question of {path} has a context", file=sys.stderr)
    changed = in_contexts(questions, options.context, seed=_seed(options))
    _note_unchanged(options, questions, changed)
    texts = answers(changed, models, config["generation"], config["search"], given=config["given"].given_context)
    return generative_report(questions, texts), options.json


def _documents(options: QuestionsConfig, models: ModelsConfig, path: Path) -> Path | None:
    """Return the folder of contexts, after checking that options and test set are compatible."""
    if options.context == "none" and models.context_window is not None:
        raise UsageError("--context-window has no effect with --context none")
    if options.contrapro_documents is None:
        return None
    if path.suffix != ".json":
        raise UsageError(f"--contrapro-documents has no effect with {path}; it belongs to ContraPro's JSON")
    return Path(options.contrapro_documents)


def _seed(options: QuestionsConfig) -> int:
    return CONTEXT_SEED if options.context_seed is None else options.context_seed


def _note_unchanged(options: QuestionsConfig, before: Sequence[object], changed: Sequence[object]) -> None:
    if options.context != "true" and (same := sum(map(operator.eq, before, changed))):
        print(f"note: --context {options.context}: {same:,} of {len(before):,} stay as they are", file=sys.stderr)


def _note_hopeless(questions: Sequence[Question]) -> None:
    if hopeless := sum(question.hopeless for question in questions):
        print(
            f"note: {hopeless:,} of {len(questions):,} questions expect a form with ASCII punctuation, which the rule "
            "takes off translations; they count as not answered",
            file=sys.stderr,
        )


def check_one_translation(config: Mapping[str, Any]) -> None:
    """Refuse `--nbest` in commands that give each text one translation."""
    if getattr(config["search"], "nbest", 1) > 1:
        raise UsageError("--nbest has no effect: a text has one translation here; docnmt-generate prints several")


SCORE = Command(
    "score",
    "score translations, or a model on contrastive test sets",
    """Score a translation (--sys) against references (--ref): s-BLEU and chrF by sentence, d-BLEU by document, and
--metrics, with sacreBLEU's signatures. Files hold a sentence a line and empty lines between documents; the reference
says which empty line of --sys is a break and which a missing translation. With --resegment, --sys has the translation
of a document in any lines. Or have a model (--path) choose between right and wrong translations (--contrastive). Or
look for expected words in translations (--generative, with --sys or --path).""",
    """
docnmt-score --ref test.de --sys results/hypotheses.txt
docnmt-score --ref test.de0 test.de1 --sys hypotheses.txt --src test.en --paired other.txt --by position
docnmt-score --ref test.de --sys a1.txt a2.txt a3.txt --paired b1.txt b2.txt b3.txt --metrics chrF++ TER
docnmt-score --ref test.de --sys answers.txt --resegment --resegmented hypotheses.txt
docnmt-score --contrastive contrastive.tsv --path runs/bible
docnmt-score --contrastive contrastive.tsv --path runs/bible --context foreign --json
docnmt-score --generative questions.tsv --sys answers.txt
docnmt-score --generative questions.tsv --path runs/bible --beam 5
docnmt-score --generative questions.tsv --path runs/bible --given-context
""",
    (*TRANSLATION, *CONTRASTIVE, *GENERATIVE, *_SEARCHING),
    _score,
)
main = SCORE

if __name__ == "__main__":
    sys.exit(main())
