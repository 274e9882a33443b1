"""The page of docnmt-report: known again by how it begins, so that it replaces earlier reports and nothing else."""

from __future__ import annotations

from pathlib import Path

from docnmt.apps.pages.html_page import SHARED, beginning, self_contained, template
from docnmt.apps.report import charts
from docnmt.runtime.errors import UserError

#: Colours of systems that page.css has; more systems take them again, with other shapes.
STYLES = 6
#: Of systems whose tests are shown at once; more are folded.
PAIRS = 15
_NAME = "docnmt-report"
#: With what every page begins: by it an earlier report is known.
HEAD = beginning(_NAME)
_SCRIPTS = ("diff.js", "documents.js", "text.js")


def check_replaceable(path: Path) -> None:
    """Before long work: is there no such file, or an earlier report?

    Raises:
        UserError: it is a file of another kind, or cannot be read.
    """
    if not path.is_file():
        return  # nothing, or what cannot be a file's name: writing says so
    try:
        with path.open("rb") as file:
            begins = file.read(len(HEAD))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    if begins != HEAD.encode():
        raise UserError(f"{path}: exists and is not a report of docnmt-report; choose another name")


def render(content: dict[str, object], data: dict[str, object]) -> str:
    """The page of `content`, by the names in page.html, and of `data`, what the scripts read."""
    constants: dict[str, object] = {"styles": STYLES, "most_pairs": PAIRS}
    constants |= {"width": charts.WIDTH, "height": charts.HEIGHT}
    package = "docnmt.apps.report"
    scripts = "\n".join(template(package, name) for name in _SCRIPTS)
    return self_contained(package, _NAME, template(SHARED, "page.css"), scripts, {**constants, **content}, data)
