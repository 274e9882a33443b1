"""The study runner and its report: cells, resuming, tables from the cells' own files."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

stats = pytest.importorskip("scipy.stats")
pytest.importorskip("matplotlib")
sys.path.insert(0, str(Path(__file__).parents[1]))
choice = pytest.importorskip("choice")
family_tables = pytest.importorskip("family_tables")
figures = pytest.importorskip("figures")
latency = pytest.importorskip("latency")
report = pytest.importorskip("report")
results_of = pytest.importorskip("results").Results
run = pytest.importorskip("run")
study_of = pytest.importorskip("study")

from docnmt.core.corpus import write_meta  # noqa: E402
from docnmt.runtime.system import UserError  # noqa: E402

STUDY = """
data: ag_news
train: {arch: fusion_classifier_tiny, lr: 1.0e-3, dropout: 0.0}
grid:
  - {positions: [sinusoidal, learned], fusions: [add, gate_scalar]}
variants:
  no_sqrt: {scale-embeddings: false, norm-after-fusion: true}
reference: sinusoidal.add
contrasts:
  - [learned.add, sinusoidal.add]
  - [no_sqrt, learned.gate_scalar]
seeds: 3
"""

FINGERPRINT = hashlib.sha256(b"text_classification").hexdigest()[:32]  # of a folder without files


def write_data(folder: Path) -> None:
    """A data folder of the task, without arrays."""
    write_meta(folder, task="text_classification", files={}, vocabulary="words", labels=["0", "1"], options={})


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(STUDY)
    return tmp_path / "small.yaml"


def write_result(path: Path, cell: Any, accuracy: float, **more: Any) -> None:
    path.mkdir(parents=True)
    result = {
        "options": list(cell.options), "fingerprint": FINGERPRINT, "accuracy": accuracy, "macro_f1": accuracy - 0.1,
        "valid_accuracy": accuracy + 0.1,
        "accuracy_at_length": {"128": accuracy - 0.2, "256": accuracy}, "parameters": 10, "fusion_parameters": 2,
        "by_text_length": [{"up_to": 64, "texts": 10, "right": 5}, {"up_to": 128, "texts": 4, "right": 3}],
        "train_updates": 7, "train_seconds": 60.0, "test_seconds": 1.5, "best_update": 5, "peak_memory": 2 * 10**9,
        "made_on": "docnmt, torch", "threads": 1, "commit": "0123456789ab", "processor_seconds": 70.0,
        "accuracy_shuffled": {"3": accuracy - 0.1, "0": accuracy - 0.3},
        "validations": [{"update": n, "loss": 1.0, "accuracy": a} for n, a in enumerate((0.5, 0.6, 0.6, 0.55))],
        "correct": ("1" * round(10 * accuracy)).ljust(10, "0"),
        "gate": {"mean": 0.5, "sd": 0.1, "words": 0.3, "places": 0.01, "along": [0.25, 0.75]}
        if "gate" in cell.variant else None,
        **more,
    }  # fmt: skip
    (path / "result.json").write_text(json.dumps(result))


def write_all(study: Any, runs: Path) -> None:
    for cell in study.cells():
        if (cell.variant, cell.seed) != ("no_sqrt", 2):
            gain = {"learned.add": 0.01 * (cell.seed + 1), "no_sqrt": 0.0}.get(cell.variant, 0.0)
            write_result(cell.folder(runs), cell, 0.5 + 0.1 * cell.seed + gain)


def rows_of(text: str) -> dict[str, list[str]]:
    """The first table row of each name."""
    return {line.split(" | ")[0].removeprefix("| "): line.split(" | ") for line in reversed(text.splitlines())}


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
        (("reference: sinusoidal.add", "reference: other"), "'other' is none of the variants"),
        (("[no_sqrt, learned", "[nope, learned"), "'nope' is none of the variants"),
        (("reference: sinusoidal.add", "# none"), "lacks reference"),
        (("[no_sqrt, learned.gate_scalar]", "[no_sqrt]"), "a value is not of the form"),
        (("seeds: 3", "test_units: novels"), "test_units: expected texts or labels, got 'novels'"),
        (("seeds: 3", "choose: {lr: []}"), "choose: lr has no values"),
        (("seeds: 3", "shuffle: [3, -1]"), "shuffle: must be at least 0 .the whole text., got -1"),
        (("seeds: 3", "seed: 3"), "there is no key seed; there are cells, choice_seeds, choose, contrasts"),
        (("data: ag_news", "data: [ag_news"), "cannot be read"),
        (("fusions:", "fusion:"), "a block of grid, or plan, lacks 'fusions'"),
        (("seeds: 3", "seeds: many"), "a value is not of the form"),
        (("seeds: 3", "seeds: 0"), "seeds: must be at least 1, got 0"),
    ],
)
def test_faulty_study_files_are_named(study_file: Path, change: tuple[str, str], message: str) -> None:
    study_file.write_text(STUDY.replace(*change))
    with pytest.raises(UserError, match=rf"small\.yaml: .*{message}"):
        study_of.read_study(study_file)


def test_a_done_cell_is_known_and_other_options_are_refused(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    data = tmp_path / "data"
    (data / "ag_news").mkdir(parents=True)
    write_data(data / "ag_news")
    runner = run.Runner(data, tmp_path / "runs", 1)
    first, second, third = study.cells()[:3]
    write_result(first.folder(runner.runs), first, 0.5)
    write_result(second.folder(runner.runs), first, 0.5)
    write_result(third.folder(runner.runs), third, 0.5, fingerprint="other")
    assert runner.is_done(first)
    assert not runner.is_done(study.cells()[3])
    for cell, what in ((second, "options"), (third, "data")):
        with pytest.raises(UserError, match=f"made with other {what}"):
            runner.is_done(cell)
    (first.folder(runner.runs) / "result.json").write_text("{")
    with pytest.raises(UserError, match=r"result\.json: cannot be read: .* delete it to run the cell again"):
        runner.is_done(first)


def test_studies_of_one_folder_share_cells(study_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(STUDY.replace("fusions: [add, ", "fusions: [mlp, add, ") + "cells: small\n")
    both = [study_of.read_study(study_file), study_of.read_study(other)]
    mine, theirs = both[0].cells()[0], both[1].cells()[1]
    assert mine.folder(tmp_path) == theirs.folder(tmp_path) == tmp_path / "small" / "sinusoidal.add" / "seed-0"
    assert len(run.chosen(both, None, None)) == 3 * 7, "a cell of both is run once"


def test_finished_cells_are_tested_again_and_nothing_is_trained(
    study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, open_cell = study_of.read_study(study_file).cells()[:2]
    write_result(cell.folder(tmp_path), cell, 0.5)
    (tmp_path / "ag_news").mkdir()
    write_data(tmp_path / "ag_news")
    called = []

    def call(runner: Any, arguments: list[str], folder: Path) -> None:
        called.append(Path(arguments[0]).name)
        (folder / run.SCORES).write_text(json.dumps({"accuracy": 0.6}))

    monkeypatch.setattr(run.Runner, "_call", call)
    assert run.run_all(run.Runner(tmp_path, tmp_path, 1, retest=True), [cell, open_cell], 1) == 0
    assert called == ["cell.py"]
    assert cell.result(tmp_path)["accuracy"] == 0.6


def test_a_runner_that_is_stopped_ends_its_processes_and_begins_no_other(tmp_path: Path) -> None:
    runner = run.Runner(tmp_path, tmp_path, 1)
    with ThreadPoolExecutor() as pool:
        future = pool.submit(runner._call, ["-c", "import time; time.sleep(600)"], tmp_path)
        while not runner.processes:
            time.sleep(0.01)
        runner.stop()
        with pytest.raises(UserError, match="exit status -15"):
            future.result(timeout=60)
    with pytest.raises(UserError, match="stopped"):
        runner._call(["-c", ""], tmp_path)


def test_the_error_of_a_command_is_told_with_its_log(tmp_path: Path) -> None:
    runner = run.Runner(tmp_path, tmp_path, 1)
    (tmp_path / "log.txt").write_text("docnmt-train: error: of an earlier day\n")
    script = "import sys; print('docnmt-train: error: disk full'); print('another process'); sys.exit(3)"
    with pytest.raises(UserError, match=r"log\.txt: exit status 3: docnmt-train: error: disk full$"):
        runner._call(["-c", script], tmp_path)
    with pytest.raises(UserError, match=r"exit status 1: $"):
        runner._call(["-c", "import sys; sys.exit(1)"], tmp_path)


def test_variants_and_seeds_that_the_study_lacks_are_named(study_file: Path) -> None:
    study = study_of.read_study(study_file)
    twice = [study, study]
    assert [(c.variant, c.seed) for c in run.chosen(twice, ["no_sqrt"], [0, 2])] == [("no_sqrt", 0), ("no_sqrt", 2)]
    with pytest.raises(UserError, match=r"--variants: there is no nope; there are sinusoidal\.add"):
        run.chosen([study], ["nope"], None)
    with pytest.raises(UserError, match="--seeds: there is no 3; there are 0 to 2"):
        run.chosen([study], None, [1, 3])


def test_report_says_what_the_cells_say(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    write_all(study, tmp_path / "runs")
    svm = {"accuracy": 0.8, "valid_accuracy": 0.9, "macro_f1": 0.79, "max_length": 1024, "correct": "1111111100"}
    (tmp_path / "runs" / "small" / "svm.json").write_text(json.dumps(svm))
    text = report.report(results_of.read(study, tmp_path / "runs"))
    rows = rows_of(text)
    reference, learned = rows["sinusoidal.add"], rows["learned.add"]
    assert reference[1:5] == ["3", "60.00 ± 10.00", "91.15 ± 0.08", "50.00 ± 10.00"]
    assert learned[2] == "62.00 ± 11.00"
    gap = np.array([0] * 5 + [-1 / 3, -2 / 3, -1, 0, 0])  # right in 5, 6 and 7 texts against 8
    assert reference[5] == f"-20.00 ± {100 * stats.t.isf(0.025, 9) * gap.std(ddof=1) / 10**0.5:.2f}"
    assert reference[6] == "70.00 ± 10.00", "validation"
    assert learned[7:9] == ["+2.00", "[-0.48, +4.48]"]
    assert learned[9].startswith("["), "over seeds and texts"
    assert learned[10:12] == ["1.00", "3/3"]
    assert learned[12:14] == ["0.074", "0.074"], "one p that is known needs no adjustment"
    assert float(learned[14]) == 0.25, "three pairs: two of eight signs are as far from 0"
    assert rows["no_sqrt"][1] == "2 (0, 1)"
    assert rows["no_sqrt"][12] == "–", "two equal differences: no t"
    assert rows["TF-IDF + linear SVM, first 1,024 words"][2] == "80.00"
    assert "The smallest p that the exact test has for 3 pairs is 0.25." in text
    assert "the sd of a difference is 0.33 points under one seed" in text, "of the variants with all seeds"
    assert "no_sqrt [2]" in report.missing(results_of.read(study, tmp_path / "runs"))
    assert "| learned.add − sinusoidal.add | 3 | +2.00 | [-0.48, +4.48] | [" in text
    assert " | 3/3 | 0.074 | 0.074 | 0.250 |" in text
    assert "| no_sqrt − learned.gate_scalar | 2 | +0.00 | [+0.00, +0.00] |" in text
    assert " | [+0.00, +0.00] | 0/2 | – | – | 1.000 |" in text
    assert "| sinusoidal | 60.00 ± 10.00 | 60.00 ± 10.00 |" in text
    assert "| sinusoidal, published† | 91.15 ± 0.08 | 91.07 ± 0.09 |" in text
    assert "| learned.add | 50.00 ± 0.00 | 60.00 ± 0.00 | 60.00 ± 0.00 | 55.00 ± 0.00 | 60.00 ± 0.00 |" in text
    assert "| learned | -2.00 [-4.48, +0.48] (0/3; 0.074) |" in text, "gate_scalar against add of the same family"
    assert "| learned.gate_scalar | 0.500 ± 0.000 | 0.100 | 30.0 % | 1.0 % |" in text
    assert "### Accuracy when words are shuffled in windows" in text
    last = "the whole text − as they are, 95 % over seeds"
    assert f"| variant | as they are | windows of 3 | the whole text | {last} |" in text
    lost = "-30.00 [-30.00, -30.00]"
    assert f"| learned.add | 62.00 ± 11.00 | 52.00 ± 11.00 | 32.00 ± 11.00 | {lost} |" in text
    assert "thread(s), commit 0123456789." in text
    assert "| no_sqrt | 10 | 2 | 7 | 5 | 70 | 2.00 | 60 | 8,571 | 1.5 |" in text


def test_labels_as_units_of_the_test_part(study_file: Path, tmp_path: Path) -> None:
    """Texts of one novel are right or wrong together, so the gap to the SVM is known less well than by texts."""
    study_file.write_text(STUDY + "test_units: labels\n")
    study = study_of.read_study(study_file)
    cell = study.cells()[0]
    write_result(cell.folder(tmp_path), cell, 0.5, confusion=[[5, 0], [5, 0]])
    svm = {"accuracy": 0.8, "valid_accuracy": 0.9, "macro_f1": 0.79, "confusion": [[3, 2], [0, 5]]}
    (tmp_path / "small" / "svm.json").write_text(json.dumps(svm))
    gap = results_of.read(study, tmp_path).gap_to_svm(cell.variant)
    per_label = np.array([2, -5]) - 5 * -0.3
    half = stats.t.isf(0.025, 1) * (2 * (per_label**2).sum()) ** 0.5 / 10
    assert gap == pytest.approx((-30, 100 * half))
    (tmp_path / "small" / "svm.json").write_text("{")
    with pytest.raises(UserError, match=r"svm\.json: cannot be read.*baseline\.py"):
        results_of.read(study, tmp_path)


def test_published_numbers_of_other_data_are_marked(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    for cell, texts in zip(study.cells()[:2], (8_994, 108_000), strict=True):
        write_result(cell.folder(tmp_path), cell, 0.5, train_texts=texts)
    text = report.report(results_of.read(study, tmp_path))
    assert "| accuracy | published† |" in text
    model = "and with the notebooks' model (fusion_classifier), here one of 10 parameters."
    assert f"† published with 108,000 training texts, here 8,994; {model}" in text
    study_file.write_text(STUDY.replace("fusion_classifier_tiny", "fusion_classifier"))
    study = study_of.read_study(study_file)
    write_result(tmp_path / "same" / study.cells()[0].folder(Path("")), study.cells()[0], 0.5, train_texts=108_000)
    assert "†" not in report.report(results_of.read(study, tmp_path / "same"))


def test_published_numbers_stand_beside_the_papers_setting(study_file: Path, tmp_path: Path) -> None:
    block = "  - {positions: [sinusoidal], fusions: [add], name: paper, options: {embedding-std: 1.0}}"
    study_file.write_text(STUDY.replace("variants:", f"{block}\nvariants:"))
    study = study_of.read_study(study_file)
    for cell in study.cells():
        write_result(cell.folder(tmp_path), cell, 0.5)
    text = report.report(results_of.read(study, tmp_path))
    rows = rows_of(text)
    assert rows["paper.add"][3] == "91.15 ± 0.08"
    assert rows["sinusoidal.add"][3] == "–"
    assert set(rows["paper.add"][7:]) == {"–", "– |"}, "another setting is not compared with the reference"
    assert "| paper, published† | 91.15 ± 0.08 | 91.07 ± 0.09 |" in text, (
        "but within itself, and with its operators elsewhere"
    )
    overview = family_tables.overview_table([results_of.read(study, tmp_path)])
    assert "| small, at the paper's scale and rate, published† | – | 91.15 ± 0.08 | 91.07 ± 0.09 |" in overview
    assert "| small | – | 50.00 ± 0.00 | 50.00 ± 0.00 |" in overview


def test_cells_of_different_data_are_refused(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    for cell, fingerprint in zip(study.cells()[:2], "fg", strict=True):
        write_result(cell.folder(tmp_path), cell, 0.5, fingerprint=fingerprint)
    with pytest.raises(UserError, match="cells were made with different data; delete one of both"):
        results_of.read(study, tmp_path)


def test_latency_is_of_the_studys_model(study_file: Path, tmp_path: Path) -> None:
    study_file.write_text(STUDY.replace("lr: 1.0e-3", "embed-dim: 64, encoder-layers: 1"))
    out = tmp_path / "latency.json"
    latency.body([str(study_file), "--tokens", "64", "--length", "16", "--repeats", "1", "--output", str(out)])
    timing = json.loads(out.read_text())
    assert (timing["layers"], timing["width"], timing["tokens"]) == (1, 64, 64)
    assert {"add", "concat", "gate_scalar"} <= timing["whole"].keys() == timing["alone"].keys()


def test_report_of_one_cell_and_of_several_studies(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    cell = study.cells()[1]
    write_result(cell.folder(tmp_path), cell, 0.5)
    results = results_of.read(study, tmp_path)
    assert "| sinusoidal.gate_scalar | 1 (0) | 50.00 | 91.07 ± 0.09 | 40.00 | – | 60.00 |" in report.report(results)
    assert next(report.missing(results)) == "sinusoidal.add [0, 1, 2]"
    table = family_tables.overview_table([results, results]).splitlines()
    assert table[0] == "| data | TF-IDF + SVM | gate_scalar |"
    assert table[2:4] == ["| small | – | 50.00 |", "| small, published† | – | 91.07 ± 0.09 |"]


def test_results_of_before_memory_and_gates_were_kept(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    cell = study.cells()[1]
    write_result(cell.folder(tmp_path), cell, 0.5)
    path = cell.folder(tmp_path) / "result.json"
    known = json.loads(path.read_text())
    later = ("gate", "peak_memory", "made_on", "processor_seconds")
    path.write_text(json.dumps({k: v for k, v in known.items() if k not in later}))
    text = report.report(results_of.read(study, tmp_path))
    assert "Made on: unknown" in text
    assert "| sinusoidal.gate_scalar | 10 | 2 | 7 | 5 | nan | nan | 60 | 8,571 | 1.5 |" in text


def test_latency_stands_beside_accuracy(study_file: Path, tmp_path: Path) -> None:
    write_all(study_of.read_study(study_file), tmp_path)
    times = {"add": [1.0, 2.0, 4.0], "gate_scalar": [2.0, 3.0, 5.0]}
    latency = {"tokens": 64, "alone": times, "whole": times}
    results = results_of.read(study_of.read_study(study_file), tmp_path)
    text = report.report(results, latency)
    assert "| gate_scalar | 60.00 ± 10.00 | 3.00 (2.00–5.00) | 3.00 (2.00–5.00) | ~ 67 | highest |" in text
    names = [path.name for path in figures.draw_figures(results, tmp_path / "figures", latency)]
    assert names[-1] == "fusion-small-latency.png"


def test_figures_are_drawn(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    write_all(study, tmp_path / "runs")
    paths = figures.draw_figures(results_of.read(study, tmp_path / "runs"), tmp_path / "figures")
    assert [path.name for path in paths] == [f"fusion-small-{name}.png" for name in ("deltas", "lengths", "gates")]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_accuracy_is_drawn_by_the_length_of_texts_that_were_not_cut(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    groups = [
        {"up_to": 64, "texts": 40, "right": 30},
        {"up_to": 128, "texts": 50, "right": 5},
        {"up_to": 256, "texts": 1, "right": 1},
    ]
    for cell in study.cells():
        write_result(cell.folder(tmp_path), cell, 0.5, accuracy_at_length={}, by_text_length=groups)
    drawn = figures.lengths(results_of.read(study, tmp_path))
    line = drawn.axes[0].lines[0]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([64, 128], [75, 10]), "one text of 256 is no point"
    assert drawn.get_supxlabel() == "tokens of the test text, at most"


def test_differences_are_drawn_against_add_of_the_same_family(study_file: Path, tmp_path: Path) -> None:
    study = study_of.read_study(study_file)
    write_all(study, tmp_path)
    panels = figures.deltas(results_of.read(study, tmp_path)).axes
    assert [axes.get_title() for axes in panels] == ["− sinusoidal.add", "− learned.add", "− sinusoidal.add"]
    names = [[label.get_text() for label in axes.get_yticklabels()] for axes in panels]
    assert names == [["sinusoidal.gate_scalar"], ["learned.gate_scalar"], ["no_sqrt"]]
    dots = panels[1].get_lines()[1].get_xdata()
    assert np.allclose(dots, [-1, -2, -3]), "learned.add is 1, 2 and 3 points above, seed by seed"


def test_no_results_is_said(study_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no cell is finished"):
        results_of.read(study_of.read_study(study_file), tmp_path)


def test_the_studies_of_the_recipes_can_be_run() -> None:
    """Every option of every recipe exists and every variant is a model that makes sense."""
    from docnmt.cli import train

    files = sorted((Path(__file__).parents[1]).glob("*.yaml"))
    assert files
    tried: set[tuple[str, ...]] = set()
    for file in files:
        study = study_of.read_study(file)
        for cell in [*study.choice_cells(), *study.cells()]:
            words = tuple(word for word in cell.options if not word[-1].isdigit())  # all but numbers: once each
            new = {words, *pairwise(cell.options)} - tried  # and each option's every value
            if new:
                tried |= new
                train.parse(["data", "--task", "text_classification", "--save-dir", "run", *cell.options])


CHOICE = """
choose:
  lr: [1.0e-3, 3.0e-3]
  embedding-std: [0.1, 1.0]
choice_seeds: [100, 101]
plan: {effect: 0.5, sd: 0.4}
"""


def test_options_are_chosen_by_validation_alone(study_file: Path, tmp_path: Path) -> None:
    """Each variant takes its own best; one that gives a value itself keeps it; no cell that chooses is reported."""
    fixed = STUDY.replace("false, norm", "false, embedding-std: 1.0, lr: 3.0e-4, norm")
    study_file.write_text(fixed + CHOICE)
    study = study_of.read_study(study_file)
    assert set(study.candidates) == set(study.variants) - {"no_sqrt"}
    assert {cell.variant for cell in study.cells()} == {"no_sqrt"}
    cells = study.choice_cells()
    assert len(cells) == 4 * 4 * 2
    assert cells[0].setting == "lr=0.001,embedding-std=0.1"
    assert cells[0].folder(tmp_path).parts[-4:] == (
        "sinusoidal.add",
        "choice",
        "lr=0.001,embedding-std=0.1",
        "seed-100",
    )
    for cell in cells:
        small = "std=0.1" in cell.setting
        accuracy = {"sinusoidal.add": 0.9 if small else 0.8, "learned.add": 0.5}.get(
            cell.variant, 0.8 if small else 0.9
        )
        loss = 1.0 if "lr=0.001" in cell.setting else 0.5
        if (cell.variant, cell.seed) != ("learned.gate_scalar", 101):
            write_result(cell.folder(tmp_path), cell, 0.0, valid_accuracy=accuracy, valid_loss=loss)
    settled = choice.settled(study, tmp_path)
    assert set(settled.candidates) == {"learned.gate_scalar"}, "not all of its cells are finished"
    options = {cell.variant: cell.options for cell in settled.cells()}
    assert options["sinusoidal.add"][2:4] == ("--lr", "0.003"), "between equals the lower loss"
    assert options["sinusoidal.add"][-2:] == ("--embedding-std", "0.1")
    assert options["sinusoidal.gate_scalar"][-2:] == ("--embedding-std", "1.0")
    table = choice.choice_table(study, tmp_path).splitlines()
    assert table[2] == "| sinusoidal.add | 1.0000 | 1.0000 | **0.5000** | 0.5000 |"
    text = report.report(results_with(settled, tmp_path), None, "\n".join(table))
    assert "Planned: 3 seeds, of which a t-test finds a difference of 0.5 points with a deviation of 0.4 in 2" in text
    assert "### Chosen on the validation part: its loss by setting" in text
    assert choice.Tried(0.9, float("nan")).merit("loss") < choice.Tried(0.1, 5.0).merit("loss"), "a loss that is none"


def results_with(study: Any, runs: Path) -> Any:
    """One cell a settled variant."""
    for cell in study.cells():
        if cell.seed == 0:
            write_result(cell.folder(runs), cell, 0.5)
    return results_of.read(study, runs)


def test_a_study_may_build_on_another(study_file: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("base: small.yaml\ndata: imdb\n")
    base, other = study_of.read_study(study_file), study_of.read_study(tmp_path / "other.yaml")
    assert (other.name, other.folder, other.data) == ("other", "other", "imdb")
    assert (other.variants, other.contrasts) == (base.variants, base.contrasts)
    (tmp_path / "other.yaml").write_text("base: no.yaml\ndata: imdb\n")
    with pytest.raises(UserError, match=r"no\.yaml: cannot be read"):
        study_of.read_study(tmp_path / "other.yaml")
    study_file.write_text("base: other.yaml\n")
    (tmp_path / "other.yaml").write_text("base: small.yaml\n")
    with pytest.raises(UserError, match=r"small\.yaml: base: other\.yaml is built on this study itself"):
        study_of.read_study(tmp_path / "other.yaml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("choice_seeds: [100, 101]", ""), "choice_seeds: choose needs a seed or several"),
        (("[100, 101]", "[2]"), "choice_seeds: 2 is a seed that is reported"),
        (("sd: 0.4", "sd: 0"), "plan: effect and sd must be above 0"),
        (("effect", "effects"), "a block of grid, or plan, lacks 'effect'"),
    ],
)
def test_faulty_choices_are_named(study_file: Path, change: tuple[str, str], message: str) -> None:
    study_file.write_text(STUDY + CHOICE.replace(*change))
    with pytest.raises(UserError, match=rf"small\.yaml: {message}"):
        study_of.read_study(study_file)
