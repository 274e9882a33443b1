"""Reading of tables of labelled sentence pairs: SNLI's and MultiNLI's JSONL, and TSV with a header."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from docnmt.core.tables import kind_of_table, open_table, text_rows
from docnmt.runtime.errors import UserError

#: The classes of natural language inference, in the order of the model's outputs.
NLI_LABELS = ("entailment", "neutral", "contradiction")

#: The label of pairs on which annotators did not agree; they are left out, as in all published work.
NO_GOLD_LABEL = "-"


@dataclass
class SentencePairs:
    """The pairs of one or more files.

    Attributes:
        labels: one per pair, as a place in `NLI_LABELS`.
        sentences: premise, hypothesis, premise, hypothesis, …
        undecided: number of pairs without a gold label, which are left out.
    """

    labels: list[int] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    undecided: int = 0


def read_pairs(*paths: Path) -> SentencePairs:
    """Read `.jsonl` (`gold_label`, `sentence1`, `sentence2`: SNLI, MultiNLI) or `.tsv` (`label`, `text`, `text2`).

    Raises:
        UserError: unreadable, invalid UTF-8, another format, or an unknown label; the message names file and line.
    """
    pairs = SentencePairs()
    for path in paths:
        before = len(pairs.labels)
        published = kind_of_table(path.name) == ".jsonl"
        columns = ("gold_label", "sentence1", "sentence2") if published else ("label", "text", "text2")
        for place, row in text_rows(open_table(path), columns):
            label, *sentences = row.values()
            if label == NO_GOLD_LABEL:
                pairs.undecided += 1
            elif label.lower() not in NLI_LABELS:
                raise UserError(f"{place}: label '{label}' is none of {', '.join(NLI_LABELS)}")
            else:
                pairs.labels.append(NLI_LABELS.index(label.lower()))
                pairs.sentences += sentences
        if len(pairs.labels) == before:
            raise UserError(f"{path}: holds no labelled pairs")
    return pairs
