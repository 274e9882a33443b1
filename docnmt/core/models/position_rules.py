"""Rules for combining positions and fusions. No torch here: configuration classes need them while options are read."""

from __future__ import annotations

from docnmt.registry.options import Except, Needs

#: The fusions that read the positions' encoding.
_READ_POSITIONS = Except(("none", "gate_content"))
#: The condition for options of positions, besides their family.
READ_POSITIONS = Needs("position_fusion", _READ_POSITIONS, typed=True)
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


def position_problems(position: str, fusion: str, attention: str, width: int, heads: int) -> list[str]:
    """Return the reasons why a family does not fit an operator, an attention or a width.

    A family without an input table has nothing to fuse, but goes with `add`, its default, which then adds nothing, and
    with `none`. Sines and cosines, and rotations, pair features up.
    """
    found = []
    if width % heads:
        found.append(f"--heads {heads} does not divide --embed-dim {width}")
    if position in NOTHING_TO_FUSE and fusion not in ("add", "none"):
        why = NOTHING_TO_FUSE[position]
        found.append(f"--position-fusion {fusion}: --position {position} has nothing to fuse: {why}")
    if attention == "linear" and position in ("rope", "alibi"):
        found.append(f"--attention linear has no scores for --position {position} to act on; use another family")
    if position in ("sinusoidal", "rope_input", "multi_level") and width % 2:
        found.append(f"--embed-dim: --position {position} needs an even width, got {width}")
    elif position == "rope" and (width // heads) % 2:
        found.append(f"--heads: --position rope needs heads of even width, got {width}/{heads} = {width // heads}")
    return found
