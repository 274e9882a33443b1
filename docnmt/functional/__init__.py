"""The papers' equations on tensors: pure functions, differentiable, without parameters."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docnmt.functional.conditional import conditional_attention as conditional_attention
    from docnmt.functional.conditional import conditional_attention_step as conditional_attention_step
    from docnmt.functional.conditional import hierarchical_conditional_attention as hierarchical_conditional_attention
    from docnmt.functional.linear import LinearMemory as LinearMemory
    from docnmt.functional.linear import LinearState as LinearState
    from docnmt.functional.linear import linear_attention as linear_attention
    from docnmt.functional.linear import packed_linear_attention as packed_linear_attention
    from docnmt.functional.linear import relative_attention_term as relative_attention_term
    from docnmt.functional.loss import chunked_cross_entropy as chunked_cross_entropy
    from docnmt.functional.packed import packed_attention as packed_attention
    from docnmt.functional.packed import source2token as source2token
    from docnmt.functional.selection import keep_top_t as keep_top_t
    from docnmt.functional.tree import SentenceTree as SentenceTree
    from docnmt.functional.tree import build_tree as build_tree

#: Where each name is: a model imports only the equations that it computes.
_HOMES = {
    "LinearMemory": "linear",
    "LinearState": "linear",
    "SentenceTree": "tree",
    "build_tree": "tree",
    "chunked_cross_entropy": "loss",
    "conditional_attention": "conditional",
    "conditional_attention_step": "conditional",
    "hierarchical_conditional_attention": "conditional",
    "keep_top_t": "selection",
    "linear_attention": "linear",
    "packed_attention": "packed",
    "packed_linear_attention": "linear",
    "relative_attention_term": "linear",
    "source2token": "packed",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'docnmt.functional' has no attribute '{name}'; it has {', '.join(__all__)}")
    found: object = getattr(import_module(f"docnmt.functional.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
