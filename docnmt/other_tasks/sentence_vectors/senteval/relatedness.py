"""SentEval's similarity tasks: scores by regression (SICK-R, STS-B) and by cosine (STS12 to STS16)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from docnmt.other_tasks.sentence_vectors.senteval.folds import SEED
from docnmt.other_tasks.sentence_vectors.senteval.softmax import Examples, Schedule, Softmaxes, fit, predict, softmax
from docnmt.runtime.errors import UserError

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
    try:
        from scipy.stats import rankdata
    except ImportError as error:
        raise UserError("rank correlations need scipy: pip install 'docnmt[study]'") from error
    return pearson(rankdata(x), rankdata(y))


def degrees(scores: np.ndarray) -> np.ndarray:
    """Turn scores (N,) into distributions (N, 5): a score between two degrees is split between them (Tai et al. 2015).

    Below 1 there is no lower degree, and part of the mass is missing, as in the toolkit (STS-B).
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
        each = {subset: correlation(cosine(u, v), score) for subset, (u, v, score) in subsets.items()}
        results[name] = float(np.mean(list(each.values())))
        results[f"{name} weighted"] = float(np.average(list(each.values()), weights=sizes))
        results |= {f"{name} {subset}": value for subset, value in each.items()}
    return results
