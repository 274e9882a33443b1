"""A sentence model that copies from human translations of its document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from typing_extensions import Unpack

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.core.data.tokenizer import BOS, EOS
from docnmt.core.models.build_model import Parts, Vocabularies, encoder_decoder
from docnmt.core.models.config import CopyTransformerConfig
from docnmt.core.models.decoder_state import DecoderState, Memory
from docnmt.core.models.encoder_decoder import EncoderDecoder, initialise
from docnmt.core.reading import ReadingPlan
from docnmt.functional.loss import CopiedFeatures
from docnmt.layout import DocumentLayout
from docnmt.modules.pointer import CopyKeys, Earlier, Pointer

if TYPE_CHECKING:
    from typing_extensions import Self


class CopyTransformer(EncoderDecoder):
    """The Transformer, sentence by sentence, with a `Pointer` to the given translations of its document.

    Training reads the references before each sentence. Decoding reads given translations, never the model's own text,
    whose errors the pointer would trust like a reference. Without given translations, or with the pointer closed, it is
    the sentence model.
    """

    Config = CopyTransformerConfig

    def __init__(self, *, pointer: Pointer, **parts: Unpack[Parts]) -> None:
        super().__init__(**parts)
        self.pointer = pointer
        initialise(pointer)

    @classmethod
    def build(cls, config: CopyTransformerConfig, task: Vocabularies) -> Self:
        """The model with random weights."""
        parts = encoder_decoder(config, task, reading=ReadingPlan(written=None, given_text=True), levels=1)
        return cls(pointer=Pointer(d_model=config.embed_dim, window=config.copy_window), **parts)

    def forward(self, batch: TranslationBatch) -> CopiedFeatures:  # type: ignore[override]  # a criterion knows both
        """Return the features (T, d) and the probabilities of copying the labels."""
        features = super().forward(batch)
        return CopiedFeatures(features, self.pointer(features, _followed(batch), batch.target.layout))

    def encode(self, source: PackedText) -> Memory:
        """Encode packed documents; the states are kept because `remember` reads them."""
        states = self.encoder(source)
        return replace(Memory.of(source, self.decoder.remember(source, states)), states=states)

    def begin(  # type: ignore[override]  # what is kept of a written sentence is this model's own
        self, memory: Memory, sentences: Tensor, beam: int, earlier: Sequence[Sequence[CopyKeys]] = ()
    ) -> DecoderState:
        """Return a state whose slots can copy from `earlier`."""
        state = super().begin(memory, sentences, beam)
        state.layers.append({"pointer": Earlier(earlier or [[] for _ in sentences], self.pointer.window)})
        return state

    def remember(self, memory: Memory, sentence: int, tokens: Sequence[int]) -> CopyKeys:  # type: ignore[override]
        """Return the decoder's states of a finished translation, computed in one more pass over it."""
        assert memory.states is not None
        begin, end = memory.source.layout.sentences.host[sentence : sentence + 2].tolist()
        device = memory.states.device
        text = torch.tensor([BOS, *tokens, EOS], device=device)
        layout = DocumentLayout.from_lengths([[len(text) - 1]]).to(device)
        target = PackedText(text[:-1], layout, memory.positions(sentence, len(text) - 1))
        source = DocumentLayout.from_lengths([[end - begin]]).to(device)
        features = self.decoder(target, memory.states[begin:end], source)
        return self.pointer.remember(features, text[1:])

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one token (R,) in every row; return the log-probabilities of the next one (R, V)."""
        features = self.advance(tokens, state)
        earlier = state.layers[-1]["pointer"]
        assert isinstance(earlier, Earlier)
        return self.pointer.step(features, self.output(features), earlier)


def _followed(batch: TranslationBatch) -> Tensor:
    """Return the token (T,) that follows each target token, also in sentences without labels, which are only read;
    `IGNORE` in sentences without a translation, whose target is the first token alone."""
    tokens, offsets = batch.target.tokens, batch.target.layout.sentence_offsets
    following = tokens.roll(-1).index_fill(0, offsets[1:] - 1, EOS) if len(tokens) else tokens
    alone = (offsets.diff() == 1).index_select(0, batch.target.layout.sentence_of_token)
    return torch.where(batch.labels >= 0, batch.labels, following.masked_fill(alone, IGNORE))
