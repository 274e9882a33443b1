"""SentEval's protocol against the toolkit's way of doing it: torch modules, one classifier at a time."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from docnmt.other_tasks.sentence_vectors import senteval as protocols
from docnmt.other_tasks.sentence_vectors.data import UNKNOWN, Embeddings
from docnmt.other_tasks.sentence_vectors.senteval import (
    TASKS,
    Examples,
    Protocol,
    Schedule,
    TransferTask,
    _f1,
    bag_of_words,
    evaluate,
    read_frequencies,
    read_task,
    sif_weights,
)
from docnmt.runtime.system import UserError

SHORT = Schedule(epoch_size=2, tenacity=2, max_epoch=12, batch_size=16)


def examples(n: int = 120, d: int = 7, classes: int = 3, seed: int = 0) -> Examples:
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, n)
    x = random.normal(size=(n, d)) + np.eye(classes, d)[y] * 1.2
    return Examples(x.astype(np.float32), y)


class TorchClassifier:
    """Logistic regression as the toolkit writes it: seeds everything, then torch's Linear and Adam."""

    def __init__(self, features: int, classes: int, l2: float, schedule: Schedule) -> None:
        self.random = np.random.RandomState(1111)
        torch.manual_seed(1111)
        self.model: nn.Module = nn.Linear(features, classes)
        self.optimizer = torch.optim.Adam(self.model.parameters(), weight_decay=l2)
        self.schedule = schedule

    def loss(self, x: np.ndarray, y: np.ndarray) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(torch.tensor(x)), torch.tensor(y))

    def fit(self, x: np.ndarray, y: np.ndarray, dev: Examples | None = None) -> float:
        if dev is None:
            order = self.random.permutation(len(x))
            held = int(0.05 * len(x))
            dev = Examples(x[order[:held]], y[order[:held]])
            x, y = x[order[held:]], y[order[held:]]
        best, failures, epoch = -1.0, 0, 0
        while epoch <= self.schedule.max_epoch:
            for _ in range(self.schedule.epoch_size):
                order = self.random.permutation(len(x))
                for begin in range(0, len(x), self.schedule.batch_size):
                    batch = order[begin : begin + self.schedule.batch_size]
                    loss = self.loss(x[batch], y[batch])
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
            epoch += self.schedule.epoch_size
            score = self.score(dev)
            if score > best:
                best, stored = score, copy.deepcopy(self.model)
            else:
                if failures >= self.schedule.tenacity:
                    break
                failures += 1
        self.model = stored
        return best

    def score(self, data: Examples) -> float:
        answers = self.model(torch.tensor(data.x)).argmax(1).numpy()
        return float((answers == data.y).mean())


@pytest.mark.parametrize("max_epoch", [12, 60])
def test_all_penalties_at_once_equal_the_toolkit_one_by_one(max_epoch: int) -> None:
    data, dev = examples(seed=1), examples(60, seed=2)
    schedule = Schedule(epoch_size=2, tenacity=1, max_epoch=max_epoch, batch_size=16)
    penalties = [1e-5, 1e-2, 0.3, 1.0]
    protocol = Protocol(schedule, penalties=penalties)
    random = np.random.RandomState(1111)
    merits, weights = protocols.train(data, dev, data.classes, penalties, protocol, random)
    for penalty, merit, weight in zip(penalties, merits, weights, strict=True):
        one = TorchClassifier(7, 3, penalty, schedule)
        assert merit == pytest.approx(one.fit(data.x, data.y, dev))
        np.testing.assert_allclose(weight[:-1].T, one.model.weight.detach(), atol=2e-5)
        np.testing.assert_allclose(weight[-1], one.model.bias.detach(), atol=2e-5)


def toolkit_folds(train: Examples, penalties: list[float]) -> tuple[float, TorchClassifier]:
    """The best mean over folds of all penalties, and a classifier with that penalty of the whole."""
    from sklearn.model_selection import StratifiedKFold

    scores = []
    for penalty in penalties:
        merits = []
        for inner, outer in StratifiedKFold(n_splits=3, shuffle=True, random_state=1111).split(train.x, train.y):
            one = TorchClassifier(7, train.classes, penalty, SHORT)
            held_out = Examples(train.x[outer], train.y[outer])
            merits.append(one.fit(train.x[inner], train.y[inner], held_out))
        scores.append(round(100 * float(np.mean(merits)), 2))
    one = TorchClassifier(7, train.classes, penalties[int(np.argmax(scores))], SHORT)
    one.fit(train.x, train.y)
    return max(scores), one


def test_nested_folds_equal_the_toolkit() -> None:
    from sklearn.model_selection import StratifiedKFold

    data, penalties, dev, test = examples(90, classes=2, seed=3), [1e-4, 0.5], [], []
    for rows, held_out in StratifiedKFold(n_splits=3, shuffle=True, random_state=1111).split(data.x, data.y):
        merit, one = toolkit_folds(Examples(data.x[rows], data.y[rows]), penalties)
        dev.append(merit)
        test.append(round(100 * one.score(Examples(data.x[held_out], data.y[held_out])), 2))
    expected = {"dev accuracy": round(float(np.mean(dev)), 2), "accuracy": round(float(np.mean(test)), 2)}
    assert protocols.nested_folds(data, Protocol(SHORT, folds=3, penalties=penalties)) == pytest.approx(expected)


def test_folds_on_train_equal_the_toolkit() -> None:
    data, test, penalties = examples(90, seed=8), examples(40, seed=9), [1e-4, 0.5]
    merit, one = toolkit_folds(data, penalties)
    results, answers = protocols.folds_on_train(data, test, Protocol(SHORT, folds=3, penalties=penalties))
    assert results == pytest.approx({"dev accuracy": merit, "accuracy": round(100 * one.score(test), 2)})
    np.testing.assert_array_equal(answers, one.model(torch.tensor(test.x)).argmax(1))


@pytest.mark.parametrize("seed", range(4))
def test_f1_equals_scikit_learn(seed: int) -> None:
    from sklearn.metrics import f1_score

    answers, truth = np.random.default_rng(seed).integers(0, 2, (2, 25))
    assert _f1(answers, truth) == round(100 * f1_score(truth, answers), 2)
    assert _f1(0 * answers, 0 * truth) == 0


def test_test_labels_choose_nothing() -> None:
    """Whatever the test labels are, the same penalty and the same answers."""
    data, test = examples(90, seed=4), examples(30, seed=5)
    wrong = Examples(test.x, (test.y + 1) % 3)
    protocol = Protocol(SHORT, folds=3)
    (first, answers), (second, same) = (protocols.folds_on_train(data, t, protocol) for t in (test, wrong))
    assert first["dev accuracy"] == second["dev accuracy"]
    np.testing.assert_array_equal(answers, same)
    one = protocols.given_splits(data, test, wrong, protocol)
    assert one["dev accuracy"] == protocols.given_splits(data, test, test, protocol)["dev accuracy"]


class TorchRegression(TorchClassifier):
    """Relatedness as the toolkit writes it: probabilities of five degrees."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(5, 5, 0.0, schedule)
        self.model = nn.Sequential(self.model, nn.Softmax(dim=-1))

    def loss(self, x: np.ndarray, y: np.ndarray) -> torch.Tensor:
        return nn.functional.mse_loss(self.model(torch.tensor(x)), torch.tensor(protocols.degrees(y)))

    def answers(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.model(torch.tensor(x)).detach().numpy() @ np.arange(1, 6))

    def score(self, data: Examples) -> float:
        return float(np.corrcoef(self.answers(data.x), data.y)[0, 1])


def test_regression_equals_the_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = Schedule(epoch_size=3, tenacity=3, max_epoch=30)
    monkeypatch.setattr(protocols, "SCHEDULE", schedule)
    random = np.random.default_rng(6)
    direction = random.normal(size=5)
    x = random.normal(size=(250, 5)).astype(np.float32)
    y = np.clip(2.5 + x @ direction, 0.2, 5)
    train, dev, test = (Examples(x[a:b], y[a:b]) for a, b in ((0, 150), (150, 200), (200, 250)))
    one = TorchRegression(schedule)
    best = one.fit(train.x, train.y, dev)
    results = protocols.regression(train, dev, test)
    assert results["dev pearson"] == pytest.approx(best, abs=1e-5)
    assert results["pearson"] == pytest.approx(one.score(test), abs=1e-5)
    assert results["mse"] == pytest.approx(np.mean((one.answers(test.x) - test.y) ** 2), abs=1e-4)


def test_correlations_equal_scipy() -> None:
    from scipy import stats

    random = np.random.default_rng(7)
    x, y = random.normal(size=40).round(1), random.normal(size=40).round(1)
    assert protocols.pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0])
    assert protocols.spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])
    assert protocols.pearson(np.ones(4), np.arange(4)) == 0


def embeddings() -> Embeddings:
    table = np.array([[0, 0], [1, 0], [0, 1], [0.6, 0.8]], np.float16)
    return Embeddings(["v"], [UNKNOWN, "good", "bad", "film"], [table])


def test_sif_weighs_by_frequency_and_removes_the_common_direction(tmp_path: Path) -> None:
    (tmp_path / "counts.txt").write_text("good 999\nbad 1\n")
    weights = sif_weights(embeddings(), read_frequencies(tmp_path / "counts.txt"))
    np.testing.assert_allclose(weights[1:], [1e-3 / 1.0, 1e-3 / 2e-3, 1], rtol=1e-3)
    (tmp_path / "twice.txt").write_text("good 9\nbad 1\ngood 2\n")
    with pytest.raises(UserError, match=r"twice\.txt:3: .*'good'"):
        read_frequencies(tmp_path / "twice.txt")
    sentences = [["good"], ["good", "bad"], ["film"], ["bad"]]
    vectors = bag_of_words(embeddings(), weights, remove_common=True)(sentences)
    raw = bag_of_words(embeddings(), weights)(sentences)
    direction = np.linalg.svd(raw)[2][0]
    np.testing.assert_allclose(vectors @ direction, np.zeros(4), atol=1e-6)


def write_task(folder: Path, name: str, header: str, rows: list[str]) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join([header, *rows]) + "\n")


def test_a_whole_task_from_its_files(tmp_path: Path) -> None:
    rows = [f"{i % 2}\t{'good' if i % 2 else 'bad'} film {'film ' * (i % 5)}" for i in range(80)]
    rows += ["0\tbad film"] * 4
    write_task(tmp_path, "MR/all.tsv", "label\ttext", rows)
    long = Schedule(epoch_size=50, max_epoch=400, batch_size=8)
    results = evaluate(TASKS["MR"], tmp_path, bag_of_words(embeddings()), Protocol(long, folds=2, penalties=[1e-5]))
    assert results["accuracy"] > 95
    assert results["sentences"] == 84
    assert results["majority"] == 52.38  # 44 of them


def test_pairs_are_taken_apart_in_order(tmp_path: Path) -> None:
    write_task(tmp_path, "STS13/FNWN.tsv", "score\ttext\ttext2", ["5\tgood\tgood film", "0\tgood\tbad", "4\tbad\tbad"])
    task = TransferTask("STS", "similarity", {"FNWN": ("STS13/FNWN.tsv",)}, pairs=True)
    rows = read_task(task, tmp_path)["FNWN"]
    assert rows.sides[0] == [["good"], ["bad"], ["good"]]  # by lengths, then by score
    assert rows.sides[1] == [["bad"], ["bad"], ["good", "film"]]
    assert evaluate(task, tmp_path, bag_of_words(embeddings()), Protocol())["pearson"] > 0.9


def test_degrees_split_a_score_between_its_neighbours() -> None:
    np.testing.assert_allclose(
        protocols.degrees(np.array([1.0, 3.6, 5.0, 0.4])),
        [[1, 0, 0, 0, 0], [0, 0, 0.4, 0.6, 0], [0, 0, 0, 0, 1], [0.4, 0, 0, 0, 0]], atol=1e-6,
    )  # fmt: skip


def test_similarity_means_by_subset_and_by_size() -> None:
    score = np.arange(4.0)
    u = np.stack([np.ones(4), np.zeros(4)], 1)
    good = (u, np.stack([score, 3 - score], 1), score)
    bad = (u[:2], np.stack([1 - score[:2], score[:2]], 1), score[:2])
    results = protocols.similarity({"good": good, "bad": bad})
    assert results["spearman good"] == pytest.approx(1)
    assert results["spearman bad"] == pytest.approx(-1)
    assert results["spearman"] == pytest.approx(0)
    assert results["spearman weighted"] == pytest.approx((4 - 2) / 6)
    assert protocols.cosine(np.zeros((1, 2)), np.ones((1, 2)))[0] == 0
