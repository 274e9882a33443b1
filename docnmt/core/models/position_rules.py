"""Rules for combining positions and fusions. No torch here: configuration classes need them while options are read."""

from __future__ import annotations

from docnmt.registry.options import Except

#: The fusions that read the positions' encoding.
READ_POSITIONS = Except(("none", "gate_content"))
#: The families that have nothing to fuse, each with the reason.
NOTHING_TO_FUSE = {
    "rope": "rotary positions turn queries and keys inside attention; use rope_input, or another family",
    "relative": "relative positions act on attention scores; use relative_input, or another family",
    "alibi": "ALiBi acts on attention scores; use another family",
    "none": "there are no positions",
}


def fusion_of(position: str, fusion: str) -> str:
    """Return `fusion`, or the default operator of the position family if none is given ("").

    Positions by sines, of the word or of several levels, translate better with `concat` than with `add`
    (docs/results/fusion.md); other families, which have `add`, were not tried.
    """
    return fusion or ("concat" if position in ("sinusoidal", "multi_level") else "add")


def fusion_problems(position: str, fusion: str) -> list[str]:
    """Return the reason why an operator does not fit a family: families without an input table have nothing to fuse.

    `add` (their default, which then adds nothing) and `none` go with all of them.
    """
    if position in NOTHING_TO_FUSE and fusion not in ("add", "none"):
        reason = NOTHING_TO_FUSE[position]
        return [f"--position-fusion {fusion}: --position {position} has nothing to fuse: {reason}"]
    return []


def width_problems(position: str, width: int, heads: int) -> list[str]:
    """Return a message if a width is odd although sinusoidal or rotary encodings pair features up."""
    if position in ("sinusoidal", "rope_input", "multi_level") and width % 2:
        return [f"--embed-dim: --position {position} needs an even width, got {width}"]
    if position == "rope" and (width // heads) % 2:
        return [f"--heads: --position rope needs heads of even width, got {width}/{heads} = {width // heads}"]
    return []
