"""The table of the Scaleformer study: means over subwords, then over seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import lengths as tool


def test_means_over_subwords_then_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(seed: int, system: str, nats: float) -> None:
        bins = [
            {"first": 0, "subwords": 3000.0, "nats": nats, "right": 0.9},
            {"first": 50, "subwords": 1001.0, "nats": 5 * nats, "right": 0.5},
        ]
        path = tmp_path / "work" / str(seed) / system / "positions.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"model": ["x"], "splits": dict.fromkeys(tool.SPLITS, bins)}))

    write(1, "r-16", 0.1)
    write(2, "r-16", 0.3)
    write(1, "r-0", 1.0)
    kept = tmp_path / "kept.json"
    tool.main([str(tmp_path / "work"), "--keep", str(kept), "--plot", str(tmp_path / "plot.png")])
    said = capsys.readouterr().out
    row = next(line for line in said.splitlines() if line.startswith("| r-16"))
    right, nats = (3000 * 0.9 + 1001 * 0.5) / 4001, (3000 * 0.2 + 1001 * 1.0) / 4001
    assert row.split(" | ")[1:3] == ["2", f"{100 * right:.1f} ({100 * right:.1f} to {100 * right:.1f})"]
    assert row.split(" | ")[5] == f"{nats:.4f}"
    assert row.removesuffix(" |").split(" | ")[-1] == "0.2000"
    assert (tmp_path / "plot.png").stat().st_size > 1000
    tool.main([str(kept)])
    assert capsys.readouterr().out == said
    seeds = json.loads(kept.read_text(encoding="utf-8"))["r-16"]
    for seed, splits in seeds.items():
        for bins in splits.values():
            bins[:] = [{**span, "right": span["right"] + 0.05 * int(seed), "nats": 0.1} for span in bins]
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"r-4": seeds}), encoding="utf-8")
    tool.main([str(kept), str(other), "--minus", "r-16"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| r-4: ")]
    assert [row[1] for row in rows] == ["2", "2"]
    assert rows[0][2:5] == ["+7.5 (−24.3 to +39.3)"] * 3  # 5 and 10 points: 12.706 × 2.5
    assert rows[0][5:] == ["+5.0, +10.0", "+5.0, +10.0", "+5.0, +10.0 |"]
    assert rows[1][2].startswith(f"{0.1 - nats:+.2f}".replace("-", "−"))


def test_a_folder_without_measurements_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source, message in ((tmp_path, "no SEED/SYSTEM/positions.json"), (tmp_path / "none", "No such file")):
        with pytest.raises(SystemExit):
            tool.main([str(source)])
        assert message in capsys.readouterr().err.splitlines()[-1]
