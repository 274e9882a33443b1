"""The one place that knows docnmt's version; imports nothing so that `--version` answers at once."""

__version__ = "0.2.0"
