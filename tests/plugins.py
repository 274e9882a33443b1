"""The plug-ins of examples/, registered as `--user-dir` does it: import this module and use their names."""

from __future__ import annotations

from pathlib import Path

import docnmt.builtin  # noqa: F401
from docnmt.plugins import import_plugins

EXAMPLES = Path(__file__).parent.parent / "examples"
for _name in ("g_transformer", "han"):
    import_plugins(str(EXAMPLES / _name))
