"""A plug-in with an attention of its own: a word decides how much of what it reads it takes (`--attention gated`)."""

from dataclasses import dataclass

import torch
from torch import nn

from docnmt.plugin import OwnStart, SelfAttention, option, register_attention


@dataclass(frozen=True)
class GatedConfig:
    gate_bias: float = option(2.0, "b of the gates at the start, which are about sigmoid(b): 0.88 for 2")


@register_attention("gated", config=GatedConfig)
class GatedAttention(SelfAttention, OwnStart):
    """softmax attention times a gate, sigmoid(Wx + b), one for each feature (Qiu et al. 2025, behind the output)"""

    def __init__(self, *, d_model, gate_bias, **attention):  # heads, d_head, causal, position
        super().__init__(d_model=d_model, **attention)
        self.gate, self.gate_bias = nn.Linear(d_model, d_model), gate_bias

    def reset_parameters(self):  # after all linear layers have been initialised, biases with 0
        nn.init.constant_(self.gate.bias, self.gate_bias)

    def forward(self, x, reads):  # all words of a packed row: (T, d) → (T, d)
        return torch.sigmoid(self.gate(x)) * super().forward(x, reads)

    def step(self, x, cache, at):  # one word a row: (R, d) → (R, d)
        return torch.sigmoid(self.gate(x)) * super().step(x, cache, at)
