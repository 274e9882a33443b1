"""Tables of labelled sentence pairs: SNLI's and MultiNLI's JSONL, and TSV with a header."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docnmt.errors import UserError
from docnmt.formats.text import TextLines, half_character

#: The classes of natural language inference, in the order of the model's outputs.
NLI_LABELS = ("entailment", "neutral", "contradiction")

#: What annotators who did not agree leave behind; such pairs are left out, as in all published work.
NO_GOLD_LABEL = "-"


@dataclass(frozen=True)
class SentencePairs:
    """Pairs of one file.

    Attributes:
        labels: one a pair, as a place in `NLI_LABELS`.
        first, second: premises and hypotheses.
        undecided: how many pairs the file has without a gold label; they are left out.
    """

    labels: list[int]
    first: list[str]
    second: list[str]
    undecided: int


def read_pairs(path: Path) -> SentencePairs:
    """Read `.jsonl` (`gold_label`, `sentence1`, `sentence2`: SNLI, MultiNLI) or `.tsv` (`label`, `text`, `text2`).

    Raises:
        UserError: unreadable, not clean UTF-8 text, another form, an unknown label; names the line.
    """
    rows = _jsonl if path.suffix == ".jsonl" else _tsv
    pairs = SentencePairs([], [], [], 0)
    undecided = 0
    for number, label, first, second in rows(path):
        if label == NO_GOLD_LABEL:
            undecided += 1
        elif label.lower() not in NLI_LABELS:
            raise UserError(f"{path}: line {number}: label '{label}' is none of {', '.join(NLI_LABELS)}")
        else:
            pairs.labels.append(NLI_LABELS.index(label.lower()))
            pairs.first.append(first)
            pairs.second.append(second)
    if not pairs.labels:
        raise UserError(f"{path}: holds no labelled pairs")
    return SentencePairs(pairs.labels, pairs.first, pairs.second, undecided)


def _tsv(path: Path) -> Iterator[tuple[int, str, str, str]]:
    lines = enumerate(TextLines(path), 1)
    header = next(lines, (1, ""))[1].split("\t")
    try:
        columns = [header.index(name) for name in ("label", "text", "text2")]
    except ValueError:
        raise UserError(
            f"{path}: line 1: expected a header with the columns label, text, text2, got {', '.join(header)}; "
            "SNLI and MultiNLI are read from their .jsonl files"
        ) from None
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise UserError(f"{path}: line {number}: expected {len(header)} tab-separated columns, got {len(fields)}")
        label, first, second = (fields[column] for column in columns)
        yield number, label, first, second


def _jsonl(path: Path) -> Iterator[tuple[int, str, str, str]]:
    for number, line in enumerate(TextLines(path), 1):
        try:
            row = json.loads(line)
            label, first, second = (row[name] for name in ("gold_label", "sentence1", "sentence2"))
            if not all(isinstance(value, str) for value in (label, first, second)):
                raise TypeError("a value is not a text")
            if fault := half_character(first + second):
                raise ValueError(fault)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(
                f"{path}: line {number}: expected an object with gold_label, sentence1 and sentence2 ({error})"
            ) from error
        yield number, label, first, second
