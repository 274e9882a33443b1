"""Warnings about scores that would mean little: of tags that count as words, of text without spaces between words, and
of systems that differ in how long they were trained."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import CJK, SOUTHEAST
from docnmt.runtime.structured import OpenObject, read_json

_TAG = re.compile(r"\s*</?(?:refset|srcset|tstset|doc|hl|p|seg)\b[^<>]*>", re.IGNORECASE)
_NO_SPACES = re.compile(f"[{CJK}{SOUTHEAST}]")
_LETTER = re.compile(r"[^\W\d_]")
#: Number of lines that are examined.
_MOST = 1000
#: The translations of a results folder, and the file beside them that has the models' records under "models".
HYPOTHESES, SCORES = "hypotheses.txt", "scores.json"


class ModelRecord(OpenObject, omit_defaults=True):
    """What is recorded about a model, in a results folder and in the checkpoints of models that start from it.

    Attributes:
        update: number of its updates, those of its start not counted. weights: checksum of its weights. data:
            fingerprint of its training data. loss: the last validation loss. averaged: number of checkpoints of which
            it is the mean. start: the model of `--finetune-from-model`.
    """

    checkpoint: str
    arch: str
    update: int
    weights: str
    data: str
    loss: float | None = None
    averaged: int = 0
    start: ModelRecord | None = None

    def __str__(self) -> str:
        facts = f"{self.arch}, {f'mean of {self.averaged} up to ' if self.averaged else ''}update {self.update:,}, "
        facts += "not validated" if self.loss is None else f"validation loss {self.loss:.4f}"
        return f"{self.checkpoint}: {facts}" + (f"; started from {self.start}" if self.start else "")

    @property
    def lineage(self) -> list[ModelRecord]:
        """This model, its start, the start of that, and so on."""
        return [self, *(self.start.lineage if self.start else ())]

    @property
    def updates(self) -> int:
        """The number of all updates, those of its starts included."""
        return sum(each.update for each in self.lineage)


class _Results(OpenObject):
    """A results folder's scores.json, as far as it is read here."""

    models: tuple[ModelRecord, ...] = ()


def records_beside(paths: Iterable[str]) -> list[ModelRecord]:
    """Return the records of the models that wrote these files, as far as they lie in results folders that have them."""
    found: list[ModelRecord] = []
    for path in map(Path, paths):
        if path.name == HYPOTHESES and (path.parent / SCORES).is_file():
            with contextlib.suppress(UserError):  # another's file
                found += read_json(path.parent / SCORES, _Results).models
    return found


def training_doubt(system: Sequence[ModelRecord], other: Sequence[ModelRecord]) -> str | None:
    """Return one line if one system was started from the other, or had other updates; None also if this is unknown."""
    names = {"the system": system, "the other": other}
    for (longer, models), (shorter, starts) in (pair := list(names.items())), pair[::-1]:
        for model, start in product(models, starts):
            weights = [each.weights for each in model.lineage]
            if start.weights in weights[1:]:
                more = sum(each.update for each in model.lineage[: weights.index(start.weights)])
                return (
                    f"{longer} was started from {shorter} ({start.checkpoint}, --finetune-from-model) and has {more:,} "
                    f"updates more, which the difference holds, too: compare with {start.checkpoint} trained "
                    f"{more:,} updates further"
                )
    updates = [sorted({each.updates for each in models}) for models in names.values()]
    if all(updates) and updates[0] != updates[1]:
        shown = (f"{name} {' and '.join(f'{each:,}' for each in of)}" for name, of in zip(names, updates, strict=True))
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
