"""Every translation architecture: two routes to the same scores, and what may and may not change them."""

from __future__ import annotations

from typing import Any

import plugins  # noqa: F401  registers them
import pytest
import torch
from random_models import batch, build, scores
from torch import Tensor

import docnmt.registry  # noqa: F401  registers the architectures
from docnmt.core.batch import PackedText, TranslationBatch
from docnmt.options import contradictions
from docnmt.registry import MODELS

DOCUMENTS = ["hier_transformer", "cond_transformer", "hier_cond_transformer"]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"position": "alibi"},
    {"position": "relative"},
    {"position": "rope"},
    {"position": "none"},
    {"tie_output": False, "output_bias": True, "scale_embeddings": False, "activation": "swish"},
    {"norm": "post", "position_fusion": "gate_mlp", "activation": "gelu"},
    {"share_embeddings": False},
]
PLACEMENTS: list[dict[str, Any]] = [
    {"context_placement": "heads"},
    {"context_placement": "replace"},
    {"context_placement": "replace", "context_heads": 2},
    {"summary_input": "embeddings"},
    {"context_sides": "decoder"},
    {"context_sides": "encoder"},
    {"norm": "post", "context_norm": "pre"},
]
CASES = [("transformer", variant) for variant in VARIANTS]
CASES += [(name, variant) for name in DOCUMENTS for variant in VARIANTS[:1] + VARIANTS[-2:] + PLACEMENTS]
LINEAR: list[tuple[str, dict[str, Any]]] = [
    ("scaleformer", {}),
    ("scaleformer", {"relative_horizon": 2, "position": "sinusoidal"}),
    ("scaleformer", {"relative_horizon": 0, "norm": "post"}),
    ("scaleformer", {"cross_relative": False}),
    ("transformer", {"attention": "linear", "position": "relative", "relative_horizon": 1}),
    ("hier_cond_transformer", {"attention": "linear", "context_placement": "replace"}),
]
CASES += LINEAR
TREE = {"merge": "source2token"}
CASES += [("hier_cond_transformer", TREE | variant) for variant in [{}, {"select_on": "node"}, *PLACEMENTS]]
MERGES = ("mean", "plain_source2token", "multidim_source2token")
CASES += [("hier_cond_transformer", {"merge": merge}) for merge in MERGES]
CASES += [("hier_cond_transformer", {"merge": "mean", "count_copies": False})]
CASES += [("han_encoder", {}), ("han_encoder", {"previous_sentences": 1, "attention": "linear"})]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_step_by_step_equals_the_whole_row(name: str, settings: dict[str, Any]) -> None:
    model, data = build(name, **settings), batch()
    offsets, lengths = data.target.layout.sentence_offsets.tolist(), data.target.layout.sentences.lengths.tolist()
    with torch.no_grad():
        whole = scores(model, data)
        state = model.begin(model.encode(data.source), torch.arange(len(lengths)), 2)
        for i in range(max(lengths)):
            tokens = [
                int(data.target.tokens[begin + min(i, n - 1)]) for begin, n in zip(offsets[:-1], lengths, strict=True)
            ]
            logits = model.step(torch.tensor(tokens).repeat_interleave(2), state)
            for slot, (begin, n) in enumerate(zip(offsets[:-1], lengths, strict=True)):
                if i < n:
                    assert torch.allclose(logits[2 * slot + 1], whole[begin + i], atol=1e-10)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_every_parameter_learns(name: str, settings: dict[str, Any]) -> None:
    model = build(name, **settings)
    scores(model, batch()).square().sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", ["transformer", "scaleformer", "han_encoder", *DOCUMENTS])
def test_the_future_of_a_sentence_and_later_targets_change_nothing(name: str) -> None:
    model, data = build(name), batch()
    changed = data.target.tokens.clone()
    changed[3:] = (changed[3:] + 7) % 35 + 5  # from the fourth word of the first target sentence on
    other = TranslationBatch(
        data.source, PackedText(changed, data.target.layout, data.target.positions), changed, data.units
    )
    assert torch.allclose(scores(model, data)[:3], scores(model, other)[:3], atol=1e-12)


@pytest.mark.parametrize("name", ["transformer", *DOCUMENTS])
def test_context_is_the_own_document(name: str) -> None:
    """Another document changes nothing; another sentence of the same one does, except for the sentence model."""
    model, data = build(name), batch()
    ends = data.source.layout.documents.host

    def with_changed_token(at: int) -> Tensor:
        tokens = data.source.tokens.clone()
        tokens[at] = 5 + (tokens[at] - 4) % 35
        source = PackedText(tokens, data.source.layout, data.source.positions)
        return scores(model, TranslationBatch(source, data.target, data.labels, data.units))

    before = scores(model, data)
    first_document = int(data.target.layout.documents.host[1])
    elsewhere = with_changed_token(int(ends[2]) + 1)
    assert torch.allclose(before[:first_document], elsewhere[:first_document], atol=1e-12)
    first_sentence = int(data.target.layout.sentence_offsets[1])
    later = with_changed_token(6)  # in the second sentence
    reads_context = not torch.allclose(before[:first_sentence], later[:first_sentence], atol=1e-12)
    assert reads_context == (name != "transformer")


@pytest.mark.parametrize("name", ["transformer", *DOCUMENTS])
def test_checkpointed_activations_give_the_same_gradients(name: str) -> None:
    gradients = []
    for save in (False, True):
        model = build(name, checkpoint_activations=save).train()
        scores(model, batch()).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("name", ["hier_cond_transformer", "scaleformer"])
def test_rows_leave_and_join_without_a_trace(name: str) -> None:
    """Slots that end early or begin late give the scores they give by themselves."""
    model, data = build(name), batch()
    tokens = torch.randint(5, 40, (9, 4))
    with torch.no_grad():
        memory = model.encode(data.source)

        def alone(sentence: int) -> Tensor:
            state = model.begin(memory, torch.tensor([sentence]), 1)
            return torch.stack([model.step(tokens[sentence, i : i + 1], state)[0] for i in range(4)])

        state = model.begin(memory, torch.tensor([0, 1]), 1)
        for i in range(2):
            model.step(tokens[:2, i], state)
        state.reorder(torch.tensor([1]))
        state.append(model.begin(memory, torch.tensor([7]), 1))
        third = model.step(torch.stack([tokens[1, 2], tokens[7, 0]]), state)
        fourth = model.step(torch.stack([tokens[1, 3], tokens[7, 1]]), state)
    assert torch.allclose(torch.stack([third[0], fourth[0]]), alone(1)[2:], atol=1e-10)
    assert torch.allclose(torch.stack([third[1], fourth[1]]), alone(7)[:2], atol=1e-10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "--heads"),
        ({"position": "rope", "position_fusion": "concat"}, "--position-fusion"),
        ({"position_fusion": "gate_conv"}, "--position-fusion"),
        ({"context_placement": "replace", "context_heads": 5}, "--context-heads"),
        ({"levels": 5}, "--levels: "),
        ({"top_t": 0}, "--top-t: "),
        ({"attention": "linear", "position": "rope"}, "--position"),
        ({"relative_horizon": 4}, "--relative-horizon"),
        ({"relative_horizon": 0, "position": "relative"}, "--relative-horizon: "),
        ({"relative_horizon": -1, "attention": "linear"}, "--relative-horizon: "),
        ({"embed_dim": 36, "position": "rope"}, "--position"),
        ({"embed_dim": 33, "heads": 3}, "--embed-dim"),
        ({"max_positions": 0}, "--max-positions: "),
        ({"select_on": "node"}, "--select-on"),
        ({"count_copies": False}, "--no-count-copies"),
    ],
)
def test_contradictions_are_refused(settings: dict[str, Any], message: str) -> None:
    config = MODELS.config("hier_cond_transformer")(**{"embed_dim": 32, "heads": 4} | settings)
    assert any(message in problem for problem in contradictions(config))


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        ("transformer", {"max_positions": 9}, {"max_positions"}),
        ("transformer", {"max_positions": 9, "position": "learned"}, set()),
        ("doc_transformer", {"max_positions": 9, "learned_levels": True}, set()),
        ("doc_transformer", {"max_positions": 9, "learned_words": True}, set()),
        ("doc_transformer", {"max_positions": 9, "position": "learned"}, set()),
        ("doc_transformer", {"max_positions": 9}, {"max_positions"}),
        (
            "doc_transformer",
            {"max_positions": 9, "learned_levels": True, "levels": 1},
            {"max_positions", "learned_levels"},
        ),
        ("doc_transformer", {"attention": "linear", "cross_relative": False}, {"cross_relative"}),
        ("doc_transformer", {"attention": "linear", "relative_horizon": 4, "cross_relative": False}, set()),
        ("scaleformer", {"cross_relative": False}, set()),
        ("hier_transformer", {"norm": "post", "context_norm": "pre"}, set()),
        ("hier_transformer", {"norm": "post", "context_norm": "pre", "context_placement": "heads"}, {"context_norm"}),
        (
            "hier_transformer",
            {"norm": "post", "context_norm": "pre", "context_placement": "replace", "context_heads": 8},
            set(),
        ),
        ("hier_transformer", {"norm": "post", "context_norm": "pre", "context_placement": "replace"}, {"context_norm"}),
        (
            "hier_transformer",  # one head, which is the context's
            {"norm": "post", "context_norm": "pre", "context_placement": "replace", "heads": 1},
            set(),
        ),
        ("transformer", {"cross_relative": False}, {"cross_relative"}),
        (
            "doc_transformer",
            {"levels": 3, "level_scale": 0.2, "position_count": "document"},
            set(),
        ),
        ("doc_transformer", {"levels": 1, "learned_levels": True}, {"learned_levels"}),
        (
            "doc_transformer",
            {"position": "learned", "levels": 2, "position_count": "unit"},
            {"levels", "position_count"},
        ),
        ("hier_transformer", {"position": "learned", "position_count": "document"}, set()),
        ("hier_transformer", {"position": "rope", "position_count": "document"}, {"position_count"}),
        ("hier_transformer", {"context_sides": "decoder", "summary_input": "layer"}, {"summary_input"}),
    ],
)
def test_options_that_nothing_reads_are_named(name: str, settings: dict[str, Any], named: set[str]) -> None:
    problems = contradictions(MODELS.config(name)(**settings), settings)
    found = {problem.split()[0].removeprefix("--").removeprefix("no-").replace("-", "_") for problem in problems}
    assert found == named


def test_the_sentence_model_knows_nothing_of_the_document_by_its_positions_either() -> None:
    model = build("transformer", position="multi_level")
    assert len(model.encoder.embedding.position.scale) == 0


@pytest.mark.parametrize("words", [False, True])
def test_all_levels_may_be_learned(words: bool) -> None:
    settings = {"levels": 3, "learned_levels": True, "learned_words": words, "max_positions": 20}
    position = build("hier_cond_transformer", **settings).encoder.embedding.position
    learned = ["Learned" if words else "Sinusoidal", "Learned", "Learned"]
    assert [type(table).__name__ for table in (position.word, *position.higher)] == learned
    assert all(table.weight.shape == (20, 32) for table in position.higher)


@pytest.mark.parametrize("heads", [2, 4])
def test_context_heads_in_place_of_all_or_some(heads: int) -> None:
    model = build("cond_transformer", context_placement="replace", context_heads=heads)
    first = ("context",) if heads == 4 else ("attention", "context")
    assert model.encoder.stack[0].blocks == (first, ("feed_forward",))
    last = ("context",) if heads == 4 else ("cross", "context")
    assert model.decoder.stack[0].blocks == (("attention",), last, ("feed_forward",))


def test_the_attention_to_the_source_may_go_without_relative_positions() -> None:
    names = [name for name, _ in build("scaleformer", cross_relative=False).named_parameters() if "position" in name]
    assert len(names) == 4  # of self-attention, two layers a side
    assert len([name for name, _ in build("scaleformer").named_parameters() if "position" in name]) == 6


def test_biases_of_summaries_that_are_only_compared_change_nothing() -> None:
    model, data = build("cond_transformer").double(), batch()
    before = scores(model, data)
    for name, parameter in model.named_parameters():
        if "summarise" in name and name.endswith("bias"):
            parameter.data.normal_()
    torch.testing.assert_close(scores(model, data), before, rtol=0, atol=1e-10)


def test_reading_one_sentence_is_not_learned_and_said_so() -> None:
    config = MODELS.config("hier_cond_transformer")
    assert [note.split(":")[0] for note in config(top_t=1, target_context="conditional", target_top_t=1).notes()] == [
        "--top-t 1",
        "--target-top-t 1",
    ]
    assert config().notes() == []
