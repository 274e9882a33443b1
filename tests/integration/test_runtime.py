"""What `tune` decides; where it depends on how a process starts, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from docnmt.cli.train import parse
from docnmt.core.training.start import prepare
from docnmt.modules.linear_layers import TrainedLinear
from docnmt.runtime import device as runtime
from docnmt.runtime.system import UserError

#: What `tune` sets in the environment.
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = ("DOCNMT_TUNE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", *CACHES)
    clean = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-c", f"import torch; from docnmt.runtime import device as runtime\n{code}"]
    return subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, check=False)


@pytest.fixture
def untuned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as if nothing had been tuned; afterwards it is as it was."""
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    for name in ("DOCNMT_TUNE", *CACHES):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(runtime, "_prepares", False)
    monkeypatch.setattr(runtime, "_trains_linear", False)
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(threads)


def test_it_says_what_it_decided_on_one_line_and_decides_the_same_again() -> None:
    code = """
first = runtime.tune()
assert runtime.tune() == first
assert first.threads == torch.get_num_threads()
assert (first.matmul == "oneDNN") == (torch.get_float32_matmul_precision() == "medium")
print(first)
"""
    done = run(code, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "threads: 1" in done.stdout


@pytest.mark.usefixtures("untuned")
def test_training_takes_the_default_library_whatever_came_before() -> None:
    runtime.tune()
    first = runtime.tune(new_shapes=True)
    assert torch.get_float32_matmul_precision() == "highest"
    assert first.matmul == "default"
    assert first.matmul_error < runtime.FLOAT32_ERROR


@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_in_training_onednn_computes_linear_layers_where_it_is_exact(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(runtime, "_product_error", lambda: error)
    runtime.tune(new_shapes=True)
    assert runtime.trains_linear() == (error == 0)
    with contextlib.suppress(KeyError), runtime.linear_products():
        assert torch.get_float32_matmul_precision() == ("medium" if error == 0 else "highest")
        raise KeyError
    assert torch.get_float32_matmul_precision() == "highest"
    runtime.tune()
    assert not runtime.trains_linear()


@pytest.mark.usefixtures("untuned")
def test_products_of_new_shapes_leave_onednn_and_what_was_set_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_product_error", lambda: 0.0)  # oneDNN is exact here
    runtime.tune()
    with runtime.new_shapes():
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "medium"
    with contextlib.suppress(KeyError), runtime.new_shapes():
        raise KeyError
    assert torch.get_float32_matmul_precision() == "medium"


def test_a_process_that_lives_long_is_not_prepared_for_every_shape() -> None:
    """Of both caches: with one of them, or none, 600 shapes took 260 and 520 MB where this was written."""
    code = """
import re
from pathlib import Path
assert runtime.PREPARED <= 256
runtime.PREPARED = 32
if runtime.tune().matmul != "oneDNN":
    raise SystemExit
memory = lambda: int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
weight, before = torch.ones(48, 32), memory()
with torch.inference_mode():
    for rows in range(4, 604):
        torch.nn.functional.linear(torch.ones(rows, 32), weight)
assert memory() - before < 120_000, memory() - before
"""
    done = run(code, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize(("enabled", "environment"), [(None, "off"), (False, "on")])
def test_it_can_be_switched_off(enabled: bool | None, environment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCNMT_TUNE", environment)
    before = torch.get_float32_matmul_precision(), torch.get_num_threads()
    assert "off" in str(runtime.tune(enabled))
    assert (torch.get_float32_matmul_precision(), torch.get_num_threads()) == before


@pytest.mark.usefixtures("untuned")
def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCNMT_TUNE", "perhaps")
    with pytest.raises(UserError, match="DOCNMT_TUNE"):
        runtime.tune()


@pytest.mark.usefixtures("untuned")
def test_an_inexact_product_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_product_error", lambda: 1e-3)  # as where "medium" means bfloat16
    assert runtime.tune().matmul == "default"
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_threads_follow_the_environment() -> None:
    assert run("print(runtime.tune().threads)", OMP_NUM_THREADS="2").stdout.strip() == "2"


def test_the_check_leaves_the_random_stream_alone() -> None:
    torch.manual_seed(1)
    expected = torch.randn(3)
    torch.manual_seed(1)
    runtime.row_invariant()
    assert torch.equal(torch.randn(3), expected)


def test_row_invariance_notices_a_product_that_depends_on_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = F.linear
    runtime._linear_invariant.cache_clear()
    monkeypatch.setattr(F, "linear", lambda x, weight: linear(x, weight) + len(x) * 1e-6)
    assert not runtime.row_invariant()
    runtime._linear_invariant.cache_clear()


@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize(("precision", "replaced"), [("--no-bf16", True), ("--bf16", False)])
def test_a_training_in_float32_gets_linear_layers_that_onednn_computes(
    precision: str, replaced: bool, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names, order and values of the parameters stay; so does what the small ones of them belong to."""
    given = f"--arch hier_cond_transformer_tiny {precision} --force-bf16 --device cpu".split()
    given = [str(data), *given, "--save-dir", str(tmp_path / "run")]
    before = prepare(parse(given)).model
    monkeypatch.setattr(runtime, "_trains_linear", True)
    model = prepare(parse(given)).model
    assert any(isinstance(module, TrainedLinear) for module in model.modules()) == replaced
    assert not any(isinstance(module, TrainedLinear) for module in before.modules())
    pairs = zip(before.named_parameters(), model.named_parameters(), strict=True)
    assert all(name == other and torch.equal(one, two) for (name, one), (other, two) in pairs)
