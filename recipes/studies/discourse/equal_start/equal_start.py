"""Self-attention from the start that context attention has, W^Q = W^K: a word first reads the words that repeat it."""

import torch

from docnmt.plugin import OwnStart, SelfAttention, register_attention


@register_attention("equal_start")
class EqualStart(SelfAttention, OwnStart):
    """softmax attention whose queries and keys begin with the same projection"""

    def reset_parameters(self) -> None:
        with torch.no_grad():
            queries, keys, _ = self.qkv.weight.chunk(3)
            keys.copy_(queries)
