"""Where a token stands: encodings that enter with the embeddings, and families that act inside attention.

`build_position(name, d_model)` gives both halves of any family by its registered name; at most one of them is there.
"""

from docnmt.modules.positions.attention_positions import Alibi, AttentionPosition, RelativeKeys, Rotary
from docnmt.modules.positions.build_position import (
    Position,
    PositionSettings,
    build_position,
    check_fusion,
    check_linear,
)
from docnmt.modules.positions.position_tables import Learned, MultiLevel, Sinusoidal

__all__ = [
    "Alibi",
    "AttentionPosition",
    "Learned",
    "MultiLevel",
    "Position",
    "PositionSettings",
    "RelativeKeys",
    "Rotary",
    "Sinusoidal",
    "build_position",
    "check_fusion",
    "check_linear",
]
