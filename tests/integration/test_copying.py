"""The copying model: a pointer over earlier translations, in one pass and step by step."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import small_system
import torch
from commands import SHORT, Run
from small_models import batch, build

from docnmt.core.batch import IGNORE
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import TranslationMemory, translate_corpus, with_memory
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.core.training.start import document_parameters, start_as_sentence_model
from docnmt.core.translation_task import DocumentTranslation
from docnmt.functional.loss import Copied, chunked_cross_entropy
from docnmt.layout import DocumentLayout
from docnmt.modules.pointer import copied_labels

LAYOUT = DocumentLayout.from_lengths([[3, 2, 0, 4], [5], [2, 1]])


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
    parts = copied_labels(q, k, labels, LAYOUT, window)
    starts = LAYOUT.sentence_offsets[LAYOUT.sentence_of_token].tolist()
    for word, (start, document) in enumerate(zip(starts, LAYOUT.document_of_token.tolist(), strict=True)):
        first = int(LAYOUT.documents.offsets[document])
        read = [i for i in range(max(first, start - window), start) if labels[i] != IGNORE]
        if not read:
            assert all(float(part[word].detach()) < -1e8 for part in parts[1:])
            continue
        scores = torch.stack([-(q[word] - k[i]).square().sum() for i in read])
        p = scores.softmax(0)[labels[read] == labels[word]].sum()
        assert torch.allclose(parts[0][word].exp(), p, atol=1e-12)
        assert torch.allclose(parts[1][word], scores.max(), atol=1e-12)
        assert torch.allclose(parts[2][word], scores.logsumexp(0), atol=1e-12)
    sum(part[part > -1e8].sum() for part in parts).backward()
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


# `--memory`: similar training sentences and their translations are read before each document.


def rows(out: str) -> list[str]:
    """The lines of sentences, without those of scores."""
    return [line for line in out.splitlines() if re.match(r"[STHDP]-\d+\t", line)]


def test_generate_reads_a_memory_and_keeps_the_numbers(run: Run, folder: Path) -> None:
    of = DocumentTranslation.load(DocumentTranslationConfig(), folder / "data")
    small_system.save(folder / "copy.safetensors", "copy_transformer_tiny", of=of)
    command = ["generate", "data", "--path", "copy.safetensors", *SHORT]
    plain = run(*command)[1]
    status, read, _ = run(*command, "--memory", "data", "--results-path", "recalled")
    assert status == 0
    texts = [[line for line in rows(out) if line[0] in "ST"] for out in (plain, read)]
    assert texts[0] == texts[1]
    assert rows(plain) != rows(read)
    settings = json.loads((folder / "recalled" / "scores.json").read_text(encoding="utf-8"))["settings"]
    assert settings["memory"] == {"memory": "data", "memory_context": "true", "memory_sentences": 2}
    source = (folder / "test.en").read_text(encoding="utf-8").encode()
    status, out, _ = run(
        "translate", "--path", "copy.safetensors", "--memory", "data", "--input-format", "corpus", *SHORT, stdin=source
    )
    assert status == 0
    assert out == (folder / "recalled" / "hypotheses.txt").read_text(encoding="utf-8")


def test_a_memory_is_the_same_as_its_sentences_given(folder: Path) -> None:
    of = DocumentTranslation.load(DocumentTranslationConfig(), folder / "data")
    model = small_system.model("copy_transformer_tiny", of=of)
    memory = TranslationMemory(ParallelCorpus.open(folder / "data", "train"))
    corpus = ParallelCorpus.open(folder / "data", "test")
    options, search = GenerationConfig(), BeamSearchConfig(beam=2, max_len_a=1, max_len_b=2)
    with torch.no_grad():
        read = list(translate_corpus([model], of, corpus, options, search, memory=memory))
        longer, given, numbers = with_memory(corpus, None, memory)
        expected = list(translate_corpus([model], of, longer, options, search, given=given))
    assert [result.number for result in read] == list(range(corpus.num_sentences))
    assert [int(numbers[result.number]) for result in expected] == [result.number for result in read]
    assert [result.nbest for result in expected] == [result.nbest for result in read]
