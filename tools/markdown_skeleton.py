"""What a translation must leave alone in Markdown, by the plug-ins of markdown-it, which docnmt's reader is not."""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

FRONT = re.compile(r"\s*(---|\+\+\+)[ \t]*\r?\n.*?\n\1[ \t]*(?:\r?\n|\Z)|\{\s*\".*?\n\}\s*?\n", re.DOTALL)
SIGN = re.compile(
    r"^[ \t>]*(\+[-=:][-=:+]*\+|\$\$|\[![\w-]+\]|(?:===|!!!|\?\?\?)(?= )|:::+|\[\^[^\]]+\]:)", re.MULTILINE
)


@cache
def markdown() -> MarkdownIt:
    """A parser of Markdown with all that its plug-ins know."""
    made = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    made.use(deflist_plugin).use(admon_plugin).use(attrs_plugin).use(footnote_plugin, move_to_end=False)
    made.use(dollarmath_plugin, allow_space=False, allow_digits=False)
    return made.use(container_plugin, "any", marker=":", validate=lambda params, markup: True)


def of_markdown(content: bytes) -> object:
    """Blocks in order, with code, front matter and the signs that begin lines; inside of lines links and pictures."""
    text = content.decode("utf-8", "replace")
    front = match[0] if (match := FRONT.match(text.lstrip("\ufeff"))) else ""
    text = whole = text.removeprefix("\ufeff").removeprefix(front)
    blocks: list[object] = [front]
    text = re.sub(r"^<!--[^\n]*-->[ \t]*(?=\n\n?:[ \t])", "term", text, flags=re.MULTILINE)  # nor this as a term
    text = re.sub(r"^([ \t]*:[ \t]+)(?:<!--[^\n]*?-->[ \t]*)+(?=\S)", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^([ \t]*)===[!+]? (?=\")", r"\1!!! tab ", text, flags=re.MULTILINE)  # the plug-in knows no tabs
    for token in markdown().parse(text):
        inside = [
            (child.type, str(child.attrs.get("href") or child.attrs.get("src") or child.content))
            for child in token.children or [] if child.type in ("link_open", "image", "code_inline", "footnote_ref")
        ]  # fmt: skip
        code = token.content if token.type in ("fence", "code_block", "math_block") else ""
        if token.type == "code_block" and re.match(r"\s*(?:!!!|\?\?\?|```)", code):  # blocks of Python-Markdown
            code = "".join(re.findall(r"^ *```.*?^ *```", code, re.MULTILINE | re.DOTALL))
        blocks.append((token.type, token.info if token.type == "fence" else "", code, *sorted(inside)))
    return [*blocks, *(match[1] for match in SIGN.finditer(whole))]
