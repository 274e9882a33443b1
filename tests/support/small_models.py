"""Models of one small task, in single precision, a corpus for them, and a tokenizer of numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
import torch

from docnmt.core.batch import TranslationBatch, collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.search.config import GenerationConfig
from docnmt.core.search.translate import SentenceResult, translate_corpus
from docnmt.options import contradictions
from docnmt.registry import MODELS

#: Models that write several sentences as one sequence.
JOINED: list[tuple[str, dict[str, Any]]] = [
    ("doc_transformer", {}),
    ("doc_transformer", {"position": "sinusoidal"}),
    ("doc_transformer", {"position_count": "document"}),
    ("doc_transformer", {"position_count": "mixed", "learned_words": True, "max_positions": 40}),
    ("doc_transformer", {"source_breaks": False}),
    ("doc_transformer", {"position": "none"}),
    ("doc_transformer", {"position": "rope"}),
    ("doc_transformer", {"attention": "linear", "position": "relative"}),
    ("scaleformer", {}),
    ("scaleformer", {"position": "multi_level", "relative_horizon": 4}),
    ("concat_transformer", {}),
    ("concat_transformer", {"target_window": 2}),
    ("concat_transformer", {"target_window": 2, "source_breaks": False, "position": "sinusoidal"}),
    ("concat_transformer", {"source_context": 3, "target_window": 2, "position": "multi_level"}),
    ("g_transformer", {}),
    ("g_transformer", {"global_layers": 1, "position": "relative", "norm": "post"}),
    ("g_transformer", {"global_layers": 0, "position": "sinusoidal"}),
    ("han", {}),
    ("han", {"han_sides": "decoder", "previous_sentences": 1, "position": "rope"}),
]
#: Models that read their own translations.
OWN_TEXT: list[tuple[str, dict[str, Any]]] = [
    ("hier_transformer", {"target_context": "summaries"}),
    ("hier_transformer", {"target_context": "conditional", "norm": "post"}),
    ("cond_transformer", {"target_context": "conditional", "target_top_t": 2, "context_placement": "heads"}),
    ("cond_transformer", {"target_context": "summaries", "context_sides": "encoder"}),
    ("hier_cond_transformer", {"target_context": "conditional", "target_top_t": 1, "attention": "linear"}),
    ("hier_cond_transformer", {"target_context": "summaries", "always_own_sentence": True, "position": "rope"}),
]
DOCUMENTS = small_system.text(4, 4)


def build(name: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "embed_dim": 32, "heads": 2, "ffn_dim": 48, "dropout": 0.0}
    config = MODELS.config(name)(**{**sizes, **settings})
    assert contradictions(config) == []
    model = small_system.task().build_model(MODELS.get(name), config)
    with torch.no_grad():
        model.output.weight.mul_(4.0)
    return model.eval()


def corpus() -> ParallelCorpus:
    """DOCUMENTS with a target side: the same sentences backwards."""
    source = small_system.corpus(DOCUMENTS)
    backwards = [" ".join(reversed(line.split())) for document in DOCUMENTS for line in document]
    return replace(source, target=small_system.corpus([backwards]).source)


def batch(model: Any) -> TranslationBatch:
    data = corpus()
    units = planned_units(model.reading, data)
    return collate(data, units, np.arange(len(units)), model.reading)


def translate(
    models: Any, documents: list[list[str]] = DOCUMENTS, search: Any = None, generator: str = "beam_search",
    window: int | None = None, task: Any = None, given: Any = None, **options: Any,
) -> list[SentenceResult]:  # fmt: skip
    """The sentences of some documents in their order."""
    settings, text = GenerationConfig(generator=generator, **options), small_system.corpus(documents)
    results = translate_corpus(
        models if isinstance(models, list) else [models], task or small_system.task(), text, settings, search,
        given=given, context_window=window,
    )  # fmt: skip
    return list(results)


def assert_same(first: list[SentenceResult], second: list[SentenceResult]) -> None:
    for one, other in zip(first, second, strict=True):
        assert [t.text for t in one.nbest] == [t.text for t in other.nbest]
        assert [t.score for t in one.nbest] == pytest.approx([t.score for t in other.nbest], rel=1e-5, abs=1e-4)


class Numbers:
    """A target tokenizer whose text is the token numbers: every hypothesis is the segmentation of its text."""

    vocab_size = small_system.tokenizer().vocab_size
    pieces = small_system.tokenizer().pieces

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[int(word) for word in line.split()] for line in lines]

    def decode(self, ids: tuple[int, ...]) -> str:
        return " ".join(map(str, ids))
