"""Scaleformer (004): kernelised attention with relative positions, in the encoder, in the decoder and between them."""

from __future__ import annotations

from docnmt.models.config import ScaleformerConfig, StructuredConfig
from docnmt.models.doc_transformer import DocTransformer


class Scaleformer(DocTransformer):
    """A document is one sequence: time and memory in proportion to it, and a decoder's state of constant size."""

    Config: type[StructuredConfig] = ScaleformerConfig
