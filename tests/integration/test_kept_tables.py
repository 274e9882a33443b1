"""The tables of the pages are made again from what was measured and kept."""

from __future__ import annotations

import contextlib
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUSION = "recipes/fusion_matters/report.py recipes/fusion_matters/order_first.yaml --runs docs/measured/fusion.jsonl.xz"
INFERLITE = "--results docs/measured/inferlite.jsonl.xz/results --runs docs/measured/inferlite.jsonl.xz/runs"
DOCMIX = "sentence concat document start start-wide"
#: What makes the tables of a page, and how many rows it makes at least.
TABLES = {
    "fusion-order": (FUSION, 80),
    "inferlite": (f"recipes/inferlite/tables.py {INFERLITE}", 150),
    "attention": ("recipes/scaleformer/lengths.py docs/measured/scaleformer.json", 10),
    "index": (f"tools/results_table.py docs/measured/docmix.jsonl --systems {DOCMIX}", 80),
}  # fmt: skip


@pytest.mark.parametrize("page", TABLES)
def test_every_row_stands_on_the_page(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("scipy")
    words, least = TABLES[page][0].split(), TABLES[page][1]
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.syspath_prepend(str(ROOT / Path(words[0]).parent))
    with contextlib.suppress(SystemExit):
        runpy.run_path(words[0], run_name="__main__")
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) >= least
    shown = set((ROOT / "docs" / "results" / f"{page}.md").read_text(encoding="utf-8").splitlines())
    assert [row for row in rows if row not in shown] == []
