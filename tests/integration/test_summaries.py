"""A translation model's source2token summaries as sentence vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from docnmt.cli import train
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder, TranslationSummaries
from docnmt.runtime.system import UserError


def trained(data: Path, folder: Path, arch: str) -> Path:
    """A model of one update."""
    options = ["--arch", arch, "--save-dir", str(folder / arch), "--max-update", "1", "--device", "cpu"]
    assert train.main([str(data), *options]) == 0
    return folder / arch


def test_batch_mates_change_nothing(data: Path, tmp_path: Path) -> None:
    run = trained(data, tmp_path, "hier_cond_transformer_tiny")
    encode = TranslationSummaries(run, max_tokens=20)
    sentences = [["abc", "de"], ["gh"], [], ["hag", "fed", "b"]]
    together = encode(sentences)
    assert together.shape == (4, 128)
    np.testing.assert_allclose(together, np.concatenate([encode([s]) for s in sentences]), atol=1e-5)
    assert not np.allclose(together[0], together[3])
    with pytest.raises(UserError):
        SentenceEncoder.load(run)


def test_a_model_without_summaries_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        TranslationSummaries(trained(data, tmp_path, "transformer_tiny"))
