"""docnmt-senteval: SentEval's corpora and tasks, evaluated one by one."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from docnmt.core.read_corpus import TextLines
from docnmt.core.training.checkpoint import read_header
from docnmt.options import to_dict
from docnmt.other_tasks.options import SentEvalConfig
from docnmt.other_tasks.sentence_vectors.encoders import SMOOTHING
from docnmt.other_tasks.sentence_vectors.senteval_protocol import (
    PROBING,
    PROTOCOLS,
    TASKS,
    Encode,
    Result,
    check_rows,
    evaluate,
    read_task,
)
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder, TranslationSummaries
from docnmt.other_tasks.sentence_vectors.word_vectors import Embeddings, build_embeddings
from docnmt.runtime.system import UsageError, UserError, check_new, find_checkpoint, write_json

# Baselines: sentence vectors without training on sentences. Words without a vector are left out; a sentence without
# other words is 0.


def bag_of_words(embeddings: Embeddings, weight: np.ndarray | None = None, *, remove_common: bool = False) -> Encode:
    """Return an encoder: the mean of the word vectors, weighted if wished, several types side by side.

    `remove_common` also removes the projection on the first principal direction of the task's sentences (SIF).
    """
    table = _side_by_side(embeddings)
    weight = np.ones(len(table), np.float32) if weight is None else weight

    def encode(sentences: Sequence[Sequence[str]]) -> np.ndarray:
        vectors = np.zeros((len(sentences), table.shape[1]), np.float32)
        for row, known in _known(embeddings, sentences):
            vectors[row] = weight[known] @ table[known] / len(known)
        if remove_common:
            # The first right singular vector of all sentences, without centring (Arora et al. 2017).
            direction = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)[1][:, -1].astype(np.float32)
            vectors -= np.outer(vectors @ direction, direction)
        return vectors

    return encode


def random_projections(embeddings: Embeddings, width: int, pooling: str, seed: int) -> Encode:
    """Return BOREP (Wieting and Kiela 2019): word vectors through a random matrix, then the mean or maximum of them."""
    table = _side_by_side(embeddings)
    bound = 1 / np.sqrt(table.shape[1])
    projection = np.random.default_rng(seed).uniform(-bound, bound, (table.shape[1], width)).astype(np.float32)

    def encode(sentences: Sequence[Sequence[str]]) -> np.ndarray:
        vectors = np.zeros((len(sentences), width), np.float32)
        for row, known in _known(embeddings, sentences):
            words = table[known] @ projection
            vectors[row] = words.max(0) if pooling == "max" else words.mean(0)
        return vectors

    return encode


def _side_by_side(embeddings: Embeddings) -> np.ndarray:
    return np.hstack([table.astype(np.float32) for table in embeddings.vectors])


def _known(embeddings: Embeddings, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[int]]]:
    """Yield each sentence that has words with a vector: its number and their rows."""
    for number, sentence in enumerate(sentences):
        if known := [index for index in embeddings.indices(sentence) if index]:
            yield number, known


def sif_weights(embeddings: Embeddings, frequencies: Mapping[str, float]) -> np.ndarray:
    """Return a / (a + p(w)) for each word of the vocabulary; 1 for a word of unknown frequency."""
    total = sum(frequencies.values())
    probability = np.array([frequencies.get(word, frequencies.get(word.lower(), 0.0)) for word in embeddings.words])
    return np.asarray(SMOOTHING / (SMOOTHING + probability / total), dtype=np.float32)


def read_frequencies(path: Path) -> dict[str, float]:
    """Read word counts: a word, white space and its count per line."""
    counts: dict[str, float] = {}
    for number, line in enumerate(TextLines(path), 1):
        try:
            word, field = line.split()
            counts[word] = count = float(field)
        except ValueError:
            count = math.nan
        if not 0 <= count < math.inf:
            raise UserError(f"{path}:{number}: expected a word and its count, got '{line.strip()[:50]}'")
    if not sum(counts.values()):
        raise UserError(f"{path}: holds no words that were counted")
    return counts


# The command `docnmt-senteval`: evaluate task by task, then write the results.


def run_transfer(config: SentEvalConfig) -> str:
    """Evaluate the tasks; return the table."""
    offered = {**TASKS, **PROBING}
    if unknown := [name for name in config.tasks if name not in offered]:
        raise UsageError(f"--tasks: there is no {', '.join(unknown)}; there are {', '.join(offered)}")
    if twice := [name for name, count in Counter(config.tasks).items() if count > 1]:
        raise UsageError(f"--tasks: {', '.join(twice)} is named twice")
    path = Path(config.results_path) if config.results_path else None
    if path is not None:
        check_new(path, overwrite=config.overwrite)
    tasks = [offered[name] for name in config.tasks or TASKS]
    folder, protocol = Path(config.data), PROTOCOLS[config.protocol]
    counts: Counter[str] = Counter()  # of each word
    for task in tasks:  # all are read before the first is evaluated, which may take hours
        splits = read_task(task, folder)
        check_rows(task, splits, protocol)
        for side in (side for rows in splits.values() for side in rows.sides):
            counts.update(word for sentence in side for word in sentence)
    encode = _encoder(config, counts)
    results: dict[str, Result] = {}
    for task in tasks:
        results[task.name] = evaluate(task, folder, encode, protocol)
        print(f"{task.name}: {_figures(results[task.name])}", file=sys.stderr, flush=True)
    if path is not None:
        write_json(path, {"settings": to_dict(config), "tasks": results})
    return "\n".join(f"{name}\t{_figures(result)}" for name, result in results.items())


def _encoder(config: SentEvalConfig, counts: Mapping[str, int]) -> Encode:
    """Return the encoder: a trained one, a translation model, or a baseline with these words."""
    if config.path is None:
        paths = [Path(name) for name in config.vectors]
        embeddings, report = build_embeddings(paths, counts, keep_words=0, unit=config.unit_vectors)
        print("\n".join(report), file=sys.stderr)
        if config.baseline == "bow":
            return bag_of_words(embeddings)
        if config.baseline == "sif":
            weight = sif_weights(embeddings, read_frequencies(Path(str(config.frequencies))))
            return bag_of_words(embeddings, weight, remove_common=True)
        return random_projections(embeddings, config.width, str(config.baseline).removeprefix("borep-"), config.seed)
    if read_header(find_checkpoint(config.path))[0]["task"] == "document_translation":
        if config.representation != "vectors":
            raise UsageError("--representation: a translation model has vectors only")
        return TranslationSummaries(config.path)
    encoder = SentenceEncoder.load(config.path)
    return lambda sentences: encoder.features(sentences, config.representation)


def _figures(result: Result) -> str:
    """Format the scores that are published, and the time."""
    shown = [f"{name} {result[name]:.2f}" for name in ("accuracy", "f1", "dev accuracy") if name in result]
    correlations = ("pearson", "pearson weighted", "spearman", "spearman weighted")
    shown += [f"{name} {100 * result[name]:.2f}" for name in correlations if name in result]
    return ", ".join([*shown, f"{result['encoding s']:.1f} + {result['classifier s']:.1f} s"])
