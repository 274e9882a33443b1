"""SciPy's statistics, which docnmt itself does not install: without them a tool of the study ends in one line."""

import sys
from pathlib import Path

try:
    from scipy import optimize, stats
except ImportError:
    sys.exit(f"{Path(sys.argv[0]).name}: error: needs scipy; pip install -e '.[evaluation]'")

__all__ = ["optimize", "stats"]
