"""The tool that compares searches for a word's sentences."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import small_system
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import searches as tool


def relevances(sentences: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(sentences)
    return tuple(torch.randn(2, rows, 6, generator=generator) for rows in (5, sentences))  # q (h, T, d), k (h, n, d)


@pytest.mark.parametrize("sentences", [2, 13, 64, 100])
def test_judging_by_the_maximum_finds_the_best(sentences: int) -> None:
    q, k = relevances(sentences)
    best = (q @ k.mT).topk(min(3, sentences), dim=2).indices
    for name, looked_at in tool.compared(q, k, 3).items():
        if "maximum" in name:
            assert looked_at.gather(2, best).all(), name


@pytest.mark.parametrize("name", tool.JUDGES)
def test_a_search_wider_than_the_document_compares_all(name: str) -> None:
    q, k = relevances(13)
    assert tool.descended(q, k, tool.JUDGES[name], 16).all()
    assert tool.in_blocks(q, k, tool.JUDGES[name], 4, 4).all()


@pytest.mark.parametrize("name", tool.JUDGES)
def test_a_node_of_one_sentence_is_judged_as_the_sentence(name: str) -> None:
    q, k = relevances(7)
    torch.testing.assert_close(tool.JUDGES[name](q, tool.nodes(k, 1)), q @ k.mT)


def test_judges_of_a_node_by_hand() -> None:
    q, k = torch.tensor([[[1.0, -2.0]]]), torch.tensor([[[[3.0, 1.0], [1.0, 2.0]]]])  # products 1 and -3
    scores = {name: judge(q, k).item() for name, judge in tool.JUDGES.items()}
    expected = {
        "mean": -1.0, "mean + spread": -1 + 2**0.5, "elementwise": -1.0, "bound": 1.0,
        "log-sum-exp": 1.01815, "maximum": 1.0,
    }  # fmt: skip
    assert scores == pytest.approx(expected, abs=1e-5)


def test_the_bound_is_never_below_a_sentence() -> None:
    q, k = relevances(64)
    node = tool.nodes(k, 8)
    assert (tool.bound(q, node) >= tool.maximum(q, node) - 1e-6).all()


def test_the_table_has_every_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small_system.save(tmp_path / "model.safetensors", "hier_cond_transformer_tiny")
    text = tmp_path / "text.en"
    lines = [line for document in small_system.text(40, 8) for line in document]
    text.write_text("".join(f"{line}\n" for line in lines[:40]), encoding="utf-8")
    tool.main([str(model), "--text", str(text), "--sentences", "5", "40", "--documents", "1"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert len(rows) == len(tool.JUDGES) * (len(tool.WIDTHS) + len(tool.BLOCKS))
    assert "| tree, maximum, 1t | 4 | 1.00 | 1.00 | – | 4 | 1.00 | 1.00 | – |" in rows
    with pytest.raises(SystemExit):
        tool.main([str(model), "--text", str(text), "--sentences", "41"])
    assert "has 40 sentences" in capsys.readouterr().err.splitlines()[-1]
