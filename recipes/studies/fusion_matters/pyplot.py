"""Matplotlib's pyplot, which draws into files and needs no screen; without it a tool of the study ends in one line."""

import sys
from pathlib import Path

try:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit(f"{Path(sys.argv[0]).name}: error: needs matplotlib; pip install -e '.[evaluation]'")

__all__ = ["plt"]
