"""From a corpus to its translation with real models: order, number, independence of the batch, ensembles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from small_models import assert_same

from docnmt.apps.commands.models import in_half_precision, load_models, open_models
from docnmt.apps.options import ModelsConfig
from docnmt.core.batch import collate_source, planned_units
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig, SamplingConfig, SearchConfig
from docnmt.core.search.scheduler import Encoding, Job
from docnmt.core.search.translate import SentenceResult, translate_corpus
from docnmt.core.tokenizer import EOS
from docnmt.modules.linear_layers import BFloat16Linear, EightBitLinear, multiplies_eight_bits, replace_linear
from docnmt.options import contradictions
from docnmt.runtime.system import UsageError

DOCUMENTS = small_system.text(3, 4)
#: Untrained models write as long as they may.
SHORT: dict[str, Any] = {"max_len_a": 0.5, "max_len_b": 4}


def translate(
    model: Any,
    documents: list[list[str]] = DOCUMENTS,
    search: SearchConfig | None = None,
    generator: str = "beam_search",
    **options: int,
) -> list[SentenceResult]:
    models = model if isinstance(model, list) else [model]
    settings = GenerationConfig(generator=generator, **options)
    search = search or BeamSearchConfig(**SHORT)
    return list(translate_corpus(models, small_system.task(), small_system.corpus(documents), settings, search))


def undecided(arch: str, **options: Any) -> Any:
    """A model whose translations of a sentence are many."""
    model = small_system.model(arch, **options)
    with torch.no_grad():
        model.output.weight.mul_(0.25)
    return model


def consensus(samples: SentenceResult) -> str:
    """Of a sentence's samples the text with the highest mean chrF against the others."""
    texts, metric = [sample.text for sample in samples.nbest], CHRF()
    others = [texts[:n] + texts[n + 1 :] for n in range(len(texts))]
    utilities = [
        sum(metric.sentence_score(text, [other]).score for other in rest)
        for text, rest in zip(texts, others, strict=True)
    ]
    return texts[utilities.index(max(utilities))]


@pytest.mark.parametrize("arch", ["transformer_tiny", "hier_cond_transformer_tiny", "doc_transformer_tiny"])
def test_minimum_bayes_risk_gives_what_a_double_loop_over_the_samples_finds(arch: str) -> None:
    """Sentence by sentence, also where a whole document is one sample; whatever the batch."""
    model, settings = undecided(arch), {"temperature": 0.7, "seed": 5, "max_len_a": 1, "max_len_b": 4}
    samples = translate(model, search=SamplingConfig(nbest=8, **settings), generator="sampling")
    search = SamplingConfig(mbr="chrf", mbr_samples=8, **settings)
    found = translate(model, search=search, generator="sampling")
    assert [len(result.nbest) for result in found] == [1] * len(samples)
    assert [result.text for result in found] == [consensus(result) for result in samples]
    assert [result.text for result in found] != [result.text for result in samples]
    assert_same(found, translate(model, search=search, generator="sampling", batch_size=1, max_tokens=1))
    search = replace(search, nbest=3)
    three = translate(model, search=search, generator="sampling")
    assert [result.nbest[0] for result in three] == [result.nbest[0] for result in found]
    assert all(len(result.nbest) == 3 for result in three)
    assert all(set(three[n].nbest) <= set(samples[n].nbest) for n in range(len(samples)))  # with the model's scores


def test_later_sentences_read_the_sample_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    task, model = small_system.task(), undecided("cond_transformer_tiny", target_context="conditional")
    read: dict[int, list[str]] = {}
    remember = Encoding._remember

    def noting(self: Any, number: int, tokens: Any, *, given: bool) -> Any:
        read[number] = task.target_tokenizer.pieces(list(tokens))
        return remember(self, number, tokens, given=given)

    monkeypatch.setattr(Encoding, "_remember", noting)
    for search in (SamplingConfig(mbr="chrf", mbr_samples=6, **SHORT), SamplingConfig(nbest=6, **SHORT)):
        for document in DOCUMENTS:
            read.clear()
            found = translate(model, [document], search=search, generator="sampling")
            assert {r.number: list(r.nbest[0].pieces) for r in found} == read


def test_scores_are_those_of_the_pieces_and_the_end() -> None:
    for result in translate(small_system.model(), search=BeamSearchConfig(beam=4, nbest=4, lenpen=0.5)):
        scores = [found.score for found in result.nbest]
        assert scores == sorted(scores, reverse=True)
        assert len({found.pieces for found in result.nbest}) == 4
        for found in result.nbest:
            assert len(found.piece_scores) == len(found.pieces)
            end = found.score * (len(found.pieces) + 1) ** 0.5 - sum(found.piece_scores)
            assert end < 1e-4  # what is missing is the log-probability of </s>


def test_an_ensemble_averages_probabilities() -> None:
    models = [small_system.model(seed=seed) for seed in (0, 1)]
    sentence = [["the old dog sees a river."]]
    found = translate(models, sentence, GreedyConfig(lenpen=0.0), "greedy")[0].nbest[0]
    task = small_system.task()
    tokens = [task.target_tokenizer.vocabulary().index(piece) for piece in found.pieces]
    probabilities = []
    corpus = small_system.corpus(sentence)
    for model in models:
        units = planned_units(model.reading, corpus)
        with torch.inference_mode():
            memory = model.encode(collate_source(corpus, units, np.arange(1), model.reading))
            state = model.begin(memory, torch.tensor([0]), 1)
            steps = [model.step(torch.tensor([token]), state).softmax(-1)[0] for token in [1, *tokens]]
        probabilities.append(torch.stack(steps))
    average = (probabilities[0] + probabilities[1]) / 2
    expected = average[torch.arange(len(tokens) + 1), torch.tensor([*tokens, EOS])].log()
    assert list(found.piece_scores) == pytest.approx(expected[:-1].tolist(), rel=1e-5, abs=1e-5)
    assert found.score == pytest.approx(float(expected.sum()), rel=1e-5, abs=1e-4)


def test_progress_counts_every_source_token() -> None:
    corpus, counts = small_system.corpus(DOCUMENTS), []
    options = GenerationConfig(max_tokens=60)
    for _ in translate_corpus([small_system.model()], small_system.task(), corpus, options, progress=counts.append):
        pass
    assert sum(counts) == len(corpus.source.tokens) + corpus.num_sentences


@given(
    st.lists(st.integers(1, 30), max_size=30),
    st.lists(st.sets(st.integers(1, 29)), min_size=1, max_size=3),
    st.integers(1, 60),
)
def test_groups_hold_whole_units_and_fit(lengths: list[int], cuts: list[set[int]], most: int) -> None:
    sentences = len(lengths)
    starts = [np.array(sorted({0, *(c for c in cut if c < sentences)} if sentences else []), int) for cut in cuts]
    units, options = [SimpleNamespace(kept=start) for start in starts], SimpleNamespace(max_tokens=most)
    job: Any = SimpleNamespace(units=units, costs=np.array(lengths, dtype=np.int64), options=options)
    found = list(Job.ranges(job))
    assert [0, *(last for _, last in found)][: len(found)] == [first for first, _ in found]
    assert (found[-1][1] if found else 0) == sentences
    common = set.intersection(*(set(s.tolist()) for s in starts)) | {sentences}
    for (first, last), after in itertools.zip_longest(found, found[1:]):
        assert first in common
        assert last in common
        inside = [c for c in common if first < c < last]
        assert sum(lengths[first:last]) <= most or not inside
        if after is not None:  # the next unit did not fit
            next_unit = min(c for c in common if c > last)
            assert sum(lengths[first:next_unit]) > most


def in_half(kind: torch.dtype) -> Callable[[Any], None]:
    return lambda model: in_half_precision(Path("m"), model, kind)


eight_bits = pytest.mark.skipif(not multiplies_eight_bits(), reason="no products of whole numbers here")


@pytest.mark.parametrize("arch", ["transformer_tiny", "hier_cond_transformer_tiny", "copy_transformer_tiny"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("rounded", "near"),
    [
        (in_half(torch.float16), 0.02),
        (in_half(torch.bfloat16), 0.1),
        (lambda model: replace_linear(model, BFloat16Linear), 0.05),
        pytest.param(lambda model: replace_linear(model, EightBitLinear), 0.05, marks=eight_bits),
    ],
    ids=["float16", "bfloat16", "bfloat16 products", "8 bits"],
)
def test_rounded_numbers_give_nearly_the_same_scores_in_any_batch(
    arch: str, device: str, rounded: Callable[[Any], None], near: float
) -> None:
    """Half types also on a CPU, where the command does not offer them."""
    model = small_system.model(arch, position_fusion="add").to(device)  # with concat a search has a near tie
    search = BeamSearchConfig(beam=2, max_len_a=0.5, max_len_b=2)
    whole = translate(model, search=search)
    rounded(model)
    found = translate(model, search=search)
    pairs = [(one.nbest[0], other.nbest[0]) for one, other in zip(found, whole, strict=True)]
    same = [(one.score, other.score) for one, other in pairs if one.pieces == other.pieces]
    assert len(same) >= 0.8 * len(pairs)  # of random weights, two hypotheses may be nearly equal
    for one, other in same:
        assert one == pytest.approx(other, abs=near)
    if device == "cpu" and next(model.parameters()).dtype == torch.float32:
        assert_same(translate(model, search=search, batch_size=1), found)


def test_eight_bits_are_refused_where_they_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(small_system.save(tmp_path / "m.safetensors", "transformer_tiny"))
    monkeypatch.setattr("docnmt.apps.commands.models.pick_device", lambda name: torch.device(name))
    with pytest.raises(UsageError, match="--int8"):
        load_models(ModelsConfig(path, device="cuda", int8=True))
    (found,) = contradictions(ModelsConfig(path, fp16=True, int8=True))
    assert "--fp16" in found
    assert "--int8" in found
    monkeypatch.setattr("docnmt.apps.commands.models.multiplies_eight_bits", lambda: False)
    with pytest.raises(UsageError, match="--int8"):
        load_models(ModelsConfig(path, device="cpu", int8=True))
    monkeypatch.setattr("docnmt.apps.commands.models.multiplies_bfloat16", lambda: False)
    with pytest.raises(UsageError, match="--bf16"):
        load_models(ModelsConfig(path, device="cpu", bf16=True))


def test_half_precision_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    path = small_system.save(tmp_path / "m.safetensors", "scaleformer_tiny")
    with pytest.raises(UsageError, match="--fp16"):
        load_models(ModelsConfig(str(path), device="cpu", fp16=True))
    (model,) = open_models([path], torch.device("cpu")).models
    with pytest.raises(UsageError, match=r"m\.safetensors"):
        in_half_precision(path, model, torch.float16)
