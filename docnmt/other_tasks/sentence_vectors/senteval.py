"""docnmt-senteval: SentEval's tasks and its protocol: folds, softmax regression, relatedness, similarity; baselines.

files → `read_task` → vectors of its sentences → `train` on folds or splits, or cosines → accuracy or correlation
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from docnmt.core.read_corpus import TextLines
from docnmt.core.tables import open_table, text_rows
from docnmt.core.training.checkpoint import read_header
from docnmt.options import to_dict
from docnmt.other_tasks.options import SentEvalConfig
from docnmt.other_tasks.sentence_vectors.data import Embeddings, build_embeddings, words
from docnmt.other_tasks.sentence_vectors.encoders import SMOOTHING
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder, TranslationSummaries
from docnmt.runtime.system import UsageError, UserError, check_new, find_checkpoint, needing, write_json

# Tables have a header; the columns used are `label` or `score`, `text` and, for pairs, `text2`.

Kind = Literal["nested", "folds", "splits", "regression", "similarity"]


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences, for pairs of two sides, with classes (N,), int64, or scores; sorted as in SentEval's toolkit."""

    sides: list[list[list[str]]]
    target: np.ndarray


@dataclass(frozen=True)
class TransferTask:
    """A transfer task: its files, its columns, and the protocol of its evaluation."""

    name: str
    kind: Kind
    files: dict[str, tuple[str, ...]]  # by split (or subset), relative to the data folder; several are joined
    classes: tuple[str, ...] | None = None  # as in the files, in the toolkit's order; None: scores
    pairs: bool = False
    optional: tuple[str, ...] = ()  # splits whose files may be missing
    scores: tuple[float, float] = (0, 5)  # the lowest and the highest


def _given(folder: str, train: str = "train.tsv", dev: str = "dev.tsv") -> dict[str, tuple[str, ...]]:
    return {"train": (f"{folder}/{train}",), "dev": (f"{folder}/{dev}",), "test": (f"{folder}/test.tsv",)}


def _subsets(year: str, *names: str, optional: tuple[str, ...] = ()) -> TransferTask:
    files: dict[str, tuple[str, ...]] = {name: (f"STS{year}/{name}.tsv",) for name in names}
    return TransferTask(f"STS{year}", "similarity", files, pairs=True, optional=optional)


TASKS = {
    task.name: task
    for task in (
        *(TransferTask(n, "nested", {"all": (f"{n}/all.tsv",)}, ("0", "1")) for n in ("MR", "CR", "SUBJ", "MPQA")),
        TransferTask("SST2", "splits", _given("SST2", "train_phrases67k.tsv"), ("0", "1")),
        TransferTask("SST5", "splits", _given("SST5"), ("0", "1", "2", "3", "4")),
        # The files number DESC, ENTY, ABBR, HUM, LOC, NUM; the toolkit orders the names alphabetically.
        TransferTask(
            "TREC", "folds", {"train": ("TREC/train.tsv",), "test": ("TREC/test.tsv",)}, ("2", "0", "1", "3", "4", "5")
        ),
        TransferTask(
            "MRPC", "folds", {"train": ("MRPC/train.tsv", "MRPC/val.tsv"), "test": ("MRPC/test.tsv",)}, ("0", "1"), True
        ),
        TransferTask("SICK-R", "regression", _given("SICK", dev="trial.tsv"), pairs=True, scores=(1, 5)),
        TransferTask(
            "SICK-E", "splits", _given("SICK", dev="trial.tsv"), ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), True
        ),
        TransferTask("STS-B", "regression", _given("STSB"), pairs=True),
        _subsets("12", "MSRpar", "MSRvid", "SMTeuroparl", "OnWN", "SMTnews", optional=("MSRvid",)),  # by its licence
        _subsets("13", "FNWN", "headlines", "OnWN"),
        _subsets("14", "deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
        _subsets("15", "answers-forums", "answers-students", "belief", "headlines", "images"),
        _subsets("16", "answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
    )
}

#: Probing tasks (made by recipes/studies/inferlite/probing_tasks.py), evaluated only if named: words of the six classes
#: of `Length`, and the number of words of `WordContent`.
LENGTHS, PROBING_WORDS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28)), 100
PROBING = {
    name: TransferTask(name, "splits", _given(f"probing/{name}"), classes)
    for name, classes in (
        ("Length", tuple(map(str, range(len(LENGTHS))))),
        ("WordContent", tuple(map(str, range(PROBING_WORDS)))),
        ("BigramShift", ("I", "O")),
    )
}


def read_task(task: TransferTask, folder: Path) -> dict[str, LabelledSentences]:
    """Read the rows of every split of a task; of optional splits, those whose files exist."""
    files = {split: [folder / name for name in names] for split, names in task.files.items()}
    missing = {split for split in task.optional if not all(path.exists() for path in files[split])}
    return {split: _rows(task, paths) for split, paths in files.items() if split not in missing}


def _rows(task: TransferTask, paths: Sequence[Path]) -> LabelledSentences:
    columns = ("score" if task.classes is None else "label", "text", *(("text2",) if task.pairs else ()))
    rows: list[tuple[list[list[str]], float]] = []
    for path in paths:
        if not path.exists():
            probing = "; recipes/studies/inferlite/probing_tasks.py makes it" if task.name in PROBING else ""
            raise UserError(f"{path}: cannot be read: {task.name} needs it, and --data does not have it{probing}")
        for where, row in text_rows(open_table(path), columns):
            value, *texts = row.values()
            rows.append(([words(text) for text in texts], _target(task, value, where)))
    if not rows:
        raise UserError(f"{', '.join(map(str, paths))}: no row stands behind the header; copy it again")
    rows.sort(key=lambda row: (*(len(text) for text in row[0]), row[1]))
    sides = [[texts[side] for texts, _ in rows] for side in range(len(columns) - 1)]
    return LabelledSentences(sides, np.array([value for _, value in rows]))


def _target(task: TransferTask, value: str, where: str) -> float:
    if task.classes is not None:
        if value not in task.classes:
            raise UserError(f"{where}: expected one of {', '.join(task.classes)}, got '{value}'")
        return task.classes.index(value)
    low, high = task.scores
    number = math.nan
    with contextlib.suppress(ValueError):
        number = float(value)
    if not low <= number <= high:
        expected = f"a score from {low:g} to {high:g}" if math.isfinite(number) else "a finite number"
        raise UserError(f"{where}: expected {expected}, got '{value}'")
    return number


# The toolkit seeds every classifier alike, so those that differ only in their penalty have the same initial weights and
# batches. Here they are columns of one weight matrix: the same numbers in one pass over the data.

#: torch's default settings of Adam, which the toolkit uses.
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Examples:
    """Features x (N, d), float32, and targets y (N,): classes from 0, or gold scores."""

    x: np.ndarray
    y: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Examples:
        return Examples(self.x[rows], self.y[rows])

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.y.max()) + 1


@dataclass(frozen=True)
class Schedule:
    """The stopping rule of training."""

    epoch_size: int = 4  # passes over the data between two validations
    tenacity: int = 5  # allowed validations without a new best, over the whole training
    max_epoch: int = 200  # no new validation begins after more passes than this
    batch_size: int = 64


def softmax(scores: np.ndarray) -> np.ndarray:
    """Compute softmax along the last axis."""
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def predict(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return scores (N, C) of a trained model: weight (d + 1, C), x (N, d)."""
    return np.asarray(x @ weight[:-1] + weight[-1])


class Softmaxes:
    """G softmax regressions with the same initial weights, batches and classes, one for each l2 weight."""

    def __init__(self, features: int, classes: int, penalties: Sequence[float], seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            linear = torch.nn.Linear(features, classes)
        weight, bias = linear.weight.detach().numpy(), linear.bias.detach().numpy()
        self.live = list(range(len(penalties)))  # the models still trained; only their weights are kept here
        # (d + 1, live, C), the bias last, so that it is updated with the weights
        self.weight = np.vstack([weight.T, bias])[:, None].repeat(len(penalties), axis=1)
        self.l2 = np.asarray(penalties, np.float32)[:, None]
        self.first, self.second, self.steps = np.zeros_like(self.weight), np.zeros_like(self.weight), 0

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return scores (B, live, C) for x (B, d)."""
        scores = (x @ self.weight[:-1].reshape(x.shape[1], -1)).reshape(len(x), *self.weight.shape[1:])
        return np.asarray(scores + self.weight[-1])

    def step(self, x: np.ndarray, gradient: np.ndarray) -> None:
        """Make one step of Adam from the gradient of the mean loss with respect to the scores, (B, live, C)."""
        full = np.empty_like(self.weight)
        np.matmul(x.T, gradient.reshape(len(x), -1), out=full[:-1].reshape(x.shape[1], -1))
        gradient.sum(0, out=full[-1])
        full += self.l2 * self.weight
        self.steps += 1
        self.first *= BETA1
        self.first += (1 - BETA1) * full
        self.second *= BETA2
        np.square(full, out=full)
        full *= 1 - BETA2
        self.second += full
        np.sqrt(self.second, out=full)
        full /= np.float32(np.sqrt(1 - BETA2**self.steps))
        full += np.float32(EPSILON)
        np.divide(self.first, full, out=full)
        full *= np.float32(RATE / (1 - BETA1**self.steps))
        self.weight -= full

    def keep(self, columns: Sequence[int]) -> None:
        """Keep training these models only (columns in `live`)."""
        self.live, self.l2 = [self.live[column] for column in columns], self.l2[columns]
        self.weight, self.first, self.second = (
            np.ascontiguousarray(array[:, columns]) for array in (self.weight, self.first, self.second)
        )


def fit(
    models: Softmaxes,
    x: np.ndarray,
    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray],
    judge: Callable[[Softmaxes], np.ndarray],
    schedule: Schedule,
    random: np.random.RandomState,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Train until every model has used up its validations without a new best; return each one's best score and weights.

    Args:
        gradient: (scores of a batch (B, live, C), the batch's rows) → gradient of its mean loss by the scores.
        judge: returns a score on held-out data for each live model, above -1.
        random: gives the order of rows in each pass, like numpy's global generator in the toolkit.
    """
    best, failures = np.full(len(models.live), -1.0), np.zeros(len(models.live), int)
    stored = [models.weight[:, column].copy() for column in models.live]
    epoch = 0
    while models.live and epoch <= schedule.max_epoch:
        for _ in range(schedule.epoch_size):
            order = random.permutation(len(x))
            for begin in range(0, len(order), schedule.batch_size):
                batch = order[begin : begin + schedule.batch_size]
                batch_of_x = x.take(batch, axis=0)
                models.step(batch_of_x, gradient(models.scores(batch_of_x), batch))
        epoch += schedule.epoch_size
        going = []
        for column, (number, merit) in enumerate(zip(models.live, judge(models), strict=True)):
            if merit > best[number]:
                best[number], stored[number] = merit, models.weight[:, column].copy()
            else:
                failures[number] += 1
            if failures[number] <= schedule.tenacity:
                going.append(column)
        if len(going) < len(models.live):
            models.keep(going)
    return best, stored


SEED = 1111


@dataclass(frozen=True)
class Protocol:
    """The training of classifiers and the choice of their l2 weight by folds; the defaults are SentEval's."""

    schedule: Schedule = field(default_factory=Schedule)
    folds: int = 10
    penalties: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2)
    seed: int = SEED


#: SentEval's settings for published numbers, and its quick ones, but with Adam instead of RMSprop.
PROTOCOLS = {"default": Protocol(), "fast": Protocol(Schedule(epoch_size=2, tenacity=3, batch_size=128), folds=5)}


def stratified_folds(y: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (rows to train on, rows held out) of each fold, by scikit-learn's shuffled `StratifiedKFold`."""
    with needing("SentEval's folds need scikit-learn", "evaluation"):
        from sklearn.model_selection import StratifiedKFold
    return list(StratifiedKFold(n_splits=folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))


def train(
    data: Examples, held_out: Examples, classes: int, penalties: Sequence[float], protocol: Protocol,
    random: np.random.RandomState | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    """Train one classifier for each penalty, stopped early on `held_out`; return accuracies there, and weights."""
    models = Softmaxes(data.x.shape[1], classes, penalties, protocol.seed)
    targets = np.eye(classes, dtype=np.float32)

    def _gradient(scores: np.ndarray, batch: np.ndarray) -> np.ndarray:
        return np.asarray((softmax(scores) - targets[data.y[batch]][:, None]) / np.float32(len(batch)))

    def _judge(models: Softmaxes) -> np.ndarray:
        return np.asarray((models.scores(held_out.x).argmax(-1) == held_out.y[:, None]).mean(0))

    return fit(models, data.x, _gradient, _judge, protocol.schedule, random or np.random.RandomState(protocol.seed))


def percent(share: float) -> float:
    """Return a share in percent with two decimals, as the toolkit does."""
    return round(100 * float(share), 2)


def accuracy(weight: np.ndarray, data: Examples) -> float:
    """Return the accuracy of a classifier, in percent."""
    return percent((predict(weight, data.x).argmax(1) == data.y).mean())


def _best_penalty(data: Examples, classes: int, seed: int, protocol: Protocol) -> tuple[float, float]:
    """Return the penalty with the best mean accuracy over folds, and that accuracy in percent."""
    merits = [
        train(data[inner], data[outer], classes, protocol.penalties, protocol)[0]
        for inner, outer in stratified_folds(data.y, protocol.folds, seed)
    ]
    scores = [percent(merit) for merit in np.mean(merits, axis=0)]
    return protocol.penalties[int(np.argmax(scores))], max(scores)


def _final(data: Examples, classes: int, penalty: float, protocol: Protocol) -> np.ndarray:
    """Return weights trained on all rows but a twentieth, which is used for early stopping."""
    random = np.random.RandomState(protocol.seed)
    order = random.permutation(len(data.y))
    held_out = max(1, int(0.05 * len(data.y)))
    return train(data[order[held_out:]], data[order[:held_out]], classes, [penalty], protocol, random)[1][0]


def nested_folds(data: Examples, protocol: Protocol) -> dict[str, float]:
    """Cross-validate, with the penalty chosen by another one inside each training part (MR, CR, SUBJ, MPQA)."""
    dev, test = [], []
    for rows, held_out in stratified_folds(data.y, protocol.folds, SEED):
        penalty, merit = _best_penalty(data[rows], data.classes, SEED, protocol)
        dev.append(merit)
        test.append(accuracy(_final(data[rows], data.classes, penalty, protocol), data[held_out]))
    return {"dev accuracy": round(float(np.mean(dev)), 2), "accuracy": round(float(np.mean(test)), 2)}


def folds_on_train(data: Examples, test: Examples, protocol: Protocol) -> tuple[dict[str, float], np.ndarray]:
    """Choose the penalty by cross-validation on the training part and test (TREC, MRPC); return also the answers."""
    penalty, merit = _best_penalty(data, data.classes, protocol.seed, protocol)
    weight = _final(data, data.classes, penalty, protocol)
    return {"dev accuracy": merit, "accuracy": accuracy(weight, test)}, predict(weight, test.x).argmax(1)


def given_splits(data: Examples, dev: Examples, test: Examples, protocol: Protocol) -> dict[str, float]:
    """Choose the penalty and the end of training by the given development part (SST, SICK-E), and test."""
    merits, weights = train(data, dev, data.classes, protocol.penalties, protocol)
    scores = [percent(merit) for merit in merits]
    best = int(np.argmax(scores))
    return {"dev accuracy": scores[best], "accuracy": accuracy(weights[best], test)}


#: Degrees of relatedness, whose probabilities the regression predicts.
DEGREES = np.arange(1, 6)

#: SentEval validates every 50 passes, allows 3 validations without a new best and begins none after 1,000 passes.
SCHEDULE = Schedule(epoch_size=50, tenacity=3, max_epoch=1000)


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Return Pearson's correlation; 0 if one side is constant."""
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else 0.0


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Return Spearman's correlation: Pearson's of the ranks, where ties share theirs."""
    with needing("rank correlations need scipy", "evaluation"):
        from scipy.stats import rankdata
    return pearson(rankdata(x), rankdata(y))


def degrees(scores: np.ndarray) -> np.ndarray:
    """Turn scores (N,) into distributions (N, 5): a score between two degrees is split between them (Tai et al. 2015).

    Below 1 part of the mass is missing, as in the toolkit (STS-B).
    """
    floor, score = np.floor(scores)[:, None], scores[:, None]
    split = np.where(floor + 1 == DEGREES, score - floor, 0) + np.where(floor == DEGREES, floor - score + 1, 0)
    return split.astype(np.float32)


def regression(train: Examples, dev: Examples, test: Examples) -> dict[str, float]:
    """Fit five-class softmax regression by squared error; the score is the expected degree. Stops early on `dev`."""
    models = Softmaxes(train.x.shape[1], len(DEGREES), [0.0], SEED)
    targets = degrees(train.y)

    def _gradient(scores: np.ndarray, batch: np.ndarray) -> np.ndarray:
        p = softmax(scores)  # (B, 1, 5)
        towards = (p - targets[batch][:, None]) * np.float32(2 / (len(batch) * len(DEGREES)))
        return np.asarray(p * (towards - (towards * p).sum(-1, keepdims=True)))

    def _judge(models: Softmaxes) -> np.ndarray:
        return np.array([pearson(expected, dev.y) for expected in (softmax(models.scores(dev.x)) @ DEGREES).T])

    merits, weights = fit(models, train.x, _gradient, _judge, SCHEDULE, np.random.RandomState(SEED))
    expected = softmax(predict(weights[0], test.x)) @ DEGREES
    return {
        "dev pearson": float(merits[0]),
        "pearson": pearson(expected, test.y),
        "spearman": spearman(expected, test.y),
        "mse": float(np.mean((expected - test.y) ** 2)),
    }


def cosine(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the cosine (N,) row by row; 0 if a vector is 0."""
    scale = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    product = np.einsum("nd,nd->n", u, v)
    return np.asarray(np.divide(product, scale, out=np.zeros_like(product), where=scale > 0))


def similarity(subsets: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Return correlations of cosine and gold score in every subset (u, v, score), their mean, and the mean by size."""
    results: dict[str, float] = {}
    sizes = [len(score) for _, _, score in subsets.values()]
    for name, correlation in (("pearson", pearson), ("spearman", spearman)):
        values = {subset: correlation(cosine(u, v), score) for subset, (u, v, score) in subsets.items()}
        results[name] = float(np.mean(list(values.values())))
        results[f"{name} weighted"] = float(np.average(list(values.values()), weights=sizes))
        results |= {f"{name} {subset}": value for subset, value in values.items()}
    return results


#: All tokenised sentences of a task → vectors (N, d): one call, so that an encoder may adapt to it (SIF's direction).
Encode = Callable[[Sequence[Sequence[str]]], np.ndarray]

#: Figures by name; for STS12 to STS16 also the names of the subsets that exist.
Result = Mapping[str, Any]  # Any: JSON


def evaluate(task: TransferTask, folder: Path, encode: Encode, protocol: Protocol) -> Result:
    """Return the scores of one task, with the vectors' width and the seconds of encoding and of the rest.

    Accuracies and F1 are in percent; correlations between -1 and 1. Classification also has the accuracy of a
    constant answer.
    """
    splits = read_task(task, folder)
    sides = [side for labelled in splits.values() for side in labelled.sides]
    started = time.perf_counter()
    vectors = np.ascontiguousarray(encode([text for side in sides for text in side]), dtype=np.float32)
    encoded = time.perf_counter()
    parts = iter(np.split(vectors, np.cumsum([len(side) for side in sides])))
    of = {name: [next(parts) for _ in labelled.sides] for name, labelled in splits.items()}
    results: Result
    if task.kind == "similarity":
        scored = {name: (of[name][0], of[name][1], labelled.target) for name, labelled in splits.items()}
        results = {"subsets": list(splits), **similarity(scored)}
    else:
        examples = {name: Examples(_features(of[name]), labelled.target) for name, labelled in splits.items()}
        results = _measure(task, examples, protocol)
    size = {"sentences": len(vectors), "dimensions": vectors.shape[1]}
    return {**results, **size, "encoding s": encoded - started, "classifier s": time.perf_counter() - encoded}


def check_rows(task: TransferTask, splits: Mapping[str, LabelledSentences], protocol: Protocol) -> None:
    """Refuse a task without the variety it needs: different scores for a correlation, each class in every fold."""
    needed = protocol.folds + 2  # one fold less then leaves as many as there are folds, for the inner ones
    for name, labelled in splits.items():
        if task.classes is None and name != "train" and len(np.unique(labelled.target)) < 2:
            raise UserError(f"{task.name}: all scores of its {name} part are equal; a correlation needs others")
        if task.classes and (task.kind == "nested" or (task.kind == "folds" and name == "train")):
            counts = np.bincount(labelled.target, minlength=len(task.classes))
            if counts.min() < needed:
                few = f"{counts.min()} rows of class {task.classes[int(counts.argmin())]}"
                raise UserError(f"{task.name}: its {name} part has {few}; {protocol.folds} folds need {needed} of each")


def _features(sides: Sequence[np.ndarray]) -> np.ndarray:
    """Return a sentence's vectors, or [|u - v|; u ∘ v] for a pair."""
    if len(sides) == 1:
        return sides[0]
    u, v = sides
    return np.hstack([np.abs(u - v), u * v])


def _measure(task: TransferTask, parts: Mapping[str, Examples], protocol: Protocol) -> dict[str, float]:
    if task.kind == "regression":
        return regression(parts["train"], parts["dev"], parts["test"])
    test = parts["all" if task.kind == "nested" else "test"]
    share = {"majority": round(100 * float(np.bincount(test.y).max()) / len(test.y), 2)}
    if task.kind == "nested":
        return nested_folds(test, protocol) | share
    if task.kind == "splits":
        return given_splits(parts["train"], parts["dev"], test, protocol) | share
    results, answers = folds_on_train(parts["train"], test, protocol)
    return results | ({"f1": _f1(answers, test.y)} if task.pairs else {}) | share


def _f1(answers: np.ndarray, truth: np.ndarray) -> float:
    """Return F1 of class 1, in percent."""
    right, total = ((answers == 1) & (truth == 1)).sum(), (answers == 1).sum() + (truth == 1).sum()
    return round(100 * 2 * int(right) / max(int(total), 1), 2)


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
            count = float(field)
        except ValueError:
            word, count = "", math.nan
        if word in counts:
            raise UserError(f"{path}:{number}: the word '{word[:50]}' has a count above; expected each once")
        counts[word] = count
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
        for side in (side for labelled in splits.values() for side in labelled.sides):
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
