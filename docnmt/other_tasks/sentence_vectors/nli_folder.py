"""`docnmt-preprocess --task nli`: turns labelled pairs and word vectors into a folder to train on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from docnmt.core.corpus import META, write_array, write_meta
from docnmt.options import to_dict
from docnmt.other_tasks.options import NliPreprocessConfig
from docnmt.other_tasks.sentence_vectors.data import PairDataset, read_pairs, words
from docnmt.other_tasks.sentence_vectors.embeddings import Embeddings, build_embeddings, random_embeddings
from docnmt.other_tasks.sentence_vectors.nli_task import TASK
from docnmt.runtime.files import check_folder, check_readable, replacing_folder


def preprocess_nli(config: NliPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the folder; `say` is called with each line of the report.

    Raises:
        UserError: a file is missing or malformed (file and line are named), or the folder may not be written.
    """
    destination = Path(config.destdir)
    check_folder(destination, marker=META, overwrite=config.overwrite)
    paths = [Path(file) for file in config.vectors]
    for path in paths:
        check_readable(path)  # before the texts, which take minutes
    given = {"train": config.train, "valid": config.valid, "test": config.test}
    splits = {name: read_pairs(*map(Path, tables)) for name, tables in given.items() if tables}
    texts = {name: [words(text) for text in pairs.sentences] for name, pairs in splits.items()}
    counts = {name: Counter(word for text in split for word in text) for name, split in texts.items()}
    for name, pairs in splits.items():
        left_out = f"; {pairs.undecided:,} without a gold label left out" if pairs.undecided else ""
        say(f"{name}: {len(pairs.labels):,} pairs, {counts[name].total():,} words{left_out}")
    _say_overlap(texts, say)
    if paths:
        embeddings, report = build_embeddings(paths, sum(counts.values(), Counter()), config.keep_words)
    else:
        embeddings, report = random_embeddings(counts["train"])
        say("warning: without --vectors every word gets a random vector; sentence vectors want pretrained ones")
    for line in report:
        say(line)
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        files = embeddings.save(folder)
        files |= write_array(folder / "probability.bin", _probability(embeddings, counts["train"]), "<f4")
        for name, pairs in splits.items():
            words_of = [embeddings.indices(text) for text in texts[name]]
            files |= PairDataset.of(name, words_of, pairs.labels, len(embeddings.words)).save(folder)
        write_meta(
            folder,
            task=TASK,
            files=files,
            vectors=list(embeddings.names),
            words=len(embeddings.words),
            splits={name: {"pairs": len(splits[name].labels), "words": counts[name].total()} for name in splits},
            options=to_dict(config),
            report=report,
        )
    say(f"{destination}: {len(embeddings.words):,} words, embedding types: {len(embeddings.vectors)}")


def _say_overlap(texts: dict[str, list[list[str]]], say: Callable[[str], None]) -> None:
    """Warn about pairs of a held-out split that are also in the training data, ignoring case."""
    lines = {name: [" ".join(text).lower() for text in split] for name, split in texts.items()}
    keys = {name: list(zip(split[::2], split[1::2], strict=True)) for name, split in lines.items()}
    training = set(keys.pop("train"))
    for name, pairs in keys.items():
        if seen := sum(pair in training for pair in pairs):
            say(f"warning: {seen:,} pairs of {name} stand in the training data, too")


def _probability(embeddings: Embeddings, counts: Counter[str]) -> np.ndarray:
    """Return the relative frequency (V,) of each word, float32."""
    met = np.zeros(len(embeddings.words))
    for word, count in counts.items():
        met[embeddings.index(word)] += count
    return np.asarray(met / max(met.sum(), 1), dtype=np.float32)
