"""Noise of training: hidden words, drawn subwords, R-Drop, each a function of its seeds so that runs resume exactly."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from attention_reference import assert_same_passes
from small_models import build
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.core.batch import IGNORE, DroppedContexts, HiddenWords, TranslationBatch, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.formality import TAGS, in_form
from docnmt.core.tokenizer import BRK, EOS, MASK, Preparation, Tokenizer
from docnmt.core.training.criterions import LabelSmoothedCrossEntropy
from docnmt.core.translation_task import DocumentTranslation, TranslationDataset
from docnmt.modules.positions import WordDropout

DOCUMENTS = small_system.text(30, 6)


def corpus() -> ParallelCorpus:
    made = small_system.corpus(DOCUMENTS)
    return replace(made, target=made.source, references=[made.source_text])


def dataset(model: Any, own: float, context: float = 0.0, seeds: tuple[int, ...] = (1, 1, 0)) -> TranslationDataset:
    units = planned_units(model.reading, corpus())
    hidden = HiddenWords(own, context, seeds)
    return TranslationDataset(corpus(), units, model.reading, "train", hidden)


def source_rows(batch: TranslationBatch) -> list[list[int]]:
    """The source tokens of each unit."""
    ends = batch.source.layout.documents.host
    return [batch.source.tokens[a:b].tolist() for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("name", ["transformer", "hier_cond_transformer", "doc_transformer", "concat_transformer"])
def test_masks_fall_on_words_of_the_source_and_whatever_the_batch(name: str) -> None:
    model = build(name)
    plain, masked = dataset(model, 0.0), dataset(model, 0.3, 0.3)
    everything = np.arange(len(plain.units))
    before, after = plain.batch(everything), masked.batch(everything)
    changed = after.source.tokens != before.source.tokens
    assert (after.source.tokens[changed] == MASK).all()
    assert not torch.isin(before.source.tokens[changed], torch.tensor([EOS, BRK])).any()
    words = ~torch.isin(before.source.tokens, torch.tensor([EOS, BRK]))
    assert 0.2 < float(changed.sum() / words.sum()) < 0.4
    assert torch.equal(after.target.tokens, before.target.tokens)
    assert torch.equal(after.labels, before.labels)
    apart = [source_rows(masked.batch(everything[[u]]))[0] for u in everything[::-1]]
    assert apart[::-1] == source_rows(after)
    assert source_rows(dataset(model, 0.3, 0.3, seeds=(1, 2, 0)).batch(everything)) != source_rows(after)


@pytest.mark.parametrize("name", ["transformer", "doc_transformer", "concat_transformer"])
@pytest.mark.parametrize("breaks", [True, False])
def test_tags_and_symbols_are_never_hidden(name: str, breaks: bool) -> None:
    """A form of address before a language's tag before words, some of them symbols that a user defined."""
    symbols = [*TAGS.values(), "<fr>", "<name>"]
    lines = [line.replace("cat", "<name>") for document in DOCUMENTS for line in document]
    plain = Tokenizer.train(lines, 48, user_defined_symbols=symbols)
    tokenizer = plain.prepared(Preparation(tags={"fr": "<fr>"}, tag="fr", tag_of="target"))
    documents = [[line.replace("cat", "<name>") for line in document] for document in DOCUMENTS]
    bare = ParallelCorpus.from_lines(documents, tokenizer)
    of = replace(bare, target=bare.source, references=[bare.source_text])
    told = in_form(of, "formal", tokenizer)
    config, folder = DocumentTranslationConfig(source_mask=0.999), Path("data")
    task = DocumentTranslation(config, languages=("en", "fr"), tokenizers=(tokenizer,) * 2, data_dir=folder)
    task._corpora[folder, "train"] = told
    options = {"source_breaks": breaks} if name != "transformer" else {}
    model = SimpleNamespace(reading=small_system.model(name + "_tiny", **options).reading)
    dataset: Any = task.dataset("train", model, seed=1, epoch=1, training=True)  # type: ignore[arg-type]
    chosen = np.arange(len(dataset.units))
    hidden = replace(dataset.hidden, context=0.999)
    before, after = (replace(dataset, hidden=mask).batch(chosen).source.tokens for mask in (None, hidden))
    entries = tokenizer.vocabulary()
    marks = torch.tensor([n for n, entry in enumerate(entries) if entry in (*symbols, "<brk>", "</s>")])
    kept = torch.isin(before, marks)
    assert {entries[n] for n in before[kept].tolist()} >= {"<formal>", "<fr>", "<name>", "</s>"}
    assert torch.equal(after[kept], before[kept])
    assert (after[~kept] == MASK).float().mean() > 0.98


def test_training_masks_and_validation_does_not(data: Path) -> None:
    task = DocumentTranslation.load(DocumentTranslationConfig(source_mask=0.5), data)
    model = small_system.model("hier_transformer_tiny", of=task)

    def masked(split: str, **options: Any) -> bool:
        return bool((task.dataset(split, model, **options).batch(np.arange(2)).source.tokens == MASK).any())

    assert masked("train", seed=1, epoch=1, training=True)
    assert not masked("valid")


@pytest.mark.parametrize("settings", [{}, {"summary_input": "embeddings"}, {"context_placement": "heads"}])
def test_without_context_words_documents_do_not_matter(settings: dict[str, Any]) -> None:
    """All context words hidden: a sentence's scores no longer follow its neighbours', and do again in evaluation."""
    model = build("cond_transformer", context_word_dropout=0.5, levels=2, **settings)
    for module in model.modules():
        if isinstance(module, WordDropout):
            module.p = 1.0
    batch = dataset(model, 0.0).batch(np.array([0]))
    other = batch.source.tokens.clone()
    first = int(batch.source.layout.sentence_offsets[1])
    other[first:-1] = 5 + (other[first:-1] + 1) % 30
    other = replace(batch, source=replace(batch.source, tokens=other))
    end = int(batch.target.layout.sentence_offsets[1])
    with torch.no_grad():
        assert torch.allclose(model.train()(batch)[:end], model(other)[:end], atol=1e-6)
        assert not torch.allclose(model.eval()(batch)[:end], model(other)[:end], atol=1e-4)


@pytest.mark.parametrize("settings", [{"top_t": 2}, {"target_context": "summaries", "context_sides": "decoder"}])
def test_a_unit_without_context_is_its_sentences_one_by_one(settings: dict[str, Any]) -> None:
    """Two routes for each unit, and as many units without context as were asked for, whatever the batch."""
    model = build("hier_cond_transformer", context_dropout=0.4, **settings).double()
    of, plan = corpus(), model.reading
    assert plan.dropped_context == 0.4
    whole = TranslationDataset(of, planned_units(plan, of), plan, "")
    noisy = replace(whole, dropped=DroppedContexts(0.4, (1, 1)))
    alone = TranslationDataset(of, planned_units(plan, of, window=0), plan, "")
    judge = LabelSmoothedCrossEntropy(label_smoothing=0.0)
    expected, without = 0.0, 0
    with torch.no_grad():
        for number in range(len(whole.sizes)):
            sentences = np.flatnonzero(alone.units.document == whole.units.document[number])
            parts = ((whole, np.array([number])), (alone, sentences), (noisy, np.array([number])))
            true, none, noised = (float(judge(model, part.batch(chosen))[0]) for part, chosen in parts)
            dropped = len(sentences) > 1 and noised == pytest.approx(none, rel=1e-12)
            assert dropped or noised == pytest.approx(true, rel=1e-12)
            expected, without = expected + noised, without + dropped
        together = float(judge(model, noisy.batch(np.arange(len(whole.sizes))))[0])
    assert together == pytest.approx(expected, rel=1e-12)
    assert 4 < without < 18  # of 30


class Noisy(nn.Module):
    """Features are a parameter under dropout."""

    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.randn(2100, 6, dtype=torch.float64))
        self.output = nn.Linear(6, 13, bias=bias, dtype=torch.float64)
        self.seen: list[Tensor] = []

    def forward(self, batch: object) -> Tensor:
        self.seen.append(F.dropout(self.features, 0.3, training=self.training))
        return self.seen[-1]


@pytest.mark.parametrize("bias", [True, False])
def test_r_drop_is_its_equation(bias: bool) -> None:
    """Loss and gradients against the whole tokens × vocabulary tensors, written as the paper has it, halved."""
    torch.manual_seed(0)
    model, labels = Noisy(bias=bias), torch.randint(13, (2100,))
    labels[3::7] = IGNORE
    counted = labels != IGNORE
    batch = SimpleNamespace(labels=labels, num_tokens=int(counted.sum()))
    criterion = LabelSmoothedCrossEntropy(label_smoothing=0.1, r_drop=3.0)
    loss, size, logs = criterion(model, batch)
    one, other = (F.log_softmax(model.output(x), -1) for x in model.seen)
    nll = [F.cross_entropy(x, labels, reduction="sum", ignore_index=IGNORE, label_smoothing=0.1) for x in (one, other)]
    kl = [F.kl_div(b[counted], a[counted], reduction="sum", log_target=True) for a, b in ((one, other), (other, one))]
    expected = (nll[0] + nll[1] + 3.0 * (kl[0] + kl[1]) / 2) / 2
    assert size == batch.num_tokens
    assert logs["divergence"] == pytest.approx(float((kl[0] + kl[1]).detach()) / 2)
    plain = [F.cross_entropy(x, labels, reduction="sum", ignore_index=IGNORE) for x in (one, other)]
    assert float(logs["nll"]) == pytest.approx(float((plain[0] + plain[1]).detach()) / 2)
    assert_same_passes(loss, expected, [*model.parameters()])
