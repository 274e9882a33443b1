"""Scaleformer (004): kernelised attention with relative positions, in the encoder, in the decoder and between them."""

from __future__ import annotations

from docnmt.models.build import Vocabularies, encoder_decoder
from docnmt.models.config import ScaleformerConfig
from docnmt.models.encoder_decoder import EncoderDecoder


class Scaleformer(EncoderDecoder):
    """Time and memory in proportion to the text; decoding keeps as much of a long text as of a short one."""

    Config = ScaleformerConfig
    unit = "sentence"

    @classmethod
    def build(cls, config: ScaleformerConfig, task: Vocabularies) -> Scaleformer:
        return cls(**encoder_decoder(config, task))
