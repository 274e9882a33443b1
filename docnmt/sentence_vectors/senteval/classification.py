"""SentEval's ways to choose the penalty and to test: nested folds, folds on the training part, given splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from docnmt.errors import UserError
from docnmt.sentence_vectors.senteval.softmax import Schedule, Softmaxes, fit, predict, softmax

#: The l2 weights that are tried.
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
SEED = 1111


@dataclass(frozen=True)
class Protocol:
    """How classifiers are trained and chosen; the defaults are SentEval's.

    Attributes:
        folds: of the cross-validations.
    """

    schedule: Schedule = field(default_factory=Schedule)
    folds: int = 10
    penalties: Sequence[float] = PENALTIES
    seed: int = SEED


@dataclass(frozen=True)
class Examples:
    """Features x (N, d) float32 and classes y (N,) from 0."""

    x: np.ndarray
    y: np.ndarray

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1


def stratified_folds(y: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows to train on, rows held out) of each fold, by scikit-learn's shuffled `StratifiedKFold`."""
    try:
        from sklearn.model_selection import StratifiedKFold
    except ImportError as error:
        raise UserError("SentEval's folds need scikit-learn: pip install 'docnmt[study]'") from error

    splitter = StratifiedKFold(n_splits=folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


def train(
    data: Examples, rows: np.ndarray, held_out: Examples, penalties: Sequence[float], protocol: Protocol,
    random: np.random.RandomState,
) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    """One classifier for each penalty, stopped early on `held_out`: accuracies there, weights."""
    models = Softmaxes(data.x.shape[1], data.classes, penalties, protocol.seed)
    targets = np.eye(data.classes, dtype=np.float32)

    def gradient(scores: np.ndarray, batch: np.ndarray) -> np.ndarray:
        difference: np.ndarray = (softmax(scores) - targets[data.y[batch]][:, None]) / np.float32(len(batch))
        return difference

    def judge(models: Softmaxes) -> np.ndarray:
        right: np.ndarray = (models.scores(held_out.x).argmax(-1) == held_out.y[:, None]).mean(0)
        return right

    return fit(models, data.x, rows, gradient, judge, protocol.schedule, random)


def accuracy(weight: np.ndarray, data: Examples, rows: np.ndarray | None = None) -> float:
    """Share of right answers of a classifier, in percent, to two places as the toolkit gives it."""
    x, y = (data.x, data.y) if rows is None else (data.x[rows], data.y[rows])
    return round(100 * float((predict(weight, x).argmax(1) == y).mean()), 2)


def _best_penalty(data: Examples, rows: np.ndarray, folds_seed: int, protocol: Protocol) -> tuple[float, float]:
    """The penalty with the best mean accuracy over folds of `rows`, and that accuracy in percent."""
    folds = stratified_folds(data.y[rows], protocol.folds, folds_seed)
    merits = []
    for inner, outer in folds:
        held_out = Examples(data.x[rows[outer]], data.y[rows[outer]])
        random = np.random.RandomState(protocol.seed)
        merits.append(train(data, rows[inner], held_out, protocol.penalties, protocol, random)[0])
    scores = [round(100 * float(merit), 2) for merit in np.mean(merits, axis=0)]
    return protocol.penalties[int(np.argmax(scores))], max(scores)


def _final(data: Examples, rows: np.ndarray, penalty: float, protocol: Protocol) -> np.ndarray:
    """The weights trained on `rows` but a twentieth, on which training stops early."""
    random = np.random.RandomState(protocol.seed)
    order = random.permutation(len(rows))
    held = int(0.05 * len(rows))
    held_out = Examples(data.x[rows[order[:held]]], data.y[rows[order[:held]]])
    return train(data, rows[order[held:]], held_out, [penalty], protocol, random)[1][0]


def nested_folds(data: Examples, protocol: Protocol) -> dict[str, float]:
    """Cross-validation with the penalty chosen by another inside each training part (MR, CR, SUBJ, MPQA)."""
    dev, test = [], []
    for rows, held_out in stratified_folds(data.y, protocol.folds, SEED):
        penalty, merit = _best_penalty(data, rows, SEED, protocol)
        dev.append(merit)
        test.append(accuracy(_final(data, rows, penalty, protocol), data, held_out))
    return {"dev accuracy": round(float(np.mean(dev)), 2), "accuracy": round(float(np.mean(test)), 2)}


def folds_on_train(data: Examples, test: Examples, protocol: Protocol) -> tuple[dict[str, float], np.ndarray]:
    """The penalty by cross-validation on the training part, then the given test part (TREC, MRPC); and its answers."""
    rows = np.arange(len(data.y))
    penalty, merit = _best_penalty(data, rows, protocol.seed, protocol)
    weight = _final(data, rows, penalty, protocol)
    return {"dev accuracy": merit, "accuracy": accuracy(weight, test)}, predict(weight, test.x).argmax(1)


def given_splits(data: Examples, dev: Examples, test: Examples, protocol: Protocol) -> dict[str, float]:
    """The penalty and the end of training by the given development part (SST, SICK-E)."""
    random = np.random.RandomState(protocol.seed)
    merits, weights = train(data, np.arange(len(data.y)), dev, protocol.penalties, protocol, random)
    scores = [round(100 * float(merit), 2) for merit in merits]
    best = int(np.argmax(scores))
    return {"dev accuracy": scores[best], "accuracy": accuracy(weights[best], test)}
