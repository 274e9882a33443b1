"""Every translation architecture and option that changes what it computes: properties that all of them have.

A case is a row of the matrix; what one architecture alone computes is in the test of its chapter.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import JOINED, OWN_TEXT, batch, build

from docnmt.core.models.config import TransformerConfig
from docnmt.core.training.criterions import CrossEntropy
from docnmt.functional import selection
from docnmt.options import contradictions
from docnmt.registry import MODELS
from docnmt.testing import check_model, check_steps

DOCUMENTS = ["hier_transformer", "cond_transformer", "hier_cond_transformer"]
TREE = {"merge": "source2token"}
OWN = {"always_own_sentence": True, "top_t": 2}
PLACEMENTS: list[dict[str, Any]] = [
    {"context_placement": "heads"},
    {"context_placement": "replace"},
    {"context_placement": "replace", "context_heads": 2, "heads": 4},
    {"summary_input": "embeddings"},
    {"context_sides": "decoder"},
    {"context_sides": "encoder"},
    {"norm": "post", "context_norm": "pre"},
    {"norm": "post", "position_fusion": "gate_mlp", "activation": "gelu"},
    {"share_embeddings": False},
]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    *(("transformer", {"position": position}) for position in ("alibi", "relative", "rope", "none")),
    ("transformer", {"tie_output": False, "output_bias": True, "scale_embeddings": False, "activation": "swish"}),
    ("transformer", {"norm": "post", "position_fusion": "gate_mlp", "activation": "gelu"}),
    ("transformer", {"share_embeddings": False}),
    ("transformer", {"attention": "linear", "position": "relative", "relative_horizon": 1}),
    *((name, {}) for name in DOCUMENTS),
    *((name, options) for name in DOCUMENTS for options in PLACEMENTS),
    ("hier_cond_transformer", {"attention": "linear", "context_placement": "replace"}),
    *(("hier_cond_transformer", TREE | options) for options in [{}, {"select_on": "node"}, *PLACEMENTS[:6]]),
    *(("hier_cond_transformer", {"merge": merge}) for merge in ("mean", "plain_source2token", "multidim_source2token")),
    ("hier_cond_transformer", {"merge": "mean", "count_copies": False}),
    *(
        (name, OWN | kind | more)
        for name, kind in [("cond_transformer", {}), ("hier_cond_transformer", {}), ("hier_cond_transformer", TREE)]
        for more in [{}, {"context_placement": "heads"}, {"attention": "linear"}]
    ),
    ("scaleformer", {"relative_horizon": 2, "position": "sinusoidal"}),
    ("scaleformer", {"relative_horizon": 0, "norm": "post"}),
    ("scaleformer", {"cross_relative": False}),
    ("han_encoder", {}),
    ("copy_transformer", {}),
    ("han_encoder", {"previous_sentences": 1, "attention": "linear"}),
    *JOINED,
    *OWN_TEXT,
]


def name_of(case: object) -> str:
    return case if isinstance(case, str) else " ".join(map(str, case.values())) if isinstance(case, dict) else ""


def test_no_registered_architecture_is_missing() -> None:
    registered = {name for name in MODELS.names() if issubclass(MODELS.config(name) or object, TransformerConfig)}
    assert {name for name, _ in CASES} == registered


@pytest.mark.parametrize(("name", "options"), CASES, ids=name_of)
def test_every_parameter_learns_and_a_step_at_a_time_is_the_whole_row(name: str, options: dict[str, Any]) -> None:
    """So the future changes nothing, either; and activations that are computed again give the same gradients."""
    gradients = []
    for again in (False, True):
        model = build(name, checkpoint_activations=again, **options).double().train()
        CrossEntropy(label_smoothing=0.1)(model, batch(model))[0].backward()
        assert [n for n, p in model.named_parameters() if p.grad is None] == []
        gradients.append([p.grad for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
    check_steps(model.eval(), batch(model))


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if "always_own_sentence" in case[1]], ids=name_of)
def test_blocks_of_sentences_are_decoded_as_they_are_trained(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_FEW", 2)  # sentences up to which all are compared
    monkeypatch.setattr(selection, "_LEAST", 0)
    model = build(name, **options).double()
    check_steps(model, batch(model))


@pytest.mark.parametrize(("name", "options"), [*(JOINED[n] for n in (3, 4, 13)), *OWN_TEXT[::2]], ids=name_of)
def test_as_many_sentences_out_as_in_whatever_the_batch(name: str, options: dict[str, Any]) -> None:
    check_model(name, **options)


POST: dict[str, Any] = {"norm": "post", "context_norm": "pre"}
UNREAD: list[tuple[str, dict[str, Any], set[str]]] = [
    ("transformer", {"max_positions": 9}, {"max_positions"}),
    ("transformer", {"max_positions": 9, "position": "learned"}, set()),
    ("doc_transformer", {"max_positions": 9, "learned_levels": True}, set()),
    ("doc_transformer", {"max_positions": 9, "learned_words": True}, set()),
    ("doc_transformer", {"max_positions": 9, "learned_levels": True, "levels": 1}, {"max_positions", "learned_levels"}),
    ("doc_transformer", {"attention": "linear", "cross_relative": False}, {"cross_relative"}),
    ("scaleformer", {"cross_relative": False}, set()),
    ("hier_transformer", POST, set()),
    ("hier_transformer", {**POST, "context_placement": "heads"}, {"context_norm"}),
    ("hier_transformer", {**POST, "context_placement": "replace"}, {"context_norm"}),
    ("hier_transformer", {**POST, "context_placement": "replace", "heads": 1}, set()),  # all heads are the context's
    ("doc_transformer", {"levels": 3, "level_scale": 0.2, "position_count": "document"}, set()),
    ("doc_transformer", {"position": "learned", "levels": 2, "position_count": "unit"}, {"levels", "position_count"}),
    ("hier_transformer", {"position": "rope", "position_count": "document"}, {"position_count"}),
    ("hier_transformer", {"context_sides": "decoder", "summary_input": "layer"}, {"summary_input"}),
]


@pytest.mark.parametrize(("name", "options", "named"), UNREAD, ids=name_of)
def test_options_that_nothing_reads_are_named(name: str, options: dict[str, Any], named: set[str]) -> None:
    problems = contradictions(MODELS.config(name)(**options), options)
    reported = {problem.split()[0].removeprefix("--").removeprefix("no-").replace("-", "_") for problem in problems}
    assert reported == named
