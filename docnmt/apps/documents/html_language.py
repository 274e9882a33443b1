"""The tags of a translated page: its language, its direction, and the texts of attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from docnmt.apps.documents.html_attributes import has_attributes, translated
from docnmt.apps.documents.html_tokens import Token
from docnmt.runtime.languages import base, right_to_left, tag

_LANG = re.compile(r"(?i)(\s(?:xml:)?lang\s*=\s*[\"']?)([A-Za-z][\w-]*)(?=[\"'\s/>])")
_LANGUAGE_META = re.compile(r"""(?i)["'\s=](?:content-)?language["'\s>]""")
_CONTENT = re.compile(r"""(?i)(\bcontent\s*=\s*["']?)([\w-]+)""")
_DIR = re.compile(r"""(?i)(\sdir\s*=\s*["']?)(?:ltr|rtl)""")


def renamed(
    source: str, found: Iterable[Token], languages: tuple[str, str], texts: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Tags that say the source's language, with the target's, and attributes with their translations; `dir` of <html>,
    too, if the direction changes."""
    turned = [right_to_left(language) for language in languages]

    def new_name(match: re.Match[str]) -> str:
        same = base(match[2]) == base(languages[0])
        return match[1] + (tag(languages[1]) if same else match[2])

    for token in found:
        if not has_attributes(token):
            continue
        raw = source[token.begin : token.end]
        new = translated(raw, token.tag, texts)
        if token.kind != "fixed":
            new = _LANG.sub(new_name, new)
        if token.tag == "meta" and _LANGUAGE_META.search(raw):
            new = _CONTENT.sub(new_name, new)
        if token.tag == "html" and turned[0] != turned[1]:
            side = "rtl" if turned[1] else "ltr"
            new, there = _DIR.subn(rf"\g<1>{side}", new)
            new = new if there else f'{new[:5]} dir="{side}"{new[5:]}'
        if new != raw:
            yield token.begin, token.end, new
