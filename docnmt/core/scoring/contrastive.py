"""Contrastive evaluation: the share of questions in which a model prefers the right translation, by context, to others.

A group is one source sentence in its context with several translations, exactly one of them right. The model scores
each; the group counts as solved when the right one scores strictly best (Sennrich 2017; Müller et al. 2018).
`contrastive_files.py` reads the files; `docnmt.core.search.forced` scores.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docnmt.core.scoring.config import CONTEXT_SEED
from docnmt.runtime.errors import UserError


@dataclass(frozen=True)
class ForcedExample:
    """A translation to score: log p(target | source, contexts), where the target context is given, not generated.

    Attributes:
        source_context: the sentences before `source` in its document, in order.
        target_context: their translations, as many as the source's unless the file has none.
    """

    source_context: tuple[str, ...]
    source: str
    target_context: tuple[str, ...]
    target: str

    def contexts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return source and target context with as many sentences as the source's has; one if only the target has any.

        Missing target sentences are empty, surplus ones are joined with the first.
        """
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


@dataclass(frozen=True)
class Accuracy:
    """The number of solved groups among all; `chance` is the accuracy of guessing, in percent."""

    solved: int
    groups: int
    chance: float

    @property
    def percent(self) -> float:
        """The share of solved groups, in percent."""
        return 100 * self.solved / self.groups

    def line(self, name: str) -> str:
        """Return a row of the printed table."""
        return f"{name:<24} {self.percent:7.1f}% {self.chance:7.1f}% {self.groups:8,}"

    def to_dict(self) -> dict[str, float]:
        """Return the JSON entry."""
        return {"accuracy": self.percent, "chance": self.chance, "groups": self.groups}


@dataclass(frozen=True, eq=False)
class ContrastiveReport:
    """The results of a contrastive test: which groups were solved."""

    groups: Sequence[ContrastiveGroup]
    solved: Sequence[bool]

    @property
    def overall(self) -> Accuracy:
        """The accuracy on all groups."""
        return self.by()[()]

    def by(self, *names: str) -> dict[tuple[str, ...], Accuracy]:
        """Return the accuracy for every combination of these labels' values, in natural order."""
        found = cells([group.labels for group in self.groups], *names)
        return {key: self._accuracy(indices) for key, indices in found.items()}

    def _accuracy(self, indices: Sequence[int]) -> Accuracy:
        chance = sum(1 / len(self.groups[i].variants) for i in indices) / len(indices)
        return Accuracy(sum(self.solved[i] for i in indices), len(indices), 100 * chance)

    @property
    def label_names(self) -> list[str]:
        """The labels that all groups have."""
        return shared_labels([group.labels for group in self.groups])

    def __str__(self) -> str:
        lines = [f"{'':<24} {'accuracy':>8} {'chance':>8} {'groups':>8}", self.overall.line("all")]
        for name in self.label_names:
            lines += ["", *(cell.line(f"{name} {value or '-'}") for (value,), cell in self.by(name).items())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return accuracies overall and by each label, and for every group whether it was solved."""
        return {
            **self.overall.to_dict(),
            "by": {
                name: {value: cell.to_dict() for (value,), cell in self.by(name).items()} for name in self.label_names
            },
            "solved": [{**group.labels, "solved": done} for group, done in zip(self.groups, self.solved, strict=True)],
        }


def cells(labels: Sequence[Mapping[str, str]], *names: str) -> dict[tuple[str, ...], list[int]]:
    """Return the questions with each combination of these labels' values, in the values' natural order."""
    found: dict[tuple[str, ...], list[int]] = {}
    for index, each in enumerate(labels):
        found.setdefault(tuple(each[name] for name in names), []).append(index)
    return {key: found[key] for key in sorted(found, key=lambda key: [*map(_natural, key)])}


def shared_labels(labels: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the labels that all questions have."""
    return [name for name in labels[0] if all(name in each for each in labels)]


def contrastive_report(
    groups: Sequence[ContrastiveGroup], score: Callable[[list[ForcedExample]], list[float]]
) -> ContrastiveReport:
    """Score all variants of all groups and report which groups are solved.

    Args:
        score: returns the log-probabilities of the examples' last target sentences, in order.

    Raises:
        ValueError: there is no group, or the number of scores differs from that of examples.
    """
    if not groups:
        raise ValueError("there is no contrastive group to judge")
    examples = [variant for group in groups for variant in group.variants]
    scores = score(examples)
    if len(scores) != len(examples):
        raise ValueError(f"{len(scores)} scores for {len(examples)} examples")
    rest = iter(scores)
    return ContrastiveReport(groups, [group.solved([next(rest) for _ in group.variants]) for group in groups])


def with_contexts(groups: Sequence[ContrastiveGroup], kind: str, *, seed: int = CONTEXT_SEED) -> list[ContrastiveGroup]:
    """Return the same questions in other contexts, which shows whether the model uses its context.

    Args:
        kind: `true` (unchanged), `shuffled` (the group's own context sentences in another order), `foreign`
            (the context of a group with another source sentence), `none`. A group whose context has no two different
            sentences is not changed by `shuffled`.

    Raises:
        ValueError: `kind` is none of these.
        UserError: there is no foreign context, or no context has two different sentences to shuffle.
    """
    rng = random.Random(seed)
    if kind == "true":
        return list(groups)
    if kind == "none":
        return [_in_context(group, (), ()) for group in groups]
    if kind == "shuffled":
        if not any(_can_be_shuffled(group) for group in groups):
            raise UserError("no group has two different context sentences that could be shuffled; use another context")
        return [_shuffled(group, rng) for group in groups]
    if kind == "foreign":
        others = (_asking_otherwise(groups, group.variants[0].source, rng) for group in groups)
        return [
            _in_context(group, other.source_context, other.target_context)
            for group, other in zip(groups, others, strict=True)
        ]
    raise ValueError(f"no context '{kind}'; there are true, shuffled, foreign, none")


def _in_context(group: ContrastiveGroup, source: tuple[str, ...], target: tuple[str, ...]) -> ContrastiveGroup:
    variants = (replace(variant, source_context=source, target_context=target) for variant in group.variants)
    return replace(group, variants=tuple(variants))


def _can_be_shuffled(group: ContrastiveGroup) -> bool:
    return len(set(group.variants[0].source_context)) > 1


def _shuffled(group: ContrastiveGroup, rng: random.Random) -> ContrastiveGroup:
    context = group.variants[0].source_context
    order = list(range(len(context)))
    while _can_be_shuffled(group) and tuple(context[i] for i in order) == context:
        rng.shuffle(order)
    variants = []
    for variant in group.variants:
        source, target = (tuple(side[i] for i in order) for side in variant.contexts())
        target = target if variant.target_context else ()
        variants.append(replace(variant, source_context=source, target_context=target))
    return replace(group, variants=tuple(variants))


def _asking_otherwise(groups: Sequence[ContrastiveGroup], source: str, rng: random.Random) -> ForcedExample:
    """Return an example of a random group with another source sentence."""
    for _ in range(1000):
        if (other := groups[rng.randrange(len(groups))].variants[0]).source != source:
            return other
    raise UserError(f"no other group's context can replace that of '{source}': all ask about the same sentence")


def _natural(value: str) -> tuple[bool, float, str]:
    """Return a sorting key that puts numbers, by size, before words."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value
