"""Accuracy, macro-F1 and the confusion matrix against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docnmt.other_tasks.classification import classification_scores

LABELS = ("a", "b", "c", "d")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_against_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, predicted = np.array(pairs).T
    scores = classification_scores(truth, predicted, LABELS)
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert scores.macro_f1 == pytest.approx(metrics.f1_score(truth, predicted, average="macro", zero_division=0))
    np.testing.assert_array_equal(scores.confusion, metrics.confusion_matrix(truth, predicted, labels=range(4)))


def test_by_hand() -> None:
    scores = classification_scores(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), ("no", "yes"))
    assert scores.confusion.tolist() == [[1, 1], [0, 2]]
    assert scores.accuracy == 0.75
    assert scores.f1.tolist() == pytest.approx([2 / 3, 4 / 5])
    assert scores.to_dict()["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert str(scores).splitlines()[0] == "accuracy 75.00, macro-F1 73.33, 4 texts"


def test_no_texts_score_zero() -> None:
    empty = np.zeros(0, dtype=np.int64)
    scores = classification_scores(empty, empty, LABELS)
    assert (scores.accuracy, scores.macro_f1, scores.count) == (0.0, 0.0, 0)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="predicted"):
        classification_scores(np.array([0, 1]), np.array([0, 2]), ("no", "yes"))
    with pytest.raises(ValueError, match="predictions"):
        classification_scores(np.array([0, 1]), np.array([0]), ("no", "yes"))
