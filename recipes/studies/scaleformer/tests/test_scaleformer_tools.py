"""The generated task of recipes/studies/scaleformer, and the loss by position."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import small_system
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import loss_by_position
import neighbours

from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.train import main as train
from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.training.criterions import CrossEntropy


def test_the_word_before_decides_and_nothing_else(tmp_path: Path) -> None:
    neighbours.main(["--out", str(tmp_path), "--documents", "40", "--tested", "7", "--sentences", "3"])
    for name, documents, times in (("train", 40, 1), ("test", 7, 1), ("test-2-times", 7, 2), ("test-4-times", 7, 4)):
        sides = [(tmp_path / f"{name}.{language}").read_text().split("\n\n") for language in ("src", "tgt")]
        assert [len(side) for side in sides] == [documents] * 2
        for source, target in zip(*sides, strict=True):
            lines = [text.strip().split("\n") for text in (source, target)]
            assert [len(side) for side in lines] == [3 * times] * 2
            for words, written in zip(*([line.split() for line in side] for side in lines), strict=True):
                half = [neighbours.WORDS.index(word) % 2 for word in words]
                assert written == [f"{'xy'[([0, 0, *half])[n]]}{word}" for n, word in enumerate(words)]


@pytest.mark.parametrize("arch", ["scaleformer_tiny", "hier_transformer_tiny"])
def test_losses_by_position_add_up_to_the_loss(arch: str) -> None:
    model, documents = small_system.model(arch), small_system.text(5, 4)
    one = small_system.corpus(documents)
    data = ParallelCorpus(**{**vars(one), "target": one.source})
    units = planned_units(model.reading, data)
    batch = collate(data, units, np.arange(len(units)), model.reading)
    with torch.no_grad():
        total, count, _ = CrossEntropy(label_smoothing=0.0)(model, batch)
    sums = loss_by_position.by_place(model, data, 5, "cpu")
    assert sums[:, 2].sum() == count
    assert sums[:, 0].sum() == pytest.approx(float(total), rel=1e-5)
    assert len(sums) == -(-batch.target.layout.sentences.max_length // 5)


def test_from_the_task_to_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The steps of run.sh; each word is one subword, so places are the same on both sides."""
    corpus, data = tmp_path / "corpus", tmp_path / "data"
    neighbours.main(["--out", str(corpus), "--documents", "200", "--tested", "3"])
    texts = [f"--{split}pref={corpus / split}" for split in ("train", "valid")]
    tests = [str(corpus / name) for name in ("test", "test-2-times", "test-4-times")]
    arguments = ["-s", "src", "-t", "tgt", *texts, "--testpref", *tests, "--destdir", str(data)]
    assert preprocess([*arguments, "--subword-model", "bpe", "--vocab-size", "220"]) == 0
    longest, words = ParallelCorpus.open(data, "test2"), lines(corpus / "test-4-times.src")
    assert longest.target is not None
    for side in (longest.source, longest.target):
        assert side.lengths().tolist() == [len(line.split()) for line in words]
    run = ["--arch", "scaleformer_tiny", "--relative-horizon", "4", "--no-cross-relative", "--max-tokens", "500"]
    assert train([str(data), "--save-dir", str(tmp_path / "run"), *run, "--max-update", "1"]) == 0
    capsys.readouterr()
    out = tmp_path / "positions.json"
    asked = ["--path", str(tmp_path / "run"), "--gen-subset", "test", "test2", "--width", "50", "--json", str(out)]
    loss_by_position.main([str(data), *asked])
    splits = json.loads(out.read_text())["splits"]
    assert capsys.readouterr().out.count("\n| ") == 2 * 2 + len(splits["test"]) + len(splits["test2"])
    assert [row["first"] for row in splits["test2"]] == list(range(0, 50 * len(splits["test2"]), 50))
    with pytest.raises(SystemExit):
        loss_by_position.main([str(data), "--path", "x", "--width", "0"])
    assert "--width: expected at least 1" in capsys.readouterr().err


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line]
