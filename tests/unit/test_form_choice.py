"""The criterion of forms of address, against the whole distribution."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from docnmt.core.batch import IGNORE
from docnmt.core.training.config import FormChoiceConfig, LabelSmoothedCrossEntropyConfig
from docnmt.core.training.criterions import FormChoice, LabelSmoothedCrossEntropy
from docnmt.runtime.system import UserError

WORDS = ["▁tu", "▁te", "▁vous", "▁il", "tu", "▁t", "▁votre"]
LABELS = torch.tensor([0, 3, 2, IGNORE, 5, 4])
BATCH: Any = SimpleNamespace(labels=LABELS, num_tokens=5)


def task(words: list[str] = WORDS, language: str = "fr") -> Any:
    """What the criterion asks of a task."""
    return SimpleNamespace(target_lang=language, target_tokenizer=SimpleNamespace(vocabulary=lambda: words))


class Features(nn.Module):
    """A model whose features are its parameters, with dropout that can be drawn again."""

    def __init__(self, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.randn(6, 5, dtype=torch.float64))
        self.output = nn.Linear(5, len(WORDS), bias=bias, dtype=torch.float64)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Any) -> Tensor:
        return self.dropout(self.features)


@pytest.mark.parametrize("bias", [True, False])
def test_the_choice_of_a_form_is_that_of_the_whole_distribution(bias: bool) -> None:
    torch.manual_seed(0)
    criterion = FormChoice.build(FormChoiceConfig(form_choice=3.0), task())
    assert [each.tolist() for each in criterion.words] == [[2, 6], [0, 1, 5]]
    model = Features(bias=bias)
    plain, _, logs = LabelSmoothedCrossEntropy(label_smoothing=0.1)(model, BATCH)
    loss, count, logged = criterion(model, BATCH)
    p = model.output(model.features).softmax(1)
    formal, informal = p[:, [2, 6]].sum(1), p[:, [0, 1, 5]].sum(1)
    asked = -(informal / (formal + informal))[[0, 4]].log().sum() - (formal / (formal + informal))[2].log()
    torch.testing.assert_close(loss, plain + 3 * asked)
    assert count == 5
    assert logged == logs
    for mine, expected in zip(
        torch.autograd.grad(loss, list(model.parameters())),
        torch.autograd.grad(plain + 3 * asked, list(model.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(mine, expected)
    torch.testing.assert_close(criterion(model.eval(), BATCH)[0], plain)  # validation is that of the plain loss


def test_both_passes_of_r_drop_choose() -> None:
    def loss(
        config: FormChoiceConfig | LabelSmoothedCrossEntropyConfig, kind: type[LabelSmoothedCrossEntropy]
    ) -> Tensor:
        torch.manual_seed(2)
        return kind.build(config, task())(model, BATCH)[0]

    torch.manual_seed(1)
    model = Features(dropout=0.5)
    torch.manual_seed(2)
    criterion = FormChoice.build(FormChoiceConfig(), task())
    choices = sum(criterion._choices(model.output, model(BATCH), LABELS) for _ in range(2))
    plain = loss(LabelSmoothedCrossEntropyConfig(r_drop=1.0), LabelSmoothedCrossEntropy)
    torch.testing.assert_close(loss(FormChoiceConfig(form_choice=3.0, r_drop=1.0), FormChoice), plain + 1.5 * choices)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (SimpleNamespace(), "--criterion"),
        (task(["▁tu", "▁il"]), "formal"),
        (task(language="en"), "no rule"),
    ],
)
def test_what_it_cannot_do_is_refused(task: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        FormChoice.build(FormChoiceConfig(), task)
