"""Generative evaluation of discourse: whether translations have the word forms that depend on context.

ctxpro's rule (Wicks and Post 2023, Identifying Context-Dependent Translations for Evaluation Set Production): without
case and ASCII punctuation, the expected form occurs between spaces, or at an end. So the form counts anywhere
in the sentence, and another right translation does not count: only differences between systems or contexts matter.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docnmt.core.scoring.contrastive import ForcedExample, cells, shared_labels

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


@dataclass(frozen=True, eq=False)
class GenerativeReport:
    """The results of a generative test: which questions were answered, by the system and by the references."""

    questions: Sequence[Question]
    answered: Sequence[bool]

    @classmethod
    def of(cls, questions: Sequence[Question], translations: Sequence[str]) -> GenerativeReport:
        """Check a translation for each question."""
        return cls(questions, [one.answered(text) for one, text in zip(questions, translations, strict=True)])

    def by(self, *names: str) -> dict[tuple[str, ...], dict[str, float]]:
        """Return accuracies of system and references in percent, and the number of questions, by these labels."""
        found = cells([question.labels for question in self.questions], *names)
        return {key: self._accuracy(indices) for key, indices in found.items()}

    def _accuracy(self, indices: Sequence[int]) -> dict[str, float]:
        right = sum(self.answered[i] for i in indices)
        found = {"accuracy": 100 * right / len(indices), "questions": len(indices)}
        questions = [self.questions[i] for i in indices]
        if all(question.example.target for question in questions):
            references = sum(question.answered(question.example.target) for question in questions)
            found["reference"] = 100 * references / len(indices)
        return found

    def __str__(self) -> str:
        lines = [f"{'':<24} {'accuracy':>8} {'reference':>9} {'questions':>9}", _line("all", self.by()[()])]
        for name in shared_labels([question.labels for question in self.questions]):
            lines += ["", *(_line(f"{name} {value or '-'}", cell) for (value,), cell in self.by(name).items())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return accuracies overall and by each label, and for every question whether it was answered."""
        names = shared_labels([question.labels for question in self.questions])
        return {
            **self.by()[()],
            "by": {name: {value: cell for (value,), cell in self.by(name).items()} for name in names},
            "answered": [
                {**question.labels, "expected": question.expected, "answered": done}
                for question, done in zip(self.questions, self.answered, strict=True)
            ],
        }


def _line(name: str, cell: dict[str, float]) -> str:
    reference = f"{cell['reference']:8.1f}%" if "reference" in cell else f"{'-':>9}"
    return f"{name:<24} {cell['accuracy']:7.1f}% {reference} {cell['questions']:9,}"
