"""What search, scoring and training ask of a translation model and of its task. A plug-in may have its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from torch import Tensor, nn
from typing_extensions import Self, TypeIs

from docnmt.core.batch import PackedText, TranslationBatch
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.reading import ReadingPlan
from docnmt.functional.loss import CopiedFeatures


@runtime_checkable
class RowState(Protocol):
    """What a model keeps of its live rows."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows, in that order; they stay slot by slot, and a slot may vanish with all its rows."""

    def append(self, other: Self) -> None:
        """Put the slots of another state behind this one's."""


MemoryT = TypeVar("MemoryT")
StateT = TypeVar("StateT", bound=RowState)
WrittenT = TypeVar("WrittenT")


class TranslationModel(Protocol[MemoryT, StateT, WrittenT]):
    """A model that writes text. `MemoryT`: what it keeps of source documents; `StateT`: of live rows; `WrittenT`: of a
    sentence that it has written. Search hands all three back as they are."""

    reading: ReadingPlan
    output: nn.Linear
    training: bool

    def __call__(self, batch: TranslationBatch) -> Tensor | CopiedFeatures:
        """Features (T, d) of the packed target tokens; `output` turns them into scores of the vocabulary."""

    def encode(self, source: PackedText) -> MemoryT:
        """Packed source documents as decoding reads them."""

    def begin(
        self, memory: MemoryT, sentences: Tensor, beam: int, earlier: Sequence[Sequence[WrittenT]] = ()
    ) -> StateT:
        """A state with one slot of `beam` empty rows for each of `sentences` (N,) of the memory's layout.

        Args:
            earlier: with `reading.own_text`, for each slot what `remember` gave for the sentences before its own; with
                `reading.given_text`, for those of its document that are given.
        """

    def remember(self, memory: MemoryT, sentence: int, tokens: Sequence[int]) -> WrittenT:
        """What other sentences read of the translation `tokens` of a sentence of the memory."""

    def step(self, tokens: Tensor, state: StateT) -> Tensor:
        """Every row reads one token (R,) → scores of the next one (R, V)."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """The weights."""

    def train(self, mode: bool = True) -> object:
        """Switch dropout on, or off."""


_PARTS = (
    "reading", "output", "encode", "begin", "remember", "step", "training", "parameters", "train", "__call__",
)  # fmt: skip


def lacking(model: object) -> list[str]:
    """What `model` lacks of a translation model, by name.

    `isinstance` would not do: since Python 3.12 it looks members up without `__getattr__`, by which a module finds the
    modules that it holds.
    """
    return [part for part in _PARTS if not hasattr(model, part)]


def is_translation_model(model: object) -> TypeIs[AnyTranslationModel]:
    """Whether `model` lacks nothing of one."""
    return not lacking(model)


#: A model whose own types do not matter to who holds it: models of an ensemble differ in them.
AnyTranslationModel: TypeAlias = TranslationModel[Any, Any, Any]


@runtime_checkable
class TranslationTask(Protocol):
    """What search and scoring need of a task whose models are `TranslationModel`s."""

    source_lang: str
    target_lang: str
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def max_doc_tokens(self) -> int | None:
        """Where models of whole documents cut them."""

    @property
    def languages(self) -> tuple[str, str]:
        """From which to which."""

    def of_folder(self, data_dir: Path) -> Self:
        """The same task with another data folder's vocabulary and languages."""
