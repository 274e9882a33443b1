"""The encoders that InferLite is compared with, under the same task and classifier."""

from __future__ import annotations

import torch

from docnmt.sentence_vectors.models.config import BagOfWordsConfig, BiLstmMaxConfig, Source2TokenEncoderConfig
from docnmt.sentence_vectors.models.sentence_pair import SentencePairModel, SentenceTask, dims
from docnmt.sentence_vectors.modules import sentence_encoders, source2token_encoder


class BagOfWords(SentencePairModel):
    """Mean, maximum or SIF-weighted mean of the word vectors; only the classifier learns."""

    Config = BagOfWordsConfig

    @classmethod
    def build(cls, config: BagOfWordsConfig, task: SentenceTask) -> BagOfWords:
        """The model that `config` describes, for the labels and embedding types of `task`."""
        probability = torch.as_tensor(task.probability, dtype=torch.float32)
        encoder = sentence_encoders.BagOfWords(dims=dims(task), pooling=config.bag_pooling, probability=probability)
        return cls(encoder=encoder, config=config, task=task)


class BiLstmMax(SentencePairModel):
    """InferSent: bidirectional LSTM, max-pooling (Conneau et al. 2017)."""

    Config = BiLstmMaxConfig

    @classmethod
    def build(cls, config: BiLstmMaxConfig, task: SentenceTask) -> BiLstmMax:
        """The model that `config` describes, for the labels and embedding types of `task`."""
        encoder = sentence_encoders.BiLstmMax(dims=dims(task), d_output=config.output_dim)
        return cls(encoder=encoder, config=config, task=task)


class Source2TokenEncoder(SentencePairModel):
    """The document encoder's layers and its source2token summaries, on single sentences."""

    Config = Source2TokenEncoderConfig

    @classmethod
    def build(cls, config: Source2TokenEncoderConfig, task: SentenceTask) -> Source2TokenEncoder:
        """The model that `config` describes, for the labels and embedding types of `task`."""
        encoder = source2token_encoder.Source2TokenEncoder(
            dims=dims(task),
            d_model=config.embed_dim,
            layers=config.encoder_layers,
            heads=config.heads,
            d_inner=config.ffn_dim,
            dropout=config.dropout,
        )
        return cls(encoder=encoder, config=config, task=task)
