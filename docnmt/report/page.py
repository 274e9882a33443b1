"""The page: one HTML file with its style, its scripts and its data inside, which asks nothing of the network.

Jinja escapes whatever is put into the templates; the texts are JSON in the page, which the scripts set as text. The
content security policy names the style and the script by their hashes, so that nothing else on the page could run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from docnmt.errors import UserError
from docnmt.report import charts
from docnmt.version import __version__

#: Colours of systems that page.css has; more systems take them again, with other shapes.
STYLES = 6
#: With what every page begins: by it an earlier report is known.
HEAD = '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="generator" content="docnmt-report'
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
    environment = Environment(
        loader=PackageLoader("docnmt.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"styles": STYLES, "width": charts.WIDTH, "height": charts.HEIGHT}
    style, script = _file("page.css"), "\n".join(map(_file, _SCRIPTS))
    return environment.get_template("page.html").render(
        **content,
        head=Markup(HEAD),
        version=__version__,
        policy=Markup(
            f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_json(data)),
    )


@cache
def _file(name: str) -> str:
    return files("docnmt.report").joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(value: object) -> str:
    """JSON that cannot end the element that it stands in: no `<` is left in it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
