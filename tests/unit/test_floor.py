"""The lowest versions that are promised can be installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from floor import floors


def test_lowest_versions() -> None:
    wanted = ["torch>=2.4", "docnmt[plot]", "numpy>=1.24.4,<3", "x", "a-b[c]>=1"]
    assert floors(wanted) == ["torch==2.4", "numpy==1.24.4", "a-b==1"]
