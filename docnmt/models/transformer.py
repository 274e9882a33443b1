"""The Transformer, sentence by sentence (Vaswani et al. 2017): the control that every document model needs."""

from __future__ import annotations

from docnmt.models.build import Vocabularies, encoder_decoder
from docnmt.models.config import TransformerConfig
from docnmt.models.encoder_decoder import EncoderDecoder


class Transformer(EncoderDecoder):
    """Every sentence by itself: what it knows of the document is nothing."""

    Config = TransformerConfig
    unit = "sentence"

    @classmethod
    def build(cls, config: TransformerConfig, task: Vocabularies) -> Transformer:
        return cls(**encoder_decoder(config, task, levels=1))  # of `multi_level` positions the word
