"""Alternatives of words, and the loss that chooses among them (recipes/studies/ordinary)."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from docnmt.core.batch import IGNORE
from docnmt.core.corpus import TokenArray
from docnmt.registry import CRITERIA, import_plugins

FOLDER = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "alternatives.py"))


def test_model_1_is_that_of_its_definition(tool: dict[str, Any]) -> None:
    generator = np.random.default_rng(1)
    pairs = [tuple(generator.integers(0, 6, generator.integers(1, 5)).tolist() for _ in range(2)) for _ in range(9)]
    source, target = (TokenArray.from_lists([pair[side] for pair in pairs], 6) for side in (0, 1))
    translation = np.ones((6, 6))
    for _ in range(3):
        counts = np.zeros((6, 6))
        for ours, theirs in pairs:
            for t in theirs:
                for s in ours:
                    counts[s, t] += translation[s, t] / sum(translation[other, t] for other in ours)
        translation = counts / np.maximum(counts.sum(1, keepdims=True), 1e-9)
    np.testing.assert_allclose(tool["model_1"](source, target, 6, 3), counts, atol=1e-5)


def test_how_often_a_subword_ends_its_word(tool: dict[str, Any]) -> None:
    lines = TokenArray.from_lists([[0, 1, 0], [], [0, 0], [1, 2]], 3)  # 1 and 2 go on with a word
    np.testing.assert_allclose(tool["ending"](lines, np.array([True, False, False])), [3 / 4, 1 / 2, 1])


def test_alternatives_share_a_source(tool: dict[str, Any]) -> None:
    counts = np.zeros((5, 5), dtype=np.float32)
    counts[0, 1], counts[0, 2], counts[3, 4] = 6, 4, 9  # word 0 is 1 or 2; word 3 is 4 alone
    table = tool["alternatives"](counts, np.array([False, True, True, False, True]), 3, 0.2)
    assert table.tolist() == [[-1, -1, -1], [1, 2, -1], [2, 1, -1], [-1, -1, -1], [-1, -1, -1]]


def test_the_choice_is_made_among_alternatives_of_whole_words() -> None:
    import_plugins(FOLDER / "choice")
    choice = CRITERIA.get("choice")
    table = torch.tensor([[-1, -1, -1], [1, 2, 3], [2, 1, -1], [-1, -1, -1], [-1, -1, -1]])
    begins = torch.tensor([True, True, True, False, False])  # 0 ends the text
    criterion = choice(table, begins, choice=2.0, label_smoothing=0.0)
    output = torch.nn.Linear(4, 5, dtype=torch.float64)
    features = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([1, 4, 2, IGNORE, 1, 0])  # the first 1 goes on; 2 has no next; the second 1 is a whole word
    logits = output(features)[4, :4].exp().tolist()
    expected = -math.log(logits[1] / (logits[1] + logits[2] + logits[3]))
    assert criterion.choices(output, features, labels).item() == pytest.approx(expected, rel=1e-5)

    class Model(torch.nn.Module):
        def forward(self, batch: object) -> torch.Tensor:
            return features

    model, batch = Model(), SimpleNamespace(labels=labels, num_tokens=5)
    model.output = output
    training, _, logged = criterion(model, batch)
    model.eval()
    validation, _, sums = criterion(model, batch)
    assert (training - validation).item() == pytest.approx(2.0 * expected, rel=1e-5)
    assert validation.item() == pytest.approx(float(sums["nll"]), rel=1e-6)
    assert float(logged["choice"]) == float(sums["choice"]) == pytest.approx(expected, rel=1e-5)
