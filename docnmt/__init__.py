"""docnmt: document-level machine translation. Whole documents in, whole documents out, in linear time."""

from docnmt.version import __version__

__all__ = ["__version__"]
