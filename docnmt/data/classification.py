"""`docnmt-preprocess --task text_classification`: tables of labelled texts → a folder to train on.

Vocabulary and labels come from the training table alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docnmt.config import option, to_dict
from docnmt.data.labelled import META, VOCABULARY, LabelledArrays, write_meta
from docnmt.data.sentences import split_sentences
from docnmt.data.table import LabelledTexts, read_labelled
from docnmt.data.vocabulary import WordVocabulary
from docnmt.errors import UserError
from docnmt.files import check_folder, replacing_folder


@dataclass(frozen=True)
class ClassificationPreprocessConfig:
    """Tables of labelled texts: .tsv (label, tab, text), .csv (columns label and text) or .jsonl (keys label, text)."""

    train: str = option(
        dataclasses.MISSING, "training texts; vocabulary and labels come from here alone", metavar="FILE"
    )
    valid: str = option(dataclasses.MISSING, "texts that choose the model", metavar="FILE")
    destdir: str = option(dataclasses.MISSING, "folder to write", metavar="DIR")
    test: str | None = option(None, "texts for the final test", metavar="FILE")
    vocab_size: int = option(50_000, "at most this many words (lower-cased, split at white space)", metavar="N")
    min_frequency: int = option(2, "words seen less often in the training texts are unknown", metavar="N")
    overwrite: bool = option(False, "replace the folder if it is one of ours")

    def problems(self) -> list[str]:
        """Values out of range."""
        return [
            f"--{name.replace('_', '-')}: must be at least {least}, got {getattr(self, name)}"
            for name, least in (("vocab_size", 2), ("min_frequency", 1))
            if getattr(self, name) < least
        ]


def preprocess_classification(config: ClassificationPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the folder; `say` is given the report line by line.

    Raises:
        UserError: a table is missing or malformed, a label is not in the training table (file and line are named), or
            the folder may not be written.
    """
    destination = Path(config.destdir)
    check_folder(destination, marker=META, overwrite=config.overwrite)
    files = {"train": config.train, "valid": config.valid, "test": config.test}
    tables = {split: read_labelled(Path(file)) for split, file in files.items() if file is not None}
    labels = ordered_labels(tables["train"].labels)
    numbers = {split: label_numbers(table, labels, config.train) for split, table in tables.items()}
    vocabulary = WordVocabulary.count(tables["train"].texts, size=config.vocab_size, min_frequency=config.min_frequency)
    seen = set(tables["train"].texts)
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        (folder / VOCABULARY).write_bytes(vocabulary.to_bytes())
        for split, table in tables.items():
            arrays = LabelledArrays.from_texts([encode(text, vocabulary) for text in table.texts], numbers[split])
            arrays.save(folder, split)
            say(_report(split, arrays))
            if split != "train" and (repeated := sum(text in seen for text in table.texts)):
                say(f"warning: {repeated:,} texts of {split} stand in the training data, too")
        write_meta(folder, labels=list(labels), options=to_dict(config))
    say(f"{destination}: {len(labels)} labels, {len(vocabulary):,} words")


def encode(text: str, vocabulary: WordVocabulary) -> list[np.ndarray]:
    """The numbers of a text's words, sentence by sentence."""
    return [vocabulary.encode(sentence) for sentence in split_sentences(text)]


def ordered_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels that occur: in numerical order if all are whole numbers, else alphabetically.

    Raises:
        UserError: fewer than two.
    """
    names = set(labels)
    if len(names) < 2:
        raise UserError(f"the training texts have one label only ('{labels[0]}'); there is nothing to learn")
    numeric = all(name.removeprefix("-").isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (int(name), name) if numeric else (0, name)))


def label_numbers(table: LabelledTexts, labels: Sequence[str], train: str) -> list[int]:
    """Each row's label as its place in `labels`.

    Raises:
        UserError: a label is not among them; file and line are named.
    """
    places = {label: number for number, label in enumerate(labels)}
    for row, label in enumerate(table.labels):
        if label not in places:
            raise UserError(f"{table.place(row)}: the label '{label}' does not occur in {train}")
    return [places[label] for label in table.labels]


def _report(split: str, arrays: LabelledArrays) -> str:
    lengths = np.diff(arrays.token_offsets)
    unknown = float((arrays.tokens == 0).mean()) if len(arrays.tokens) else 0.0
    empty = int((lengths == 0).sum())
    return (
        f"{split}: {len(arrays):,} texts, {len(arrays.tokens):,} words ({100 * unknown:.1f} % unknown), a text: median "
        f"{np.median(lengths):,.0f}, most {lengths.max():,}" + (f"; {empty:,} texts have no words" if empty else "")
    )
