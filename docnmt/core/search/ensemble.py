"""Several models that write one text together: the average of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from docnmt.core.batch import PackedText
from docnmt.core.models.translation_model import AnyTranslationModel, RowState


@dataclass
class EnsembleState:
    """The states of all models; rows mean the same in each."""

    states: list[RowState]

    @property
    def any_memory(self) -> bool:
        """Slots of another memory can stand behind these."""
        return all(getattr(state, "any_memory", False) for state in self.states)

    def reorder(self, rows: Tensor) -> None:
        """As `RowState.reorder`, in every state."""
        for state in self.states:
            state.reorder(rows)

    def append(self, other: EnsembleState) -> None:
        """As `RowState.append`, in every state."""
        for mine, theirs in zip(self.states, other.states, strict=True):
            mine.append(theirs)


class Ensemble:
    """Models (`encode`, `begin`, `step`) as one; of a single model, exactly that model."""

    def __init__(self, models: Sequence[AnyTranslationModel]) -> None:
        if not models:
            raise ValueError("an ensemble needs at least one model")
        self.models = list(models)

    def encode(self, sources: Sequence[PackedText]) -> list[object]:
        """Each model's memory of its own packing of the same documents."""
        return [model.encode(source) for model, source in zip(self.models, sources, strict=True)]

    def remember(
        self, memories: Sequence[object], sentences: Sequence[int], tokens: Sequence[int], *, given: bool
    ) -> list[object]:
        """What other sentences read of a translation, of each model that reads its own text or else, with `given`, of
        each that reads what is given; None of the others. `sentences`: as each memory numbers it."""
        reads = [model.reading.given_text if given else model.reading.own_text for model in self.models]
        parts = zip(self.models, memories, sentences, reads, strict=True)
        return [model.remember(memory, n, tokens) if each else None for model, memory, n, each in parts]

    def begin(
        self,
        memories: Sequence[object],
        sentences: Sequence[Tensor],
        beam: int,
        earlier: Sequence[Sequence[list[object]]] = (),
    ) -> EnsembleState:
        """A state with N slots.

        Args:
            sentences: for each model (N,), numbered as in its own packed source.
            earlier: where models read translations, for each slot what `remember` gave for those that it reads.
        """
        states = []
        for number, (model, memory, own) in enumerate(zip(self.models, memories, sentences, strict=True)):
            read = [[written[number] for written in slot if written[number] is not None] for slot in earlier]
            states.append(model.begin(memory, own, beam, read))
        return EnsembleState(states)

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """(R,) → (R, V) logits: one model's own, or the logarithms of the sum of several models' probabilities."""
        logits = [model.step(tokens, own) for model, own in zip(self.models, state.states, strict=True)]
        if len(logits) == 1:
            return logits[0]
        log_probs = torch.stack([torch.log_softmax(each.float(), dim=-1) for each in logits])
        return torch.logsumexp(log_probs, dim=0)
