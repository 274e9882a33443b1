"""The whole document as one sequence (002, section 1.3.1): break tokens between sentences, multi-level positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docnmt.models.build import Vocabularies, encoder_decoder
from docnmt.models.config import StructuredConfig
from docnmt.models.encoder_decoder import EncoderDecoder

if TYPE_CHECKING:
    from typing_extensions import Self


class DocTransformer(EncoderDecoder):
    """Every word attends to all words of its document: exact, and quadratic in its length."""

    Config: type[StructuredConfig] = StructuredConfig
    unit = "document"
    joined = True

    @classmethod
    def build(cls, config: StructuredConfig, task: Vocabularies) -> Self:
        parts = encoder_decoder(config, task, **config.position_settings)
        return cls(position_count=config.joined_count, **parts)
