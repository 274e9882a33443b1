"""HTML pages with everything in one file: templates, styles and scripts joined."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from docnmt.runtime.system import __version__


def beginning(generator: str) -> str:
    """Return the beginning of every page made by this program."""
    return f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="generator" content="{generator}'


def self_contained(
    folder: str, generator: str, style: str, script: str, content: dict[str, object], data: dict[str, object]
) -> str:
    """Render the template `page.html` in a folder of templates to a page with everything inside.

    Args:
        generator: the program. content: the template's variables. data: for the script.
    """
    loader = ChoiceLoader([PackageLoader("docnmt.apps", f"templates/{name}") for name in (folder, "shared")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").render(
        **content,
        head=Markup(beginning(generator)),
        version=__version__,
        policy=Markup(
            f"default-src 'none'; img-src data:; style-src {source_hash(style)}; script-src {source_hash(script)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_json(data)),
    )


@cache
def template(name: str) -> str:
    """Return a template, by its folder and name."""
    return files("docnmt.apps").joinpath("templates", name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """Return the source expression by which a content security policy names a style or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    """Return JSON that cannot end the element that contains it: it has no `<`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
