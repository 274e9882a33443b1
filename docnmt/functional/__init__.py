"""The papers' equations on tensors: pure functions, differentiable, without parameters.

What has a name here is public; the chapters of this folder compute it for the models.
"""

from docnmt.functional.conditional import conditional_attention as conditional_attention
from docnmt.functional.conditional import hierarchical_conditional_attention as hierarchical_conditional_attention
from docnmt.functional.linear import linear_attention as linear_attention
from docnmt.functional.linear import relative_attention_term as relative_attention_term
from docnmt.functional.packed import source2token as source2token
from docnmt.functional.selection import keep_top_t as keep_top_t
from docnmt.functional.tree import build_tree as build_tree
