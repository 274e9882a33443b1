"""The plug-ins of examples/, registered as `--user-dir` does it: import this module and use their names."""

from __future__ import annotations

from pathlib import Path

import docnmt.registry  # noqa: F401
from docnmt.registry import import_plugins

import_plugins(str(Path(__file__).parents[2] / "examples" / "baselines"))
