"""Ctrl-C at any moment of a command's start ends it with one line and status 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_system
from heed_interrupts import heed_interrupts

ROOT = Path(__file__).parents[2]


def interrupted(words: list[str], begun: str) -> tuple[int, str]:
    """The status and stderr of a command that is interrupted once it has loaded a library of this name."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=environment, preexec_fn=heed_interrupts,
    )  # fmt: skip
    end = time.monotonic() + 60
    while begun not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None
        assert time.monotonic() < end
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("module", [True, False], ids=["module", "script"])
@pytest.mark.parametrize("begun", ["_json.", "_multiarray_umath", "libtorch_cpu", "_safetensors"])
def test_while_it_imports(module: bool, begun: str, tmp_path: Path) -> None:
    checkpoint = small_system.save(tmp_path / "m.safetensors")
    script = tmp_path / "docnmt-translate"
    script.write_text("import sys\nfrom docnmt.cli.translate import main\nsys.exit(main())\n")
    started = [sys.executable, "-m", "docnmt.cli.translate"] if module else [sys.executable, str(script)]
    words = [*started, "--path", str(checkpoint), "--device", "cpu"]
    assert interrupted(words, begun) == (130, "docnmt-translate: interrupted\n")


def test_a_library_keeps_its_own_handler() -> None:
    code = "import signal; import docnmt; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert subprocess.run([sys.executable, "-c", code], preexec_fn=heed_interrupts).returncode == 0
