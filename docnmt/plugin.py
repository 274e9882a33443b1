"""The names that plug-ins build on: everything here stays, or changes with a word in the changelog.

Importing this module imports torch, as a model must. CONTRIBUTING.md shows how a plug-in registers each
kind of component.
"""

from docnmt.batch import IGNORE, PackedText, TranslationBatch
from docnmt.builtin import register_sizes
from docnmt.config import Condition, option
from docnmt.criterions.protocol import Criterion
from docnmt.data.tokenizer import BOS, BRK, EOS, MASK, UNK
from docnmt.errors import UsageError, UserError
from docnmt.functional import packed_attention
from docnmt.layout import DocumentLayout, Spans
from docnmt.models.build import Vocabularies, embeddings, encoder_decoder
from docnmt.models.config import TransformerConfig
from docnmt.models.decoding import DecoderState, Memory
from docnmt.models.encoder_decoder import Decoder, Encoder, EncoderDecoder
from docnmt.models.protocol import TranslationModel, TranslationTask, is_translation_model
from docnmt.models.sequence_config import StructuredConfig
from docnmt.modules.attention import (
    CrossAttention,
    CrossKeys,
    KeyValueCache,
    PackedKeys,
    SelfAttention,
    attend,
    round_up,
)
from docnmt.modules.fusion import Fusion, build_fusion
from docnmt.modules.layers import FeedForward, Layer, Residual
from docnmt.modules.positions import Position, PositionSettings, build_position
from docnmt.modules.sublayer import Cache, NoCache, Reads, Slots, Step, Sublayer
from docnmt.reading import ReadingPlan
from docnmt.registry import (
    FUSIONS,
    MERGES,
    POSITIONS,
    register_architecture,
    register_criterion,
    register_fusion,
    register_generator,
    register_merge,
    register_model,
    register_position,
    register_task,
)
from docnmt.search.beam_search import BeamSearch
from docnmt.search.config import BeamSearchConfig
from docnmt.search.decode import Search
from docnmt.tasks.protocol import Batch, Dataset, Task, TaskState

__all__ = [
    "BOS",
    "BRK",
    "EOS",
    "FUSIONS",
    "IGNORE",
    "MASK",
    "MERGES",
    "POSITIONS",
    "UNK",
    "Batch",
    "BeamSearch",
    "BeamSearchConfig",
    "Cache",
    "Condition",
    "Criterion",
    "CrossAttention",
    "CrossKeys",
    "Dataset",
    "Decoder",
    "DecoderState",
    "DocumentLayout",
    "Encoder",
    "EncoderDecoder",
    "FeedForward",
    "Fusion",
    "KeyValueCache",
    "Layer",
    "Memory",
    "NoCache",
    "PackedKeys",
    "PackedText",
    "Position",
    "PositionSettings",
    "ReadingPlan",
    "Reads",
    "Residual",
    "Search",
    "SelfAttention",
    "Slots",
    "Spans",
    "Step",
    "StructuredConfig",
    "Sublayer",
    "Task",
    "TaskState",
    "TransformerConfig",
    "TranslationBatch",
    "TranslationModel",
    "TranslationTask",
    "UsageError",
    "UserError",
    "Vocabularies",
    "attend",
    "build_fusion",
    "build_position",
    "embeddings",
    "encoder_decoder",
    "is_translation_model",
    "option",
    "packed_attention",
    "register_architecture",
    "register_criterion",
    "register_fusion",
    "register_generator",
    "register_merge",
    "register_model",
    "register_position",
    "register_sizes",
    "register_task",
    "round_up",
]
