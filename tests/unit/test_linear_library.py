"""Our linear attention by another library's function: a stub computes what that function's documentation says."""

from __future__ import annotations

import importlib.util
import sys
import types

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from docnmt.functional import linear, linear_attention, linear_library
from docnmt.functional.linear_library import library, library_attention, takes_library


def chunk_linear_attn(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, initial_state: Tensor | None = None,
    output_final_state: bool = False, normalize: bool = True,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """As flash-linear-attention 0.5.2 documents it: q, k (B, T, H, K), v (B, T, H, V)."""
    assert initial_state is None
    assert not output_final_state
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    state = torch.einsum("bthk,bthv->bthkv", k, v).cumsum(1)
    out = torch.einsum("bthk,bthkv->bthv", q * scale, state)
    if normalize:
        out = out / ((q * scale * k.cumsum(1)).sum(-1, keepdim=True) + 1e-10)
    return out, None


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub under the library's name, on a CPU that pretends to be a card."""
    for name in ("fla", "fla.ops", "fla.ops.linear_attn"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["fla.ops.linear_attn"].chunk_linear_attn = chunk_linear_attn  # type: ignore[attr-defined]
    library.cache_clear()
    yield
    library.cache_clear()


@pytest.mark.parametrize("masked", [False, True])
def test_it_computes_our_attention_and_its_gradients(
    masked: bool, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, 3, 70, e, generator=random, dtype=torch.float64).requires_grad_() for e in (8, 8, 5)]
    grad = torch.randn(2, 3, 70, 5, generator=random, dtype=torch.float64)
    key_mask = torch.arange(70) < torch.tensor([[70], [41]]) if masked else None
    found = []
    for taken in (False, True):
        calls = []
        monkeypatch.setattr(linear, "takes_library", lambda *_, taken=taken: taken)
        monkeypatch.setattr(
            linear, "library_attention", lambda *x, calls=calls: calls.append(1) or library_attention(*x)
        )
        out = linear_attention(*inputs, causal=True, key_mask=key_mask)
        found.append([out, *torch.autograd.grad(out, inputs, grad)])
        assert bool(calls) == taken
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_it_is_asked_only_for_what_it_computes_exactly(installed: None) -> None:
    def taken(*, dtype: torch.dtype = torch.bfloat16, device: str = "cuda", keys: int = 9, causal: bool = True) -> bool:
        with FakeTensorMode():
            q, k = (torch.empty(1, 2, n, 8, dtype=dtype, device=device) for n in (9, keys))
            return takes_library(q, k, None, causal)

    assert taken()
    assert taken(dtype=torch.float16)
    assert not taken(dtype=torch.float32)
    assert not taken(device="cpu")
    assert not taken(keys=8)
    assert not taken(causal=False)
    with FakeTensorMode():
        q, rel = torch.empty(1, 2, 9, 8, dtype=torch.bfloat16, device="cuda"), torch.empty(5, 8)
        assert not takes_library(q, q, rel, True)


def test_without_the_library_ours_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fla", None)  # an import fails
    library.cache_clear()
    assert library() is None
    with FakeTensorMode():
        q = torch.empty(1, 2, 9, 8, dtype=torch.bfloat16, device="cuda")
        assert not takes_library(q, q, None, True)
    library.cache_clear()


@pytest.mark.gpu
@pytest.mark.skipif(importlib.util.find_spec("fla") is None, reason="needs flash-linear-attention")
def test_the_library_on_a_card_gives_ours() -> None:
    assert linear_library.library() is not None
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 700, 64, generator=random).bfloat16().cuda() for _ in range(3))
    found = linear_attention(q, k, v, causal=True)
    expected = linear_attention(q, k, v, causal=True, backend="linear")
    torch.testing.assert_close(found.float(), expected.float(), rtol=0.02, atol=0.02)
