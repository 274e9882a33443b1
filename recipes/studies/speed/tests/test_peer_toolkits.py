"""docnmt beside other toolkits: the benches run, and say what they should of very small models."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each program has a process of its own: half a minute
ROOT = Path(__file__).parents[4]
NUMBER = r"([\d,.]+)"
SPREAD = rf"{NUMBER} \({NUMBER} – {NUMBER}\)"


def run(tool: str, *options: object) -> str:
    command = [sys.executable, str(ROOT / "tools/bench" / tool), *map(str, options)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_toolkits_translate_the_same_sentences() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    sizes = ["--width", 64, "--layers", 1, "--vocabulary", 300, "--sentences", 12, "--subwords", 6, "--repeats", 2]
    out = run("decoding.py", *sizes, "--batch-size", 4, 8)
    rows = re.findall(rf"^\| (\w[\w ]+) \| [48] \| {SPREAD} \| {SPREAD} \| (\d+)% \| – \|$", out, re.MULTILINE)
    assert [row[0] for row in rows] == ["docnmt", "CTranslate2", "CTranslate2 int8", "Hugging Face Marian"], out
    assert {float(value) for value in rows[0][4:7]} == {1.0}  # its own time by its own
    assert all(int(rows[n][7]) >= 75 for n in (0, 1, 3)), (
        out
    )  # those that compute in float32: few ties in random models


def test_programs_train_on_the_same_batches() -> None:
    pytest.importorskip("transformers")
    sizes = ["--width", 64, "--layers", 1, "--vocabulary", 300, "--documents", 4, "--subwords", 300, "--repeats", 2]
    out = run("training.py", *sizes)
    rows = [row[0] for row in re.findall(rf"^\| (\w.*?) \| {SPREAD} \| {SPREAD} \|$", out, re.MULTILINE)]
    programs = ["docnmt", "docnmt hier_cond_transformer", "Hugging Face Marian", "nn.Transformer"]
    trained = [f"{name}, {kind}" for name in programs for kind in ("float32", "bf16")]
    assert rows == [*trained, "products float32", "products float32, oneDNN", "products bf16"], out
    assert len(re.findall(rf"^- docnmt.*: {SPREAD}$", out, re.MULTILINE)) == 4
