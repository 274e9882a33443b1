"""Reading plans: how much text a translation model reads and writes at once. No torch and no NumPy here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

#: The origin of position indices: their parent unit (the default); the document's start; that for words, and the parent
#: unit for others; or, for the word index of joined sentences, the start of the whole sequence.
PositionCount = Literal["unit", "document", "mixed", "sequence"]


@dataclass(frozen=True, kw_only=True)
class ReadingPlan:
    """The division of a model's documents into units. Training, search and scoring know a model's units by it alone.

    Attributes:
        written: number of sentences that a unit translates; None: the whole document.
        earlier: number of source sentences that it also reads, right before those.
        stride: number of sentences from the beginning of one unit to the next; `written` if units do not overlap.
        joined: the sentences of a unit are one sequence with `<brk>` between them, searched as one text; otherwise each
            is a sequence of its own, and search writes the sentences of a unit side by side.
        source_breaks: True if joined source sentences have `<brk>` between them, too; else only their
            positions tell them apart.
        around: the most other sentences of its document that a sentence reads on each side; None: all. Only if
            `written` is None and `joined` is not.
        own_text: True if a sentence reads the translations of those before it, which must be written first.
        given_text: True if a sentence reads the given translations of its document, and none that the model writes.
        positions: the origin of positions.
        dropped_context: how often in training each sentence of a unit reads only itself. Only where `around` applies.
        masked_context: how often in training a word is replaced by `<mask>` in sentences that a unit only reads.
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
        """True if a sentence reads translations of others, so that training needs those beside its own."""
        return self.own_text or self.given_text

    @property
    def whole_documents(self) -> bool:
        """True if a unit is a document, however long."""
        return self.written is None

    @property
    def reads_context(self) -> bool:
        """True if a unit's translation may depend on other sentences of its document."""
        return self.written != 1 or self.earlier > 0

    @property
    def noun(self) -> str:
        """The name of a unit in messages."""
        alone = not self.reads_context and not self.joined
        return "document" if self.written is None else "sentence" if alone else "window"

    def within(self, window: int | None) -> ReadingPlan:
        """Return the plan with at most `window` sentences of context.

        Texts of several sentences then have `window` + 1, even if the model was trained with fewer: k-to-k stays
        k-to-k, k-to-1 still writes one, and they overlap by as many sentences as before.
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
