"""What a number was made with: the commit, the versions, the processor."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from docnmt.runtime import tune
from docnmt.version import __version__


def origin() -> dict[str, Any]:
    """Commit (with `+changes` where the checkout has some), docnmt, torch, processor, how products are computed."""
    runtime = tune(new_shapes=True)  # as docnmt-train decides, so that a test after a training computes the same bits
    return {
        "commit": commit(Path(__file__).parent),
        "made_on": f"docnmt {__version__}, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",
        "processor": processor(),
        "matmul": runtime.matmul,
        "threads": torch.get_num_threads(),
    }


def commit(folder: Path) -> str:
    """The commit that is checked out there, or `unknown` outside of a repository."""
    git = ["git", "-C", str(folder)]
    try:
        found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found + ("+changes" if changes.strip() else "")


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
