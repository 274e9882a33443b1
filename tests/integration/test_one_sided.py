"""Sentences without a translation: read as context, never learned, never scored, in every family of models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from parallel_text import ParallelText
from small_models import build
from trainings import SMALL

from docnmt.cli import generate, score
from docnmt.cli.train import main as train
from docnmt.core.batch import IGNORE, TranslationBatch, learned_units, planned_units
from docnmt.core.corpus import ParallelCorpus, TextArray, read_meta
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.scoring.metrics import evaluate
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import TranslationMemory, first_of_documents, translate_corpus
from docnmt.core.tokenizer import BOS, BRK
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.translation_task import TranslationDataset, corpus_bleu, in_foreign_documents

Capture = pytest.CaptureFixture[str]
DOCUMENTS = small_system.text(7, 5, seed=3)
SENTENCES = sum(map(len, DOCUMENTS))
#: Every third sentence, and all of the third document.
ALONE = sorted({*range(1, SENTENCES, 3), *range(sum(map(len, DOCUMENTS[:2])), sum(map(len, DOCUMENTS[:3])))})
APART: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("concat_transformer", {}),
    ("hier_transformer", {}),
    ("cond_transformer", {}),
    ("hier_cond_transformer", {}),
]
CASES = [
    *APART,
    ("concat_transformer", {"target_window": 2}),
    ("doc_transformer", {}),
    ("scaleformer", {}),
    ("cond_transformer", {"target_context": "conditional"}),
    ("hier_cond_transformer", {"target_context": "summaries"}),
]


def corpus(*, filler: str | None = None, source: dict[int, str] | None = None) -> ParallelCorpus:
    """DOCUMENTS and their words backwards; sentences of ALONE have no translation, or `filler`."""
    flat = [line for document in DOCUMENTS for line in document]
    lines = iter([(source or {}).get(number, line) for number, line in enumerate(flat)])
    made = small_system.corpus([[next(lines) for _ in document] for document in DOCUMENTS])
    texts = [filler or "" if number in ALONE else " ".join(line.split()[::-1]) for number, line in enumerate(flat)]
    return replace(made, target=small_system.corpus([texts]).source, references=[TextArray.from_lines(texts)])


def everything(model: Any, data: ParallelCorpus) -> TranslationBatch:
    dataset = TranslationDataset(data, learned_units(planned_units(model.reading, data), data), model.reading, "train")
    return dataset.batch(np.arange(len(dataset.units)))


def losses(model: Any, data: ParallelCorpus, labels: torch.Tensor | None = None) -> torch.Tensor:
    """-log p of the labels, in their order."""
    text = everything(model, data)
    labels = text.labels if labels is None else labels
    log_p = model.output(model(text)).log_softmax(-1)
    counted = labels != IGNORE
    return -log_p[counted].gather(1, labels[counted, None])[:, 0]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_what_is_read_and_what_is_learned(name: str, options: dict[str, Any]) -> None:
    model, data = build(name, **options), corpus()
    text, units = everything(model, data), planned_units(model.reading, data)
    written = [range(a, b) for a, b in zip(units.first, units.last, strict=True)]
    learned = [n for unit, each in enumerate(written) if not set(each) <= set(ALONE) for n in each]
    assert data.target is not None
    expected = [token for n in learned if n not in ALONE for token in data.target[n].tolist()]
    found = text.labels[text.labels != IGNORE]
    assert found[~torch.isin(found, torch.tensor([BRK, 2]))].tolist() == expected
    assert text.num_tokens == len(expected) + sum(n not in ALONE for n in learned)
    begins = torch.isin(text.target.tokens, torch.tensor([BOS, BRK])).nonzero()[:, 0]
    lengths = torch.diff(begins, append=torch.tensor([len(text.target.tokens)]))
    assert lengths.tolist() == [1 + len(data.target[n]) for n in learned]
    loss, size, _ = CrossEntropy(label_smoothing=0.0)(model.train(), text)
    loss.backward()
    assert size == text.num_tokens
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize(("name", "options"), APART)
def test_the_loss_is_that_of_the_other_sentences_whatever_the_translation_would_be(
    name: str, options: dict[str, Any]
) -> None:
    """Against labels that are taken out by hand, where target sentences do not see each other."""
    model = build(name, **options)
    full = corpus(filler="the old river")
    text = everything(model, full)
    units = planned_units(model.reading, full)
    sentence = np.concatenate([np.arange(a, b) for a, b in zip(units.first, units.last, strict=True)])
    of_token = sentence[text.target.layout.sentence_of_token.numpy()]
    labels = text.labels.masked_fill(torch.from_numpy(np.isin(of_token, ALONE)), IGNORE)
    torch.testing.assert_close(losses(model, corpus()), losses(model, full, labels))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_their_source_is_context(name: str, options: dict[str, Any]) -> None:
    model = build(name, **options)
    changed = corpus(source={ALONE[0]: "he walks under the new tree then."})
    same = torch.equal(losses(model, corpus()), losses(model, changed))
    assert same == (name == "transformer")


@pytest.mark.parametrize(("name", "options"), [CASES[0], *CASES[-5:]])
def test_all_are_translated_and_the_others_scored(name: str, options: dict[str, Any]) -> None:
    model, data = build(name, **options), corpus()
    settings = GenerationConfig(max_tokens=8000), BeamSearchConfig(beam=1)
    texts = [result.text for result in translate_corpus([model], small_system.task(), data, *settings)]
    assert len(texts) == SENTENCES
    kept = [n for n in range(SENTENCES) if n not in ALONE]
    offsets = np.searchsorted(kept, data.document_offsets)
    reference = [[data.references[0][n] for n in kept]]
    config = DocumentTranslationConfig(eval_bleu_beam=1)
    found = corpus_bleu(model, small_system.task(), data, config)
    assert found == pytest.approx(evaluate([texts[n] for n in kept], reference, offsets).scores["s-BLEU"])


def test_nothing_is_given_for_them() -> None:
    """Neither their empty references, nor by a memory; in foreign documents they stay without a translation."""
    data = corpus()
    given = first_of_documents(data.references[0], data.document_offsets.tolist(), 1.0)
    assert [n for n, text in enumerate(given) if text is None] == ALONE
    memory = TranslationMemory(data, count=SENTENCES)
    found = {n for each in range(SENTENCES) for n in memory.similar(data.source[each])}
    assert found
    assert not found & set(ALONE)
    foreign = in_foreign_documents(data)
    assert foreign.target is not None
    numbers = np.arange(SENTENCES)
    assert (foreign.has_partner(numbers) == (foreign.target.lengths() > 0)).all()
    assert foreign.has_partner(numbers).tolist() != data.has_partner(numbers).tolist()


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """A corpus in which every split has a few lines without a translation, and one without a source."""
    text = ParallelText(tmp_path)
    for split in ("train", "dev", "test"):
        lines = text.lines(f"{split}.de")
        for number in range(2, len(lines), 7):
            text.set_line(f"{split}.de", number, "")
        both = [n for n, pair in enumerate(zip(text.lines(f"{split}.en"), text.lines(f"{split}.de"), strict=True), 1)
                if all(pair)]  # fmt: skip
        text.set_line(f"{split}.en", both[4], "")
    return text


def test_a_folder_counts_them(text: ParallelText, capsys: Capture) -> None:
    assert text.preprocess() == 1
    capsys.readouterr()
    assert text.preprocess("--one-sided", "read") == 0
    report = capsys.readouterr().err
    counts = read_meta(text.data)["splits"]["train"]
    corpus = text.corpus("train")
    alone = int((~corpus.has_partner(np.arange(corpus.num_sentences))).sum())
    assert counts["without_partner"] == alone > 0
    assert f"train: {counts['documents']:,} documents" in report
    assert f"{alone:,} " in report
    assert text.preprocess("--one-sided", "skip", "--overwrite") == 0
    left = text.corpus("train")
    assert left.num_sentences == corpus.num_sentences - alone
    assert read_meta(text.data)["splits"]["train"]["without_partner"] == 0
    lines = text.lines("train.de")
    text.path("train.de").write_text("\n" * len(lines))
    assert text.preprocess("--one-sided", "read", "--overwrite") == 1
    assert "train.en" in capsys.readouterr().err


def test_long_sentences_without_a_partner_are_split_like_others(text: ParallelText) -> None:
    first = next(n for n, line in enumerate(text.lines("train.de"), 1) if not line and text.lines("train.en")[n - 1])
    text.set_line("train.en", first, "garden " * 90)
    options = ["--one-sided", "read", "--long-policy", "split", "--max-sentence-tokens", "40", "--vocab-size", "60"]
    assert text.preprocess(*options) == 0
    corpus = text.corpus("train")
    pieces = [n for n, line in enumerate(corpus.source_text) if set(line.split()) == {"garden"} and " " in line]
    assert len(pieces) > 1
    assert not corpus.has_partner(np.array(pieces)).any()


def test_generate_and_score_leave_them_out(text: ParallelText, tmp_path: Path, capsys: Capture) -> None:
    for number, pair in enumerate(zip(text.lines("test.en"), text.lines("test.de"), strict=True), 1):
        if pair[1] and not pair[0]:  # its line has no translation either
            text.set_line("test.en", number, "a lamp")
    assert text.preprocess("--one-sided", "read", "--vocab-size", "60") == 0
    run = tmp_path / "run"
    command = [str(text.data), "--arch", "cond_transformer", *SMALL.split(), "--save-dir", str(run)]
    assert train([*command, "--max-update", "1"]) == 0
    capsys.readouterr()
    results = tmp_path / "results"
    assert generate.main([str(text.data), "--path", str(run), "--results-path", str(results), "--max-len-b", "5"]) == 0
    out = capsys.readouterr().out
    corpus = text.corpus("test")
    alone = np.flatnonzero(~corpus.has_partner(np.arange(corpus.num_sentences)))
    assert len(alone) > 0
    for number in range(corpus.num_sentences):
        assert f"D-{number}\t" in out
        assert (f"T-{number}\t" in out) == (number not in alone)
    hypotheses = (results / "hypotheses.txt").read_text().split("\n")[:-1]
    assert len(hypotheses) == len(text.lines("test.en"))
    scores = json.loads((results / "scores.json").read_text())
    assert scores["unscored"] == len(alone)
    assert f"({len(alone)} sentences" in out
    assert scores["sentences"] == corpus.num_sentences - len(alone)
    files = ["--src", str(text.path("test.en")), "--ref", str(text.path("test.de"))]
    assert score.main([*files, "--sys", str(results / "hypotheses.txt"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for name in ("s-BLEU", "d-BLEU", "chrF", "unscored"):
        assert again[name] == pytest.approx(scores[name])
