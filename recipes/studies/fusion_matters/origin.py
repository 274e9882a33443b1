"""What a number was made with: the commit, the versions, the processor."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from docnmt.runtime.device import tune
from docnmt.runtime.system import __version__

CODE = ("docnmt", "recipes/studies/fusion_matters")


def origin() -> dict[str, Any]:
    """Commit (with `+changes` where the checkout has some), docnmt, torch, processor, how products are computed.

    `trees` are git's hashes of the code alone: they stay when commits are put together.
    """
    runtime = tune(new_shapes=True)  # as docnmt-train decides, so that a test after a training computes the same bits
    return {
        "commit": commit(Path(__file__).parent),
        "trees": {name: git(Path(__file__).parent, "rev-parse", f"HEAD:{name}") for name in CODE},
        "made_on": f"docnmt {__version__}, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",
        "processor": processor(),
        "matmul": runtime.matmul,
        "threads": torch.get_num_threads(),
    }


def commit(folder: Path) -> str:
    """The commit that is checked out there, or `unknown` outside of a repository."""
    revision, changes = git(folder, "rev-parse", "HEAD"), git(folder, "status", "--porcelain", "--untracked-files=no")
    return revision + ("+changes" if changes not in ("", "unknown") else "")


def git(folder: Path, *words: str) -> str:
    """What git says of a folder, or `unknown` outside of a repository."""
    try:
        said = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.strip()


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
