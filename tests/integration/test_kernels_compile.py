"""Triton compiles every kernel for a card, without one: its interpreter takes more than its compiler does."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="needs triton: pip install triton (Linux)")

#: A driver that says which card there would be; no kernel is launched.
COMPILE = """
import torch
from torch import nn
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

class Card:
    launcher_cls = utils = None
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device=None): return 0

driver.set_active(Card())
compiled, run = [], JITFunction.run

def compile(self, *args, grid, warmup, **options):
    kernel = run(self, *args, grid=grid, warmup=True, **options)
    compiled.append((self.__name__, kernel.metadata.shared))
    return kernel

JITFunction.run = compile
from docnmt.functional.kernels import MOST_KEPT
from docnmt.functional.kernels.pointwise import bias_activation
from docnmt.functional.kernels.attention import choose_sentences
from docnmt.functional.kernels.attention import chosen_attention
from docnmt.functional.kernels.pointwise import residual_norm
from docnmt.functional.kernels.attention import short_attention
from docnmt.functional.selection import Selection
from docnmt.layout import DocumentLayout
from docnmt.runtime.device import seeds_from

layout = DocumentLayout.from_lengths([[16, 3, 0, 5] * 4])
words, sentences, half = layout.num_tokens, layout.num_sentences, torch.bfloat16
for width, t in ((16, 1), (64, 3), (128, MOST_KEPT)):
    q, k, v = (torch.randn(words, 2, width, dtype=half, requires_grad=True) for _ in range(3))
    of_words, of_sentences = (torch.randn(n, 2, width, requires_grad=True) for n in (words, sentences))
    for flag in (False, True):
        short_attention(q, k, v, layout.sentences, layout.sentences, causal=flag).sum().backward()
        choose_sentences(of_words, of_sentences, layout, layout, t, earlier=flag)
    kept = Selection(torch.zeros(2, words, t, dtype=torch.int64), torch.randn(2, words, t))
    chosen_attention(q, k, v, of_words, of_sentences, kept, layout.sentences).sum().backward()
x, added = torch.randn(words, 512, requires_grad=True), torch.randn(words, 512, dtype=half, requires_grad=True)
for norm in (nn.LayerNorm(512), None):
    with torch.autocast("cpu", half), seeds_from(torch.zeros(1, dtype=torch.int64)):
        total, read = residual_norm(x, added, norm, 0.1)
    (total.sum() if read is None else total.sum() + read.float().sum()).backward()
product, bias = torch.randn(words, 256, dtype=half, requires_grad=True), torch.zeros(256, requires_grad=True)
for activation in ("relu", "gelu", "swish"):
    bias_activation(product, bias, activation).sum().backward()
print(*{name for name, _ in compiled}, max(shared for _, shared in compiled))
"""
KERNELS = {
    "_attend_short", "_attend_back",
    "_choose", "_read", "_merge", "_read_back", "_sum_back", "_residual_norm",
    "_residual_norm_back", "_bias_activation", "_bias_activation_back",
}  # fmt: skip


def test_every_kernel_compiles_and_fits_the_memory_of_small_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *names, shared = done.stdout.split()
    assert set(names) == KERNELS
    assert int(shared) <= 99 * 1024  # what a program has on a card of compute capability 8.6 or 8.9
