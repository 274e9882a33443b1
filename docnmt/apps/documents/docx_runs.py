"""A paragraph of WordprocessingML as a flat list: text with its look, what does not change, and what is around text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

from lxml import etree

from docnmt.apps.documents.xml_file import SHOWN, Element, local, shown_in, text_in

#: Elements around runs.
_AROUND = frozenset({"hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo", "sdt"})
#: What Word keeps for itself and makes anew: marks of the spelling checker, where pages broke when it was last shown.
_PASSING = frozenset({"proofErr", "lastRenderedPageBreak", "softHyphen"})
#: Fields that show nothing where they stand.
_SILENT = (["XE"], ["TC"], ["TA"], ["RD"], ["SET"], ["ASK"], ["PRIVATE"])
#: About as many bytes the copies of a run's look may take.
_COPIES = 1 << 24
_PROPERTIES = frozenset({"pPr", "rPr", "sdtPr", "sdtEndPr"})
#: Properties of a run that do not show.
_UNSEEN = frozenset({"lang", "noProof", "szCs", "bCs", "iCs"})


@dataclass
class Op:
    """A step through a paragraph: `text`, `fixed`, `break`, or `open` and `close` of something around text.

    Attributes:
        text: of `text`; of `fixed` what is seen of it. seen: as in `Inline.fixed`. key, look: how its run looks, as a
            string and as properties.
        elements: what is written for it, or before what is inside; behind: … behind it.
        run: the one that `elements` stand in, if they are what is in it. shell, inner: the element around, and the one
            in it that holds the text. prefix: the namespace of the paragraph. raised: it is a superscript.
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
    seen: str = ""
    raised: bool = False


class Looks(NamedTuple):
    """The styles that hide text, and those that raise it."""

    hidden: Collection[str] = ()
    raised: Collection[str] = ()

    def hides(self, look: Element | None) -> bool:
        """Whether text of this look is not shown."""
        return self._said(look, "vanish", self.hidden, lambda said: said not in ("0", "false", "off"))

    def raises(self, look: Element | None) -> bool:
        """Whether text of this look is a superscript."""
        return self._said(look, "vertAlign", self.raised, lambda said: said == "superscript")

    def _said(self, look: Element | None, name: str, styles: Collection[str], means: Callable[[str], bool]) -> bool:
        if look is None:
            return False
        if (said := look.find(f"{{*}}{name}")) is not None:
            return means(value(said, "val"))
        style = look.find("{*}rStyle")
        return style is not None and value(style, "val") in styles


def flat(parent: Element, looks: Looks) -> list[Op]:
    """What stands in a paragraph, or in an element around runs, step by step."""
    ops: list[Op] = []
    children = [each for child in parent if local(child) not in _PROPERTIES | _PASSING for each in _divided(child)]
    ends = _field_ends(children)
    place = 0
    while place < len(children):
        child = children[place]
        if (end := ends.get(place)) is not None:
            ops += _field(children[place : end + 1], looks)
            place = end + 1
            continue
        name = local(child)
        if name == "r":
            ops += _run(child, looks)
        elif name in _AROUND:
            inner = child.find("{*}sdtContent") if name == "sdt" else child
            if inner is None or any(local(each) == "p" for each in inner):
                ops.append(Op("fixed", elements=[child]))
            else:
                ops += [Op("open", shell=child, inner=inner), *flat(inner, looks), Op("close")]
        else:
            shown = shown_in(child, "t") if name == "fldSimple" else ""
            seen = "value" if name in ("fldSimple", "oMath") else ""
            ops.append(Op("fixed", shown, elements=[child], seen=seen))
        place += 1
    return ops


def _divided(child: Element) -> list[Element]:
    """A run in which fields begin and end, as one for each thing in it; anything else as it is."""
    look = child.find("{*}rPr")
    inside = [each for each in child if local(each) != "rPr"]
    if len(inside) < 2 or local(child) != "r" or child.find("{*}fldChar") is None:
        return [child]
    if look is not None and len(inside) * sum(map(_size, look.iter())) > _COPIES:
        return [child]
    runs = []
    for each in inside:
        run = etree.Element(child.tag, {str(key): str(value) for key, value in child.attrib.items()})
        run.extend(deepcopy(part) for part in (look, each) if part is not None)
        runs.append(run)
    return runs


def _ruby(ruby: Element, run: Element, look: Element | None, looks: Looks) -> list[Op]:
    """A text with its reading: the text is translated, the reading stays."""
    shell = etree.Element(run.tag)
    shell.extend(deepcopy(part) for part in (look, ruby) if part is not None)
    inner = shell.find("{*}ruby/{*}rubyBase")
    if inner is None:
        return [Op("fixed", elements=[ruby], look=look, run=run)]
    return [Op("open", shell=shell, inner=inner), *flat(inner, looks), Op("close")]


def _run(run: Element, looks: Looks) -> list[Op]:
    """The text of a run, and what else is in it, each in a run of its own; a run that is not shown is one thing."""
    look = run.find("{*}rPr")
    if looks.hides(look):
        return [Op("fixed", elements=[run])]
    key, ops = _key(look), []
    prefix = run.tag.rpartition("r")[0]
    for child in run:
        name = local(child)
        if name == "rPr" or name in _PASSING:
            continue
        if name == "t":
            ops.append(Op("text", child.text or "", key, look, prefix=prefix, raised=looks.raises(look)))
            continue
        if name == "noBreakHyphen":
            ops.append(Op("text", "\u2011", key, look, prefix=prefix))
            continue
        if name == "ruby":
            ops += _ruby(child, run, look, looks)
            continue
        breaks = name in ("tab", "ptab", "cr", "br")
        ops.append(Op("break" if breaks else "fixed", elements=[child], look=look, run=run, seen=_seen(child)))
    return ops


def _seen(element: Element) -> str:
    """What readers see of something in a run; what floats stands nowhere in the text."""
    if local(element) == "drawing":
        return "picture" if element.find("{*}inline") is not None else ""
    return "picture" if local(element) in ("pict", "object", "sym") else ""


def weight(ops: Sequence[Op]) -> int:
    """About how many bytes of memory the runs of a paragraph take if each step has one that looks like the largest."""
    looks = {id(op.look): op.look for op in ops if op.look is not None}
    runs = {id(op.run): op.run for op in ops if op.run is not None}
    sizes = [*(sum(map(_size, look.iter())) for look in looks.values()), *map(_size, runs.values())]
    return len(ops) * max(sizes, default=0)


def _size(element: Element) -> int:
    return 100 + sum(len(value) for value in element.attrib.values())


def _key(look: Element | None) -> str:
    """A run's look as a string, without what does not show."""
    if look is None:
        return ""
    seen = [
        str(etree.tostring(child, encoding="unicode", with_tail=False)) for child in look if local(child) not in _UNSEEN
    ]
    return "".join(sorted(seen))


def _field_ends(children: Sequence[Element]) -> dict[int, int]:
    """For each run that begins a field, by number, the one that ends it, if it ends among these."""
    ends: dict[int, int] = {}
    depth, begun = 0, list[tuple[int, int]]()  # how deep it was before each field that has no end yet
    for number, child in enumerate(children):
        before = depth
        for char in child.iter("{*}fldChar") if local(child) == "r" else ():
            depth += {"begin": 1, "end": -1}.get(value(char, "fldCharType"), 0)
        while begun and depth <= begun[-1][0]:
            ends[begun.pop()[1]] = number
        if depth > before:
            begun.append((before, number))
    return ends


def _field(children: Sequence[Element], looks: Looks) -> list[Op]:
    """A field: a link's text is text, anything else is kept and shown."""
    code = "".join(text_in(child, "instrText") for child in children)
    divided = next((n for n, c in enumerate(children) if _has(c, "separate")), None)
    if divided is not None and code.split()[:1] == ["HYPERLINK"]:
        inside: list[Op] = []
        for child in children[divided + 1 : -1]:
            inside += _run(child, looks) if local(child) == "r" else [Op("fixed", elements=[child])]
        return [Op("open", elements=children[: divided + 1], behind=children[-1:]), *inside, Op("close")]
    shown = "" if divided is None else "".join(shown_in(c, "t") for c in children[divided:])[:SHOWN]
    return [Op("fixed", shown, elements=children, seen="" if code.split()[:1] in _SILENT else "value")]


def _has(run: Element, kind: str) -> bool:
    return any(value(char, "fldCharType") == kind for char in run.iter("{*}fldChar"))


def value(element: Element, name: str) -> str:
    """An attribute, whatever its namespace; "" if there is none."""
    return next((str(value) for key, value in element.attrib.items() if etree.QName(key).localname == name), "")
