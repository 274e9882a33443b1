"""A criterion for recipes/dialogue: words of address count several times.

One word in forty says tu or vous. Whether the model gets it right hardly shows in the mean over all words, and that is what
context decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from docnmt.core.batch import IGNORE
from docnmt.core.criterions.config import LabelSmoothedCrossEntropyConfig
from docnmt.core.criterions.cross_entropy import LabelSmoothedCrossEntropy, TokenBatch, TokenModel
from docnmt.core.formats.address import AddressRule
from docnmt.functional import chunked_cross_entropy
from docnmt.plugin import option, register_criterion


@dataclass(frozen=True)
class AddressWeightConfig(LabelSmoothedCrossEntropyConfig):
    """Label-smoothed cross-entropy, and how much words of address count."""

    address_weight: float = option(4.0, "how many times the loss of a word of address counts in training")


@register_criterion("address_weight")
class AddressWeight(LabelSmoothedCrossEntropy):
    """Label-smoothed cross-entropy in which subwords that are words of address count `weight` times in training.

    The rule is that of `docnmt-score --address`; words of several subwords count once. The logged `nll` is the plain one.
    """

    Config = AddressWeightConfig

    def __init__(self, words: Tensor, weight: float, label_smoothing: float) -> None:
        super().__init__(label_smoothing=label_smoothing)
        self.words, self.weight = words, weight  # (n,) entries of the vocabulary

    @classmethod
    def build(cls, config: Any, task: Any) -> AddressWeight:  # the task is docnmt's own
        """The criterion for a task's target language.

        Raises:
            UserError: the language has no rule.
        """
        rule = AddressRule(task.target_lang)
        entries = enumerate(task.target_tokenizer.vocabulary())
        words = [number for number, piece in entries if piece.startswith("▁") and rule.speaks(f"a {piece[1:]}'")]  # ▁t is of t'
        return cls(torch.tensor(words), config.address_weight, config.label_smoothing)

    def __call__(self, model: TokenModel, batch: TokenBatch) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Summed loss, the number of labels it counts, and sums to log."""
        features = model(batch)
        loss, nll = self._cross_entropy(model, features, batch)
        if model.training and isinstance(features, Tensor):
            here = torch.isin(batch.labels, self.words.to(batch.labels.device))
            more, _ = chunked_cross_entropy(
                features, model.output.weight, batch.labels.masked_fill(~here, IGNORE), bias=model.output.bias,
                label_smoothing=self.label_smoothing, count=int(here.sum()),
            )  # fmt: skip
            loss = loss + (self.weight - 1) * more
        return loss, batch.num_tokens, {"nll": nll.detach()}
