"""The interfaces of translation models and tasks that search, scoring and training use. Plug-ins may implement them."""

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
    """The decoder state of a model's live rows."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows, in that order; they stay slot by slot, and a slot may be dropped with all its rows."""

    def append(self, other: Self) -> None:
        """Append the slots of another state."""


MemoryT = TypeVar("MemoryT")
StateT = TypeVar("StateT", bound=RowState)
WrittenT = TypeVar("WrittenT")


class TranslationModel(Protocol[MemoryT, StateT, WrittenT]):
    """A model that writes text. `MemoryT` is its memory of source documents, `StateT` its state of live rows,
    `WrittenT` its record of a sentence that it has written. The search passes all three back unchanged."""

    reading: ReadingPlan
    output: nn.Linear
    training: bool

    def __call__(self, batch: TranslationBatch) -> Tensor | CopiedFeatures:
        """Return features (T, d) of the packed target tokens; `output` maps them to scores of the vocabulary."""

    def encode(self, source: PackedText) -> MemoryT:
        """Encode packed source documents for decoding."""

    def begin(
        self, memory: MemoryT, sentences: Tensor, beam: int, earlier: Sequence[Sequence[WrittenT]] = ()
    ) -> StateT:
        """Return a state with one slot of `beam` empty rows for each of `sentences` (N,) of the memory's layout.

        Args:
            earlier: with `reading.own_text`, for each slot what `remember` returned for the sentences before its own;
                with `reading.given_text`, for the given ones of its document.
        """

    def remember(self, memory: MemoryT, sentence: int, tokens: Sequence[int]) -> WrittenT:
        """Return what other sentences read of the translation `tokens` of a sentence of the memory."""

    def step(self, tokens: Tensor, state: StateT) -> Tensor:
        """Read one token (R,) in every row; return scores of the next one (R, V)."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the weights."""

    def train(self, mode: bool = True) -> object:
        """Switch dropout on or off."""


_PARTS = (
    "reading",
    "output",
    "encode",
    "begin",
    "remember",
    "step",
    "training",
    "parameters",
    "train",
    "__call__",
)


def lacking(model: object) -> list[str]:
    """Return the names of the members that `model` lacks of a translation model.

    `isinstance` is not used: since Python 3.12 it looks members up without `__getattr__`, by which a module finds the
    modules that it holds.
    """
    return [part for part in _PARTS if not hasattr(model, part)]


def is_translation_model(model: object) -> TypeIs[AnyTranslationModel]:
    """Return True if `model` has all members of a translation model."""
    return not lacking(model)


#: A translation model whose own types do not matter to its user: models of an ensemble differ in them.
AnyTranslationModel: TypeAlias = TranslationModel[Any, Any, Any]


@runtime_checkable
class TranslationTask(Protocol):
    """The members that search and scoring use of a task whose models are `TranslationModel`s."""

    source_lang: str
    target_lang: str
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def max_doc_tokens(self) -> int | None:
        """The most subwords of a document before models of whole documents cut it; None: no limit."""

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""

    def of_folder(self, data_dir: Path) -> Self:
        """Return the same task with another data folder's vocabulary and languages."""
