"""The mathematics of flash attention's two calls over sequences of many lengths, in whatever type they are given.

As on a card, rows behind the last sequence are not written: here they are NaN, so that reading one is seen. And as
there, the backward call takes weights from the log-sum-exp it is given and knows nothing of a gradient of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from docnmt.functional.packed import Calls, Sequences, VarlenOutput


def spans(at: Sequences) -> Iterator[tuple[slice, slice]]:
    """The rows of each sequence, which must not be longer than was said."""
    for of, longest in ((at.q, at.max_q), (at.k, at.max_k)):
        assert of.dtype == torch.int32
        assert int(of.diff().min()) >= 0
        assert int(of.diff().max()) <= longest
    assert len(at.q) == len(at.k)
    for q, k in zip(zip(at.q, at.q[1:], strict=False), zip(at.k, at.k[1:], strict=False), strict=True):
        yield slice(*map(int, q)), slice(*map(int, k))


def precise(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def scores_of(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """(h, Lq, Lk), in float32 at least; with `causal` the last query sees the last key, as in the library."""
    scores = torch.einsum("qhd,khd->hqk", precise(q), precise(k)) / math.sqrt(q.shape[-1])
    hidden = torch.ones(len(q), len(k), dtype=torch.bool, device=q.device).triu(1 + len(k) - len(q))
    return scores.masked_fill(hidden, -torch.inf) if causal else scores


def forward(q: Tensor, k: Tensor, v: Tensor, at: Sequences, causal: bool) -> VarlenOutput:
    out, lse = torch.full_like(q, torch.nan), precise(q).new_full(q.shape[1::-1], torch.nan)
    for i, j in spans(at):
        scores = scores_of(q[i], k[j], causal)
        out[i] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), precise(v[j])).to(out.dtype)
        lse[:, i] = scores.logsumexp(-1) if j.stop > j.start else torch.inf
    return VarlenOutput(out, lse)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, read: VarlenOutput, at: Sequences, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (torch.full_like(x, torch.nan) for x in (q, k, v))
    grad, q, k, v, out = (precise(x) for x in (grad, q, k, v, read.out))
    for i, j in spans(at):
        weights = (scores_of(q[i], k[j], causal) - read.lse[:, i].unsqueeze(-1)).exp()
        dv[j] = torch.einsum("hqk,qhd->khd", weights, grad[i]).to(dv.dtype)
        d_scores = torch.einsum("qhd,khd->hqk", grad[i], v[j]) - (grad[i] * out[i]).sum(-1).T.unsqueeze(-1)
        d_scores = weights * d_scores / math.sqrt(q.shape[-1])
        dq[i] = torch.einsum("hqk,khd->qhd", d_scores, k[j]).to(dq.dtype)
        dk[j] = torch.einsum("hqk,qhd->khd", d_scores, q[i]).to(dk.dtype)
    return dq, dk, dv


EMULATED = Calls(forward, backward)


#: Options of models that take the ways of a card.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {}),
    "copy": ("copy_transformer", {}),
    "concat": ("concat_transformer", {}),
    "document": ("doc_transformer", {}),
    "rope": ("transformer", {"position": "rope"}),
    "relative": ("transformer", {"position": "relative"}),
    "hier": ("hier_transformer", {}),
    "cond": ("cond_transformer", {"top_t": 2}),
    "own": ("cond_transformer", {"top_t": 2, "always_own_sentence": True}),
    "hier_cond": ("hier_cond_transformer", {"top_t": 2}),
    "tree": ("hier_cond_transformer", {"top_t": 2, "merge": "source2token"}),
    "target": ("cond_transformer", {"top_t": 2, "target_context": "conditional"}),
    "linear": ("scaleformer", {}),
}
