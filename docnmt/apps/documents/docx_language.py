"""What a text of Word says of its language and its direction, and what it says of a translation."""

from __future__ import annotations

from lxml import etree

from docnmt.apps.documents.docx_runs import value
from docnmt.apps.documents.xml_file import Element, local
from docnmt.runtime.languages import base, right_to_left, tag

#: What stands behind `bidi` among the properties of a paragraph, and behind `rtl` among those of a run.
_BEHIND_BIDI = frozenset(
    {
        "adjustRightInd", "snapToGrid", "spacing", "ind", "contextualSpacing", "mirrorIndents", "suppressOverlap", "jc",
        "textDirection", "textAlignment", "textboxTightWrap", "outlineLvl", "divId", "cnfStyle", "rPr", "sectPr",
        "pPrChange",
    }
)  # fmt: skip
_BEHIND_RTL = frozenset({"cs", "em", "lang", "eastAsianLayout", "specVanish", "oMath", "rPrChange"})


def renamed(root: Element, languages: tuple[str, str]) -> bool:
    """Names the target's language wherever a part names the source's; whether it did."""
    found = False
    for element in root.iter("{*}lang"):
        name = f"{{{etree.QName(element).namespace}}}" if etree.QName(element).namespace else ""
        for kind in ("val", "bidi", "eastAsia"):
            if base(element.get(name + kind, "")) == base(languages[0]):
                element.set(name + kind, tag(languages[1]))
                found = True
    return found


def turned(paragraph: Element, languages: tuple[str, str]) -> None:
    """Writes a paragraph and its runs in the target's direction, if it is another one."""
    to_left = right_to_left(languages[1])
    if right_to_left(languages[0]) == to_left:
        return
    _set(paragraph, "pPr", "bidi", _BEHIND_BIDI, to_left)
    for run in list(paragraph.iter("{*}r")):
        if run.find("{*}t") is not None:
            _set(run, "rPr", "rtl", _BEHIND_RTL, to_left)


def _set(element: Element, properties: str, name: str, behind: frozenset[str], wanted: bool) -> None:
    """Gives or takes a property."""
    prefix = str(element.tag).rpartition("}")[0] + "}" if "}" in str(element.tag) else ""
    look = element.find(f"{{*}}{properties}")
    if look is None:
        if not wanted:
            return
        look = etree.Element(f"{prefix}{properties}")
        element.insert(0, look)
    there = look.find(f"{{*}}{name}")
    if there is not None and (not wanted or value(there, "val") in ("0", "false")):
        look.remove(there)
        there = None
    if wanted and there is None:
        place = next((number for number, child in enumerate(look) if local(child) in behind), len(look))
        look.insert(place, etree.Element(f"{prefix}{name}"))
