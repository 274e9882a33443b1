"""Sentence vectors from a translation model: its source2token summaries, each sentence encoded by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from docnmt.core.batch import collate_source, planned_units, sentence_costs
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.models.encoder_decoder import EncoderDecoder, TranslationTask
from docnmt.core.training.checkpoint import load_model
from docnmt.other_tasks.sentence_vectors.data import by_length
from docnmt.runtime.errors import UserError


class TranslationSummaries:
    """The summaries by which a trained document model's decoder selects sentences, as sentence vectors.

    Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", eq. 1-2.

    Args:
        path: a checkpoint, or a `--save-dir`, of which the best is loaded.

    Raises:
        UserError: the model is no translation model or has no summaries.
    """

    def __init__(self, path: str | Path, *, max_tokens: int = 4096) -> None:
        loaded = load_model(path)
        model, task = loaded.model, loaded.task
        summarise = model.decoder.summarise if isinstance(model, EncoderDecoder) else None
        if not isinstance(model, EncoderDecoder) or summarise is None or not isinstance(task, TranslationTask):
            raise UserError(
                f"{path}: this {loaded.arch} makes no sentence summaries; give a hier_ or cond_transformer whose "
                "decoder reads context (--context-sides both or decoder)"
            )
        self.summarise = summarise
        self.model, self.task, self.max_tokens = model, task, max_tokens

    @torch.no_grad()
    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Encode tokenised sentences as (N, d), float32; every sentence is a document of its own."""
        lines = [" ".join(sentence) for sentence in sentences]
        corpus = ParallelCorpus.from_lines([[line] for line in lines], self.task.source_tokenizer)
        units = planned_units(self.model.reading, corpus)
        vectors = np.zeros((len(sentences), self.model.output.in_features), np.float32)
        for rows in by_length(sentence_costs(corpus), self.max_tokens):
            source = collate_source(corpus, units, rows, self.model.reading)
            store = self.summarise(self.model.encoder(source), source.layout)
            vectors[rows] = store.summaries.float().numpy()
        return vectors
