"""The names that plug-ins build on: everything here stays, or changes with a word in the changelog.

Importing this module imports torch, as a model must. docs/extend shows how a plug-in registers each
kind of component.
"""

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.core.models.architectures import Vocabularies, embeddings, encoder_decoder
from docnmt.core.models.config import StructuredConfig, TransformerConfig
from docnmt.core.models.encoder_decoder import (
    Decoder,
    DecoderState,
    Encoder,
    EncoderDecoder,
    Memory,
    TranslationModel,
    TranslationTask,
    is_translation_model,
)
from docnmt.core.scoring.metrics import Metric
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.search.generators import BeamSearch
from docnmt.core.search.rows import Generator
from docnmt.core.tasks.task import Batch, Dataset, Task, TaskState
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, UNK
from docnmt.core.training.criterions import Criterion
from docnmt.core.units import ReadingPlan
from docnmt.functional.decoding import PackedKeys, RowLists, Shelf, TokenTable, attend_listed
from docnmt.functional.packed import packed_attention
from docnmt.layout import DocumentLayout, Spans
from docnmt.modules.attention import (
    CrossAttention,
    KeyValueCache,
    SelfAttention,
)
from docnmt.modules.fusion import Fusion, build_fusion
from docnmt.modules.layers import Cache, FeedForward, Layer, NoCache, Reads, Residual, Slots, Step, Sublayer
from docnmt.modules.positions import AttentionPosition, Position, PositionSettings, build_position
from docnmt.options import Needs, Open, option
from docnmt.registry import (
    FUSIONS,
    MERGES,
    METRICS,
    POSITIONS,
    register_architecture,
    register_criterion,
    register_fusion,
    register_generator,
    register_merge,
    register_metric,
    register_model,
    register_position,
    register_sizes,
    register_task,
)
from docnmt.runtime.system import UsageError, UserError

__all__ = [
    "BOS",
    "BRK",
    "EOS",
    "FUSIONS",
    "IGNORE",
    "MASK",
    "MERGES",
    "METRICS",
    "POSITIONS",
    "UNK",
    "AttentionPosition",
    "Batch",
    "BeamSearch",
    "BeamSearchConfig",
    "Cache",
    "Criterion",
    "CrossAttention",
    "Dataset",
    "Decoder",
    "DecoderState",
    "DocumentLayout",
    "Encoder",
    "EncoderDecoder",
    "FeedForward",
    "Fusion",
    "Generator",
    "KeyValueCache",
    "Layer",
    "Memory",
    "Metric",
    "Needs",
    "NoCache",
    "Open",
    "PackedKeys",
    "PackedText",
    "Position",
    "PositionSettings",
    "ReadingPlan",
    "Reads",
    "Residual",
    "RowLists",
    "SelfAttention",
    "Shelf",
    "Slots",
    "Spans",
    "Step",
    "StructuredConfig",
    "Sublayer",
    "Task",
    "TaskState",
    "TokenTable",
    "TransformerConfig",
    "TranslationBatch",
    "TranslationModel",
    "TranslationTask",
    "UsageError",
    "UserError",
    "Vocabularies",
    "attend_listed",
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
    "register_metric",
    "register_model",
    "register_position",
    "register_sizes",
    "register_task",
]
