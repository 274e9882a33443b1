"""Cross-entropy of a large vocabulary in chunks, with a pointer's mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.runtime.device import linear_products

# Tokens at a time; on a card scores, as every chunk costs some 20 calls there.
_CHUNK, _CARD_SCORES = 1024, 1 << 27


def chunked_cross_entropy(
    features: Tensor, weight: Tensor, labels: Tensor, *,
    bias: Tensor | None = None, label_smoothing: float = 0.0, copied: Copied | None = None, ignore_index: int = -100,
    chunk_tokens: int | None = None, count: int | Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Summed cross-entropy of `features @ weight.T + bias`, in nats: smoothed, differentiable in features, weight, bias
    and what is copied; and without smoothing, detached.

    The gradient is computed together with the value, a chunk of tokens at a time, so that no more than
    (chunk_tokens, V) scores ever exist. Scores are float32 at least.

    Args:
        features: (T, d). weight: (V, d). bias: (V,). labels: (T,), `ignore_index` where nothing is counted.
        label_smoothing: ε of (1 − ε)·(−log p(label)) + ε·(mean over the vocabulary of −log p).
        copied: a pointer's probabilities, mixed in as p(label) = (1 − λ)·softmax(scores)(label) + λ·copied; smoothing
            applies to the softmax alone.
        chunk_tokens: how many tokens at a time; None: 1,024 on a CPU, on a card as many as have 2^27 scores (512 MB in
            float32, and about twice that with what is computed of them).
        count: the number of labels that are counted, if the host knows it; it then need not wait for the GPU. A tensor
            (0-dimensional) if only the device does: then shapes do not depend on it, and every row is computed.
    """
    if features.dim() != 2 or labels.shape != features.shape[:1] or weight.shape[1:] != features.shape[1:]:
        raise ValueError(
            "chunked_cross_entropy: expected features (T, d), weight (V, d), labels (T,), got "
            f"{tuple(features.shape)}, {tuple(weight.shape)}, {tuple(labels.shape)}"
        )
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"chunked_cross_entropy: label_smoothing must be in [0, 1), got {label_smoothing}")
    ignored = None
    if isinstance(count, Tensor):
        if copied is not None:
            raise ValueError("chunked_cross_entropy: with a pointer, count must be a number of the host, or None")
        ignored = (labels == ignore_index)[:, None]
        features, labels = features.masked_fill(ignored, 0), labels.masked_fill(ignored[:, 0], 0)
    elif len(counted := counted_labels(labels, ignore_index, count)) < len(labels):
        features, labels = features.index_select(0, counted), labels.index_select(0, counted)
        copied = None if copied is None else copied.select(counted)
    if chunk_tokens is None:
        chunk_tokens = _CHUNK if features.device.type == "cpu" else max(_CHUNK, _CARD_SCORES // max(1, len(weight)))
    share, log_copied = (None, None) if copied is None else (copied.share, copied.log_probs)
    with linear_products():  # those of the gradient, too, which the forward pass computes
        loss, nll = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            features, weight, bias, share, log_copied, labels, ignored, 1 - label_smoothing, chunk_tokens
        )
    if label_smoothing:  # the mean of all scores is linear in the features: no (T, V) is needed for it
        precise = loss.dtype
        mean_scores = (features.sum(0, dtype=precise) * weight.mean(0, dtype=precise)).sum()
        if bias is not None:
            number = count if isinstance(count, Tensor) else len(features)
            mean_scores = mean_scores + number * bias.mean(dtype=precise)
        loss = loss - label_smoothing * mean_scores
    return loss, nll.detach()


def counted_labels(labels: Tensor, ignore_index: int, count: int | None) -> Tensor:
    """The indices (N,) of the labels that are counted, in order; `count` is N, if the host knows it."""
    if count is None or labels.device.type == "cpu":
        return (labels != ignore_index).nonzero()[:, 0]
    return (labels == ignore_index).to(torch.uint8).argsort(stable=True)[:count]


@dataclass(frozen=True, eq=False)
class Copied:
    """The probabilities that a pointer gives to the labels."""

    share: Tensor  # (T,) λ, the share of the pointer in the mixture with the softmax, in [0, 1]
    log_probs: Tensor  # (T,) of each label under the pointer; at most 0

    def select(self, rows: Tensor) -> Copied:
        return Copied(self.share.index_select(0, rows), self.log_probs.index_select(0, rows))

    def mixed_with(self, log_probs: Tensor) -> Tensor:
        """log((1 − λ)·exp(log_probs) + λ·copied), (T,), not differentiable where λ is 0."""
        return torch.logaddexp(torch.log1p(-self.share) + log_probs, self.share.log() + self.log_probs)


@dataclass(frozen=True, eq=False)
class CopiedFeatures:
    """The output of a model with a pointer: features (T, d) for the vocabulary's scores, and the pointer's part."""

    features: Tensor
    copied: Copied


def label_log_probs(predicted: Tensor | CopiedFeatures, output: nn.Linear, labels: Tensor, rows: Tensor) -> Tensor:
    """log p of the labels at `rows` (N,), in float32 at least, from a model's features of all T words."""
    features, copied = (predicted, None) if isinstance(predicted, Tensor) else (predicted.features, predicted.copied)
    logits = output(features.index_select(0, rows))
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probs = -F.cross_entropy(logits, labels[rows], reduction="none")
    return log_probs if copied is None else copied.select(rows).mixed_with(log_probs)


def _mixture(alone: Tensor, copied: Copied) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log p (C,) of labels with a pointer, whose log p without is `alone`; the vocabulary's part (C, 1); gradients of
    −log p with respect to λ and to the log of what is copied, (C,) each."""
    mixed = copied.mixed_with(alone)
    # bounded: where λ is 0 and p nothing, all of these would be infinite
    own_ratio, copy_ratio = ((part - mixed).clamp(max=30).exp() for part in (alone, copied.log_probs))
    vocabulary_part = ((1 - copied.share) * own_ratio)[:, None]
    return mixed, vocabulary_part, own_ratio - copy_ratio, -copied.share * copy_ratio


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Σ log Σ exp(scores) − share · Σ score of the label, and the same with a share of 1; and the gradients."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, copy_share: Tensor | None,
        log_copied: Tensor | None, labels: Tensor, ignored: Tensor | None, share: float, chunk: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        precise = torch.promote_types(features.dtype, torch.float32)
        loss = torch.zeros((), dtype=precise, device=features.device)
        nll = torch.zeros_like(loss)
        needed = ctx.needs_input_grad
        d_features = torch.empty_like(features) if needed[0] else None
        d_weight = torch.zeros_like(weight, dtype=precise) if needed[1] else None
        d_bias = torch.zeros_like(bias, dtype=precise) if bias is not None and needed[2] else None
        d_copied = [None if copied is None else torch.empty_like(copied) for copied in (copy_share, log_copied)]
        # under autocast the products run in its type, as a linear layer's would
        product = (
            torch.get_autocast_dtype(features.device.type)
            if torch.is_autocast_enabled(features.device.type)
            else features.dtype
        )
        matrix = weight.to(product)
        for begin in range(0, len(features), chunk):
            x, y = features[begin : begin + chunk].to(product), labels[begin : begin + chunk, None]
            scores = x @ matrix.t()  # (C, V)
            if bias is not None:
                scores = scores.to(precise) + bias
            p = torch.softmax(scores, dim=1, dtype=precise)  # a single pass over memory
            top, top_p = scores.amax(1, keepdim=True), p.amax(1, keepdim=True)  # at least 1/V: its log loses nothing
            log_total = top.to(precise) - top_p.log()
            right = scores.gather(1, y)
            vocabulary_part: Tensor | None = None
            if ignored is not None:
                log_total, right = (x.masked_fill(ignored[begin : begin + chunk], 0) for x in (log_total, right))
            if copy_share is None or log_copied is None:
                nll += (log_total - right).sum()
                loss += (log_total - share * right).sum()
            else:
                rows = slice(begin, begin + chunk)
                copied = Copied(copy_share[rows], log_copied[rows])
                mixed, vocabulary_part, *values = _mixture((right - log_total)[:, 0].to(precise), copied)
                nll -= mixed.sum()
                loss -= share * mixed.sum() - (1 - share) * log_total.sum()
                for d, value in zip(d_copied, values, strict=True):
                    if d is not None:
                        d[rows] = share * value
            if not any(needed[:3]):  # a frozen model whose pointer learns: that gradient is made above
                continue
            if vocabulary_part is not None:
                p.mul_(share * vocabulary_part + (1 - share))
            of_label = p.new_full(y.shape, -share) if vocabulary_part is None else -share * vocabulary_part
            p.scatter_add_(1, y, of_label)  # now the scores' gradient
            if d_bias is not None:
                d_bias += (p if ignored is None else p.masked_fill(ignored[begin : begin + chunk], 0)).sum(0)
            p = p.to(product)
            if d_features is not None:
                d_features[begin : begin + chunk] = p @ matrix
            if d_weight is not None:
                d_weight += p.t() @ x
        ctx.dtypes = (weight.dtype, None if bias is None else bias.dtype)
        ctx.save_for_backward(d_features, d_weight, d_bias, *d_copied)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        d_features, d_weight, d_bias, *d_copied = ctx.saved_tensors
        weight_type, bias_type = ctx.dtypes
        d_features = None if d_features is None else d_features * grad.to(d_features.dtype)
        d_weight = None if d_weight is None else (d_weight * grad).to(weight_type)
        d_bias = None if d_bias is None else (d_bias * grad).to(bias_type)
        d_copied = [None if d is None else d * grad for d in d_copied]
        return d_features, d_weight, d_bias, *d_copied, None, None, None, None
