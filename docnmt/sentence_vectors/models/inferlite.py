"""InferLite: gated word vectors of several types, max-pooled, trained on natural language inference."""

from __future__ import annotations

from docnmt.sentence_vectors.models.config import InferLiteConfig
from docnmt.sentence_vectors.models.sentence_pair import SentencePairModel, SentenceTask, dims
from docnmt.sentence_vectors.modules.inferlite import InferLiteEncoder


class InferLite(SentencePairModel):
    """InferLite (Kiros & Chan 2018)."""

    Config = InferLiteConfig

    @classmethod
    def build(cls, config: InferLiteConfig, task: SentenceTask) -> InferLite:
        """The model that `config` describes, for the labels and embedding types of `task`."""
        encoder = InferLiteEncoder(
            dims=dims(task),
            d_model=config.hidden_dim,
            d_output=config.output_dim,
            layers=config.conv_layers,
            width=config.conv_width,
            gate=config.gate,
            skip=config.skip,
            pooling=config.pooling,
        )
        return cls(encoder=encoder, config=config, task=task)
