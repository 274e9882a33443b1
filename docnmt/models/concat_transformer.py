"""Concatenation of neighbouring sentences (Tiedemann and Scherrer 2017; 002, section 1.3.1): 2-to-1, 2-to-2, k-to-k."""

from __future__ import annotations

from typing import Any

from docnmt.models.build import Vocabularies, encoder_decoder
from docnmt.models.config import ConcatConfig
from docnmt.models.encoder_decoder import EncoderDecoder


class ConcatTransformer(EncoderDecoder):
    """Reads K + 1 source sentences with break tokens between them and translates the last J of them.

    A document is cut into windows of J sentences, in training as in decoding: without overlap, or sliding by
    `window_stride` sentences, where search keeps what a window has beyond the one before it.

    Args:
        target_window: J. window_stride: 1 (Tiedemann and Scherrer's) to J (no overlap).
        earlier: source sentences read before those that are translated, K + 1 − J.
        context_word_dropout: how often training hides a word of the earlier ones; the dataset does it.
    """

    Config = ConcatConfig
    unit = "window"
    joined = True

    def __init__(
        self, *, target_window: int, window_stride: int, earlier: int, context_word_dropout: float = 0.0, **parts: Any
    ) -> None:
        super().__init__(**parts)
        self.target_window, self.window_stride, self.earlier = target_window, window_stride, earlier
        self.context_word_dropout = context_word_dropout

    @classmethod
    def build(cls, config: ConcatConfig, task: Vocabularies) -> ConcatTransformer:
        earlier = config.source_context + 1 - config.target_window
        parts = encoder_decoder(config, task, **config.position_settings)
        count = config.joined_count
        hidden = config.context_word_dropout
        return cls(
            target_window=config.target_window,
            window_stride=config.window_stride or config.target_window,
            earlier=earlier,
            context_word_dropout=hidden,
            position_count=count,
            **parts,
        )
