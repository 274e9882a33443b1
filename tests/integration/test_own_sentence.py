"""`--always-own-sentence`: the word's own sentence is always among the sentences it keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from random_models import batch, build, scores

from docnmt.core.batch import PackedText, TranslationBatch
from docnmt.functional import selection as nearest
from docnmt.options import contradictions
from docnmt.registry import MODELS

TREE = {"merge": "source2token"}


@pytest.mark.parametrize(
    ("name", "kind"), [("cond_transformer", {}), ("hier_cond_transformer", {}), ("hier_cond_transformer", TREE)]
)
@pytest.mark.parametrize("more", [{}, {"context_placement": "heads"}, {"attention": "linear"}])
@pytest.mark.parametrize("few", [256, 2], ids=["all sentences", "blocks"])
def test_step_by_step_equals_the_whole_row(
    name: str, kind: dict[str, Any], more: dict[str, Any], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "_FEW", few)  # sentences up to which all are compared
    monkeypatch.setattr(nearest, "_LEAST", 0)
    model, data = build(name, always_own_sentence=True, top_t=2, **kind, **more), batch()
    offsets, lengths = data.target.layout.sentence_offsets.tolist(), data.target.layout.sentences.lengths.tolist()
    with torch.no_grad():
        whole = scores(model, data)
        state = model.begin(model.encode(data.source), torch.arange(len(lengths)), 2)
        for i in range(max(lengths)):
            places = [begin + min(i, n - 1) for begin, n in zip(offsets[:-1], lengths, strict=True)]
            logits = model.step(data.target.tokens[places].repeat_interleave(2), state)
            for slot, (begin, n) in enumerate(zip(offsets[:-1], lengths, strict=True)):
                if i < n:
                    assert torch.allclose(logits[2 * slot + 1], whole[begin + i], atol=1e-10)


def test_every_parameter_learns_and_the_future_changes_nothing() -> None:
    model, data = build("hier_cond_transformer", always_own_sentence=True, top_t=2, **TREE), batch()
    scores(model, data).square().sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    tokens = data.target.tokens.clone()
    tokens[3:] = 5 + (tokens[3:] + 2) % 35
    other = TranslationBatch(
        data.source, PackedText(tokens, data.target.layout, data.target.positions), tokens, data.units
    )
    assert torch.allclose(scores(model, data)[:3], scores(model, other)[:3], atol=1e-12)


def test_with_one_sentence_alone_it_is_refused() -> None:
    config = MODELS.config("cond_transformer")(always_own_sentence=True, top_t=1)
    assert any("--always-own-sentence" in problem for problem in contradictions(config))
