"""Softmax regression by Adam, as SentEval trains it, for several weights of the l2 penalty at once.

The toolkit seeds every classifier alike, so those that differ only in their penalty have the same initial weights and
the same batches. Here they are columns of one weight matrix: the same numbers in one pass over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

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
    """The stopping rule of training.

    Attributes:
        epoch_size: passes over the data between two validations.
        tenacity: allowed validations without a new best, over the whole training.
        max_epoch: no new validation begins after more passes than this.
    """

    epoch_size: int = 4
    tenacity: int = 5
    max_epoch: int = 200
    batch_size: int = 64


def softmax(scores: np.ndarray) -> np.ndarray:
    """Compute softmax along the last axis."""
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def predict(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return scores (N, C) of a trained model: weight (d + 1, C), x (N, d)."""
    return np.asarray(x @ weight[:-1] + weight[-1])


class Softmaxes:
    """G softmax regressions with the same initial weights, batches and classes, one for each l2 weight.

    Args:
        penalties: the l2 weights; `l2 · w` is added to the gradient, as in torch's Adam.

    Attributes:
        live: the numbers of the models still trained; only their weights are kept here.
        weight: (d + 1, live, C), the bias last, so that it is updated with the weights.
    """

    def __init__(self, features: int, classes: int, penalties: Sequence[float], seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            linear = torch.nn.Linear(features, classes)
        weight, bias = linear.weight.detach().numpy(), linear.bias.detach().numpy()
        self.live = list(range(len(penalties)))
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

    def keep(self, places: Sequence[int]) -> None:
        """Keep training these models only (places in `live`)."""
        self.live, self.l2 = [self.live[place] for place in places], self.l2[places]
        self.weight, self.first, self.second = (
            np.ascontiguousarray(array[:, places]) for array in (self.weight, self.first, self.second)
        )


def fit(
    models: Softmaxes,
    x: np.ndarray,
    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray],
    judge: Callable[[Softmaxes], np.ndarray],
    schedule: Schedule,
    random: np.random.RandomState,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Train until every model has used up its validations without a new best.

    Args:
        x: (N, d) float32.
        gradient: (scores of a batch (B, live, C), the batch's rows) → gradient of its mean loss by the scores.
        judge: returns a score on held-out data for each live model, above -1.
        random: gives the order of rows in each pass, like numpy's global generator in the toolkit.

    Returns:
        The best score of each model, and its weights (d + 1, C) at that time.
    """
    best, failures = np.full(len(models.live), -1.0), np.zeros(len(models.live), int)
    stored = [models.weight[:, place].copy() for place in models.live]
    epoch = 0
    while models.live and epoch <= schedule.max_epoch:
        for _ in range(schedule.epoch_size):
            order = random.permutation(len(x))
            for begin in range(0, len(order), schedule.batch_size):
                batch = order[begin : begin + schedule.batch_size]
                rows = x.take(batch, axis=0)
                models.step(rows, gradient(models.scores(rows), batch))
        epoch += schedule.epoch_size
        going = []
        for place, (number, merit) in enumerate(zip(models.live, judge(models), strict=True)):
            if merit > best[number]:
                best[number], stored[number] = merit, models.weight[:, place].copy()
            else:
                failures[number] += 1
            if failures[number] <= schedule.tenacity:
                going.append(place)
        if len(going) < len(models.live):
            models.keep(going)
    return best, stored
