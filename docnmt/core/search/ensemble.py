"""Ensembles: several models write one text together, by the average of their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from docnmt.core.batch import PackedText
from docnmt.core.models.encoder_decoder import AnyTranslationModel, RowState
from docnmt.runtime import graphs


@dataclass
class EnsembleState:
    """The decoder states of all models; row r belongs to the same hypothesis in each."""

    states: list[RowState]

    @property
    def any_memory(self) -> bool:
        """True if slots that read another encoding can be appended."""
        return all(getattr(state, "any_memory", False) for state in self.states)

    def reorder(self, rows: Tensor) -> None:
        """Reorder the rows of every model's state."""
        for state in self.states:
            state.reorder(rows)

    def append(self, other: EnsembleState) -> None:
        """Append the rows of another ensemble state, model by model."""
        for mine, theirs in zip(self.states, other.states, strict=True):
            mine.append(theirs)


class Ensemble:
    """Several models behind the interface of one (`encode`, `begin`, `step`); a single model is used unchanged."""

    def __init__(self, models: Sequence[AnyTranslationModel]) -> None:
        if not models:
            raise ValueError("an ensemble needs at least one model")
        self.models = list(models)

    @cached_property
    def _steps(self) -> list[Callable[..., Tensor]]:
        """The step of each model, as CUDA graphs where DOCNMT_GRAPHS=on asks for them and that can be."""
        if not graphs.graphs_wished():
            return [model.step for model in self.models]
        from docnmt.core.models.step_graphs import graphed_step

        return [graphed_step(model) or model.step for model in self.models]

    def encode(self, sources: Sequence[PackedText]) -> list[object]:
        """Encode the documents with each model, in that model's own packing."""
        return [model.encode(source) for model, source in zip(self.models, sources, strict=True)]

    def remember(
        self, memories: Sequence[object], sentences: Sequence[int], tokens: Sequence[int], *, given: bool
    ) -> list[object]:
        """Return, for each model, what other sentences read of a translation; None for models that read none.

        Models are those that read their own text or, with `given`, those that read given text. `sentences` has the
        sentence's number in each model's memory.
        """
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
        """Return the models' state for N new slots.

        Args:
            sentences: for each model (N,), numbered as in its own packed source.
            earlier: for models that read translations, what `remember` returned for the translations that each slot
                reads.
        """
        states = []
        for number, (model, memory, own) in enumerate(zip(self.models, memories, sentences, strict=True)):
            read = [[written[number] for written in slot if written[number] is not None] for slot in earlier]
            states.append(model.begin(memory, own, beam, read))
        return EnsembleState(states)

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """Return logits (R, V) for tokens (R,): one model's own, or the log of the summed probabilities of several."""
        logits = [step(tokens, own) for step, own in zip(self._steps, state.states, strict=True)]
        if len(logits) == 1:
            return logits[0]
        log_probs = torch.stack([torch.log_softmax(each.float(), dim=-1) for each in logits])
        return torch.logsumexp(log_probs, dim=0)
