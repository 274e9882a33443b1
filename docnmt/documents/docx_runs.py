"""A paragraph of WordprocessingML as a flat list: text with its look, what does not change, and what is around text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lxml import etree

from docnmt.documents.xml_file import Element, local, text_in

#: Elements around runs.
_AROUND = frozenset({"hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo", "sdt"})
#: What Word keeps for itself and makes anew: marks of the spelling checker, where pages broke when it was last shown.
_PASSING = frozenset({"proofErr", "lastRenderedPageBreak", "softHyphen"})
_PROPERTIES = frozenset({"pPr", "rPr", "sdtPr", "sdtEndPr"})
#: Properties of a run that do not show.
_UNSEEN = frozenset({"lang", "noProof", "szCs", "bCs", "iCs"})


@dataclass
class Op:
    """A step through a paragraph: `text`, `fixed`, `break`, or `open` and `close` of something around text.

    Attributes:
        text: of `text`; of `fixed` what is seen of it. key, look: how a run looks, as a string and as its properties.
        elements: what is written for it, or before what is inside; behind: … behind it.
        run: the one that `elements` stand in, if they are what is in it. shell, inner: the element around, and the one
            in it that holds the text. prefix: the namespace of the paragraph.
    """

    kind: str
    text: str = ""
    key: str = ""
    look: Element | None = None
    elements: Sequence[Element] = ()
    behind: Sequence[Element] = ()
    shell: Element | None = None
    inner: Element | None = None
    run: Element | None = None
    prefix: str = ""


def flat(parent: Element) -> list[Op]:
    """What stands in a paragraph, or in an element around runs, step by step."""
    ops: list[Op] = []
    children = [child for child in parent if local(child) not in _PROPERTIES | _PASSING]
    place = 0
    while place < len(children):
        child = children[place]
        end = _field_end(children, place)
        if end is not None:
            ops += _field(children[place : end + 1])
            place = end + 1
            continue
        name = local(child)
        if name == "r":
            ops += _run(child)
        elif name in _AROUND:
            inner = child.find("{*}sdtContent") if name == "sdt" else child
            if inner is None or any(local(each) == "p" for each in inner):
                ops.append(Op("fixed", elements=[child]))
            else:
                ops += [Op("open", shell=child, inner=inner), *flat(inner), Op("close")]
        else:
            shown = text_in(child, "t") if name == "fldSimple" else ""
            ops.append(Op("fixed", shown, elements=[child]))
        place += 1
    return ops


def _run(run: Element) -> list[Op]:
    """The text of a run, and what else is in it, each in a run of its own."""
    look = run.find("{*}rPr")
    key, ops = _key(look), []
    prefix = run.tag.rpartition("r")[0]
    for child in run:
        name = local(child)
        if name == "rPr" or name in _PASSING:
            continue
        if name == "t":
            ops.append(Op("text", child.text or "", key, look, prefix=prefix))
            continue
        breaks = name in ("tab", "cr") or (name == "br" and not value(child, "type").startswith(("page", "column")))
        ops.append(Op("break" if breaks else "fixed", elements=[child], run=run))
    return ops


def _key(look: Element | None) -> str:
    """A run's look as a string, without what does not show."""
    if look is None:
        return ""
    seen = [
        str(etree.tostring(child, encoding="unicode", with_tail=False)) for child in look if local(child) not in _UNSEEN
    ]
    return "".join(sorted(seen))


def _field_end(children: Sequence[Element], place: int) -> int | None:
    """Where the field ends that begins at a place, if one does and it ends among these."""
    depth = 0
    for number in range(place, len(children)):
        for char in children[number].iter("{*}fldChar") if local(children[number]) == "r" else ():
            depth += {"begin": 1, "end": -1}.get(value(char, "fldCharType"), 0)
        if depth <= 0:
            return number if number > place else None
    return None


def _field(children: Sequence[Element]) -> list[Op]:
    """A field: a link's text is text, anything else is kept and shown."""
    code = "".join(text_in(child, "instrText") for child in children)
    divided = next((n for n, c in enumerate(children) if _has(c, "separate")), None)
    if divided is not None and code.split()[:1] == ["HYPERLINK"]:
        inside: list[Op] = []
        for child in children[divided + 1 : -1]:
            inside += _run(child) if local(child) == "r" else [Op("fixed", elements=[child])]
        return [Op("open", elements=children[: divided + 1], behind=children[-1:]), *inside, Op("close")]
    shown = "" if divided is None else "".join(text_in(c, "t") for c in children[divided:])
    return [Op("fixed", shown, elements=children)]


def _has(run: Element, kind: str) -> bool:
    return any(value(char, "fldCharType") == kind for char in run.iter("{*}fldChar"))


def value(element: Element, name: str) -> str:
    """An attribute, whatever its namespace; "" if there is none."""
    return next((str(value) for key, value in element.attrib.items() if etree.QName(key).localname == name), "")
