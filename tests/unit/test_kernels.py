"""Triton's kernels against the equations in float64: on a card where there is one, else in triton's interpreter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import attention_reference as reference
import pytest
import torch
from torch import Tensor, nn

from docnmt.core.training.run import HalfWeights

triton = pytest.importorskip("triton", reason="needs triton: pip install triton (Linux)")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu" and not triton.knobs.runtime.interpret:
    pytest.skip("needs a card, or triton's interpreter (TRITON_INTERPRET=1)", allow_module_level=True)

from docnmt.functional.conditional import select  # noqa: E402
from docnmt.functional.kernels.attention import (  # noqa: E402
    choose_sentences,
    chosen_attention,
    short_attention,
)
from docnmt.functional.kernels.pointwise import bias_activation, residual_norm  # noqa: E402
from docnmt.functional.selection import (  # noqa: E402
    Keys,
    Queries,
    Selection,
    SelectionPolicy,
    top_sentences,
)
from docnmt.layout import DocumentLayout, Spans  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what a mask then drops


def there(given: Spans) -> Spans:
    return Spans(given.offsets.to(DEVICE))


def in_nan(x: Tensor) -> Tensor:
    """The same numbers as part of a tensor that is NaN before and behind, in rows and in heads."""
    around = x.new_full((len(x) + 9, 3, *x.shape[1:]), torch.nan)
    around[4 : 4 + len(x), 1] = x
    return around[4 : 4 + len(x), 1]


def gradients(function: Callable[..., Tensor], inputs: Sequence[Tensor], weights: Tensor) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = function(*leaves)
    (out * weights.to(out)).sum().backward()
    return [
        x.detach().double().cpu() for x in (out, *(torch.zeros_like(x) if x.grad is None else x.grad for x in leaves))
    ]


def assert_close(computed: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float = 5e-6) -> None:
    for ours, theirs in zip(computed, expected, strict=True):
        torch.testing.assert_close(ours.double().cpu(), theirs.double().cpu(), rtol=tolerance, atol=tolerance)


LENGTHS = {
    "short ones": ([3, 1, 5, 2, 7], [4, 2, 5, 1, 9]),
    "empty ones": ([3, 0, 4, 0, 0, 2], [2, 3, 0, 0, 5, 1]),
    "one word": ([1], [1]),
    "odd, over several blocks": ([33, 71, 1, 20], [40, 3, 65, 31]),
    "nothing to read": ([2, 3], [0, 0]),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("width", "across"), [(32, False), (64, True)])
def test_attention_inside_short_sentences(
    lengths: tuple[list[int], list[int]], causal: bool, width: int, across: bool
) -> None:
    torch.manual_seed(0)
    q_spans, k_spans = (reference.spans(side) for side in (lengths if across else lengths[:1] * 2))
    inputs = [torch.randn(spans.num_tokens, 2, width) for spans in (q_spans, k_spans, k_spans)]
    weights = torch.randn_like(inputs[0])

    def kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        own = [in_nan(x.to(DEVICE)) for x in (q, k, v)]
        return short_attention(*own, there(q_spans), there(k_spans), causal=causal)

    def equation(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        outputs = []
        for i, j in zip(itertools.pairwise(q_spans.host), itertools.pairwise(k_spans.host), strict=True):
            scores = torch.einsum("qhd,khd->hqk", q[slice(*i)], k[slice(*j)]) / math.sqrt(width)
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
            outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[slice(*j)]))
        return torch.cat(outputs)

    expected = gradients(equation, [x.double() for x in inputs], weights)
    assert_close(gradients(kernel, inputs, weights), expected)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(("rows", "width"), [(70, 24), (1, 8), (130, 40)])
def test_residual_norm(rows: int, width: int, dropout: float) -> None:
    torch.manual_seed(0)
    x, added, to_sum, to_norm = torch.randn(4, rows, width)
    norm = nn.LayerNorm(width)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    ones = torch.ones(rows, width, device=DEVICE)
    torch.manual_seed(1)
    mask = residual_norm(0 * ones, ones, None, dropout)[0].cpu().double()
    assert dropout or (mask == 1).all()

    def run(x: Tensor, added: Tensor, gain: Tensor, shift: Tensor, eager: bool) -> Tensor:
        if eager:
            left = x + added * mask
            read = nn.functional.layer_norm(left, (width,), gain, shift, norm.eps)
        else:
            layer = nn.LayerNorm(width, device=DEVICE)
            layer.weight, layer.bias = None, None
            layer.__dict__.update(weight=gain, bias=shift)
            torch.manual_seed(1)
            left, read = residual_norm(x, added, layer, dropout)
        return torch.cat([left * to_sum.to(left), read * to_norm.to(left)])

    inputs = [x, added, norm.weight, norm.bias]
    weights = torch.ones(2 * rows, width)
    computed = gradients(lambda *given: run(*given, eager=False), [tensor.to(DEVICE) for tensor in inputs], weights)
    expected = gradients(lambda *given: run(*given, eager=True), [tensor.double() for tensor in inputs], weights)
    assert_close(computed, expected, 2e-5)


@pytest.mark.parametrize(
    ("name", "function"), {"relu": torch.relu, "gelu": nn.functional.gelu, "swish": nn.functional.silu}.items()
)
def test_bias_and_activation(name: str, function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    for rows, columns in ((300, 10), (3, 140)):
        inputs, weights = [torch.randn(rows, columns), torch.randn(columns)], torch.randn(rows, columns)
        on_card = [x.to(DEVICE) for x in inputs]
        computed = gradients(lambda product, bias: bias_activation(product, bias, name), on_card, weights)
        expected = gradients(lambda product, bias: function(product + bias), [x.double() for x in inputs], weights)
        assert_close(computed, expected, 3e-5)


MANY, FEW = [[3, 0, 5, 1, 2], [4], [0], [], [2, 2, 6, 1, 1, 1]], [[1]]


@pytest.mark.parametrize(("lengths", "t"), [(MANY, 1), (MANY, 3), (MANY, 9), (FEW, 3), ([[1] * 70, [2, 3]], 3)])
@pytest.mark.parametrize("visible", ["document", "earlier"])
def test_the_same_sentences_are_chosen_also_among_equal_ones(lengths: list[list[int]], t: int, visible: str) -> None:
    torch.manual_seed(0)
    layout = DocumentLayout.from_lengths(lengths)
    q, keys = (torch.randint(-2, 3, (rows, 2, 16)).float() for rows in (layout.num_tokens, layout.num_sentences))
    if t == 3:
        keys[0, 0, 3], keys[-1] = torch.nan, torch.inf
    expected = top_sentences(Queries(q, q, layout), Keys(q, q, keys, layout), SelectionPolicy(t, visible))
    on_card = layout.to(DEVICE)
    kept, scores = choose_sentences(q.to(DEVICE), keys.to(DEVICE), on_card, on_card, t, earlier=visible == "earlier")
    values = expected.relevance.sort(dim=-1, descending=True).values
    assert torch.equal(scores.cpu(), values)
    live = values != -torch.inf
    products = torch.einsum("qhd,shd->hqs", q, keys.nan_to_num(0, 0, 0))  # small integers: exact
    own, sentence = layout.sentence_of_token[:, None], torch.arange(layout.num_sentences)
    hidden = (layout.document_of_token[:, None] != layout.document_of_sentence) | (layout.sentence_offsets.diff() == 0)
    hidden |= (sentence >= own) if visible == "earlier" else False
    products = torch.nn.functional.pad(products.masked_fill(hidden, -torch.inf), (0, t), value=-torch.inf)
    order = products.sort(dim=-1, descending=True, stable=True).indices[..., :t]
    assert torch.equal(kept.cpu()[live], order[live])
    documents = layout.document_of_token[None, :, None].expand_as(kept)
    assert torch.equal(layout.document_of_sentence[kept.cpu()], documents)


#: Empty sentences and documents, a sentence longer than a block, more and fewer sentences than are kept.
CHOSEN = DocumentLayout.from_lengths([[3, 0, 5, 1, 2], [40, 4], [0], [], [2, 2, 6, 1, 1, 1]])


@pytest.mark.parametrize(
    ("width", "policy"),
    [(16, SelectionPolicy(1)), (32, SelectionPolicy(3)), (16, SelectionPolicy(5)), (32, SelectionPolicy(2, "earlier")),
     (16, SelectionPolicy(2, always_own=True))],
)  # fmt: skip
def test_attention_to_chosen_sentences(width: int, policy: SelectionPolicy) -> None:
    torch.manual_seed(0)
    rows = (CHOSEN.num_tokens,) * 4 + (CHOSEN.num_sentences,)
    inputs = [torch.randn(n, 2, width) for n in rows]
    inputs[4] *= 3  # relevances that differ
    weights = torch.randn_like(inputs[0])
    asked, read = (lambda q, sq, lay: Queries(q, sq, lay)), (lambda k, v, sk, lay: Keys(k, v, sk, lay))
    selection = select(asked(inputs[0], inputs[3], CHOSEN), read(*inputs[1:3], inputs[4], CHOSEN), policy)
    spans = there(CHOSEN.sentences)
    moved = Selection(selection.sentences.to(DEVICE), selection.relevance.to(DEVICE))
    computed = gradients(lambda *x: chosen_attention(*x, moved, spans), [x.to(DEVICE) for x in inputs], weights)

    def equation(q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor) -> Tensor:
        return reference.attend_dense(asked(q, sentence_q, CHOSEN), read(k, v, sentence_k, CHOSEN), selection)

    assert_close(computed, gradients(equation, [x.double() for x in inputs], weights), 2e-5)


def test_sentences_that_nobody_chose_have_no_gradient_and_are_not_read() -> None:
    torch.manual_seed(0)
    layout = DocumentLayout.from_lengths([[3, 40, 2]])
    q, k, v, sentence_q = (torch.randn(45, 1, 16, device=DEVICE) for _ in range(4))
    k[3:43], v[3:43] = torch.nan, torch.nan
    leaves = [x.requires_grad_() for x in (q, k, v, sentence_q, torch.randn(3, 1, 16, device=DEVICE))]
    sentences = torch.tensor([0, 2], device=DEVICE).expand(1, 45, 2)
    relevance = torch.randn(1, 45, 2, device=DEVICE)
    relevance[:, 7] = -torch.inf
    out = chosen_attention(*leaves, Selection(sentences, relevance), there(layout.sentences))
    assert torch.isfinite(out).all()
    assert not out[7].any()
    out.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in leaves if x.grad is not None)
    assert not leaves[1].grad[3:43].any()  # type: ignore[index]
    assert not leaves[0].grad[7].any()  # type: ignore[index]


def test_weights_cast_at_once_have_the_gradients_of_autocast() -> None:
    torch.manual_seed(0)
    used = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    one, other = nn.Linear(8, 8), nn.Linear(8, 8)
    other.weight = one.weight
    model = nn.ModuleDict({"used": used, "unused": nn.Linear(3, 3), "one": one, "other": other})
    x = torch.randn(5, 8)
    parameters = dict(model.named_parameters())

    def of(halves: HalfWeights | None) -> list[Tensor | None]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            if halves is None:
                loss = used(x).float().square().sum()
            else:
                with halves.in_place():
                    assert used[0].weight.dtype == used[2].bias.dtype == torch.bfloat16
                    assert one.weight.dtype == torch.float32
                    loss = used(x).float().square().sum()
        loss.backward()
        return [loss.detach(), *(parameter.grad for parameter in model.parameters())]

    for ours, theirs in zip(of(HalfWeights(model, [model])), of(None), strict=True):
        assert (ours is None and theirs is None) or torch.equal(ours, theirs)
    assert all(parameter is parameters[name] for name, parameter in model.named_parameters())
