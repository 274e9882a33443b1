"""Cross-entropy, and the choice between the forms of address."""

from __future__ import annotations

from typing import Any  # tasks, whose kind the criterion asks for

import torch
from torch import Tensor
from torch.nn import functional as F

from docnmt.core.batch import IGNORE
from docnmt.core.criterions.cross_entropy import BatchT, LabelSmoothedCrossEntropy, TokenModel
from docnmt.core.formality import AddressRule, Form
from docnmt.core.training.config import FormChoiceConfig
from docnmt.functional.loss import CopiedFeatures
from docnmt.runtime.errors import UserError

#: The forms of address, in the order of their scores.
FORMS: tuple[Form, ...] = ("formal", "informal")


class FormChoice(LabelSmoothedCrossEntropy):
    """Label-smoothed cross-entropy plus, where the next word is one of address, `form_choice` times −log p of its form.

    One word in forty says *tu* or *vous*. Whether a model gets it right hardly shows in the mean over all words, and it
    is what context or a tag decides. p is the share of that form's words in the probability of all words of
    address, so how probable these are beside other words stays as it is. Words of several subwords are left out; of a
    model that copies, p is without what is copied. Validation and the logged `nll` are those of the plain loss.

    Args:
        forms: (V,) for each entry of the vocabulary 0 if it is a formal word, 1 if informal, else `IGNORE`.
    """

    Config: type = FormChoiceConfig

    def __init__(self, forms: Tensor, *, form_choice: float, label_smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__(label_smoothing=label_smoothing, r_drop=r_drop)
        self.forms, self.form_choice = forms, form_choice
        self.words = [(forms == place).nonzero()[:, 0] for place in range(len(FORMS))]  # (n,) and (m,)

    @classmethod
    def build(cls, config: FormChoiceConfig, task: Any) -> FormChoice:  # type: ignore[override]  # the own options
        """Build the criterion for a task's target language.

        Raises:
            UserError: the task does not translate, the language has no rule, or the vocabulary has no word of a form.
        """
        language = getattr(task, "target_lang", None)
        if language is None:
            raise UserError("--criterion form_choice: is for translation; leave it out")
        rule, pieces = AddressRule(language), task.target_tokenizer.vocabulary()
        found = [rule.form(f"a {piece[1:]}'") if piece[:1] == "▁" else None for piece in pieces]  # t is a piece of t'
        for form in FORMS:
            if form not in found:
                raise UserError(f"--criterion form_choice: the vocabulary has no {form} word of address; leave it out")
        return cls(
            torch.tensor([IGNORE if form is None else FORMS.index(form) for form in found]),
            form_choice=config.form_choice,
            label_smoothing=config.label_smoothing,
            r_drop=config.r_drop,
        )

    def _cross_entropy(
        self, model: TokenModel[BatchT], predicted: Tensor | CopiedFeatures, batch: BatchT
    ) -> tuple[Tensor, Tensor]:
        loss, nll = super()._cross_entropy(model, predicted, batch)
        if model.training:
            features = predicted if isinstance(predicted, Tensor) else predicted.features
            loss = loss + self.form_choice * self._choices(model, features, batch.labels)
        return loss, nll

    def _choices(self, model: TokenModel[BatchT], features: Tensor, labels: Tensor) -> Tensor:
        """Return −log p of the right form, summed over the labels (T,) that are words of address.

        The scores are computed for all labels: the words are few, and choosing labels would make a GPU's host wait.
        """
        self.forms, self.words = self.forms.to(labels.device), [each.to(labels.device) for each in self.words]
        entries, bias = torch.cat(self.words), model.output.bias
        logits = F.linear(features, model.output.weight[entries], None if bias is None else bias[entries])  # (T, n + m)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        parts = logits.split([len(each) for each in self.words], dim=1)
        scores = torch.stack([each.logsumexp(dim=1) for each in parts], dim=1)  # (T, 2)
        right = self.forms[labels.clamp(min=0)].masked_fill(labels == IGNORE, IGNORE)  # (T,)
        return F.cross_entropy(scores, right, ignore_index=IGNORE, reduction="sum")
