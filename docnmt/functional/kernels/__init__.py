"""Triton kernels for CUDA cards. Each computes what the code beside its call computes, which stays the reference.

Launched one by one they are slower than PyTorch's own calls, because each launch costs the host more; recorded in CUDA
graphs they are faster. So they are on in updates that are graphs (`used`), and where the environment says
`DOCNMT_KERNELS=on`. They import triton, so they are imported where they are called; `TRITON_INTERPRET=1`, set before,
runs them on a CPU for tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

from docnmt.layout import Spans
from docnmt.runtime.system import UserError

_TYPES = (torch.bfloat16, torch.float16, torch.float32)
#: Widths of a head that kernels with products take.
WIDTHS = (16, 32, 64, 128)
#: Sentences that a query may keep in registers.
MOST_KEPT = 32
#: Words of a sentence, on average, up to which several of them share a tile: on an H200 this is faster up to 64, and
#: slower from 128 on (recipes/studies/gpu).
SHORT = 64


def takes_kernels(*tensors: Tensor) -> bool:
    """Whether Triton's kernels compute with these: switched on, on a CUDA card, of types that they take."""
    for x in tensors:
        if not x.is_cuda or x.dtype not in _TYPES:
            return False
    return _switched_on()


def takes_short(q: Tensor, q_spans: Spans, k_spans: Spans) -> bool:
    """Whether what flash attention could compute, q (Tq, h, d), goes to `short_attention`: where spans are short."""
    words = max(q_spans.num_tokens, k_spans.num_tokens)
    return takes_kernels(q) and q.shape[-1] in WIDTHS and words <= SHORT * len(q_spans)


def takes_choice(queries: Tensor, sentences: Tensor, t: int) -> bool:
    """Whether `choose_sentences` finds the best t of sentences (Sk, h, d) for queries (Tq, h, d)."""
    fits = takes_kernels(queries, sentences) and queries.dtype == sentences.dtype == torch.float32
    return fits and queries.shape[-1] in WIDTHS and t <= MOST_KEPT and queries.numel() > 0 and sentences.numel() > 0


def takes_chosen(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether `chosen_attention` computes with these (rows, h, d)."""
    fits = q.dtype == k.dtype == v.dtype and q.shape[-1] in WIDTHS and v.shape[-1] == q.shape[-1]
    return fits and takes_kernels(q, k, v) and q.numel() > 0 and k.numel() > 0


_used = False


@contextmanager
def used() -> Iterator[None]:
    """Inside, kernels compute where the environment does not say `DOCNMT_KERNELS=off` and nothing is `lacking`."""
    global _used
    before, _used = _used, True
    try:
        yield
    finally:
        _used = before


@lru_cache
def lacking() -> str:
    """What triton lacks to compile kernels for the card; an empty string: nothing."""
    if find_spec("triton") is None:
        return "triton is not installed; run: pip install triton"
    from triton.runtime import driver

    try:
        driver.active.get_current_target()  # builds a library of triton's own at first
    except Exception as error:  # of any kind: no C compiler, one that fails, no headers of Python, a card too old
        return f"triton cannot compile (it needs a C compiler and Python's headers): {str(error).partition(chr(10))[0]}"
    return ""


def _switched_on() -> bool:
    wish = os.environ.get("DOCNMT_KERNELS", "on" if _used and not lacking() else "off")
    if wish not in ("on", "off"):
        raise UserError(f"DOCNMT_KERNELS={wish}: expected on or off")
    if wish == "on" and lacking():
        raise UserError(f"DOCNMT_KERNELS=on: {lacking()}")
    return wish == "on"
