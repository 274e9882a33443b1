"""Conditional attention: what must not matter, in both backends; equation 7 itself: `test_selection`."""

import attention_reference as reference
import pytest
import torch

from docnmt.functional import conditional_attention
from docnmt.functional.conditional import choose_backend
from docnmt.layout import DocumentLayout

BACKENDS = ["dense", "dispatch"]
LENGTHS = [[5, 3, 0, 7, 2], [], [1], [0], [4, 4, 4]]


def attend(query_layout, key_layout, t, visible="document", backend="dispatch"):
    return lambda *inputs: conditional_attention(
        *inputs, query_layout=query_layout, key_layout=key_layout, top_t=t, visible=visible, backend=backend
    )


def self_attention_inputs(lengths=LENGTHS, seed=0, **shape):
    layout = DocumentLayout.from_lengths(lengths)
    return layout, reference.random_inputs(layout, layout, layout.num_sentences, seed, **shape)


@pytest.mark.parametrize("visible", ["document", "earlier"])
@pytest.mark.parametrize("shape", [{"h": 1, "d_k": 16}, {"h": 3, "d_k": 8}])
def test_backends_agree_at_the_size_of_a_document(visible, shape):
    """Groups of more queries than a tile, many sentence lengths, several plans."""
    generator = torch.Generator().manual_seed(5)
    lengths = [torch.randint(0, 40, (n,), generator=generator).tolist() for n in (90, 1, 17)]
    layout, inputs = self_attention_inputs(lengths, **shape)
    dense, dispatch = (
        reference.values_and_gradients(attend(layout, layout, 4, visible, backend), inputs) for backend in BACKENDS
    )
    reference.assert_same(dispatch, dense)


def test_several_plans(monkeypatch):
    """Heads are planned in groups when there are many assignments; here one by one."""
    layout, inputs = self_attention_inputs()
    whole = reference.values_and_gradients(attend(layout, layout, 2), inputs)
    monkeypatch.setattr("docnmt.functional.dispatch.TILE_ASSIGNMENTS", 1)
    reference.assert_same(reference.values_and_gradients(attend(layout, layout, 2), inputs), whole, 1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradcheck(backend):
    layout, inputs = self_attention_inputs([[2, 0, 3], [1]])
    assert torch.autograd.gradcheck(attend(layout, layout, 2, backend=backend), tuple(inputs))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("only", range(5))
def test_only_one_input_requires_a_gradient(backend, only):
    layout, inputs = self_attention_inputs()
    expected = reference.values_and_gradients(attend(layout, layout, 2, backend=backend), inputs)[only + 1]
    frozen = [x.detach().requires_grad_(i == only) for i, x in enumerate(inputs)]
    got = reference.values_and_gradients(
        lambda x: attend(layout, layout, 2, backend=backend)(*frozen[:only], x, *frozen[only + 1 :]), [frozen[only]]
    )[1]
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_relevances_choose_the_same_sentences_in_every_batch(backend):
    layout, (q, k, v, sentence_q, _) = self_attention_inputs([[3, 4, 2, 3, 5], [2, 2, 2]])
    whole = attend(layout, layout, 2, backend=backend)(q, k, v, sentence_q, torch.zeros(8, *k.shape[1:]).double())
    first = DocumentLayout.from_lengths([[3, 4, 2, 3, 5]])
    rows = [x[:17] for x in (q, k, v, sentence_q)]
    alone = attend(first, first, 2, backend=backend)(*rows, torch.zeros(5, *k.shape[1:]).double())
    torch.testing.assert_close(whole[:17], alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_word_of_an_unselected_sentence_changes_nothing(backend):
    layout, (q, k, v, sentence_q, sentence_k) = self_attention_inputs([[3, 4, 2, 5]])
    chosen = torch.einsum("qhd,shd->qhs", sentence_q, sentence_k).topk(2).indices
    run = attend(layout, layout, 2, backend=backend)
    before = run(q, k, v, sentence_q, sentence_k)
    changed_k, changed_v = k.detach().clone(), v.detach().clone()
    changed_k[4] += 3  # a word of sentence 1
    changed_v[4] -= 3
    after = run(q, changed_k, changed_v, sentence_q, sentence_k)
    reads = (chosen == 1).any(-1)
    assert reads.any()
    assert not reads.all()
    assert torch.equal(after[~reads], before[~reads])
    assert (after[reads] != before[reads]).any(-1).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("t", "lengths"), [(1, LENGTHS), (4, [[3], [0, 5], [1]])])
def test_one_sentence_gives_the_relevance_no_gradient(backend, t, lengths):
    """Softmax does not see what is added to all scores of a query: exactly 0, not a rounding error."""
    layout, inputs = self_attention_inputs(lengths)
    gradients = reference.values_and_gradients(attend(layout, layout, t, backend=backend), inputs)
    assert (gradients[1] != 0).any()
    assert (gradients[4] == 0).all()
    assert (gradients[5] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_to_select_gives_exactly_zero(backend):
    """The first sentence of each document, a document of empty sentences, a document without sentences."""
    lengths = [[2, 3], [0, 0], []]
    layout, inputs = self_attention_inputs(lengths)
    out = attend(layout, layout, 2, "earlier", backend)(*inputs)
    gradients = torch.autograd.grad(out[:2].sum(), inputs)
    assert (out[:2] == 0).all()
    assert (out[2:] != 0).all()
    assert all((g == 0).all() for g in gradients)
    query_layout = DocumentLayout.from_lengths([[2], [3], [1]])
    inputs = reference.random_inputs(query_layout, layout, 4, 0)
    out = attend(query_layout, layout, 2, "document", backend)(*inputs)
    gradients = torch.autograd.grad(out[2:].sum(), inputs)
    assert (out[2:] == 0).all()
    assert all((g == 0).all() for g in gradients)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_compute_in_float32(backend, dtype):
    layout, inputs = self_attention_inputs()
    halves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    floats = [x.detach().float().requires_grad_() for x in halves]
    got, exact = (
        reference.values_and_gradients(attend(layout, layout, 2, backend=backend), x) for x in (halves, floats)
    )
    assert {x.dtype for x in got} == {dtype}
    for mine, other in zip(got, exact, strict=True):
        torch.testing.assert_close(mine.float(), other, rtol=2**-6, atol=2**-6)


def test_one_document_skewed_to_the_same_sentences():
    """All queries choose the same sentences: many tiles a sentence."""
    layout, inputs = self_attention_inputs([[20] * 30], d_k=8)
    inputs.sentence_q.data.abs_()
    inputs.sentence_k.data.sub_(torch.arange(30.0).view(30, 1, 1))
    dense, dispatch = (
        reference.values_and_gradients(attend(layout, layout, 3, backend=backend), inputs) for backend in BACKENDS
    )
    reference.assert_same(dispatch, dense)


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_the_key_of_an_empty_sentence_may_hold_anything(backend, bad):
    layout, inputs = self_attention_inputs([[3, 0, 2, 4], [2, 2]])
    expected = reference.values_and_gradients(attend(layout, layout, 2, backend=backend), inputs)
    with torch.no_grad():
        inputs.sentence_k[1] = bad  # the mean of no words
    reference.assert_same(reference.values_and_gradients(attend(layout, layout, 2, backend=backend), inputs), expected)


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("name", ["q", "k", "v", "sentence_q", "sentence_k"])
def test_what_is_not_finite_stays_in_its_document(backend, name):
    layout, inputs = self_attention_inputs([[3, 2], [4, 2, 5]])
    expected = attend(layout, layout, 2, backend=backend)(*inputs)[5:]
    with torch.no_grad():
        getattr(inputs, name)[0] = float("nan")
    reference.assert_same([attend(layout, layout, 2, backend=backend)(*inputs)[5:]], [expected])


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_relevances_cost_no_precision(backend):
    """Weights of float32 sum to 1 whatever is added to all scores of a query."""
    layout, inputs = self_attention_inputs([[5] * 8], h=4, d_k=16)
    inputs = [x.detach().float() for x in inputs]
    inputs[2], inputs[4] = torch.ones_like(inputs[2]), inputs[4] * 1e4
    out = attend(layout, layout, 3, backend=backend)(*inputs)
    torch.testing.assert_close(out, torch.ones_like(out), rtol=0, atol=1e-5)


def test_auto_computes_all_scores_where_most_are_chosen():
    layout = DocumentLayout.from_lengths([[25] * 32])
    assert [choose_backend("auto", layout, layout, t) for t in (4, 12, 16, 32)] == ["dispatch"] * 2 + ["dense"] * 2
    short = DocumentLayout.from_lengths([[25] * 4] * 8)
    assert choose_backend("auto", short, short, 1) == "dense"
    long = DocumentLayout.from_lengths([[25] * 400])
    assert choose_backend("auto", long, long, 400) == "dispatch"  # all scores of 10,000 words would fill the memory


def test_wrong_arguments():
    layout, inputs = self_attention_inputs([[2, 3], [1]])
    other = DocumentLayout.from_lengths([[2, 3, 1]])
    moved = DocumentLayout.from_lengths([[2], [3, 1]])
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        attend(other, layout, 2)(*inputs)
    with pytest.raises(ValueError, match="1 and 2 in document 0"):
        attend(moved, layout, 2, "earlier")(*inputs)
    with pytest.raises(ValueError, match="q:"):
        attend(layout, layout, 2)(inputs.q[1:], *inputs[1:])
    with pytest.raises(ValueError, match="sentence_k:"):
        attend(layout, layout, 2)(*inputs[:4], inputs.sentence_k[1:])
    with pytest.raises(ValueError, match="same heads"):
        attend(layout, layout, 2)(inputs.q[..., :2], *inputs[1:])
    with pytest.raises(ValueError, match="at least 1"):
        attend(layout, layout, 0)(*inputs)
    with pytest.raises(ValueError, match="'later'"):
        attend(layout, layout, 1, "later")(*inputs)
    with pytest.raises(ValueError, match="'fast'"):
        attend(layout, layout, 1, backend="fast")(*inputs)


@pytest.mark.gpu
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("visible", ["document", "earlier"])
def test_cuda_gives_the_same(backend, visible):
    layout, inputs = self_attention_inputs()
    moved = reference.Inputs(*(x.detach().cuda().requires_grad_() for x in inputs))
    there = layout.to("cuda")
    got = reference.values_and_gradients(attend(there, there, 2, visible, backend), moved)
    expected = reference.values_and_gradients(attend(layout, layout, 2, visible, "dense"), inputs)
    reference.assert_same([x.cpu() for x in got], expected)
