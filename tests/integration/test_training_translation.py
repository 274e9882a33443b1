"""`docnmt-train` on documents: what the toy task cannot show."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from toy import assert_same_checkpoint, log
from trainings import LAST, SMALL, backwards

from docnmt.cli.inspect import main as inspect
from docnmt.cli.train import main as train
from docnmt.core.training.checkpoint import load_model


def test_tensorboard_shows_translations_and_options(data: Path, tmp_path: Path) -> None:
    """The same training with and without it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    command = [str(data), "--arch", "transformer", *SMALL.split(), "--max-tokens", "150", "--max-update", "3"]
    board = ["--tensorboard-logdir", str(tmp_path / "board")]
    for name, more in (("with", board), ("without", [])):
        assert train([*command, "--save-dir", str(tmp_path / name), *more]) == 0
    assert_same_checkpoint(tmp_path / "with" / LAST, tmp_path / "without" / LAST)
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    (shown,) = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("translations/text_summary")]
    source = (data.parent / "valid.en").read_text().splitlines()[:5]
    cells = [row.strip("| ").split(" | ") for row in shown.splitlines()]
    assert cells[0] == ["source", "translation", "reference"]
    assert [row[0] for row in cells[2:]] == source
    assert [row[-1] for row in cells[2:]] == [backwards(line)[0] for line in source]
    options = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"optimization.lr" in options
    assert "valid/loss" in events.Tags()["scalars"]


def test_a_loaded_model_has_the_validation_loss_in_the_log(data: Path, tmp_path: Path) -> None:
    """Two routes to one number: the log's, and the loss of the loaded best model on the validation documents."""
    from docnmt.core.data_options import DocumentTranslationConfig
    from docnmt.core.training.criterions import CrossEntropy
    from docnmt.core.translation_task import DocumentTranslation

    run = tmp_path / "run"
    command = [str(data), "--arch", "hier_cond_transformer", *SMALL.split(), "--max-tokens", "150"]
    assert train([*command, "--save-dir", str(run), "--max-epoch", "2"]) == 0
    model = load_model(run).model
    dataset = DocumentTranslation.load(DocumentTranslationConfig(), data).dataset("valid", model)
    with torch.no_grad():
        parts = [CrossEntropy(label_smoothing=0.0)(model, dataset.batch([u])) for u in range(len(dataset.sizes))]
    nll = sum(float(loss) for loss, _, _ in parts) / sum(size for _, size, _ in parts)
    logged = min(log(run, ["valid"]), key=lambda line: line["loss"])["nll"]
    assert nll == pytest.approx(logged, rel=1e-5)


def test_an_option_of_none_is_in_what_repeats_the_run(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--relative-horizon none`, where the default is 4: the run's own configuration and its model card say it."""
    first, second = tmp_path / "first", tmp_path / "second"
    command = [str(data), "--arch", "scaleformer", *SMALL.split(), "--relative-horizon", "none", "--max-update", "2"]
    assert train([*command, "--save-dir", str(first)]) == 0
    assert train(["--config", str(first / "config.yaml"), "--save-dir", str(second)]) == 0
    assert_same_checkpoint(first / LAST, second / LAST)
    capsys.readouterr()
    assert inspect(["--card", str(first)]) == 0
    assert " --relative-horizon=none" in capsys.readouterr().out
