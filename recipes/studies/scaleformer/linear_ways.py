"""What `linear_attention.py` measures ours against: the algorithms of Favier and Dal'Maz Silva ("the paper"), the plain
chunked form, a C++ kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from docnmt.functional.linear import LINEAR_BLOCK, feature_map

Features = Callable[[Tensor], Tensor]


def algorithm_1(features_q: Tensor, features_k: Tensor, v: Tensor) -> Tensor:
    """The paper's Algorithm 1 as printed, but for the contraction of φ(Q): with the keys' features, not the values."""
    expanded = v[..., :, None] * features_k[..., None, :]  # (B, h, Lk, dv, d)
    summed = expanded.cumsum(2)
    last = torch.arange(features_q.shape[2]).clamp(max=features_k.shape[2] - 1)
    aligned = summed if len(last) == features_k.shape[2] else summed.index_select(2, last)
    return torch.einsum("bhil,bhijl->bhij", features_q, aligned)


def algorithm_2(features_q: Tensor, features_rel: Tensor, v: Tensor) -> Tensor:
    """The paper's Algorithm 2, with its indices corrected: W[i, j + 1], Rcumulated[i + k] where i + k < L_K."""
    queries, keys, k = features_q.shape[2], v.shape[2], features_rel.shape[0] // 2
    weights = features_q @ features_rel.mT  # (B, h, Lq, 2k+1)
    cumulated = F.pad(v.cumsum(2), (0, 0, 1, 0))  # row n: the sum of the first n values
    row = torch.arange(queries)
    before = cumulated.index_select(2, (row - k + 1).clamp(0, keys))
    after = cumulated[:, :, -1:] - cumulated.index_select(2, (row + k).clamp(0, keys))
    padded = F.pad(v, (0, 0, k - 1, max(0, queries + k - 1 - keys)))[:, :, : queries + 2 * k - 2]
    around = padded.unfold(2, 2 * k - 1, 1)  # (B, h, Lq, dv, 2k-1)
    horizon = torch.einsum("bhij,bhilj->bhil", weights[..., 1:-1], around)
    return weights[..., :1] * before + horizon + weights[..., -1:] * after


def unnormalised(features_q: Tensor, features_k: Tensor, v: Tensor, features_rel: Tensor, causal: bool) -> Tensor:
    """Equation 10's numerator by Algorithms 1 and 2."""
    if not causal:
        return features_q @ (features_k.mT @ v) + algorithm_2(features_q, features_rel, v)
    future = torch.arange(len(features_rel))[:, None] > len(features_rel) // 2
    seen = features_rel.masked_fill(future, 0)  # not the embedding: φ(0) is 1
    return algorithm_1(features_q, features_k, v) + algorithm_2(features_q, seen, v)


def paper(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, *, causal: bool) -> Tensor:
    """Equation 10 as the paper says: the denominator by the same algorithms with V = ones of shape (L_K, 1)."""
    features = feature_map(q), feature_map(k), feature_map(rel)
    numerator, denominator = (
        unnormalised(*features[:2], values, features[2], causal) for values in (v, torch.ones_like(v[..., :1]))
    )
    return numerator / denominator


def paper_in_one_pass(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, *, causal: bool) -> Tensor:
    """The same in a way kinder to it: the column of ones stands beside the values."""
    features = feature_map(q), feature_map(k), feature_map(rel)
    mixed = unnormalised(*features[:2], F.pad(v, (0, 1), value=1.0), features[2], causal)
    return mixed[..., :-1] / mixed[..., -1:]


def kernelised_by_the_paper(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, *, causal: bool) -> Tensor:
    """Figure 5: equation 8 without its denominator, which ours always computes."""
    features_q, features_k = feature_map(q), feature_map(k)
    return algorithm_1(features_q, features_k, v) if causal else features_q @ (features_k.mT @ v)


def plain_features(x: Tensor) -> Tensor:
    """`feature_map` without its pieces, for a compiler to make its own."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def chunked(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, *, features: Features = feature_map) -> Tensor:
    """Equation 8, masked, in the plainest form of linear time: scores inside a block, a state of the blocks before."""
    q, k, v = (x.unflatten(2, (-1, LINEAR_BLOCK)) for x in (features(q), features(k), v))  # (B, h, blocks, block, ·)
    scores = (q @ k.mT).tril()
    products, sums = k.mT @ v, k.sum(3)
    states, totals = (x.cumsum(2) - x for x in (products, sums))
    mixed = scores @ v + q @ states
    total = scores.sum(-1) + (q @ totals[..., None]).squeeze(-1)
    return (mixed / total[..., None]).flatten(2, 3)


def fast_transformers(q: Tensor, k: Tensor, v: Tensor, rel: Tensor) -> Tensor:
    """The masked kernel of pytorch-fast-transformers (C++), as its CausalLinearAttention calls it."""
    from fast_transformers.causal_product import causal_dot_product

    features_q, features_k = feature_map(q), feature_map(k)
    total = torch.einsum("bhid,bhid->bhi", features_q, features_k.cumsum(2))
    mixed: Tensor = causal_dot_product(features_q, features_k, v.contiguous())
    return mixed / (total[..., None] + 1e-6)
