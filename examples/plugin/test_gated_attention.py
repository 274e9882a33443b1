"""The gated attention: its equation, and that a step at a time gives what the whole row gives."""

import torch
from gated_attention import GatedAttention

from docnmt.plugin import DocumentLayout, Reads, SelfAttention
from docnmt.testing import check_model, check_sublayer


def test_the_equation():
    sizes = {"d_model": 8, "heads": 2, "d_head": 4}
    gated, plain = GatedAttention(**sizes, gate_bias=1.5).double(), SelfAttention(**sizes).double()
    plain.load_state_dict({name: value for name, value in gated.state_dict().items() if not name.startswith("gate")})
    x, reads = torch.randn(5, 8, dtype=torch.float64), Reads(DocumentLayout.from_lengths([[2, 3]]))
    gate = 1 / (1 + (-(x @ gated.gate.weight.T + gated.gate.bias)).exp())
    assert torch.allclose(gated(x, reads), gate * plain(x, reads))


def test_step_by_step_is_the_whole_row():
    check_sublayer(GatedAttention(d_model=32, heads=2, d_head=16, causal=True, gate_bias=0.0))


def test_models_with_it():
    check_model("transformer", attention="gated", gate_bias=-1.0)
    check_model("cond_transformer", attention="gated", position="rope", context_placement="replace")
