"""What a translation model reads and writes at once, as a value: the plan of its units. No torch and no NumPy here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

#: Where the indices of positions count from: their parent unit (the default); the document's start; words from there,
#: the units above them from their parent; for the word index of joined sentences, the start of the whole sequence.
PositionCount = Literal["unit", "document", "mixed", "sequence"]


@dataclass(frozen=True, kw_only=True)
class ReadingPlan:
    """How a model's documents are divided into units. Training, search and scoring know a model's units by it alone.

    Attributes:
        written: sentences that a unit translates; None: the whole document.
        earlier: source sentences that it also reads, right before those.
        stride: sentences from the beginning of one unit to the next; `written` where units do not overlap.
        joined: the sentences of a unit are one sequence with `<brk>` between them, searched as one text; otherwise each
            is a sequence of its own, and search writes the sentences of a unit side by side.
        source_breaks: where joined, `<brk>` stands between the sentences of the source, too; without, only their
            positions tell them apart.
        around: of its document a sentence reads at most so many others on each side; None: all. Only where `written`
            is None and `joined` is not.
        own_text: a sentence reads the translations of those before it, which must be written first.
        given_text: a sentence reads the translations of its document that are given, and none that the model writes.
        positions: where positions count from.
        dropped_context: how often training has the sentences of a unit read nothing but themselves. Where `around` is.
        masked_context: how often training replaces a word by `<mask>` in sentences that a unit only reads.
    """

    written: int | None
    earlier: int = 0
    stride: int | None = None
    joined: bool = False
    source_breaks: bool = True
    around: int | None = None
    own_text: bool = False
    given_text: bool = False
    positions: PositionCount = "unit"
    dropped_context: float = 0.0
    masked_context: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("written", 1), ("earlier", 0), ("stride", 1), ("around", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise ValueError(f"ReadingPlan: {name} must be a whole number of at least {least}, got {value!r}")
        if self.positions not in get_args(PositionCount):
            raise ValueError(f"ReadingPlan: positions must be one of {get_args(PositionCount)}, got {self.positions!r}")
        apart = self.written is None and not self.joined
        if not self.source_breaks and not self.joined:
            raise ValueError("ReadingPlan: source_breaks is for units whose sentences are joined")
        if self.around is not None and not apart:
            raise ValueError(f"ReadingPlan: around {self.around} is for whole documents whose sentences are not joined")
        for name in ("own_text", "given_text"):
            if getattr(self, name) and not apart:
                raise ValueError(f"ReadingPlan: {name} is for whole documents whose sentences are not joined")
        if self.own_text and self.given_text:
            raise ValueError("ReadingPlan: own_text reads given translations, too; give one of own_text and given_text")
        if self.earlier and not (self.joined and self.written):
            raise ValueError(f"ReadingPlan: earlier {self.earlier} is for joined units of a number of sentences")
        if self.stride is not None and (self.written is None or self.stride > self.written):
            raise ValueError(f"ReadingPlan: stride {self.stride} leaves sentences out of units of {self.written}")
        for name in ("dropped_context", "masked_context"):
            if not 0 <= (share := getattr(self, name)) < 1:
                raise ValueError(f"ReadingPlan: {name} must be in [0, 1), got {share}")
        if self.dropped_context and not apart:
            raise ValueError("ReadingPlan: dropped_context is for whole documents whose sentences are not joined")

    @property
    def reads_translations(self) -> bool:
        """A sentence reads translations of others, so that training needs theirs beside its own."""
        return self.own_text or self.given_text

    @property
    def whole_documents(self) -> bool:
        """A unit is a document, however long."""
        return self.written is None

    @property
    def reads_context(self) -> bool:
        """What a unit writes may depend on other sentences of its document."""
        return self.written != 1 or self.earlier > 0

    @property
    def noun(self) -> str:
        """What a unit is called in messages."""
        alone = not self.reads_context and not self.joined
        return "document" if self.written is None else "sentence" if alone else "window"

    def within(self, window: int | None) -> ReadingPlan:
        """The plan with at most `window` sentences of context.

        Texts of several sentences then hold `window` + 1, also more than the model was trained with: k-to-k stays
        k-to-k, k-to-1 goes on writing one, and they overlap by as many sentences as before.
        """
        if window is not None and window < 0:
            raise ValueError(f"window: must be at least 0, got {window}")
        if window is None or (self.written == 1 and not self.joined):
            return self
        if not self.joined:
            return replace(self, around=window)
        if self.written is None:
            return replace(self, written=window + 1)
        written = min(self.written, window + 1) if self.earlier else window + 1
        overlap = self.written - (self.stride or self.written)
        return replace(self, written=written, earlier=window + 1 - written, stride=max(1, written - overlap))
