"""`docnmt-preprocess --task nli`: labelled pairs and word vectors → a folder to train on."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docnmt.config import option, to_dict
from docnmt.data.meta import META, file_entry, write_meta
from docnmt.errors import UserError
from docnmt.files import check_folder, check_readable, replacing_folder, write_text
from docnmt.sentence_vectors.embeddings import RANDOM_DIMENSIONS, Embeddings, build_embeddings, random_embeddings
from docnmt.sentence_vectors.folder import TASK, PairArrays
from docnmt.sentence_vectors.pairs import SentencePairs, read_pairs
from docnmt.sentence_vectors.words import words


@dataclass(frozen=True)
class NliPreprocessConfig:
    """Labelled sentence pairs (SNLI's or MultiNLI's .jsonl, or .tsv with label, text, text2) and word vectors."""

    train: tuple[str, ...] = option(dataclasses.MISSING, "training pairs, one file or several", metavar="FILE")
    valid: tuple[str, ...] = option(dataclasses.MISSING, "pairs that choose the model", metavar="FILE")
    destdir: str = option(dataclasses.MISSING, "folder to write", metavar="DIR")
    vectors: tuple[str, ...] = option(
        (), "word vectors, one file for each embedding type: GloVe or word2vec text, word2vec .bin, fastText .vec, "
        f".npz [random ones of {RANDOM_DIMENSIONS} dimensions]", metavar="FILE",
    )  # fmt: skip
    test: tuple[str, ...] = option((), "pairs for the final test", metavar="FILE")
    keep_words: int = option(100_000, "besides the words of the pairs, keep the first N words of every vector file")
    overwrite: bool = option(False, "replace the folder if it is one of ours")

    def problems(self) -> list[str]:
        """Values out of range."""
        return [] if self.keep_words >= 0 else [f"--keep-words: must be at least 0, got {self.keep_words}"]


def preprocess_nli(config: NliPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the folder; `say` is given the report line by line.

    Raises:
        UserError: a file is missing or malformed (file and line are named), or the folder may not be written.
    """
    destination = Path(config.destdir)
    check_folder(destination, marker=META, overwrite=config.overwrite)
    paths = [Path(file) for file in config.vectors]
    for path in paths:
        check_readable(path)  # before minutes are spent on the texts
    splits = {
        name: [read_pairs(Path(file)) for file in files]
        for name, files in (("train", config.train), ("valid", config.valid), ("test", config.test))
        if files
    }
    tokenised = {name: [words(text) for text in _sentences(files)] for name, files in splits.items()}
    labels = {name: [label for pairs in files for label in pairs.labels] for name, files in splits.items()}
    counts = {name: Counter(word for sentence in texts for word in sentence) for name, texts in tokenised.items()}
    for name, files in splits.items():
        undecided = sum(pairs.undecided for pairs in files)
        left_out = f"; {undecided:,} without a gold label left out" if undecided else ""
        say(f"{name}: {len(labels[name]):,} pairs, {counts[name].total():,} words{left_out}")
    _say_overlap(tokenised, say)
    if paths:
        embeddings, report = build_embeddings(paths, sum(counts.values(), Counter()), config.keep_words)
    else:
        embeddings, report = random_embeddings(counts["train"])
        say("warning: without --vectors every word gets a random vector; sentence vectors want pretrained ones")
    for line in report:
        say(line)
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        for name, texts in tokenised.items():
            PairArrays.of([embeddings.indices(text) for text in texts], labels[name]).save(folder, name)
        _write_embeddings(folder, embeddings, counts["train"])
        write_meta(
            folder, task=TASK, files={file.name: file_entry(file.read_bytes()) for file in folder.iterdir()},
            vectors=list(embeddings.names), words=len(embeddings.words),
            splits={name: {"pairs": len(labels[name]), "words": counts[name].total()} for name in splits},
            options=to_dict(config), report=report,
        )  # fmt: skip
    say(f"{destination}: {len(embeddings.words):,} words, {len(embeddings.vectors)} embedding types")


def _sentences(files: list[SentencePairs]) -> Iterator[str]:
    """Premise, hypothesis, premise, hypothesis, …"""
    for pairs in files:
        for first, second in zip(pairs.first, pairs.second, strict=True):
            yield first
            yield second


def _say_overlap(tokenised: dict[str, list[list[str]]], say: Callable[[str], None]) -> None:
    """Pairs of a held-out split that stand in the training data too, whatever their case."""

    def keys(texts: list[list[str]]) -> list[str]:
        joined = [" ".join(text).lower() for text in texts]
        return [f"{first}\t{second}" for first, second in zip(joined[::2], joined[1::2], strict=True)]

    training = set(keys(tokenised["train"]))
    for name in tokenised:
        if name != "train" and (seen := sum(key in training for key in keys(tokenised[name]))):
            say(f"warning: {seen:,} pairs of {name} stand in the training data, too")


def _write_embeddings(folder: Path, embeddings: Embeddings, counts: Counter[str]) -> None:
    if broken := [word for word in embeddings.words if "\n" in word]:
        raise UserError(f"the word {broken[0]!r} of the vector files holds a line break; remove it there")
    write_text(folder / "words.txt", "".join(f"{word}\n" for word in embeddings.words))
    for k, table in enumerate(embeddings.vectors):
        np.save(folder / f"vectors.{k}.npy", table)
    met = np.zeros(len(embeddings.words))
    for word, count in counts.items():
        met[embeddings.index(word)] += count
    np.save(folder / "probability.npy", (met / max(met.sum(), 1)).astype(np.float32))
