"""The runtime of every docnmt process: errors, files, progress, ranks, and CPU settings (`tune`)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docnmt.runtime.device import Runtime as Runtime
    from docnmt.runtime.device import pick_device as pick_device
    from docnmt.runtime.device import row_invariant as row_invariant
    from docnmt.runtime.device import tune as tune

__all__ = ["Runtime", "pick_device", "row_invariant", "tune"]


def __getattr__(name: str) -> object:
    """Return a name of `tuning`, which needs torch and is imported on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'docnmt.runtime' has no attribute '{name}'")
    return getattr(import_module("docnmt.runtime.device"), name)
