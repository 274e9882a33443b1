"""A model that has learned to write sentences backwards says which word each word comes from."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import small_system
import torch

from docnmt.apps.commands.output import with_alignments
from docnmt.apps.commands.translating import LoadedModels, Translating
from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import ParallelCorpus, TokenArray
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.training.criterions import CrossEntropy
from docnmt.registry import MODELS


def backwards(line: str) -> str:
    return " ".join(reversed(line.split()))


def test_words_are_aligned_to_where_they_come_from() -> None:
    torch.manual_seed(0)
    rng, task, tokenizer = random.Random(0), small_system.task(), small_system.tokenizer()
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "embed_dim": 64, "heads": 2, "ffn_dim": 96, "dropout": 0.0}
    model = task.build_model(MODELS.get("transformer"), MODELS.config("transformer")(**sizes))
    criterion, optimizer = CrossEntropy(label_smoothing=0.0), torch.optim.Adam(model.parameters(), lr=0.004)
    for _ in range(250):
        lines = [" ".join(rng.choices(small_system.WORDS, k=rng.randint(2, 6))) for _ in range(64)]
        written = TokenArray.from_lists(tokenizer.encode(list(map(backwards, lines))), tokenizer.vocab_size)
        corpus = replace(ParallelCorpus.from_lines([[line] for line in lines], tokenizer), target=written)
        units = planned_units(model.reading, corpus)
        total, count, _ = criterion(model, collate(corpus, units, np.arange(len(units)), model.reading))
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    loaded = LoadedModels((Path("backwards"),), (model.eval(),), task)
    lines = [" ".join(rng.sample(small_system.WORDS, k=rng.randint(2, 6))) for _ in range(60)]
    corpus = ParallelCorpus.from_lines([lines[:30], lines[30:]], tokenizer)
    options, search = GenerationConfig(), BeamSearchConfig(beam=2, nbest=2)
    translating = Translating(loaded, options, search)
    results = translating.results(corpus)
    right = words = 0
    for result, (pairs, other) in with_alignments(translating.aligned, corpus, results):
        source = lines[result.number].split()
        assert all(i < len(source) and j < len(result.nbest[1].text.split()) for i, j in other)
        if result.text == backwards(lines[result.number]):
            right += sum(i == len(source) - 1 - j for i, j in pairs)
            words += len(source)
    assert words > 150
    assert right > 0.9 * words
