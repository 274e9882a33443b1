"""Position families: formulas by hand, relative invariance, unknown levels, and what attention makes of them."""

from __future__ import annotations

import logging
import math

import pytest
import torch
from torch import Tensor

from docnmt.modules.positions import Alibi, Learned, MultiLevel, RelativeKeys, Rotary, Sinusoidal, build_position
from docnmt.registry import POSITIONS


def indices(words: list[int]) -> Tensor:
    return torch.tensor([[word, -1, -1, -1] for word in words], dtype=torch.int64)


@pytest.mark.parametrize(("name", "order"), [("sinusoidal", "pairs"), ("rope_input", "halves")])
def test_sinusoids_by_hand(name: str, order: str) -> None:
    encode = build_position(name, 8).input
    assert encode is not None
    for word in (0, 3, 700):  # 700 is past the table's first size
        angles = [word / 10000 ** (2 * f / 8) for f in range(4)]
        pairs = [(math.sin(a), math.cos(a)) for a in angles]
        expected = torch.tensor(pairs) if order == "pairs" else torch.tensor(pairs).t()
        torch.testing.assert_close(encode(indices([word]))[0], expected.flatten())


def test_every_family_is_input_or_attention_or_nothing() -> None:
    for name in POSITIONS.names():
        position = build_position(name, 16)
        assert not (position.input and position.attention)
        assert (position.input or position.attention) or name == "none"
        if position.input is not None:
            assert position.input(indices([0, 5, 2])).shape == (3, 16)
            assert position.input(indices([]).view(0, 4)).shape == (0, 16)
        if position.attention is not None:
            module = position.attention(4, 4)
            assert module is not position.attention(4, 4), "layers must not share parameters"


def test_learned_clamps_past_its_end_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    encode = Learned(4, length=3)
    with caplog.at_level(logging.WARNING):
        encoded = encode(indices([2, 3, 90]))
        encode(indices([90]))
    assert torch.equal(encoded, encode.weight[[2, 2, 2]])
    assert len(caplog.records) == 1
    assert "word index of 90" in caplog.text
    assert "3 learned positions" in caplog.text


def multi_level(**options: object) -> MultiLevel:
    torch.manual_seed(1)
    module = MultiLevel(16, **options)  # type: ignore[arg-type]
    module.unknown.data.normal_()
    return module.eval()


@pytest.mark.parametrize("learned", [False, True])
def test_multi_level_is_a_sum_over_levels(learned: bool) -> None:
    module = multi_level(levels=4, learned=learned, length=32)
    positions = torch.tensor([[4, 2, 1, 0], [4, 2, -1, -1], [0, -1, 3, 7]])
    expected = Sinusoidal(16)(positions)
    for i, level in enumerate(module.higher):
        for row in range(3):
            part = level(positions)[row] if positions[row, i + 1] >= 0 else module.unknown[i]
            expected[row] = expected[row] + module.scale[i] * part
    torch.testing.assert_close(module(positions), expected)


def test_multi_level_with_scales_of_zero_is_sinusoidal() -> None:
    module = multi_level(levels=4)
    module.scale.data.zero_()
    positions = torch.tensor([[4, 2, 1, 0], [9, 2, -1, -1]])
    assert torch.equal(module(positions), Sinusoidal(16)(positions))
    module(positions).pow(2).sum().backward()
    assert module.scale.grad is not None
    assert (module.scale.grad != 0).all(), "scales of zero must be able to learn"


def test_the_scale_is_where_all_higher_levels_start() -> None:
    positions = torch.tensor([[3, 5, 2, 1]])
    half, whole = (MultiLevel(64, levels=4, scale=scale).eval()(positions) for scale in (0.5, 1.0))
    words = Sinusoidal(64)(positions)
    torch.testing.assert_close(2 * (half - words), whole - words)


def test_level_dropout_hides_paragraphs_and_sections_in_training_only() -> None:
    module = multi_level(levels=4, level_dropout=1.0)
    known, hidden = torch.tensor([[4, 2, 1, 3]]), torch.tensor([[4, 2, -1, -1]])
    assert not torch.equal(module(known), module(hidden))
    module.train()
    assert torch.equal(module(known), module(hidden))


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 8, dtype=torch.float64).unbind(0)
    at = lambda i, j: torch.einsum("thd,thd->h", *Rotary().rotate(q, k, torch.tensor([i]), torch.tensor([j])))  # noqa: E731
    torch.testing.assert_close(at(0, 0), torch.einsum("thd,thd->h", q, k))
    torch.testing.assert_close(at(7, 3), at(104, 100))
    assert not torch.allclose(at(7, 3), at(3, 7))
    by_hand = 0.0
    for f in range(4):  # one pair of features as a complex number turned by the distance
        a, b = torch.complex(q[0, 0, f], q[0, 0, f + 4]), torch.complex(k[0, 0, f], k[0, 0, f + 4])
        by_hand += (a * b.conj() * torch.exp(torch.tensor(4j * 10000 ** (-f / 4)))).real.item()
    assert at(7, 3)[0].item() == pytest.approx(by_hand)
    with pytest.raises(ValueError, match="7"):
        Rotary().rotate(q[..., :7], k[..., :7], torch.tensor([1]), torch.tensor([1]))


def test_relative_keys_are_shaws_equation() -> None:
    torch.manual_seed(0)
    module = RelativeKeys(8, max_distance=2).double()
    q, k = torch.randn(2, 5, 3, 8, dtype=torch.float64).unbind(0)
    scores = module.distance_scores(q, 4)
    assert scores.shape == (5, 3, 5)
    for i in range(5):
        for j in range(5):
            column = 2 + max(-2, min(2, j - i))
            shaw = (q[i] * (k[j] + module.weight[column])).sum(-1) / math.sqrt(8)
            torch.testing.assert_close((q[i] * k[j]).sum(-1) / math.sqrt(8) + scores[i, :, column], shaw)


@pytest.mark.parametrize("heads", [1, 4, 6, 8, 12])
def test_alibi(heads: int) -> None:
    slopes = Alibi(heads).slopes
    assert len(set(slopes.tolist())) == heads
    if heads & (heads - 1) == 0:
        torch.testing.assert_close(slopes, torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)]))
    scores = Alibi(heads).distance_scores(torch.zeros(7, heads, 4), 6)
    assert scores.shape == (heads, 13)
    torch.testing.assert_close(scores[:, 6 - 4], -4 * slopes)
    torch.testing.assert_close(scores, scores.flip(1))


def test_out_of_range_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="levels:"):
        build_position("multi_level", 16, levels=5)
    with pytest.raises(ValueError, match="even width, got 15"):
        build_position("sinusoidal", 15)
    with pytest.raises(ValueError, match="'rotary'"):
        build_position("rotary", 16)
