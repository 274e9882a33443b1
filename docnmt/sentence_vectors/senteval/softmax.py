"""Softmax regression by Adam, as SentEval trains it, for several weights of the l2 penalty at once.

The toolkit seeds every classifier alike, so those that differ in their penalty only see the same initial weights and
the same batches. Here they are columns of one weight matrix: the same numbers, for one pass over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

#: Adam's settings in torch, which the toolkit leaves as they are.
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


def initial_weights(features: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (features, classes) and bias (classes,) of a fresh `torch.nn.Linear` under this seed."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        linear = torch.nn.Linear(features, classes)
    return linear.weight.detach().numpy().T.copy(), linear.bias.detach().numpy().copy()


def softmax(scores: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    normalised: np.ndarray = exponentials / exponentials.sum(-1, keepdims=True)
    return normalised


class Softmaxes:
    """G softmax regressions with the same initial weights, batches and classes, one for each l2 weight.

    Args:
        penalties: the l2 weights; as in torch's Adam, `l2 · w` is added to the gradient.
    """

    def __init__(self, features: int, classes: int, penalties: Sequence[float], seed: int) -> None:
        weight, bias = initial_weights(features, classes, seed)
        self.live = list(range(len(penalties)))
        # One row more for the bias, so that it is updated with the weights.
        one = np.vstack([weight, bias]).astype(np.float32)[:, None]  # (d + 1, 1, C)
        self.weight = one.repeat(len(penalties), axis=1)  # (d + 1, G, C)
        self.l2 = np.asarray(penalties, np.float32)[:, None]
        self.first = np.zeros_like(self.weight)
        self.second = np.zeros_like(self.weight)
        self.steps = 0

    def scores(self, x: np.ndarray) -> np.ndarray:
        """x (B, d) → (B, live, C)."""
        scores = (x @ self.weight[:-1].reshape(x.shape[1], -1)).reshape(len(x), *self.weight.shape[1:])
        shifted: np.ndarray = scores + self.weight[-1]
        return shifted

    def step(self, x: np.ndarray, gradient: np.ndarray) -> None:
        """One step of Adam from the gradient of the mean loss by the scores, (B, live, C)."""
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

    def drop(self, models: Sequence[int]) -> None:
        """Stop training these (places in `live`)."""
        keep = [place for place in range(len(self.live)) if place not in models]
        self.live = [self.live[place] for place in keep]
        self.l2 = self.l2[keep]
        for name in ("weight", "first", "second"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[:, keep]))

    def model(self, place: int) -> np.ndarray:
        """A copy of the weights of one live model: (d + 1, C), the bias last."""
        weight: np.ndarray = self.weight[:, place].copy()
        return weight


def predict(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Scores of a stored model: weight (d + 1, C), x (N, d) → (N, C)."""
    scores: np.ndarray = x @ weight[:-1] + weight[-1]
    return scores


@dataclass(frozen=True)
class Schedule:
    """When training stops.

    Attributes:
        epoch_size: passes over the data between two looks at the held-out part.
        tenacity: how many looks without a new best are allowed, over the whole training.
        max_epoch: no new look begins after more passes than this.
    """

    epoch_size: int = 4
    tenacity: int = 5
    max_epoch: int = 200
    batch_size: int = 64


def fit(
    models: Softmaxes,
    x: np.ndarray,
    rows: np.ndarray,
    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray],
    judge: Callable[[Softmaxes], np.ndarray],
    schedule: Schedule,
    random: np.random.RandomState,
    worst: float = -1.0,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Train until every model has had its share of looks without a new best.

    Args:
        x: (N, d) float32; `rows` are those to train on.
        gradient: (scores of a batch (B, live, C), the batch's rows) → gradient of its mean loss by the scores.
        judge: a figure of merit on held-out data for each live model.
        random: gives the order of the rows in each pass, as numpy's global generator does for the toolkit.

    Returns:
        The best merit of each model, and its weights then.
    """
    best = np.full(len(models.live), worst)
    stored = [models.model(place) for place in range(len(models.live))]
    failures = np.zeros(len(models.live), int)
    epoch = 0
    while models.live and epoch <= schedule.max_epoch:
        for _ in range(schedule.epoch_size):
            order = rows[random.permutation(len(rows))]
            for begin in range(0, len(order), schedule.batch_size):
                batch = order[begin : begin + schedule.batch_size]
                rows_x = x.take(batch, axis=0)
                models.step(rows_x, gradient(models.scores(rows_x), batch))
        epoch += schedule.epoch_size
        stopped = []
        for place, (number, merit) in enumerate(zip(models.live, judge(models), strict=True)):
            if merit > best[number]:
                best[number], stored[number] = merit, models.model(place)
            else:
                if failures[number] >= schedule.tenacity:
                    stopped.append(place)
                failures[number] += 1
        if stopped:
            models.drop(stopped)
    return best, stored
