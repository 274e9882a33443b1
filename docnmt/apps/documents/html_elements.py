"""The elements of HTML: which stand between lines of text, which in them, and which hold none."""

from __future__ import annotations

#: Elements that stand between lines of text; any other, also one that HTML does not know, stands in a line.
_BLOCKS = (
    "address article aside base blockquote body caption center col colgroup datalist dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link "
    "main menu meta nav noframes noscript ol optgroup option p search section select summary table tbody td template "
    "tfoot th thead title tr ul"
)
#: Elements whose content is not translated: in a line of text, where some show no text to a model …
UNSEEN = {
    "svg": "picture", "audio": "picture", "video": "picture", "canvas": "picture", "map": "picture",
    "object": "picture", "math": "value", "rt": "", "rp": "", "rtc": "",
}  # fmt: skip
FIXED = frozenset({"code", "kbd", "samp", "var", "meter", "progress", "output"}) | frozenset(UNSEEN)
#: … and between lines.
_SKIPPED = "script style pre textarea iframe listing xmp plaintext"
SKIPPED = frozenset(_SKIPPED.split())
BLOCKS = frozenset(_BLOCKS.split()) | SKIPPED
#: Elements in lines that are lines of their own if there is no text between them.
CONTROLS = frozenset({"button", "label"})
#: What readers see where no text is: of these, and of elements that have a class and no content, as icons have.
_PICTURES = frozenset({"img", "input", "embed"})
#: Elements whose end tag may be left out, and those that end them; a paragraph is ended by any block.
OPEN = {
    "p": frozenset({"p"}), "li": frozenset({"li"}), "option": frozenset({"option", "optgroup"}),
    "dt": frozenset({"dt", "dd"}), "dd": frozenset({"dt", "dd"}), "tr": frozenset({"tr"}),
    "td": frozenset({"td", "th", "tr"}), "th": frozenset({"td", "th", "tr"}),
    "rt": frozenset({"rt", "rp"}), "rp": frozenset({"rt", "rp"}),
}  # fmt: skip


def is_picture(tag: str) -> bool:
    """Whether an element without text shows something: a picture, or whatever a page makes of an element of its own."""
    return tag in _PICTURES or "-" in tag
