"""`docnmt-preprocess --task text_classification`: tables of labelled texts → a folder to train on.

Vocabulary and labels come from the training table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from docnmt.core.corpus import META, file_entry, write_meta
from docnmt.core.split_sentences import split_sentences
from docnmt.core.tokenizer import train_in_process
from docnmt.options import to_dict
from docnmt.other_tasks.classification.config import ClassificationPreprocessConfig
from docnmt.other_tasks.classification.labelled_table import LabelledTexts, read_labelled
from docnmt.other_tasks.classification.labelled_texts import TASK, VOCABULARY, LabelledArrays
from docnmt.other_tasks.classification.text_vocabulary import TextVocabulary, WordVocabulary
from docnmt.runtime.errors import UserError
from docnmt.runtime.files import check_folder, replacing_folder


def preprocess_classification(config: ClassificationPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the folder; `say` is called with each line of the report.

    Raises:
        UserError: a table is missing or malformed, a label is not in the training table (file and line are named), the
            training text does not support the vocabulary's size, or the folder may not be written.
    """
    destination = Path(config.destdir)
    check_folder(destination, marker=META, overwrite=config.overwrite)
    named = {"train": config.train, "valid": config.valid, "test": config.test}
    tables = {split: read_labelled(Path(file)) for split, file in named.items() if file is not None}
    labels = ordered_labels(tables["train"].labels)
    numbers = {split: label_numbers(table, labels, config.train) for split, table in tables.items()}
    vocabulary = make_vocabulary(config, tables["train"].texts)
    seen = set(tables["train"].texts)
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        (folder / VOCABULARY).write_bytes(vocabulary.to_bytes())
        files = {VOCABULARY: file_entry(vocabulary.to_bytes())}
        for split, table in tables.items():
            arrays = labelled_arrays(table.texts, numbers[split], vocabulary)
            files |= arrays.save(folder, split)
            say(_report(split, arrays))
            if split != "train" and (repeated := sum(text in seen for text in table.texts)):
                say(f"warning: {repeated:,} texts of {split} stand in the training data, too")
        write_meta(
            folder, task=TASK, files=files, vocabulary=config.vocabulary, labels=list(labels), options=to_dict(config)
        )
    say(f"{destination}: {len(labels)} labels, a vocabulary of {vocabulary.vocab_size:,} {config.vocabulary}")


def make_vocabulary(config: ClassificationPreprocessConfig, texts: Sequence[str]) -> TextVocabulary:
    """Build the vocabulary of the training texts."""
    if config.vocabulary == "words":
        return WordVocabulary.count(texts, size=config.vocab_size or 50_000, min_frequency=config.min_frequency or 2)
    sentences = (sentence for text in texts for sentence in split_sentences(text))
    return train_in_process(sentences, vocab_size=config.vocab_size or 8000, exact=config.vocab_size is not None)


def labelled_arrays(texts: Sequence[str], labels: Sequence[int], vocabulary: TextVocabulary) -> LabelledArrays:
    """Cut texts into sentences and these into tokens."""
    encoded = [vocabulary.encode(split_sentences(text)) for text in texts]
    return LabelledArrays.from_texts(encoded, labels, vocabulary.vocab_size)


def ordered_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels that occur: in numerical order if all are whole numbers, else alphabetically.

    Raises:
        UserError: there are fewer than two.
    """
    names = set(labels)
    if len(names) < 2:
        raise UserError(f"the training texts have one label only ('{labels[0]}'); there is nothing to learn")
    numeric = all(name.removeprefix("-").isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (int(name), name) if numeric else (0, name)))


def label_numbers(table: LabelledTexts, labels: Sequence[str], train: str) -> list[int]:
    """Return each row's label as its place in `labels`.

    Raises:
        UserError: a label is not among them; the message names file and line.
    """
    places = {label: number for number, label in enumerate(labels)}
    for row, label in enumerate(table.labels):
        if label not in places:
            known = ", ".join(labels[:10]) + (", …" if len(labels) > 10 else "")
            raise UserError(f"{table.places[row]}: the label '{label}' does not occur in {train}; it has {known}")
    return [places[label] for label in table.labels]


def _report(split: str, arrays: LabelledArrays) -> str:
    lengths = np.diff(arrays.token_offsets)
    tokens = arrays.sentences.tokens
    unknown = float((tokens == 0).mean()) if len(tokens) else 0.0
    empty = int((lengths == 0).sum())
    return (
        f"{split}: {len(arrays):,} texts, {len(tokens):,} tokens ({100 * unknown:.1f} % unknown), a text: median "
        f"{np.median(lengths):,.0f}, most {lengths.max():,}" + (f"; {empty:,} texts have no tokens" if empty else "")
    )
