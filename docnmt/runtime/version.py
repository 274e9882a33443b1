"""The version of docnmt, in one place; imports nothing so that `--version` answers at once."""

__version__ = "0.2.0"
