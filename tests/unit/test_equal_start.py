"""Queries and keys of every context attention start with the same projections, or not; nothing else differs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from docnmt.core.models.encoder_decoder import initialise
from docnmt.modules.document_context import ConditionalAttention, ContextAttention, SummaryAttention

SIZES = {"d_model": 12, "heads": 2, "d_head": 4}
ATTENTIONS: dict[str, Callable[[bool], ContextAttention]] = {
    "summaries": lambda equal: SummaryAttention(**SIZES, equal_start=equal),
    "conditional": lambda equal: ConditionalAttention(**SIZES, top_t=2, equal_start=equal),
    "earlier summaries": lambda equal: SummaryAttention(**SIZES, earlier=True, equal_start=equal),
    "earlier sentences": lambda equal: ConditionalAttention(**SIZES, top_t=2, earlier=True, equal_start=equal),
}


def started(make: Callable[[bool], ContextAttention], equal: bool) -> ContextAttention:
    torch.manual_seed(1)
    attention = make(equal)
    initialise(nn.ModuleList([attention]))
    return attention


@pytest.mark.parametrize("make", ATTENTIONS.values(), ids=ATTENTIONS)
def test_queries_start_as_the_keys_that_they_are_compared_with(make: Callable[[bool], ContextAttention]) -> None:
    equal, free = started(make, True), started(make, False)
    queries = equal.query.weight.split(8)
    compared = [equal.key_value.weight[:8]]
    if isinstance(equal, ConditionalAttention):
        compared.append(equal.relevance_key.weight)
    for query, key in zip(queries, compared, strict=True):
        assert torch.equal(query, key)
    names = {name for name, value in equal.named_parameters() if not torch.equal(value, free.get_parameter(name))}
    assert names == {"key_value.weight", *(["relevance_key.weight"] if len(compared) == 2 else [])}
    assert torch.equal(equal.key_value.weight[8:], free.key_value.weight[8:])  # values start as they did
