"""The page of docnmt-report, which is recognised by its beginning, so that only earlier reports are replaced."""

from __future__ import annotations

from pathlib import Path

from docnmt.apps.pages import SHARED, beginning, self_contained, template
from docnmt.apps.report import charts
from docnmt.runtime.errors import UserError

#: Number of colours in page.css; further systems reuse them with other shapes.
STYLES = 6
#: Number of tests between systems that are shown unfolded.
PAIRS = 15
_NAME = "docnmt-report"
#: The beginning of every page, by which earlier reports are recognised.
HEAD = beginning(_NAME)
_SCRIPTS = ("diff.js", "documents.js", "text.js")


def check_replaceable(path: Path) -> None:
    """Check before long work that no file of this name exists, or only an earlier report.

    Raises:
        UserError: it is a file of another kind, or cannot be read.
    """
    if not path.is_file():
        return  # no file, or an invalid name: writing reports it
    try:
        with path.open("rb") as file:
            begins = file.read(len(HEAD))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    if begins != HEAD.encode():
        raise UserError(f"{path}: exists and is not a report of docnmt-report; choose another name")


def render(content: dict[str, object], data: dict[str, object]) -> str:
    """Render the page from `content`, the variables of page.html, and `data` for the scripts."""
    constants: dict[str, object] = {"styles": STYLES, "most_pairs": PAIRS}
    constants |= {"width": charts.WIDTH, "height": charts.HEIGHT}
    package = "docnmt.apps.report"
    scripts = "\n".join(template(package, name) for name in _SCRIPTS)
    return self_contained(package, _NAME, template(SHARED, "page.css"), scripts, {**constants, **content}, data)
