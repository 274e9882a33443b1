"""A translation model's source2token summaries as sentence vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from docnmt.cli import preprocess, train
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder, TranslationSummaries
from docnmt.runtime.system import UserError

TEXT = "the dog runs .\na cat sleeps .\n\nthe child sings .\na bird waits .\n"


def trained(folder: Path, arch: str) -> Path:
    """A model of one update."""
    for side in ("en", "de"):
        (folder / f"t.{side}").write_text(TEXT * 3)
    prefix, data, run = f"{folder}/t", f"{folder}/data", folder / arch
    common = ["-s", "en", "-t", "de", "--trainpref", prefix, "--validpref", prefix]
    assert preprocess.main([*common, "--destdir", data, "--overwrite"]) == 0
    options = ["--arch", arch, "--save-dir", str(run), "--max-update", "1", "--device", "cpu"]
    assert train.main([data, *options]) == 0
    return run


def test_batch_mates_change_nothing(tmp_path: Path) -> None:
    run = trained(tmp_path, "hier_cond_transformer_tiny")
    encode = TranslationSummaries(run, max_tokens=20)
    sentences = [["the", "dog", "runs", "."], ["a", "cat"], [], ["the", "child", "sings", "."]]
    together = encode(sentences)
    assert together.shape == (4, 128)
    np.testing.assert_allclose(together, np.concatenate([encode([s]) for s in sentences]), atol=1e-5)
    assert not np.allclose(together[0], together[3])
    with pytest.raises(UserError):
        SentenceEncoder.load(run)


def test_a_model_without_summaries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        TranslationSummaries(trained(tmp_path, "transformer_tiny"))
