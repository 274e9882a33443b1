"""Pictures by matplotlib, if it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docnmt.runtime.errors import UserError
from docnmt.runtime.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture_form(option: str, path: Path) -> str:
    """Return the picture format by the file's ending, `png` without one.

    Raises:
        UserError: matplotlib is not installed or cannot write this format; the message names the option.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("pictures need matplotlib: pip install 'docnmt[plot]'") from error
    form = path.suffix.lstrip(".").lower() or "png"
    if form not in (forms := Figure().canvas.get_supported_filetypes()):
        raise UserError(f"{option} {path}: there is no picture form .{form}; there are {', '.join(forms)}")
    return form


def write_picture(figure: Figure, path: Path, form: str) -> None:
    """Write a figure to a file, completely or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format=form, dpi=150)
