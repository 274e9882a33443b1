"""A criterion for recipes/dialogue: beside every word, the choice between the forms of address.

One word in forty says tu or vous. Whether the model gets it right hardly shows in the mean over all words, and it is
what context decides.

docnmt-train DATA --user-dir recipes/dialogue/plugin --criterion form_choice --form-choice 4 …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from docnmt.core.criterions.config import LabelSmoothedCrossEntropyConfig
from docnmt.core.criterions.cross_entropy import LabelSmoothedCrossEntropy, TokenBatch, TokenModel
from docnmt.core.formats.address import AddressRule
from docnmt.plugin import option, register_criterion


@dataclass(frozen=True)
class FormChoiceConfig(LabelSmoothedCrossEntropyConfig):
    """Label-smoothed cross-entropy, and how much the choice of a form counts."""

    form_choice: float = option(4.0, "how many times the choice between the forms of address counts in training")


@register_criterion("form_choice")
class FormChoice(LabelSmoothedCrossEntropy):
    """Label-smoothed cross-entropy plus, where the next word is one of address, `weight` times −log p of its form.

    p is the share of that form's words in the probability of all words of address, so how probable these are beside
    other words stays as it is. Words of several subwords are left out; the logged `nll` is the plain one.
    """

    Config = FormChoiceConfig

    def __init__(self, forms: tuple[Tensor, Tensor], weight: float, label_smoothing: float) -> None:
        super().__init__(label_smoothing=label_smoothing)
        self.forms, self.weight = forms, weight  # (n,) and (m,) entries of the vocabulary

    @classmethod
    def build(cls, config: Any, task: Any) -> FormChoice:  # the task is docnmt's own
        """The criterion for a task's target language.

        Raises:
            UserError: the language has no rule.
        """
        rule = AddressRule(task.target_lang)
        entries = [(n, piece[1:]) for n, piece in enumerate(task.target_tokenizer.vocabulary()) if piece[:1] == "▁"]
        found = {n: rule.form(f"a {word}'") for n, word in entries}  # the subword before the apostrophe of t' is t
        formal, informal = (torch.tensor([n for n in found if found[n] == form]) for form in ("formal", "informal"))
        return cls((formal, informal), config.form_choice, config.label_smoothing)

    def __call__(self, model: TokenModel, batch: TokenBatch) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Summed loss, the number of labels it counts, and sums to log."""
        features = model(batch)
        loss, nll = self._cross_entropy(model, features, batch)
        if model.training and isinstance(features, Tensor):
            loss = loss + self.weight * self._choices(model, features, batch.labels)
        return loss, batch.num_tokens, {"nll": nll.detach()}

    def _choices(self, model: TokenModel, features: Tensor, labels: Tensor) -> Tensor:
        """−log p of the right form, summed over the labels (T,) that are words of address."""
        entries = [form.to(labels.device) for form in self.forms]
        rows = [torch.isin(labels, form).nonzero()[:, 0] for form in entries]
        chosen = features.index_select(0, torch.cat(rows)).float()  # (N, d)
        weight, bias = model.output.weight, model.output.bias
        scores = [
            F.linear(chosen, weight[form].float(), None if bias is None else bias[form].float()).logsumexp(1)
            for form in entries
        ]
        right = torch.cat([torch.full_like(each, place) for place, each in enumerate(rows)])
        return F.cross_entropy(torch.stack(scores, 1), right, reduction="sum")
