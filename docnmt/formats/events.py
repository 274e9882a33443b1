"""What a reader of a parallel corpus says, whatever the form of its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from docnmt.formats.structure import StructureBuilder


class Sentence(NamedTuple):
    """One sentence on all sides: the source first, then the references.

    `units` are the labels of the units it stands in, outermost first; `labels` whatever else is known of it.
    """

    texts: tuple[str, ...]
    units: tuple[str, ...] = ()
    labels: str = ""


class Blank(NamedTuple):
    """An empty line: a document ends here if one is open."""


class Mark(NamedTuple):
    """A document begins here; `name` where the form has names."""

    name: str | None = None


Event = Sentence | Blank | Mark


@dataclass
class Facts:
    """What reading a split has shown, complete when the last event was read.

    Attributes:
        levels, labels, names: whether sections or paragraphs, labels, and documents' names are known.
        notes: what was changed or left out while reading, for the report.
        inputs: size and hash of each file read.
    """

    levels: bool = False
    labels: bool = False
    names: bool = False
    notes: list[str] = field(default_factory=list)
    inputs: dict[str, dict[str, int | str]] = field(default_factory=dict)


def sentences_of(events: Iterator[Event], builder: StructureBuilder, names: list[str]) -> Iterator[Sentence]:
    """Only the sentences; their structure goes to `builder`, documents' names to `names`."""
    for event in events:
        if isinstance(event, Sentence):
            builder.sentence(event.units)
            yield event
        elif isinstance(event, Mark):
            builder.mark()
            if event.name is not None:
                names.append(event.name)
        else:
            builder.blank()
