"""SentEval's ways to choose the penalty and to test: nested folds, folds on the training part, given splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from docnmt.other_tasks.sentence_vectors.senteval.softmax import Examples, Schedule, Softmaxes, fit, predict, softmax
from docnmt.runtime.errors import UserError

SEED = 1111


@dataclass(frozen=True)
class Protocol:
    """The training and selection of classifiers; the defaults are SentEval's.

    Attributes:
        folds: number of folds of the cross-validations.
        penalties: the l2 weights to choose from.
    """

    schedule: Schedule = field(default_factory=Schedule)
    folds: int = 10
    penalties: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2)
    seed: int = SEED


#: SentEval's settings for published numbers, and its quick ones, but with Adam instead of RMSprop.
PROTOCOLS = {"default": Protocol(), "fast": Protocol(Schedule(epoch_size=2, tenacity=3, batch_size=128), folds=5)}


def stratified_folds(y: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (rows to train on, rows held out) of each fold, by scikit-learn's shuffled `StratifiedKFold`."""
    try:
        from sklearn.model_selection import StratifiedKFold
    except ImportError as error:
        raise UserError("SentEval's folds need scikit-learn: pip install 'docnmt[study]'") from error
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
    held = int(0.05 * len(data.y))
    return train(data[order[held:]], data[order[:held]], classes, [penalty], protocol, random)[1][0]


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
