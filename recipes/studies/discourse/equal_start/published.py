"""The published baselines, whose attention to other sentences begins as context attention does, W^Q = W^K."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from docnmt.plugin import SelfAttention, register_model, register_sizes

sys.path.append(str(Path(__file__).resolve().parents[4] / "examples" / "baselines"))

from g_transformer import Global, GTransformer
from han import Han, HierarchicalAttention


@torch.no_grad()
def begin_equal(model: nn.Module) -> None:
    """Copy the projection of the queries to that of the keys in all attention to other sentences."""
    for module in model.modules():
        if isinstance(module, Global) and isinstance(module.attention, SelfAttention):
            queries, keys, _ = module.attention.qkv.weight.chunk(3)
            keys.copy_(queries)
        elif isinstance(module, HierarchicalAttention):  # f_w, and the keys of words
            queries, keys = module.queries.weight.chunk(2)[0], module.word_keys.weight.chunk(2)[0]
            keys.copy_(queries)


class EqualStart:
    """Before the class of a model: it begins so."""

    @classmethod
    def build(cls, *parts: Any) -> Any:
        model = super().build(*parts)
        begin_equal(model)
        return model


@register_model("g_transformer_equal")
class EqualGTransformer(EqualStart, GTransformer):
    """G-Transformer whose global self-attention begins with W^Q = W^K"""


@register_model("han_equal")
class EqualHan(EqualStart, Han):
    """HAN whose words begin with equal projections of queries and keys"""


register_sizes("g_transformer_equal")
register_sizes("han_equal")
