"""What a dry run says of memory is what the training then takes, as the system counts it for the whole process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from parallel_text import ParallelText

ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs the peak of another process")
@pytest.mark.parametrize("arch", [pytest.param("transformer", marks=pytest.mark.slow), "hier_cond_transformer"])
def test_predicted_memory_is_what_training_takes(tmp_path: Path, arch: str) -> None:
    text = ParallelText(tmp_path)
    assert text.preprocess() == 0
    sizes = ["--size", "tiny", "--tokens", "1500", "--no-bf16", "--update", "6"]
    command = [sys.executable, str(ROOT / "recipes/studies/scale/memory.py"), str(text.data), *sizes, "--arch", arch]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = re.findall(r"^\| `(\w+)`.*?\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", done.stdout, re.MULTILINE)
    assert [row[0] for row in rows] == [f"{arch}_tiny"], done.stderr
    for _, *cells in rows:
        before, tried, predicted, peak = (int(cell.replace(",", "")) for cell in cells)
        assert before < tried < predicted
        assert predicted == pytest.approx(peak, rel=0.15)
        assert predicted - before == pytest.approx(peak - before, rel=0.5)  # the libraries alone are most of it
