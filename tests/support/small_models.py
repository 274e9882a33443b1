"""Models of one small task, in single precision, a corpus for them, and a tokenizer of numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import small_system
import torch

from docnmt.core.batch import TranslationBatch, collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.units import Units
from docnmt.options import contradictions
from docnmt.registry import MODELS

DOCUMENTS = small_system.text(4, 4)


def build(name: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "embed_dim": 32, "heads": 2, "ffn_dim": 48, "dropout": 0.0}
    config = MODELS.config(name)(**sizes, **settings)
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
    return collated(model, data, units, np.arange(len(units)))


def collated(model: Any, data: ParallelCorpus, units: Units, chosen: np.ndarray) -> TranslationBatch:
    return collate(data, units, chosen, model.reading)


def assert_steps_equal_the_row(model: Any) -> None:
    """Both routes to the scores of every target token, with gold tokens as what has been written."""
    data = batch(model)
    offsets, lengths = data.target.layout.sentence_offsets.tolist(), data.target.layout.sentences.lengths.tolist()
    with torch.no_grad():
        whole = model.output(model(data))
        memory = model.encode(data.source)
        earlier = [gold_before(model, data, memory, slot) for slot in range(len(lengths))]
        begin = model.begin if not model.reading.own_text else partial(model.begin, earlier=earlier)
        state = begin(memory, torch.arange(len(lengths)), 2)
        for i in range(max(lengths)):
            places = [begin + min(i, n - 1) for begin, n in zip(offsets[:-1], lengths, strict=True)]
            logits = model.step(data.target.tokens[places].repeat_interleave(2), state)
            for slot, n in enumerate(lengths):
                if i < n:
                    assert torch.allclose(logits[2 * slot + 1], whole[places[slot]], atol=1e-10)


def gold_before(model: Any, data: TranslationBatch, memory: Any, sentence: int) -> list[Any]:
    """What a model that reads its own text would read before a sentence, had it written the reference."""
    if not model.reading.own_text:
        return []
    layout, tokens = data.target.layout, data.target.tokens
    first = int(layout.document_offsets[layout.document_of_sentence[sentence]])
    offsets = layout.sentence_offsets.tolist()
    return [model.remember(memory, n, tokens[offsets[n] + 1 : offsets[n + 1]].tolist()) for n in range(first, sentence)]


class Numbers:
    """A target tokenizer whose text is the token numbers: every hypothesis is the segmentation of its text."""

    vocab_size = small_system.tokenizer().vocab_size
    pieces = small_system.tokenizer().pieces

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[int(word) for word in line.split()] for line in lines]

    def decode(self, ids: tuple[int, ...]) -> str:
        return " ".join(map(str, ids))
