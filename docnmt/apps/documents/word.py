"""Word documents: paragraphs, runs and fields of DOCX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import takewhile

from lxml import etree

from docnmt.apps.documents.packages import Parts, picture_texts
from docnmt.apps.documents.runs import RunPayload, Runs, Step, look_key, namespace, run_like, weight
from docnmt.apps.documents.segments import Sections, is_reference, renamed, turned
from docnmt.apps.documents.xml import SHOWN, Element, Unit, expect_texts, local, shown_in, text_in
from docnmt.runtime.system import UserError

# A paragraph of WordprocessingML as a flat list: text with its look, what does not change, and what is around text.

#: Elements around runs.
_AROUND = frozenset({"hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo", "sdt"})
#: What Word keeps for itself and makes anew: marks of the spelling checker, where pages broke when it was last shown.
_PASSING = frozenset({"proofErr", "lastRenderedPageBreak", "softHyphen"})
#: Fields that show nothing where they stand.
_SILENT = (["XE"], ["TC"], ["TA"], ["RD"], ["SET"], ["ASK"], ["PRIVATE"])
#: About as many bytes the copies of a run's look may take.
_COPIES = 1 << 24
_PROPERTIES = frozenset({"pPr", "rPr", "sdtPr", "sdtEndPr"})


#: What the look of a text may say, and when: that it is not shown, that it is a superscript.
_SAYS: dict[str, Callable[[str], bool]] = {
    "vanish": lambda said: said not in ("0", "false", "off"),
    "vertAlign": lambda said: said == "superscript",
}


class _Looks:
    """What looks say of text, with what styles say; what a style does not say that says which it is based on."""

    def __init__(self, root: Element) -> None:
        by_name = {value(style, "styleId"): style for style in root.iter("{*}style")}
        self.styles: dict[str, set[str]] = {name: set() for name in _SAYS}
        for style in by_name:
            chain, after = list[str](), style
            while after in by_name and after not in chain:
                chain.append(after)
                based = by_name[after].find("{*}basedOn")
                after = "" if based is None else value(based, "val")
            looks = [look for name_of_style in chain if (look := by_name[name_of_style].find("{*}rPr")) is not None]
            for name, styles in self.styles.items():
                first = next((look for look in looks if look.find(f"{{*}}{name}") is not None), None)
                styles |= {style} if self.says(first, name) else set()

    def says(self, look: Element | None, name: str) -> bool:
        """Whether text of this look is not shown (`vanish`), or a superscript (`vertAlign`)."""
        if look is None:
            return False
        if (said := look.find(f"{{*}}{name}")) is not None:
            return _SAYS[name](value(said, "val"))
        style = look.find("{*}rStyle")
        return style is not None and value(style, "val") in self.styles[name]


def _flat(parent: Iterable[Element], looks: _Looks) -> list[Step]:
    """What stands in a paragraph, or in an element around runs, step by step."""
    ops: list[Step] = []
    children = [part for child in parent if local(child) not in _PROPERTIES | _PASSING for part in _divided(child)]
    ends = _field_ends(children)
    index = 0
    while index < len(children):
        child = children[index]
        if (end := ends.get(index)) is not None:
            ops += _field(children[index : end + 1], looks)
            index = end + 1
            continue
        name = local(child)
        if name == "r":
            ops += _run(child, looks)
        elif name in _AROUND:
            inner = child.find("{*}sdtContent") if name == "sdt" else child
            if inner is None or any(local(part) == "p" for part in inner):
                ops.append(Step("fixed", elements=[child]))
            else:
                ops += [Step("open", shell=child, inner=inner), *_flat(inner, looks), Step("close")]
        else:
            shown = shown_in(child, "t") if name == "fldSimple" else ""
            seen = "value" if name in ("fldSimple", "oMath") else ""
            ops.append(Step("fixed", shown, elements=[child], seen=seen))
        index += 1
    return ops


def _divided(child: Element) -> list[Element]:
    """A run in which fields begin and end, as one for each thing in it; anything else as it is, and a run with a text
    box, whose paragraphs are translated where they stand, not in a copy."""
    look = child.find("{*}rPr")
    inside = [part for part in child if local(part) != "rPr"]
    if len(inside) < 2 or local(child) != "r" or child.find("{*}fldChar") is None:
        return [child]
    if child.find(".//{*}txbxContent") is not None:
        return [child]
    if look is not None and len(inside) * weight(*look.iter()) > _COPIES:
        return [child]
    return [run_like(child, look, [deepcopy(part)]) for part in inside]


def _run(run: Element, looks: _Looks) -> list[Step]:
    """The text of a run, and what else is in it, each in a run of its own; a run that is not shown is one thing."""
    look = run.find("{*}rPr")
    if looks.says(look, "vanish"):
        return [Step("fixed", elements=[run])]
    key, ops = look_key(look), []
    for child in run:
        name = local(child)
        if name == "rPr" or name in _PASSING:
            continue
        if name == "t":
            ops.append(Step("text", child.text or "", key, look, raised=looks.says(look, "vertAlign")))
        elif name == "noBreakHyphen":
            ops.append(Step("text", "\u2011", key, look))
        elif name == "ruby":
            shell = etree.Element(run.tag)
            shell.extend(deepcopy(part) for part in (look, child) if part is not None)
            if (inner := shell.find("{*}ruby/{*}rubyBase")) is None:
                ops.append(Step("fixed", elements=[child], look=look, run=run))
            else:  # the text is translated, its reading stays
                ops += [Step("open", shell=shell, inner=inner), *_flat(inner, looks), Step("close")]
        else:
            floats = name == "drawing" and child.find("{*}inline") is None  # it stands nowhere in the text
            seen = "picture" if name in ("drawing", "pict", "object", "sym") and not floats else ""
            kind = "break" if name in ("tab", "ptab", "cr", "br") else "fixed"
            ops.append(Step(kind, elements=[child], look=look, run=run, seen=seen))
    return ops


def _field_ends(children: Sequence[Element]) -> dict[int, int]:
    """For each run that begins a field, by number, the one that ends it, if it ends among these."""
    ends: dict[int, int] = {}
    depth, begun = 0, list[tuple[int, int]]()  # how deep it was before each field that has no end yet
    for number, child in enumerate(children):
        before = depth
        marks = local(child) == "r" or (local(child) in _AROUND and not text_in(child, "t"))  # each inserted by itself
        for char in child.iter("{*}fldChar") if marks else ():
            depth += {"begin": 1, "end": -1}.get(value(char, "fldCharType"), 0)
        while begun and depth <= begun[-1][0]:
            ends[begun.pop()[1]] = number
        if depth > before:
            begun.append((before, number))
    return ends


def _field(children: Sequence[Element], looks: _Looks) -> list[Step]:
    """A field: a link's text is text, anything else is kept and shown."""
    code = "".join(text_in(child, "instrText") for child in children)
    kinds = ([value(char, "fldCharType") for char in child.iter("{*}fldChar")] for child in children)
    divided = next((number for number, inside in enumerate(kinds) if "separate" in inside), None)
    if divided is not None and code.split()[:1] == ["HYPERLINK"]:
        inside = _flat(children[divided + 1 : -1], looks)
        return [Step("open", elements=children[: divided + 1], behind=children[-1:]), *inside, Step("close")]
    shown = "" if divided is None else "".join(shown_in(c, "t") for c in children[divided:])[:SHOWN]
    return [Step("fixed", shown, elements=children, seen="" if code.split()[:1] in _SILENT else "value")]


def value(element: Element, name: str) -> str:
    """An attribute, whatever its namespace; "" if there is none."""
    return next((str(value) for key, value in element.attrib.items() if etree.QName(key).localname == name), "")


# What a text of Word says of its language and its direction, and what it says of a translation.

#: What stands behind `bidi` among the properties of a paragraph, and behind `rtl` among those of a run.
_BEHIND_BIDI = frozenset(
    {
        "adjustRightInd", "snapToGrid", "spacing", "ind", "contextualSpacing", "mirrorIndents", "suppressOverlap", "jc",
        "textDirection", "textAlignment", "textboxTightWrap", "outlineLvl", "divId", "cnfStyle", "rPr", "sectPr",
        "pPrChange",
    }
)  # fmt: skip
_BEHIND_RTL = frozenset({"cs", "em", "lang", "eastAsianLayout", "specVanish", "oMath", "rPrChange"})


def _renamed(root: Element, languages: tuple[str, str]) -> bool:
    """Names the target's language wherever a part names the source's; whether it did."""
    changed = False
    for element in root.iter("{*}lang"):
        for name in (namespace(element) + kind for kind in ("val", "bidi", "eastAsia")):
            if code := renamed(element.get(name, ""), languages):
                element.set(name, code)
                changed = True
    return changed


def _turned(paragraph: Element, languages: tuple[str, str]) -> None:
    """Writes a paragraph and its runs in the target's direction, if it is another one."""
    if side := turned(languages):
        _set(paragraph, "pPr", "bidi", _BEHIND_BIDI, side == "rtl")
        for run in list(paragraph.iter("{*}r")):
            if run.find("{*}t") is not None:
                _set(run, "rPr", "rtl", _BEHIND_RTL, side == "rtl")


def _set(element: Element, properties: str, name: str, behind: frozenset[str], wanted: bool) -> None:
    """Gives or takes a property."""
    prefix = namespace(element)
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
        index = next((number for number, child in enumerate(look) if local(child) in behind), len(look))
        look.insert(index, etree.Element(f"{prefix}{name}"))


# Parts of a text of Word that are for readers and are not read: they are named.

_WORD = re.compile(rb"<(?:\w+:)?(?:t|v)(?:\s[^<>]*)?>[^<]*?(?:[A-Za-z]|[\x80-\xff])")
_NUMBER = re.compile(rb"<(?:\w+:)?lvlText\s[^<>]*?val=[\"'][^\"'<]*?(?:[A-Za-z]{2}|[\xc3-\xdf][\x80-\xbf])")
#: The parts, what says that one has text, and what they are.
_LEFT = (
    (re.compile(r"word/diagrams/data\d*\.xml"), _WORD, "a diagram (SmartArt)"),
    (re.compile(r"word/charts/chart(?:ex)?\d*\.xml"), _WORD, "a chart"),
    (re.compile(r"word/comments\.xml"), _WORD, "comments"),
    (re.compile(r"word/numbering\.xml"), _NUMBER, "words in the numbers of headings and lists, as in 'Article 1'"),
)


# DOCX: the paragraphs of WordprocessingML, with those of headers, footers, notes and text boxes.

_STYLES = re.compile(r"word[/\\]styles\.xml")
_WIDE = re.compile(r"(  +| ?\t[ \t]*)")
#: Steps through what refers to a note, at most.
_REFERENCE = 8
_PARTS = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes)\.xml")


class Docx(Parts):
    """A text of Word.

    Translated: paragraphs, cells, headers, footers, notes, text boxes; the base of ruby text; alternative texts,
    WordArt, watermarks
    Stays: everything else in the package; comments, deletions, formulas, fields, charts, diagrams, words in the numbers
    of headings and lists; hidden text, which is named; the results of fields are not updated; macros of `.docm`
    """

    def _parts(self, names: Iterable[str]) -> list[str]:
        texts = sorted(name for name in names if _PARTS.fullmatch(name.replace("\\", "/")))  # some write Windows' paths
        if not any("document" in name for name in texts):
            raise UserError(f"{self.name}: its part word/document.xml is missing; was it cut off, or of another kind?")
        return texts

    def _load(self) -> None:
        super()._load()
        for name, content in self._contents.items():
            for pattern, text, noun in _LEFT:
                if pattern.fullmatch(name.replace("\\", "/")) and text.search(content):
                    self.left.append(f"{name}: {noun}")
        self._styles = next((name for name in self._contents if _STYLES.fullmatch(name)), "")
        styles = self._root(self._styles) if self._styles else etree.Element("styles")
        self._headings = set(_styles(styles, r"(?i)heading \d|title$"))
        self._lists = set(_styles(styles, r"(?i)list\b"))
        self._looks = _Looks(styles)

    def _saved(self, parts: set[str]) -> bytes:
        for part in parts:
            _renamed(self._roots[part], self.languages)
        if self._styles and _renamed(self._root(self._styles), self.languages):
            parts = {*parts, self._styles}
        return super()._saved(parts)

    def _part(self, root: Element, part: str) -> Iterator[Unit]:
        sections, listed, hidden = Sections(), False, False
        namespace = root.tag.rpartition("}")[0]
        expect_texts(root, "local-name()='p'", "*[local-name()='r']/*[local-name()='t']")
        for event, element in etree.iterwalk(root, events=("start", "end")):
            name = local(element)
            if name == "altChunk" and event == "start":
                self.left.append(f"{part}: a document inside of this one (altChunk)")
            if event == "start":
                yield from picture_texts(element, part, sections.units)
            if name == "r" and event == "start" and self._looks.says(element.find("{*}rPr"), "vanish"):
                hidden |= any(map(str.isalpha, shown_in(element, "t")))
            if name == "tr":
                if listed:  # a table ends the list before it
                    sections.together(begins=False)
                    listed = False
                sections.together(begins=event == "start")
            if name != "p" or event == "end" or element.tag.rpartition("}")[0] != namespace:
                continue
            look = element.find("{*}pPr")
            style = "" if look is None else next((value(e, "val") for e in look.iterfind("{*}pStyle")), "")
            if style in self._looks.styles["vanish"]:
                hidden |= any(map(str.isalpha, shown_in(element, "t")))
                continue
            in_list = style in self._lists or (look is not None and look.find("{*}numPr") is not None)
            if in_list != listed:
                sections.together(begins=in_list)
                listed = in_list
            if style in self._headings:
                sections.heading()
            if any(child is not look for child in element):
                changed = partial(_turned, languages=self.languages)
                steps = partial(_flat, looks=self._looks)
                runs = _Paragraph(element, steps, units=sections.units, changed=changed, room=self._room)
                yield Unit(runs.segment, runs.fill, part)
            sections.paragraph()
        if hidden:
            self.left.append(f"{part}: hidden text")


class _Paragraph(Runs):
    """A paragraph of WordprocessingML."""

    joins = False

    def add(self, text: str) -> None:
        """Text, in which two spaces stay two, and more are a break."""
        for number, part in enumerate(_WIDE.split(text)):
            if number % 2 and self.inline.begun and (len(part) > 2 or "\t" in part):
                self.inline.hard(RunPayload(part))
            elif number % 2 and self.inline.begun:
                self.inline.wide()
            else:
                self.inline.text(part)

    def spaced(self, text: str) -> bool:
        return True

    def reference(self, steps: Sequence[Step], number: int) -> tuple[Sequence[Element], int] | None:
        """A link or a superscript that refers to a note."""
        step, few = steps[number], steps[number : number + _REFERENCE]
        if step.raised:
            taken = list(takewhile(lambda run: run.raised, few))
            if not is_reference(self.inline.touched, "".join(run.text for run in taken), link=False):
                taken = taken[:1]  # several references in a row
            shell, end = None, number + len(taken)
        elif step.kind == "open" and step.shell is not None and local(step.shell) == "hyperlink":
            taken = list(takewhile(lambda run: run.kind == "text", few[1:]))
            shell, end = step.shell, number + len(taken) + 2
            if len(taken) + 1 >= len(few) or few[len(taken) + 1].kind != "close":
                return None
        else:
            return None
        if not is_reference(self.inline.touched, "".join(run.text for run in taken), link=not step.raised):
            return None
        return [shell] if shell is not None else [self.run(run.text, run.look) for run in taken], end


def _styles(root: Element, pattern: str) -> Iterator[str]:
    """The styles whose names, which are English whatever language Word speaks, begin like this."""
    for style in root.iter("{*}style"):
        name = style.find("{*}name")
        if name is not None and re.match(pattern, value(name, "val")):
            yield value(style, "styleId")
