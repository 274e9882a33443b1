"""Multi-head linear attention on packed rows: what `--attention linear` puts in the place of `SelfAttention`."""

from __future__ import annotations

from torch import Tensor, nn

from docnmt.functional import packed_linear_attention
from docnmt.layout import Spans
from docnmt.modules.positions import AttentionPosition, RelativeKeys


class LinearSelfAttention(nn.Module):
    """Multi-head kernelised self-attention inside each span, in time linear in its length (Scaleformer, eq. 9-11).

    Args:
        d_model: width of the row. d_head: width of a head.
        position: relative embeddings of keys, which act as the paper's relative positions, or None.

    Raises:
        ValueError: any other position, which would have to act on scores that linear attention never has.
    """

    position: RelativeKeys | None

    def __init__(self, *, d_model: int, heads: int, d_head: int, position: AttentionPosition | None = None) -> None:
        super().__init__()
        if position is not None and not isinstance(position, RelativeKeys):
            raise ValueError(f"linear attention has no scores for {type(position).__name__} to act on")
        self.heads, self.d_head = heads, d_head
        self.qkv = nn.Linear(d_model, 3 * heads * d_head)
        self.output = nn.Linear(heads * d_head, d_model)
        self.position = position

    def forward(self, x: Tensor, spans: Spans) -> Tensor:
        """x (T, d) → (T, d)."""
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, self.d_head).unbind(1)  # (T, h, d_h) each
        rel_pos = None if self.position is None else self.position.weight
        output: Tensor = self.output(packed_linear_attention(q, k, v, spans, spans, rel_pos).flatten(1))
        return output
