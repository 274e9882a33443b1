"""The losses: features (T, d) of a model and labels (T,) → summed loss, sample size, sums to log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from docnmt.core.batch import IGNORE
from docnmt.core.formality import AddressRule, Form
from docnmt.core.training.config import CrossEntropyConfig, FormChoiceConfig, LabelSmoothedCrossEntropyConfig
from docnmt.functional.loss import Copied, CopiedFeatures, chunked_cross_entropy, counted_labels
from docnmt.runtime.system import UserError


class Criterion(Protocol):
    """A loss function; `metrics` are the names of the sums that it logs."""

    metrics: tuple[str, ...]

    @classmethod
    def build(cls, config: Any, task: Any) -> Self:  # Any: each criterion has a configuration class of its own
        """Build the criterion of a configuration, for the labels of a task."""

    def __call__(  # Any: the models and batches that it supports
        self, model: Any, batch: Any
    ) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Return the summed loss, the sample size to divide it by, and further sums to log (divided likewise), which
        may be scalars on the device."""


#: Number of labels whose vocabulary scores are in memory at once in R-Drop; the backward pass recomputes them.
CHUNK = 1024


class LabelSmoothedCrossEntropy:
    """(1 − ε)·(−log p(label)) + ε·(mean over the vocabulary of −log p), summed over labels (Szegedy et al. 2016), of
    features (T, d) by the model's `output` layer; logs `nll`, the sum without smoothing, in nats.

    With `r_drop` α, in training: the mean of this loss over two passes with other dropout, plus α/2 times their
    symmetric divergence, half of R-Drop's loss (Liang et al. 2021), so that it is comparable with the loss without
    it."""

    Config: type = LabelSmoothedCrossEntropyConfig
    metrics: tuple[str, ...] = ("nll",)
    predicts: str = "tokens"

    def __init__(self, *, label_smoothing: float, r_drop: float = 0.0) -> None:
        self.label_smoothing, self.r_drop = label_smoothing, r_drop

    @classmethod
    def build(cls, config: LabelSmoothedCrossEntropyConfig, task: object) -> LabelSmoothedCrossEntropy:
        """Build the criterion with the values of its options."""
        return cls(label_smoothing=config.label_smoothing, r_drop=config.r_drop)

    def __call__(self, model: Any, batch: Any) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Return the summed loss, the number of labels it counts, and sums to log, which may be on the device."""
        if not self.r_drop or not model.training:
            loss, nll = self._cross_entropy(model, model(batch), batch)
            return loss, batch.num_tokens, {"nll": nll.detach()}
        passes = (model(batch), model(batch))
        losses, nlls = zip(*(self._cross_entropy(model, predicted, batch) for predicted in passes), strict=True)
        loss, nll = losses[0] + losses[1], nlls[0] + nlls[1]
        one, other = (_parts(predicted)[0] for predicted in passes)
        counted = counted_labels(batch.labels, IGNORE, batch.num_tokens)
        divergence = _symmetric_divergence(one, other, counted, model.output.weight, model.output.bias)
        sums = {"nll": nll.detach() / 2, "divergence": divergence.detach()}
        return (loss + self.r_drop * divergence) / 2, batch.num_tokens, sums

    def _cross_entropy(self, model: Any, predicted: Tensor | CopiedFeatures, batch: Any) -> tuple[Tensor, Tensor]:
        features, copied = _parts(predicted)
        return chunked_cross_entropy(
            features,
            model.output.weight,
            batch.labels,
            bias=model.output.bias,
            label_smoothing=self.label_smoothing,
            copied=copied,
            count=batch.num_tokens,
        )


class CrossEntropy(LabelSmoothedCrossEntropy):
    """Cross-entropy: −log p(label), summed over labels."""

    Config = CrossEntropyConfig

    @classmethod
    def build(cls, config: object, task: object) -> CrossEntropy:
        """Build the criterion, which has no options."""
        return cls(label_smoothing=0.0)


def _parts(predicted: Tensor | CopiedFeatures) -> tuple[Tensor, Copied | None]:
    """Return the features (T, d), and what is copied."""
    return (predicted, None) if isinstance(predicted, Tensor) else (predicted.features, predicted.copied)


def _symmetric_divergence(first: Tensor, second: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Σ ½(KL(P₁‖P₂) + KL(P₂‖P₁)) over the labels at `rows`, in nats (R-Drop, Liang et al. 2021), of features (T, d)."""

    def of_chunk(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        precise = torch.promote_types(first.dtype, torch.float32)
        one, other = (F.log_softmax(F.linear(x, weight, bias).to(precise), dim=-1) for x in (first, second))  # (C, V)
        return ((one.exp() - other.exp()) * (one - other)).sum() / 2

    total = first.new_zeros((), dtype=torch.promote_types(first.dtype, torch.float32))
    chosen = (features.index_select(0, rows).split(CHUNK) for features in (first, second))
    for one, other in zip(*chosen, strict=True):
        total = total + checkpoint(of_chunk, one, other, weight, bias, use_reentrant=False)
    return total


#: The forms of address, in the order of their scores.
FORMS: tuple[Form, ...] = ("formal", "informal")


class FormChoice(LabelSmoothedCrossEntropy):
    """Label-smoothed cross-entropy plus, where the next word is one of address, `form_choice` times −log p of its form.

    One word in forty says *tu* or *vous*, and whether a model gets it right hardly shows in the mean over all words. p
    is the share of that form's words in the probability of all words of address, so how probable these are stays as it
    is. Words of several subwords are left out; of a model that copies, p is without what is copied. `forms` (V,) are 0
    for a formal word, 1 for an informal one, else `IGNORE`. Validation and the logged `nll` are those of the plain
    loss."""

    Config: type = FormChoiceConfig

    def __init__(self, forms: Tensor, *, form_choice: float, label_smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__(label_smoothing=label_smoothing, r_drop=r_drop)
        self.forms, self.form_choice = forms, form_choice
        self.words = [(forms == form).nonzero()[:, 0] for form in range(len(FORMS))]  # (n,) and (m,)

    @classmethod
    def build(cls, config: FormChoiceConfig, task: Any) -> FormChoice:  # type: ignore[override]  # the own options
        """Build the criterion for a task's target language."""
        language = getattr(task, "target_lang", None)
        if language is None:
            raise UserError("--criterion form_choice: is for translation; leave it out")
        rule, pieces = AddressRule(language), task.target_tokenizer.vocabulary()
        forms = [rule.form(f"a {piece[1:]}'") if piece[:1] == "▁" else None for piece in pieces]  # t is a piece of t'
        for form in FORMS:
            if form not in forms:
                raise UserError(f"--criterion form_choice: the vocabulary has no {form} word of address; leave it out")
        return cls(
            torch.tensor([IGNORE if form is None else FORMS.index(form) for form in forms]),
            form_choice=config.form_choice,
            label_smoothing=config.label_smoothing,
            r_drop=config.r_drop,
        )

    def _cross_entropy(self, model: Any, predicted: Tensor | CopiedFeatures, batch: Any) -> tuple[Tensor, Tensor]:
        loss, nll = super()._cross_entropy(model, predicted, batch)
        if model.training:
            loss = loss + self.form_choice * self._choices(model.output, _parts(predicted)[0], batch.labels)
        return loss, nll

    def _choices(self, output: nn.Linear, features: Tensor, labels: Tensor) -> Tensor:
        """−log p of the right form, summed over labels (T,) that are words of address; all are scored: no GPU waits."""
        self.forms, self.words = self.forms.to(labels.device), [words.to(labels.device) for words in self.words]
        entries, bias = torch.cat(self.words), output.bias
        logits = F.linear(features, output.weight[entries], None if bias is None else bias[entries])  # (T, n + m)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        parts = logits.split([len(words) for words in self.words], dim=1)
        scores = torch.stack([part.logsumexp(dim=1) for part in parts], dim=1)  # (T, 2)
        right = self.forms[labels.clamp(min=0)].masked_fill(labels == IGNORE, IGNORE)  # (T,)
        return F.cross_entropy(scores, right, ignore_index=IGNORE, reduction="sum")


#: Texts packed in one row, which have `tokens` (T,), int64, and `to`.
TextT = TypeVar("TextT", bound=Any)


@dataclass(frozen=True, eq=False)
class LabelledBatch(Generic[TextT]):
    """Texts packed in one row, and labels (B,), int64: one per text, or per pair of texts i and B + i."""

    text: TextT
    labels: Tensor

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all texts."""
        return len(self.text.tokens)

    def to(self, device: torch.device | str) -> LabelledBatch[TextT]:
        """Return the batch on another device."""
        return LabelledBatch(self.text.to(device), self.labels.to(device))


class Classification:
    """Classification loss −log p(label), summed over texts, in nats; logs the number of correct labels."""

    Config: type = CrossEntropyConfig
    metrics: tuple[str, ...] = ("accuracy",)
    predicts: str = "labels"

    @classmethod
    def build(cls, config: CrossEntropyConfig, task: object) -> Classification:
        """Build the criterion, which has no options."""
        return cls()

    def __call__(
        self, model: nn.Module, batch: LabelledBatch[TextT]
    ) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Compare the model's logits (B, C) with `batch.labels` (B,); return the summed loss, B, and sums to log."""
        logits = model(batch)
        loss = F.cross_entropy(logits.float(), batch.labels, reduction="sum")
        correct = (logits.detach().argmax(-1) == batch.labels).sum()
        return loss, len(batch.labels), {"accuracy": correct}
