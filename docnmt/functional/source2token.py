"""Source2token self-attention: one vector a sentence.

Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", equations 1 and 2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from docnmt.layout import BoundedSpans, Spans


def source2token(query: Tensor, keys: Tensor, values: Tensor, sentence_offsets: Tensor) -> Tensor:
    """Attention of one learned query over the tokens of each sentence: softmax(keys·query / √d_k) values.

    Args:
        query: (h, d_k), one for all sentences.
        keys: (T, h, d_k).
        values: (T, h, d_v).
        sentence_offsets: (S+1,) int64, the token index where each sentence begins.

    Returns:
        (S, h, d_v).

    Raises:
        ValueError: shapes do not fit, or a sentence has no token.
    """
    spans = Spans(sentence_offsets)
    _check_words(spans)
    if query.shape != keys.shape[1:] or keys.shape[:2] != values.shape[:2] or len(keys) != spans.num_tokens:
        raise ValueError(
            f"source2token: expected query (h, d_k), keys (T, h, d_k), values (T, h, d_v) with T = {spans.num_tokens} "
            f"from sentence_offsets, got {tuple(query.shape)}, {tuple(keys.shape)}, {tuple(values.shape)}"
        )
    if keys.dtype in (torch.float16, torch.bfloat16):
        return source2token(query.float(), keys.float(), values.float(), sentence_offsets).to(values.dtype)
    scores = torch.einsum("thd,hd->th", keys, query) / math.sqrt(query.shape[-1])
    weights = spans_softmax(scores, spans)
    return sum_over_spans(weights.unsqueeze(-1) * values, spans)


def weighted_means(scores: Tensor, words: Tensor, spans: Spans) -> Tensor:
    """Return the mean of each sentence's words, weighted by the softmax of their scores: source2token before W^V.

    Args:
        scores: (T, h).
        words: (T, d), the same for all heads; never copied for each of them.
        spans: the words of each sentence.

    Returns:
        (h, S, d), in the type of `words`, computed in float32 at least.

    Raises:
        ValueError: a sentence has no token.
    """
    _check_words(spans)
    tokens, heads = scores.shape
    precise = torch.promote_types(words.dtype, torch.float32)
    weights = spans_softmax(scores.to(precise), spans).T.reshape(-1)  # (h·T,)
    token = torch.arange(tokens, device=words.device)
    begin = spans.offsets[:-1] + torch.arange(heads, device=words.device)[:, None] * tokens  # (h, S)
    means = functional.embedding_bag(
        token.repeat(heads), words.to(precise), begin.flatten(), mode="sum", per_sample_weights=weights
    )
    return means.view(heads, len(spans), words.shape[1]).to(words.dtype)


def spans_softmax(scores: Tensor, spans: Spans) -> Tensor:
    """Return the softmax of scores (T, ...) over the tokens of each span, (T, ...)."""
    span = spans.span_of_token
    index = span.view(-1, *(1,) * (scores.dim() - 1)).expand_as(scores)
    top = scores.new_full((len(spans), *scores.shape[1:]), -torch.inf)
    top = top.scatter_reduce_(0, index, scores.detach(), "amax")
    exponentials = (scores - top.index_select(0, span)).exp()
    return exponentials / sum_over_spans(exponentials, spans).index_select(0, span)


def sum_over_spans(values: Tensor, spans: Spans) -> Tensor:
    """Return the sum of values (T, ...) over each span, (number of spans, ...)."""
    return values.new_zeros((len(spans), *values.shape[1:])).index_add(0, spans.span_of_token, values)


def _check_words(spans: Spans) -> None:
    if isinstance(spans, BoundedSpans):
        return  # the host cannot look; a sentence without a token is then 0
    empty = (spans.lengths == 0).nonzero()[0]
    if len(empty):
        raise ValueError(f"source2token: sentence {empty[0]} has no token, so there is nothing to attend to")
