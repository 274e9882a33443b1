"""One cell of the fusion study: the same digits again, and what its result says it was made with."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
cell = pytest.importorskip("cell")
evaluate = pytest.importorskip("evaluate")
order_tasks = pytest.importorskip("order_tasks")
origin = pytest.importorskip("origin")

from docnmt.cli import preprocess  # noqa: E402
from docnmt.other_tasks.classification import LabelledArrays  # noqa: E402
from docnmt.runtime.system import UsageError  # noqa: E402

OPTIONS = [
    "--arch", "fusion_classifier_tiny", "--encoder-layers", "1", "--embed-dim", "16", "--ffn-dim", "16", "--heads", "2",
    "--position-fusion", "gate_scalar", "--lr", "3e-3", "--lr-scheduler", "constant", "--warmup-updates", "0",
    "--max-sentences", "8", "--max-epoch", "2", "--best-checkpoint-metric", "accuracy", "--seed", "3",
]  # fmt: skip
#: What time and place change.
OF_THE_DAY = {"train_seconds", "test_seconds", "processor_seconds", "peak_memory"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty texts in which the first of two words is the label."""
    folder, random_ = tmp_path_factory.mktemp("cell"), random.Random(0)
    for split, count in (("train", 40), ("valid", 12), ("test", 20)):
        rows = []
        for _ in range(count):
            words = [random_.choice(["and", "of", "the"]) for _ in range(random_.randint(3, 9))]
            first, second = random_.sample(["a", "b"], 2)
            rows.append(f"{first}\t{first} {' '.join(words)} {second}. More of it.")
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}", str(folder / f"{split}.tsv"))]
    words = ["--task", "text_classification", *files, "--min-frequency", "1", "--destdir", str(folder / "data")]
    assert preprocess.main(words) == 0
    return folder / "data"


def scores(data: Path, folder: Path, *how: str, more: Sequence[str] = ()) -> dict[str, Any]:
    cell.body([str(data), str(folder), *how, "--", *OPTIONS, *more])
    known: dict[str, Any] = json.loads((folder / "scores.json").read_text())
    return known


def test_a_second_run_gives_the_same_digits(data: Path, tmp_path: Path) -> None:
    """Of everything that is measured, the model's every answer included; and so does a test of the kept checkpoint."""
    first = scores(data, tmp_path / "first", "--shuffle", "3", "0")
    again = scores(data, tmp_path / "again", "--shuffle", "3", "0")
    retested = scores(data, tmp_path / "first", "--retest", "--shuffle", "3", "0")
    assert (len(first["correct"]), first["train_texts"]) == (20, 40)
    for other in (again, retested):
        assert {k: v for k, v in other.items() if k not in OF_THE_DAY} == {
            k: v for k, v in first.items() if k not in OF_THE_DAY
        }
    assert retested["processor_seconds"] == first["processor_seconds"] > 0, "a retest is no part of the cost"
    assert first["commit"] == origin.commit(Path(cell.__file__).parent)
    assert first["processor"]
    assert first["matmul"] in ("default", "oneDNN")
    assert first["trees"].keys() == {"docnmt", "recipes/studies/fusion_matters"}
    assert [validation["update"] for validation in first["validations"]][-1] == first["train_updates"]


def test_a_cell_that_was_cut_short_ends_with_the_same_digits(data: Path, tmp_path: Path) -> None:
    every_third = ["--validate-interval-updates", "3"]  # so that the cut brings no validation of its own
    whole = scores(data, tmp_path / "whole", more=every_third)
    cut = scores(data, tmp_path / "cut", more=[*every_third, "--max-update", "3"])
    later = scores(data, tmp_path / "cut", more=every_third)
    assert cut["train_updates"] == 3 < whole["train_updates"]
    assert cut["validations"] == whole["validations"][:1]
    assert {k: v for k, v in later.items() if k not in OF_THE_DAY} == {
        k: v for k, v in whole.items() if k not in OF_THE_DAY
    }


def test_a_cell_that_chooses_does_not_read_the_test_part(data: Path, tmp_path: Path) -> None:
    measured = scores(data, tmp_path, "--valid-only")
    assert {"valid_accuracy", "valid_loss", "commit", "processor_seconds"} <= measured.keys()
    assert not {"accuracy", "correct", "confusion"} & measured.keys()


def test_windows_below_zero_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--shuffle: must be at least 0"):
        cell.body([str(tmp_path), str(tmp_path), "--shuffle", "-1"])


def test_words_stay_in_their_window_and_text() -> None:
    texts = [[[1, 2, 3], [4, 5]], [], [[6, 7, 8, 9]], [[10]]]
    arrays = LabelledArrays.from_texts(texts, [0, 1, 0, 1], vocab_size=20)
    assert (evaluate.shuffled(arrays, 1).sentences.tokens == arrays.sentences.tokens).all()
    three = evaluate.shuffled(arrays, 3)
    assert [set(part) for part in np.split(three.sentences.tokens, [3, 5, 8, 9])] == [
        {1, 2, 3},
        {4, 5},
        {6, 7, 8},
        {9},
        {10},
    ]
    whole = [evaluate.shuffled(arrays, 0, seed=seed) for seed in range(20)]
    assert all(
        [set(w.sentences.tokens[:5]), set(w.sentences.tokens[5:9])] == [{1, 2, 3, 4, 5}, {6, 7, 8, 9}] for w in whole
    )
    assert len({tuple(w.sentences.tokens) for w in whole}) > 15, "another seed, another order"
    assert (three.token_offsets == arrays.token_offsets).all()
    for window in (3, 0):
        cut = evaluate.shuffled(arrays, window, 4)
        assert [set(part) for part in np.split(cut.sentences.tokens, [4, 5, 9])] == [
            {1, 2, 3, 4},
            {5},
            {6, 7, 8, 9},
            {10},
        ]


def test_a_generated_task_is_measured_by_length(tmp_path: Path) -> None:
    """Trained at up to 64 words, tested at 64 and 128: as many texts of each."""
    order_tasks.body(["first", str(tmp_path), "--training-texts", "40", "--test-texts", "3", "--longest", "128"])
    files = [word for name in ("train", "valid", "test") for word in (f"--{name}", str(tmp_path / f"{name}.jsonl"))]
    assert preprocess.main(["--task", "text_classification", *files, "--destdir", str(tmp_path / "data")]) == 0
    groups = scores(tmp_path / "data", tmp_path / "cell")["by_text_length"]
    assert [(group["up_to"], group["texts"]) for group in groups] == [(64, 3), (128, 3)]
