"""The runtime of every docnmt process: errors, files, progress, ranks, and CPU settings (`tune`)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docnmt.runtime.device import tune as tune


def __getattr__(name: str) -> object:
    """Return `tune`, which needs torch and is imported on first use."""
    if name != "tune":
        raise AttributeError(f"module 'docnmt.runtime' has no attribute '{name}'")
    from docnmt.runtime.device import tune

    return tune
