"""The study runner and its report: cells, resuming, tables from the cells' own files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
sys.path.insert(0, str(Path(__file__).parents[1] / "tools" / "fusion_matters"))
figures = pytest.importorskip("figures")
report = pytest.importorskip("report")
results_of = pytest.importorskip("results").Results
run = pytest.importorskip("run")
study_of = pytest.importorskip("study")

from docnmt.errors import UserError  # noqa: E402

STUDY = """
data: ag_news
train: {arch: fusion_classifier_tiny, lr: 1.0e-3, dropout: 0.0}
grid:
  - {positions: [sinusoidal, learned], fusions: [add, gate_scalar]}
variants:
  no_sqrt: {scale-embeddings: false, norm-after-fusion: true}
reference: sinusoidal.add
seeds: 3
"""


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(STUDY)
    return tmp_path / "small.yaml"


def write_result(path: Path, cell: Any, accuracy: float, **more: Any) -> None:
    path.mkdir(parents=True)
    result = {
        "options": list(cell.options), "fingerprint": "f", "accuracy": accuracy, "macro_f1": accuracy - 0.1,
        "accuracy_at_length": {"128": accuracy - 0.2, "256": accuracy}, "parameters": 10, "fusion_parameters": 2,
        "by_text_length": [{"up_to": 64, "texts": 10, "right": 5}, {"up_to": 128, "texts": 4, "right": 3}],
        "train_updates": 7, "train_seconds": 60.0, "test_seconds": 1.5, **more,
    }  # fmt: skip
    (path / "result.json").write_text(json.dumps(result))


def write_all(study: Any, runs: Path) -> None:
    for cell in study.cells():
        if (cell.variant, cell.seed) != ("no_sqrt", 2):
            gain = {"learned.add": 0.01 * (cell.seed + 1), "no_sqrt": 0.0}.get(cell.variant, 0.0)
            write_result(cell.folder(runs), cell, 0.5 + 0.1 * cell.seed + gain)


def test_cells_come_seed_by_seed_with_their_options(study_file: Path) -> None:
    study = study_of.read_study(study_file)
    cells = study.cells()
    assert [cell.seed for cell in cells] == [0] * 5 + [1] * 5 + [2] * 5
    assert [cell.variant for cell in cells[:5]] == [
        "sinusoidal.add", "sinusoidal.gate_scalar", "learned.add", "learned.gate_scalar", "no_sqrt",
    ]  # fmt: skip
    common = ("--arch", "fusion_classifier_tiny", "--lr", "0.001", "--dropout", "0.0")
    assert cells[1].options == (*common, "--position", "sinusoidal", "--position-fusion", "gate_scalar")
    assert cells[4].options == (*common, "--no-scale-embeddings", "--norm-after-fusion")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("reference: sinusoidal.add", "reference: other"), "the reference 'other' is none of the variants"),
        (("seeds: 3", "seed: 3"), "expected the keys data, train, reference"),
        (("data: ag_news", "data: [ag_news"), "cannot be read"),
    ],
)
def test_faulty_study_files_are_named(study_file: Path, change: tuple[str, str], message: str) -> None:
    study_file.write_text(STUDY.replace(*change))
    with pytest.raises(UserError, match=rf"small\.yaml: .*{message}"):
        study_of.read_study(study_file)


def test_a_done_cell_is_known_and_other_options_are_refused(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.json").write_text(json.dumps({"format": 1, "task": "text_classification", "fingerprint": "f"}))
    runner = run.Runner(data, tmp_path / "runs", 1)
    first, second, third = study.cells()[:3]
    write_result(first.folder(runner.runs), first, 0.5)
    write_result(second.folder(runner.runs), first, 0.5)
    write_result(third.folder(runner.runs), third, 0.5, fingerprint="other")
    assert runner.is_done(first)
    assert not runner.is_done(study.cells()[3])
    for cell, what in ((second, "options"), (third, "fingerprint")):
        with pytest.raises(UserError, match=f"made with other {what}"):
            runner.is_done(cell)


def test_report_says_what_the_cells_say(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    write_all(study, tmp_path / "runs")
    (tmp_path / "runs" / "small" / "svm.json").write_text(json.dumps({"accuracy": 0.88, "macro_f1": 0.87}))
    text = report.report(results_of.read(study, tmp_path / "runs"))
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ") for line in reversed(text.splitlines())}
    reference, learned = rows["sinusoidal.add"], rows["learned.add"]
    assert reference[1:5] == ["3", "60.00 ± 10.00", "91.15 ± 0.08", "50.00 ± 10.00"]
    assert learned[2] == "62.00 ± 11.00"
    assert learned[5].startswith("+2.00 [")
    assert learned[6] == "3/3"
    assert float(learned[8]) == 0.25, "three pairs: two of eight signs are as far from 0"
    assert rows["no_sqrt"][1] == "2"
    assert rows["TF-IDF + linear SVM"][2] == "88.00"
    assert "Not run yet (variant, seeds): no_sqrt [2]." in text
    assert "| sinusoidal | 60.00 ± 10.00 | 60.00 ± 10.00 |" in text
    assert "| sinusoidal, published | 91.15 ± 0.08 | 91.07 ± 0.09 |" in text


def test_figures_are_drawn(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    write_all(study, tmp_path / "runs")
    paths = figures.draw_figures(results_of.read(study, tmp_path / "runs"), tmp_path / "figures")
    assert [path.name for path in paths] == ["fusion-small-deltas.png", "fusion-small-lengths.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_no_results_is_said(study_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no cell is finished"):
        results_of.read(study_of.read_study(study_file), tmp_path)


def test_the_studies_of_the_recipes_can_be_run() -> None:
    """Every option of every recipe exists and every variant is a model that makes sense."""
    from docnmt.cli import train

    files = sorted((Path(__file__).parents[1] / "recipes" / "fusion_matters").glob("*.yaml"))
    assert files
    for file in files:
        for cell in study_of.read_study(file).cells():
            if cell.seed == 0:
                train.parse(["data", "--task", "text_classification", "--save-dir", "run", *cell.options])


def test_variance_that_groups_explain() -> None:
    gates = pytest.importorskip("gates")
    np = pytest.importorskip("numpy")
    words = np.array([0, 1, 0, 1, 2, 2])
    assert gates.explained(np.array([0.1, 0.9, 0.1, 0.9, 0.4, 0.4]), words) == pytest.approx(1)
    assert gates.explained(np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0]), words) == pytest.approx(0)
    assert gates.explained(np.full(6, 0.5), words) == 0
