"""The site: Sphinx with MyST and furo. `bash tools/docs.sh` builds it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

import reference  # noqa: E402  (the module beside this one)

from docnmt.runtime.system import __version__ as release  # noqa: E402

project = "docnmt"
author = "the docnmt authors"
version = release
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"docnmt {release}"
html_copy_source = False
html_show_copyright = False
highlight_language = "text"
smartquotes = False  # --option stays --option
default_role = "code"  # docstrings write `names` as Markdown does
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./\.\./([^)]+)\)")  # from a room to what the site does not hold
_MARKUP = re.compile(r"(`[^`\n]*`)|([*|]|\w_(?!\w))")  # code, or what reStructuredText would take for markup


def _without_outside_links(app: object, docname: str, source: list[str]) -> None:
    """Name what stands in the repository beside the docs instead of linking to it."""
    if not docname.startswith("reference/generated/"):
        source[0] = _OUTSIDE.sub(lambda link: f"{link[1]} (`{link[2]}`)", source[0])


def _plain(app: object, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with `code`: nothing else in them is markup."""
    if what in ("attribute", "property", "data"):
        lines.insert(0, "")  # or napoleon takes what stands before a colon for a type
    lines[:] = [_MARKUP.sub(_escaped, line) for line in lines]


def _escaped(match: re.Match[str]) -> str:
    """Code with a blank that is not shown before a letter (`Name`s); anything else with a backslash."""
    if match[1]:
        return match[1] + "\\ " * match.string[match.end() :][:1].isalnum()
    return f"{match[2][:-1]}\\{match[2][-1]}"


def setup(app: object) -> None:
    """Write the reference pages and connect the two corrections above."""
    reference.write(DOCS / "reference" / "generated")
    app.connect("source-read", _without_outside_links)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _plain, priority=400)  # type: ignore[attr-defined]  # before napoleon
