"""The tools that tabulate InferLite's results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recipe_tools import tool

from docnmt.other_tasks.sentence_vectors.data import read_vectors

sys.path += [str(Path(__file__).parents[2] / folder) for folder in ("inferlite", "fusion_matters")]
tables, differences, retrieval = tool("tables"), tool("differences"), tool("retrieval")


def results(folder: Path, name: str, merit: float, tasks: tuple[str, ...], protocol: str = "default") -> None:
    measured = {
        task: {"accuracy": merit} if task in tables.CLASSIFICATION else {"pearson": merit / 100, "spearman": 0.5}
        for task in tasks
    }
    seconds = {"encoding s": 1.0, "classifier s": 2.0, "dimensions": 4096}
    content = {"settings": {"protocol": protocol}, "tasks": {task: row | seconds for task, row in measured.items()}}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(content))


def run(folder: Path, name: str, accuracies: list[float]) -> None:
    (folder / name).mkdir(parents=True)
    rows = [{"event": "valid", "update": 10 * i, "accuracy": a, "wall": 60.0 * i} for i, a in enumerate(accuracies, 1)]
    rows.append({"event": "train", "update": 10 * len(rows) + 5, "wall": 60.0 * len(rows) + 30})
    (folder / name / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_tables_hold_every_run_in_order_and_count_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = (*tables.CLASSIFICATION, *tables.SIMILARITY)
    results(tmp_path / "r", "glove,1", 70, every)
    results(tmp_path / "r", "glove,1,hash1024,codes", 60, every)
    results(tmp_path / "r", "glove,1,hash256,codes", 50, ("MR",))
    results(tmp_path / "r", "bow,glove", 65, every[:9])
    results(tmp_path / "r", "bilstm-max", 75, every)
    run(tmp_path / "runs", "glove,1", [0.4, 0.6, 0.5])
    run(tmp_path / "runs", "glove,3", [])
    arguments = ["--results", str(tmp_path / "r"), "--runs", str(tmp_path / "runs")]
    tables.main([*arguments, "--figure", str(tmp_path / "f.png")])
    lines = capsys.readouterr().out.splitlines()
    assert "| glove,1 | 60.00 | 20 | 35 | 3.5 |" in lines
    assert "| glove,3 | not validated yet | | | |" in lines
    first = lines.index(next(line for line in lines if "protocol default" in line))
    begin = first + 4 + len(tables.PUBLISHED)
    ours = [line.split("|")[1].strip() for line in lines[begin : begin + 5]]
    assert ours == ["bow,glove", "bilstm-max", "glove,1", "glove,1,hash256,codes", "glove,1,hash1024,codes"]
    assert "| glove,1 | 4,096 | " + " | ".join(["70.0"] * 9) + " |" in lines
    assert "| glove,1 | 9 of 9 | 0 of 15 |" in lines  # bag of words, BiLSTM-max
    assert "| glove,1,hash256,codes | 0 of 1 | 0 of 1 |" in lines
    assert (tmp_path / "f.png").stat().st_size > 1000
    widths = {line.count("|") for line in lines[first + 2 : first + 2 + 5]}
    assert widths == {len(tables.CLASSIFICATION) + 4}
    results(tmp_path / "r", "glove,3", 60, every, protocol="fast")
    with pytest.raises(SystemExit, match="default, fast"):
        tables.main(arguments)


def test_seeds_are_averaged_and_their_differences_have_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, merit in (("", 80.0), ("@2", 81.0), ("@3", 84.0)):
        results(tmp_path, f"glove,1{seed}", merit, ("MR", "CR"))
        results(tmp_path, f"glove,3{seed}", merit + 1, ("MR",))
    results(tmp_path, "bow,glove", 70.0, ("MR", "CR"))
    results(tmp_path, "glove,1,mean", 79.0, ("MR",))
    rows = tables.over_seeds(tables.read_results(tmp_path)[0])
    assert list(rows) == ["bow,glove", "glove,1", "glove,3", "glove,1,mean"]
    assert rows["glove,1"]["MR"]["accuracy"] == pytest.approx(245 / 3)
    differences.body(["--results", str(tmp_path)])
    printed = capsys.readouterr().out
    half = 4.302653 * np.std([10, 11, 14], ddof=1) / 3**0.5
    low, high = 35 / 3 - half, 35 / 3 + half
    assert f"| glove,1 − bow,glove | 3 | +{35 / 3:.2f} | {low:+.2f} to {high:+.2f} | 0.0" in printed
    assert "| glove,3 − glove,1 | 3 | +1.00 | +1.00 to +1.00 |  |" in printed, "no spread, no p"
    assert "| glove,1,mean − glove,1 | 1 | -1.00 |  |  |" in printed, "one seed of a trained encoder is one seed"
    assert "similarity" not in printed


def test_accuracies_of_a_classifier_that_learned_nothing_are_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"MRPC": {"accuracy": 66.49, "f1": 79.87}, "CR": {"accuracy": 63.79}, "MR": {"accuracy": 50.0}}
    new = {"MR": {"accuracy": 50.01, "majority": 50.0}, "CR": {"accuracy": 63.76, "majority": 50.0}}
    seconds = {"encoding s": 1.0, "classifier s": 2.0, "dimensions": 512}
    for name, tasks in (("kept", kept), ("new", new)):
        content = {"settings": {"protocol": "fast"}, "tasks": {task: row | seconds for task, row in tasks.items()}}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    tables.main(["--results", str(tmp_path), "--runs", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "| kept | 512 | 50.0 | 63.8 |  |  |  |  | 66.5†/79.9 |  |  |" in printed
    assert "| new | 512 | 50.0† | 63.8 |" in printed
    assert printed.count(tables.NOTHING_LEARNED) == 1


def test_the_initial_weights_of_every_seed_are_made_and_evaluated(tmp_path: Path) -> None:
    """The table of three seeds compares each trained encoder with its own initial weights."""
    stub = '#!/bin/sh\necho "$0" "$@" >> log\n[ "$2" != --save-dir ] || mkdir -p "$3"\n'
    for name in ("docnmt-preprocess", "docnmt-train", "docnmt-senteval", "python"):
        (tmp_path / name).write_text(stub)
        (tmp_path / name).chmod(0o755)
    for task in ("SUBJ", "MR"):
        (tmp_path / "senteval" / task).mkdir(parents=True)
        (tmp_path / "senteval" / task / "all.tsv").write_text("label\ttext\n")
    (tmp_path / "work").mkdir()
    settings = {"DATA": str(tmp_path), "WORK": "work", "SEEDS": "1 2", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = Path(__file__).parents[2] / "inferlite" / "run.sh"
    subprocess.run(["sh", script, "baselines", "evaluate"], cwd=tmp_path, env=os.environ | settings, check=True)
    log = (tmp_path / "log").read_text()
    for width in (1, 3):
        for seed, name in ((1, f"untrained,{width}"), (2, f"untrained,{width}@2")):
            assert f"--save-dir work/{name} --arch inferlite --conv-width {width} --seed {seed} --max-update 0" in log
            assert f"--results-path work/results/{name}.json" in log


def test_a_query_does_not_find_itself_even_among_equals() -> None:
    index = np.zeros((40, 2), np.float32)
    index[:, 0] = 1  # all alike: a query beyond the first rows is not among the nearest at all
    queries = np.array([0, 5, 30])
    nearest = retrieval.nearest(retrieval.nearest_cosine, index, queries)
    assert nearest.shape == (3, retrieval.TOP)
    assert nearest[1].tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert not (nearest == queries[:, None]).any()
    assert retrieval.recall(nearest, nearest) == 1
    assert retrieval.recall(nearest[:1], nearest[:1] + 5) == pytest.approx(0.5)


def test_codes_are_searched_by_their_differing_bits(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    codes, wanted = (random.integers(0, 4, (rows, 3)).astype(np.uint8) for rows in (40, 5))  # many ties
    distances = (np.unpackbits(wanted, axis=1)[:, None] != np.unpackbits(codes, axis=1)[None]).sum(-1)
    bits, places = retrieval.nearest_hamming(wanted, codes, 6)
    np.testing.assert_array_equal(places, np.argsort(distances, axis=1, kind="stable")[:, :6])
    np.testing.assert_array_equal(bits, np.take_along_axis(distances, places, 1))
    dead, entropy = retrieval.bit_report(np.packbits([[0, 1, 0, 1, 1, 0, 0, 0], [0, 1, 1, 0, 1, 0, 0, 0]], axis=1))
    assert (dead, entropy) == (6, pytest.approx(2))


@pytest.mark.parametrize("shared", [False, True])
def test_npz_becomes_a_binary_file_of_word_vectors(tmp_path: Path, shared: bool) -> None:
    vectors, row = np.eye(3, dtype=np.float16), {"row": [1, 0, 1]} if shared else {}
    np.savez(tmp_path / "v.npz", words="x\ny z\nw", vectors=vectors, **row)
    tool("npz_vectors").main([str(tmp_path / "v.npz"), str(tmp_path / "v.bin")])
    read = read_vectors(tmp_path / "v.bin", lambda word, number: True)
    assert list(read.rows) == ["x", "y_z", "w"]
    np.testing.assert_array_equal(read.vectors, vectors[[1, 0, 1]] if shared else vectors)


def test_the_bench_times_each_encoder_on_fresh_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = tool("sentence_encoders")
    (tmp_path / "text.txt").write_text("".join(f"a b{i}\n" for i in range(6)))
    (tmp_path / "v.txt").write_text("".join(f"{word} 1 2\n" for word in ("a", *(f"b{i}" for i in range(6)))))
    seen: list[list[list[str]]] = []

    def seconds(encoder: object, block: list[list[str]]) -> float:
        seen.append(block)
        return 0.5

    monkeypatch.setattr(bench, "seconds", seconds)
    monkeypatch.setattr(bench.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(bench, "tune", lambda: "")
    cases = ["--cases", "inferlite, width 1", "BiLSTM-max of 512, 256 a direction"]
    arguments = ["--text", f"{tmp_path}/text.txt", "--vectors", f"{tmp_path}/v.txt", "--lines", "2", *cases]
    bench.main([*arguments, "--repeats", "3"])
    rows = [line for line in capsys.readouterr().out.splitlines() if "sentences/s" in line]
    assert [row.split("  ")[0] for row in rows] == cases[1:]
    assert [block[0][1] for block in seen] == ["b0"] * 2 + ["b2"] * 2 + ["b4"] * 2
    with pytest.raises(SystemExit):
        bench.main([*arguments, "--repeats", "4"])
    assert "too few lines" in capsys.readouterr().err
