"""docnmt: document-level machine translation. Whole documents in, whole documents out, in linear time."""

import docnmt.builtin  # noqa: F401 (every registry is filled, for commands and library users alike)
from docnmt.version import __version__

__all__ = ["__version__"]
