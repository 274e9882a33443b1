"""What every translation architecture must be able to do: learn sentences by heart, write them, know their scores.

Training sees whole rows, search one token at a time: that references come back and that scores agree are two routes to
one model. (`test_architectures` compares both routes step by step on random weights.)
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
import torch
from small_models import Numbers, batch, build

from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.models.config import TransformerConfig
from docnmt.core.scoring.discourse import ForcedExample
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig
from docnmt.core.search.translate import forced_scores, translate_corpus
from docnmt.core.training.criterions import CrossEntropy
from docnmt.options import contradictions, settings
from docnmt.registry import MODELS
from docnmt.testing import check_steps

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {}),
    "2-to-1": ("concat_transformer", {"source_context": 1, "target_window": 1}),
    "2-to-2": ("concat_transformer", {"source_context": 1, "target_window": 2}),
    "3-to-3": ("concat_transformer", {"source_context": 2, "target_window": 3}),
    "tree": ("hier_cond_transformer", {"merge": "source2token"}),
    **{
        name: (name, {})
        for name in (
            "doc_transformer", "hier_transformer", "cond_transformer", "hier_cond_transformer", "scaleformer",
            "g_transformer", "han_encoder", "han",
        )
    },
}  # fmt: skip
LINES = [line for document in small_system.text(20, 4) for line in document]
DOCUMENTS = [LINES[:5], LINES[5:8], LINES[8:9]]
REFERENCES = [[" ".join(reversed(line.rstrip(".").split())) + "." for line in document] for document in DOCUMENTS]


@cache
def learned(case: str) -> tuple[Any, float]:
    """A model that has been trained, at most 300 updates on all of the sentences, and its last loss of a token."""
    name, settings = CASES[case]
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "embed_dim": 48, "heads": 2, "ffn_dim": 96, "dropout": 0.0}
    model = small_system.task().build_model(MODELS.get(name), MODELS.config(name)(**sizes, **settings))
    units = planned_units(model.reading, corpus())
    data = collate(corpus(), units, np.arange(len(units)), model.reading)
    criterion, optimizer = CrossEntropy(label_smoothing=0.0), torch.optim.Adam(model.parameters(), lr=0.005)
    loss = float("inf")
    for _ in range(300):
        if loss < 0.003:  # in all, of one word too little to choose another
            break
        total, count, _ = criterion(model, data)
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
        loss = float(total.detach()) / count
    return model.eval(), loss


def corpus() -> ParallelCorpus:
    """The sentences and their translations."""
    lines = [[line for document in REFERENCES for line in document]]
    return replace(small_system.corpus(DOCUMENTS), target=small_system.corpus(lines).source)


def test_none_is_missing() -> None:
    translation = {name for name in MODELS.names() if issubclass(MODELS.config(name) or object, TransformerConfig)}
    apart = {"copy_transformer"}  # training reads references where search reads nothing: test_copying
    assert {name for name, _ in CASES.values()} | apart == translation


@pytest.mark.parametrize("case", CASES)
def test_learns_sentences_by_heart(case: str) -> None:
    model, loss = learned(case)
    assert loss < 0.01
    options = GenerationConfig(generator="greedy")
    results = translate_corpus([model], small_system.task(), corpus(), options, GreedyConfig())
    assert [result.text for result in results] == [line for document in REFERENCES for line in document]


@pytest.mark.parametrize("case", CASES)
def test_the_score_of_a_beam_is_what_the_model_gives_it(case: str) -> None:
    """The last sentence of every document, each of the n best: forced after the context that search wrote.

    A model that writes windows is asked from where search begins the last one; scoring would give it more to read.
    """
    (model, _), task = learned(case), small_system.task()
    size = model.reading.written or 1
    task.target_tokenizer = Numbers()  # type: ignore[assignment]
    search = BeamSearchConfig(beam=3, nbest=3, lenpen=0.0)
    results = translate_corpus([model], task, corpus(), GenerationConfig(), search)
    for document in DOCUMENTS:
        nbest = [next(results).nbest for _ in document]
        first = (len(document) - 1) // size * size if size > 1 else 0
        for nth in range(3):
            context = tuple(hypotheses[nth].text for hypotheses in nbest[first:-1])
            example = ForcedExample(tuple(document[first:-1]), document[-1], context, nbest[-1][nth].text)
            assert forced_scores([model], task, [example]) == pytest.approx([nbest[-1][nth].score], abs=1e-3)


#: Values tried of options without a list of choices, or with plug-ins in it; those that a model lacks are left out.
VALUES: dict[str, list[Any]] = {
    "attention": ["softmax", "linear"],
    "relative_horizon": [None, 0, 3],
    "levels": [1, 2, 3, 4],
    "source_context": [0, 1, 3],
    "target_window": [1, 2],
    "context_heads": [None, 1],
    "top_t": [1, 2, 5],
    "global_layers": [0, 1, 2],
    "previous_sentences": [1, 2],
    "context_word_dropout": [0.0, 0.3],
}


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in CASES.values()))
def test_any_combination_of_switches_is_refused_or_decodes_as_it_trains(name: str) -> None:
    draw, sizes = random.Random(name), {"encoder_layers": 2, "decoder_layers": 2, "embed_dim": 32, "heads": 2}
    options = settings(MODELS.config(name))
    values = {o.name: VALUES.get(o.name) or o.choices or ([True, False] if o.kind is bool else None) for o in options}
    drawn = [{key: draw.choice(of) for key, of in values.items() if of} for _ in range(300)]
    accepted = [chosen for chosen in drawn if not contradictions(MODELS.config(name)(**sizes, **chosen))]
    assert len(accepted) >= 4
    for chosen in accepted[:4]:
        model = build(name, **chosen).double()
        check_steps(model, batch(model))
