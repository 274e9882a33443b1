"""--read-all-updates: every sentence is read in training only, for so many updates, and the same after a resume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_system
import torch

from docnmt.core.batch import collate
from docnmt.core.units import document_units
from docnmt.modules.document_context import ConditionalAttention, tell_update


@pytest.mark.parametrize("arch", ["cond_transformer_tiny", "hier_cond_transformer_tiny"])
def test_every_sentence_is_read_at_first_in_training_only(arch: str) -> None:
    model = small_system.model(arch).double()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    contexts = [module for module in model.modules() if isinstance(module, ConditionalAttention)]
    corpus = small_system.corpus(small_system.text(3, 9, seed=3))
    corpus = replace(corpus, target=corpus.source)
    units = document_units(corpus.document_offsets)
    batch = collate(corpus, units, np.arange(3), model.reading)

    def output(top_t: int, read_all: int, update: int, training: bool) -> torch.Tensor:
        for context in contexts:
            context.policy, context.read_all_updates = replace(context.policy, top_t=top_t), read_all
        tell_update(model, update)
        torch.manual_seed(0)
        result: torch.Tensor = model.train(training)(batch).detach()
        return result

    every, one = output(9, 0, 0, True), output(1, 0, 0, True)
    assert not torch.allclose(every, one)
    torch.testing.assert_close(output(1, 5, 4, True), every)
    torch.testing.assert_close(output(1, 5, 5, True), one)
    torch.testing.assert_close(output(1, 5, 4, False), output(1, 0, 0, False))
