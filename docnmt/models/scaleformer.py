"""Scaleformer (004): kernelised attention with relative positions, in the encoder, in the decoder and between them."""

from __future__ import annotations

from docnmt.models.build import Vocabularies, encoder_decoder
from docnmt.models.config import ScaleformerConfig
from docnmt.models.encoder_decoder import EncoderDecoder


class Scaleformer(EncoderDecoder):
    """A document is one sequence: time and memory in proportion to it, and a decoder's state of constant size."""

    Config = ScaleformerConfig
    unit = "document"
    joined = True

    @classmethod
    def build(cls, config: ScaleformerConfig, task: Vocabularies) -> Scaleformer:
        parts = encoder_decoder(config, task, **config.position_settings)
        return cls(position_count=config.joined_count, **parts)
