"""The papers' equations on tensors: pure functions, differentiable, without parameters."""

from docnmt.functional.conditional import (
    conditional_attention,
    conditional_attention_step,
    hierarchical_conditional_attention,
)
from docnmt.functional.linear import linear_attention, packed_linear_attention, relative_attention_term
from docnmt.functional.linear_state import LinearMemory, LinearState
from docnmt.functional.loss import chunked_cross_entropy
from docnmt.functional.packed import packed_attention
from docnmt.functional.source2token import source2token
from docnmt.functional.top_t import keep_top_t
from docnmt.functional.tree import SentenceTree, build_tree

__all__ = [
    "LinearMemory",
    "LinearState",
    "SentenceTree",
    "build_tree",
    "chunked_cross_entropy",
    "conditional_attention",
    "conditional_attention_step",
    "hierarchical_conditional_attention",
    "keep_top_t",
    "linear_attention",
    "packed_attention",
    "packed_linear_attention",
    "relative_attention_term",
    "source2token",
]
