"""The copying model: a pointer over earlier translations, in one pass and step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_models import batch, build

from docnmt.core.batch import IGNORE
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.core.training.start import document_parameters, start_as_sentence_model
from docnmt.functional.loss import Copied, chunked_cross_entropy, label_log_probs
from docnmt.layout import DocumentLayout
from docnmt.modules.pointer import copied_labels, copied_values
from docnmt.testing import check_steps

LAYOUT = DocumentLayout.from_lengths([[3, 2, 0, 4], [5], [2, 1]])


@pytest.mark.parametrize("lengths", [[], [[0]], [[0, 0], [0]]])
def test_no_words_have_no_scores(lengths: list[list[int]]) -> None:
    q = torch.randn(0, 4, requires_grad=True)
    found = copied_labels(q, q, torch.zeros(0, dtype=torch.long), DocumentLayout.from_lengths(lengths), 3)
    assert [part.shape for part in found] == [(0,)] * 3
    sum(part.sum() for part in found).backward()
    values = copied_values(q, q, q, torch.zeros(0, dtype=torch.long), DocumentLayout.from_lengths(lengths), 3)
    assert values.shape == (0, 4)


def copying(**options: Any) -> Any:
    """A copying model whose pointer and gate are not the initial ones."""
    model = build("copy_transformer", **options).double()
    with torch.no_grad():
        model.pointer.gate.weight.copy_(torch.randn_like(model.pointer.gate.weight) / 10)
        model.pointer.key.weight.copy_(torch.randn_like(model.pointer.key.weight) / 4)
    return model


@pytest.mark.parametrize("window", [1, 3, 100])
def test_pointer_equals_a_loop_over_words(window: int) -> None:
    q, k = (torch.randn(LAYOUT.num_tokens, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.randint(0, 3, (LAYOUT.num_tokens,))
    labels[1] = IGNORE
    found = copied_labels(q, k, labels, LAYOUT, window)
    starts = LAYOUT.sentence_offsets[LAYOUT.sentence_of_token].tolist()
    for word, (start, document) in enumerate(zip(starts, LAYOUT.document_of_token.tolist(), strict=True)):
        first = int(LAYOUT.documents.offsets[document])
        read = [i for i in range(max(first, start - window), start) if labels[i] != IGNORE]
        if not read:
            assert all(float(part[word].detach()) < -1e8 for part in found[1:])
            continue
        scores = torch.stack([-(q[word] - k[i]).square().sum() for i in read])
        p = scores.softmax(0)[labels[read] == labels[word]].sum()
        assert torch.allclose(found[0][word].exp(), p, atol=1e-12)
        assert torch.allclose(found[1][word], scores.max(), atol=1e-12)
        assert torch.allclose(found[2][word], scores.logsumexp(0), atol=1e-12)
    sum(part[part > -1e8].sum() for part in found).backward()
    assert q.grad is not None
    assert bool(q.grad.isfinite().all())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_mixed_cross_entropy_equals_autograd(smoothing: float) -> None:
    """Value and gradients, against the mixture written out; labels that do not count, and a λ of 0."""
    torch.manual_seed(1)
    features, weight = (torch.randn(n, 5, dtype=torch.float64, requires_grad=True) for n in (7, 9))
    share = torch.tensor([0.3, 0.9, 0.2, 0.5, 0.7, 0.1, 0.4], dtype=torch.float64, requires_grad=True)
    log_p = (-torch.rand(7, dtype=torch.float64)).requires_grad_()
    labels = torch.tensor([1, 8, IGNORE, 0, 3, 3, 2])
    inputs = (features, weight, share, log_p)
    loss, nll = chunked_cross_entropy(
        features, weight, labels, label_smoothing=smoothing, copied=Copied(share, log_p), chunk_tokens=3
    )
    gradients = torch.autograd.grad(loss, inputs)
    counted = labels != IGNORE
    logs = torch.log_softmax(features @ weight.T, 1)[counted]
    gold_p = logs.gather(1, labels[counted, None])[:, 0].exp()
    mixed = -((1 - share[counted]) * gold_p + share[counted] * log_p[counted].exp()).log().sum()
    expected = (1 - smoothing) * mixed - smoothing * logs.mean(1).sum()
    assert torch.allclose(nll, mixed, atol=1e-10)
    assert torch.allclose(loss, expected, atol=1e-6)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, inputs), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)


def test_a_share_of_nothing_has_finite_gradients() -> None:
    features, weight = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3) * 100
    share, log_p = torch.zeros(2, requires_grad=True), torch.tensor([-0.1, -1e9], requires_grad=True)
    loss, nll = chunked_cross_entropy(features, weight, torch.tensor([0, 1]), copied=Copied(share, log_p))
    plain, _ = chunked_cross_entropy(features, weight, torch.tensor([0, 1]))
    assert torch.equal(loss, plain)
    assert torch.equal(nll, plain)
    assert all(bool(g.isfinite().all()) for g in torch.autograd.grad(loss, (features, share, log_p)))


def test_a_step_at_a_time_is_the_whole_document() -> None:
    """With gold translations remembered one by one; the pointer has a share in it."""
    model = copying(copy_window=9)
    text = batch(model)
    assert bool((model(text).copied.share > 0.01).any())
    check_steps(model, text)


def test_later_sentences_and_other_documents_change_nothing() -> None:
    model = copying()
    text = batch(model)
    layout = text.target.layout
    rows = torch.arange(layout.num_tokens)
    sentence = int(layout.document_offsets[1]) - 1  # the last of the first document
    changed = (layout.sentence_of_token == sentence).nonzero()[:, 0]
    tokens, labels = text.target.tokens.clone(), text.labels.clone()
    tokens[changed[1:]], labels[changed] = 17, 17
    other = replace(text, target=replace(text.target, tokens=tokens), labels=labels)
    with torch.no_grad():
        before, after = (label_log_probs(model(each), model.output, each.labels, rows) for each in (text, other))
    same = torch.ones(layout.num_tokens, dtype=torch.bool)
    same[changed] = False
    assert torch.equal(before[same], after[same])
    assert not torch.equal(before[changed], after[changed])


def test_a_closed_pointer_is_the_sentence_model_and_opens() -> None:
    model, sentence = copying(), build("transformer").double()
    text = batch(model)
    weights = sentence.state_dict()
    model.load_state_dict({**model.state_dict(), **weights})
    assert document_parameters(model) == set(model.state_dict()) - set(weights)
    start_as_sentence_model(model, set(weights))
    criterion = LabelSmoothedCrossEntropy(label_smoothing=0.1)
    loss, _, _ = criterion(model, text)
    assert torch.allclose(loss, criterion(sentence, text)[0], rtol=1e-12)
    loss.backward()
    assert model.pointer.opening.grad != 0


def test_every_parameter_learns() -> None:
    model = copying()
    LabelSmoothedCrossEntropy(label_smoothing=0.1)(model, batch(model))[0].backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not bool((p.grad != 0).any())] == []
