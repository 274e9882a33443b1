"""What stands in a segment, step by step, as text with marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from docnmt.apps.documents.segment import BREAK, Mark
from docnmt.runtime.languages import seam

#: Steps that are text.
TEXT = ("word", "shown")
_NUMBERED = re.compile(r"\{(\d{1,9})\}")


class SegmentStep(NamedTuple):
    """What was added: a `word`, a `space`, or what mark `number` is: `open`, `close`, `shown`, `empty`, `break`."""

    kind: str
    text: str = ""
    number: int = -1
    seen: str = ""


def without_soft_breaks(steps: Sequence[SegmentStep]) -> list[SegmentStep]:
    """The same without line breaks between characters of a script that has no spaces."""
    if not any(step.kind == "space" and "\n" in step.text for step in steps):
        return list(steps)
    kept = []
    for step, (before, behind) in zip(steps, _sides(steps), strict=True):
        soft = step.kind == "space" and "\n" in step.text and before.kind in TEXT and behind.kind in TEXT
        if not soft or seam(before.text, behind.text):
            kept.append(step)
    return kept


def with_placeholders(steps: Sequence[SegmentStep]) -> list[SegmentStep]:
    """The same with placeholders for what readers see and models would not."""
    found = list(steps)
    there = {int(name) for step in steps for name in _NUMBERED.findall(step.text)}
    names = (f"{{{number}}}" for number in count() if number not in there)
    sides = _sides(steps)
    words = [number for number, step in enumerate(steps) if step.kind in TEXT]
    for number, step in enumerate(steps):
        if step.kind != "empty" or not step.seen:
            continue
        before, behind = sides[number]
        touches = (before.kind in TEXT and before.text[-1].isalnum()) or (
            behind.kind in TEXT and behind.text[0].isalnum()
        )
        if not touches and (step.seen == "value" or (words and words[0] < number < words[-1])):
            found[number] = step._replace(kind="shown", text=next(names))
    return found


def _sides(steps: Sequence[SegmentStep]) -> list[tuple[SegmentStep, SegmentStep]]:
    """For each step the text, space or break before and behind it, through what covers nothing; space at an end of a
    line is none, as no text stands behind it."""
    edge = SegmentStep("edge")
    around: list[list[SegmentStep]] = []
    for order in (range(len(steps)), range(len(steps) - 1, -1, -1)):
        last, near = edge, [edge] * len(steps)
        for number in order:
            near[number] = last
            kind = steps[number].kind
            if kind in ("word", "shown", "break") or (kind == "space" and last.kind not in ("edge", "break")):
                last = steps[number]
        around.append(near)
    return list(zip(*around, strict=True))


class Build:
    """Writes the text and finds where the marks stand in it."""

    def __init__(self, steps: Sequence[SegmentStep], parents: Sequence[int]) -> None:
        self.parts: list[str] = []
        self.marks = [Mark(0, 0, parent=parent) for parent in parents]
        self.length, self.space = 0, ""
        self.waiting: list[int] = []  # marks that stand behind a space that is not written yet
        for step, sides in zip(steps, _sides(steps), strict=True):
            self._step(step, *(side.kind for side in sides))

    def found(self) -> tuple[str, tuple[Mark, ...]]:
        """The text and its marks."""
        return "".join(self.parts), tuple(self.marks)

    def _step(self, step: SegmentStep, left: str, right: str) -> None:
        """`left`, `right`: what is there: text, white space, a break or an end."""
        if step.kind == "space":
            space = step.text if step.seen else " "
            self.space = max(self.space, space) if self.parts and self.parts[-1] != BREAK else ""
        elif step.kind == "close":
            mark = self.marks[step.number]
            self.marks[step.number] = Mark(mark.begin, max(mark.begin, self.length), parent=mark.parent)
        elif step.kind in ("open", "empty"):
            mark = self.marks[step.number]
            inside = left == right == "space"  # then there is white space between words in any case
            apart = step.kind == "empty" and left not in TEXT and right not in TEXT and not inside
            self.marks[step.number] = Mark(self.length, self.length, step.kind == "empty", mark.parent, apart)
            if self.space and not apart and not (inside and step.kind == "empty"):
                self.waiting.append(step.number)
        else:
            self._write(step)

    def _write(self, step: SegmentStep) -> None:
        if self.space and step.kind != "break":
            self.parts.append(self.space)
            self.length += len(self.space)
            for number in self.waiting:
                self._move(number, self.length)
        self.space = ""
        self.waiting.clear()
        self.parts.append(step.text)
        self.length += len(step.text)
        if step.number >= 0:
            parent = self.marks[step.number].parent
            self.marks[step.number] = Mark(self.length - len(step.text), self.length, True, parent)

    def _move(self, number: int, place: int) -> None:
        mark = self.marks[number]
        self.marks[number] = Mark(place, max(place, mark.end), mark.fixed, mark.parent, mark.apart)
