"""docnmt-senteval: SentEval's corpora and tasks, evaluated one by one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any  # JSON

import numpy as np
from msgspec import field

from docnmt.core.lines import TextLines
from docnmt.core.training.checkpoint import read_header
from docnmt.options import to_dict
from docnmt.other_tasks.options import SentEvalConfig
from docnmt.other_tasks.sentence_vectors.senteval_protocol import (
    PROBING,
    PROTOCOLS,
    TASKS,
    Encode,
    Protocol,
    Result,
    TransferTask,
    check_rows,
    evaluate,
    read_task,
    task_files,
)
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder, TranslationSummaries
from docnmt.other_tasks.sentence_vectors.word_vectors import Embeddings, build_embeddings
from docnmt.runtime.system import (
    OpenObject,
    UsageError,
    UserError,
    check_writable,
    checked,
    find_checkpoint,
    parse_json,
    read_limited,
    write_json,
)

# Baselines: sentence vectors without training on sentences.


#: The constant a of the SIF weights, as published.
SMOOTHING = 1e-3


class WordVectorBaseline(ABC):
    """Sentence vectors from the vectors of a sentence's words, several types side by side.

    Words without a vector are left out; a sentence without other words is 0.
    """

    def __init__(self, embeddings: Embeddings, width: int | None = None) -> None:
        self.embeddings = embeddings
        self.table = np.hstack([table.astype(np.float32) for table in embeddings.vectors])
        self.width = width or self.table.shape[1]

    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Return sentence vectors (N, width)."""
        vectors = np.zeros((len(sentences), self.width), np.float32)
        for row, sentence in enumerate(sentences):
            if known := [place for place in self.embeddings.indices(sentence) if place]:
                vectors[row] = self.pool(known)
        return vectors

    @abstractmethod
    def pool(self, known: list[int]) -> np.ndarray:
        """Return the vector (width,) of these rows of the vocabulary."""


class BagOfWordsBaseline(WordVectorBaseline):
    """The mean of the word vectors.

    Args:
        weight: of each word of the vocabulary; None weighs all alike.
        remove_common: remove the projection on the first principal direction of the task's sentences (SIF).
    """

    def __init__(
        self, embeddings: Embeddings, *, weight: np.ndarray | None = None, remove_common: bool = False
    ) -> None:
        super().__init__(embeddings)
        self.weight = np.ones(len(self.table), np.float32) if weight is None else weight
        self.remove_common = remove_common

    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Return sentence vectors (N, sum of d_k)."""
        vectors = super().__call__(sentences)
        if self.remove_common:
            # The first right singular vector of all sentences, without centring (Arora et al. 2017).
            direction = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)[1][:, -1].astype(np.float32)
            vectors -= np.outer(vectors @ direction, direction)
        return vectors

    def pool(self, known: list[int]) -> np.ndarray:
        """Return the weighted mean."""
        return np.asarray(self.weight[known] @ self.table[known] / len(known))


class RandomProjections(WordVectorBaseline):
    """BOREP (Wieting and Kiela 2019): word vectors through a random matrix, then the mean or maximum over words."""

    def __init__(self, embeddings: Embeddings, *, width: int, pooling: str, seed: int) -> None:
        super().__init__(embeddings, width)
        features = self.table.shape[1]
        bound = 1 / np.sqrt(features)
        self.projection = np.random.default_rng(seed).uniform(-bound, bound, (features, width)).astype(np.float32)
        self.pooling = pooling

    def pool(self, known: list[int]) -> np.ndarray:
        """Return the mean or maximum of the projected vectors."""
        rows = self.table[known] @ self.projection
        return np.asarray(rows.max(0) if self.pooling == "max" else rows.mean(0))


def sif_weights(embeddings: Embeddings, frequencies: Mapping[str, float]) -> np.ndarray:
    """Return a / (a + p(w)) for each word of the vocabulary; 1 for a word of unknown frequency."""
    total = sum(frequencies.values())
    probability = np.array([frequencies.get(word, frequencies.get(word.lower(), 0.0)) for word in embeddings.words])
    return np.asarray(SMOOTHING / (SMOOTHING + probability / total), dtype=np.float32)


def read_frequencies(path: Path) -> dict[str, float]:
    """Read word counts: a word, white space and its count per line.

    Raises:
        UserError: unreadable or malformed; the message names the line.
    """
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


# The command `docnmt-senteval`: evaluate every task that the results file lacks, one by one.


#: Options that change no number; and `data` and `path`, whose contents are compared.
NOT_COMPARED = ("tasks", "results_path", "overwrite", "data", "path")
#: Settings that are contents of files, with their names in errors.
CONTENTS = {
    "model": "checkpoint at --path",
    "weights_sha256": "checkpoint at --path",
    "vectors_sha256": "content of --vectors",
    "frequencies_sha256": "content of --frequencies",
}


def run_transfer(config: SentEvalConfig) -> str:
    """Evaluate every task that the results file lacks; return the table.

    Raises:
        UserError: data, vectors or model cannot be read, or the results file has other settings or other data.
    """
    offered = {**TASKS, **PROBING}
    if unknown := [name for name in config.tasks if name not in offered]:
        raise UsageError(f"--tasks: there is no {', '.join(unknown)}; there are {', '.join(offered)}")
    if twice := [name for name, count in Counter(config.tasks).items() if count > 1]:
        raise UsageError(f"--tasks: {', '.join(twice)} is named twice")
    tasks = [offered[name] for name in config.tasks or TASKS]
    folder, path = Path(config.data), Path(config.results_path) if config.results_path else None
    settings = {k: v for k, v in to_dict(config).items() if k not in NOT_COMPARED} | _contents(config)
    results: dict[str, Result] = {}
    if path is not None:
        check_writable(path)
        if path.exists() and not config.overwrite:
            results = _read_results(path, settings)
    known = [task for task in tasks if "files_sha256" in results.get(task.name, {})]  # not in older versions' files
    if differing := [task.name for task in known if results[task.name]["files_sha256"] != _task_hash(task, folder)]:
        raise UserError(
            f"--results-path {path}: holds {', '.join(differing)} of other files than --data {folder} has now; "
            "give --overwrite to start anew, or another name"
        )
    if missing := [task for task in tasks if task.name not in results]:
        counts = _check(missing, folder, PROTOCOLS[config.protocol])
        encode = _encoder(config, counts)
        if path is not None and config.overwrite:
            write_json(path, {"settings": settings, "tasks": {}})
        for task in missing:
            result = evaluate(task, folder, encode, PROTOCOLS[config.protocol])
            results[task.name] = {**result, "files_sha256": _task_hash(task, folder)}
            print(f"{task.name}: {_figures(result)}", file=sys.stderr, flush=True)
            if path is not None:
                with _alone(path.parent):
                    others = _read_results(path, settings) if path.exists() else {}
                    results = others | results
                    write_json(path, {"settings": settings, "tasks": results})
    return "\n".join(f"{task.name}\t{_figures(results[task.name])}" for task in tasks)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder inside the context, so that no other evaluation writes results into it."""
    file = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _contents(config: SentEvalConfig) -> dict[str, str]:
    """Return hashes that distinguish files at the same path, such as those of a run trained further."""
    contents = {}
    if config.path is not None:
        checkpoint = find_checkpoint(config.path)
        header = read_header(checkpoint)[0]
        contents["weights_sha256"] = _hash([checkpoint])  # averaged checkpoints can have equal headers
        contents["model"] = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]
    if config.vectors:
        contents["vectors_sha256"] = _hash(map(Path, config.vectors))
    if config.frequencies is not None:
        contents["frequencies_sha256"] = _hash([Path(config.frequencies)])
    return contents


def _task_hash(task: TransferTask, folder: Path) -> str:
    return _hash(path for paths in task_files(task, folder).values() for path in paths)


def _hash(paths: Iterable[Path]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of files' SHA-256.

    Raises:
        UserError: a file cannot be read.
    """
    whole = hashlib.sha256()
    for path in paths:
        one = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    one.update(block)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
        whole.update(one.digest())
    return whole.hexdigest()[:16]


def _check(tasks: Sequence[TransferTask], folder: Path, protocol: Protocol) -> Counter[str]:
    """Read all tasks before the first is evaluated, which may take hours; return the frequency of each word.

    Raises:
        UserError: a file is missing, malformed or too small.
    """
    counts: Counter[str] = Counter()
    for task in tasks:
        splits = read_task(task, folder)
        check_rows(task, splits, protocol)
        for side in (side for rows in splits.values() for side in rows.sides):
            counts.update(word for sentence in side for word in sentence)
    return counts


def _encoder(config: SentEvalConfig, counts: Mapping[str, int]) -> Encode:
    """Return the encoder: a trained one, a translation model, or a baseline with these words."""
    if config.path is None:
        paths = [Path(name) for name in config.vectors]
        embeddings, report = build_embeddings(paths, counts, keep_words=0, unit=config.unit_vectors)
        print("\n".join(report), file=sys.stderr)
        return make_baseline(config, embeddings)
    if read_header(find_checkpoint(config.path))[0]["task"] == "document_translation":
        if config.representation != "vectors":
            raise UsageError("--representation: a translation model has vectors only")
        return TranslationSummaries(config.path)
    encoder = SentenceEncoder.load(config.path)
    return lambda sentences: encoder.features(sentences, config.representation)


def make_baseline(config: SentEvalConfig, embeddings: Embeddings) -> Encode:
    """Return the encoder that `--baseline` names."""
    if config.baseline == "bow":
        return BagOfWordsBaseline(embeddings)
    if config.baseline == "sif":
        weight = sif_weights(embeddings, read_frequencies(Path(str(config.frequencies))))
        return BagOfWordsBaseline(embeddings, weight=weight, remove_common=True)
    pooling = str(config.baseline).removeprefix("borep-")
    return RandomProjections(embeddings, width=config.width, pooling=pooling, seed=config.seed)


class _Figures(OpenObject, kw_only=True):
    """The part of a task's result that is shown."""

    accuracy: float | None = None
    f1: float | None = None
    dev: float | None = field(name="dev accuracy", default=None)
    pearson: float | None = None
    pearson_weighted: float | None = field(name="pearson weighted", default=None)
    spearman: float | None = None
    spearman_weighted: float | None = field(name="spearman weighted", default=None)
    encoding: float = field(name="encoding s")
    classifier: float = field(name="classifier s")


class _Stored(OpenObject):
    """The content of a results file."""

    settings: dict[str, object]
    tasks: dict[str, _Figures]


def _read_results(path: Path, settings: Mapping[str, object]) -> dict[str, Result]:
    """Read the results of a file and check that its settings are the same."""
    where = f"--results-path {path}: is not a file of docnmt-senteval"
    stored: Any = parse_json(read_limited(path), where)
    checked(stored, _Stored, where, "choose another name")
    old: Mapping[str, object] = stored["settings"]
    results: dict[str, Result] = stored["tasks"]
    # Files of older versions do not record what the vectors were.
    compared = [name for name in settings if name in old or not name.endswith("_sha256")]
    differing = [name for name in compared if old.get(name) != settings[name]]
    if differing:
        names = dict.fromkeys(CONTENTS.get(name, f"--{name.replace('_', '-')}") for name in differing)
        raise UserError(
            f"--results-path {path}: holds results with another {', '.join(names)}; give --overwrite or another name"
        )
    return results


def _figures(result: Result) -> str:
    """Format the scores that are published, and the time."""
    shown = [f"{name} {result[name]:.2f}" for name in ("accuracy", "f1", "dev accuracy") if name in result]
    correlations = ("pearson", "pearson weighted", "spearman", "spearman weighted")
    shown += [f"{name} {100 * result[name]:.2f}" for name in correlations if name in result]
    return ", ".join([*shown, f"{result['encoding s']:.1f} + {result['classifier s']:.1f} s"])
