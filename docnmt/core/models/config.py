"""The options of all models, and what they demand of each other. No torch here: the command line reads it, too.

A configuration is put together from groups of options, each of which extends `TransformerConfig`. A group that changes
a default or needs more of an option says so itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from docnmt.core.data_options import PositionCount
from docnmt.options import Needs, NoOptions, Open, option, own_problems, settings
from docnmt.registry import ATTENTIONS, FUSIONS, MERGES, MODELS, POSITIONS, UNFUSED, Registry
from docnmt.runtime.system import UsageError

if TYPE_CHECKING:
    from docnmt.core.units import ReadingPlan

# Rules for combining positions and fusions.

#: What options of positions need besides their family is a fusion that reads their encoding.
READ_POSITIONS = Needs("position_fusion", without=("none", "gate_content"), typed=True)
#: The families that have nothing to fuse, each with the reason.
NOTHING_TO_FUSE = {
    "rope": "rotary positions turn queries and keys inside attention; use rope_input, or another family",
    "relative": "relative positions act on attention scores; use relative_input, or another family",
    "alibi": "ALiBi acts on attention scores; use another family",
    "none": "there are no positions",
}


def position_problems(position: str, fusion: str, attention: str, width: int, heads: int) -> list[str]:
    """Return the reasons why a family does not fit an operator, an attention or a width."""
    problems = []
    if width % heads:
        problems.append(f"--heads {heads} does not divide --embed-dim {width}")
    if position in NOTHING_TO_FUSE and fusion not in UNFUSED:
        why = NOTHING_TO_FUSE[position]
        problems.append(f"--position-fusion {fusion}: --position {position} has nothing to fuse: {why}")
    if attention == "linear" and position in ("rope", "alibi"):
        problems.append(f"--attention linear has no scores for --position {position} to act on; use another family")
    if position in ("sinusoidal", "rope_input", "multi_level") and width % 2:
        problems.append(f"--embed-dim: --position {position} needs an even width, got {width}")
    elif position == "rope" and (width // heads) % 2:
        problems.append(f"--heads: --position rope needs heads of even width, got {width}/{heads} = {width // heads}")
    return problems


# The architectures' options.


def _plan(**plan: Any) -> ReadingPlan:
    from docnmt.core.units import ReadingPlan  # not at the top: --help needs no NumPy

    return ReadingPlan(**plan)


_TABLES = Needs(
    "learned_tables",
    says="learned tables: --position learned or relative_input, or multi_level with --learned-levels or "
    "--learned-words",
    typed=True,
)


@dataclass(frozen=True)
class TransformerConfig:
    """Options of the encoder-decoder that all architectures share."""

    default_task: ClassVar[str] = "document_translation"

    #: Options that do not change the meaning of weights. A model may start from weights trained with other values.
    free: ClassVar[tuple[str, ...]] = ("checkpoint_activations",)

    encoder_layers: int = option(6, "layers of the encoder", between=(1, 1000))
    decoder_layers: int = option(6, "layers of the decoder", between=(1, 1000))
    embed_dim: int = option(512, "width of the model", between=(1, 1 << 17))
    heads: int = option(8, "attention heads; divides --embed-dim", between=(1, 1 << 17))
    ffn_dim: int = option(2048, "inner width of the feed-forward blocks", between=(1, 1 << 17))
    dropout: float = option(
        0.1, "dropout on embeddings and on the output of every block", basic=True, between=(0, Open(1))
    )
    activation: Literal["relu", "gelu", "swish"] = option("relu", "of the feed-forward blocks")
    norm: Literal["pre", "post"] = option("pre", "layer norm before a block, or after its residual sum")
    share_embeddings: bool = option(True, "one embedding matrix for source and target (needs a joined dictionary)")
    tie_output: bool = option(True, "the output layer's matrix is the target's embeddings")
    output_bias: bool = option(False, "the output layer has a bias, a number for each entry of the vocabulary")
    scale_embeddings: bool = option(True, "embeddings are multiplied by the square root of --embed-dim")
    position: str = option("sinusoidal", "position family", choices=POSITIONS.names)
    sinusoids: Literal["paper", "fairseq"] = option(
        "paper",
        "sines and cosines of word positions: the paper's, or fairseq's, which M2M100 and NLLB have",
        needs=Needs("position", ("sinusoidal", "multi_level"), typed=True),
    )
    attention: str = option(
        "softmax",
        "over a word's own span: softmax, a plug-in's, or (over its source's span, too) kernelised in linear time",
        choices=ATTENTIONS.names,
    )
    relative_horizon: int | None = option(
        None,
        "r of relative positions: farther words share an embedding [16 with --position relative]",
        metavar="R",
        between=(0, 1 << 17),
        needs=Needs("relative_inside", says="--position relative or --attention linear"),
    )
    cross_relative: bool = option(
        True,
        "relative positions in the attention to the source, too; the distance is that "
        "of a word's place in the translation and a word's in the source",
        needs=[
            Needs("attention", ("linear",), typed=True),
            Needs("horizon", says="--relative-horizon above 0", typed=True),
        ],
    )
    position_fusion: str = option(
        "concat_addition",
        "how positions join the embeddings (gate_conv: in text classification only)",
        choices=FUSIONS.names,
    )
    max_positions: int = option(
        1024,
        "rows of learned tables of positions; words, or units, farther on share the last",
        between=(1, 1 << 20),
        needs=[_TABLES, READ_POSITIONS],
    )
    share_positions: bool = option(
        True, "one learned table of positions for source and target; mBART has two", needs=[_TABLES, READ_POSITIONS]
    )
    norm_embeddings: bool = option(False, "a layer norm of the embeddings with their positions, which mBART has")
    checkpoint_activations: bool = option(False, "compute layers again in the backward pass: less memory, slower")

    def problems(self) -> list[str]:
        problems = position_problems(self.position, self.position_fusion, self.attention, self.embed_dim, self.heads)
        if self.position == "relative" and self.relative_horizon == 0:
            problems.append("--relative-horizon: must be at least 1 with --position relative, got 0")
        if self.position_fusion == "gate_conv":
            problems.append(
                "--position-fusion gate_conv reads the next word's position, which a decoder does not have at a "
                "sentence's end; choose another operator (gate_scalar, gate_mlp) or use it in text classification"
            )
        return problems

    @property
    def reading(self) -> ReadingPlan:
        """What the model reads and writes at once: here, each sentence by itself."""
        return _plan(written=1)

    @property
    def position_settings(self) -> dict[str, Any]:
        """The keyword arguments of the position family."""
        return {"levels": 1}

    @property
    def horizon(self) -> int:
        """r of the relative positions inside attention; 0 without them."""
        return self.relative_horizon or 0 if self.position != "relative" else self.relative_horizon or 16

    @property
    def relative_inside(self) -> bool:
        return self.position == "relative" or self.attention == "linear"

    @property
    def learned_tables(self) -> bool:
        """True if positions are rows of learned tables."""
        return self.position in ("learned", "relative_input")


@dataclass(frozen=True)
class CopyTransformerConfig(TransformerConfig):
    """Options of a model with a pointer to earlier translations."""

    free: ClassVar[tuple[str, ...]] = ("copy_window",)

    copy_window: int = option(
        4096, "target subwords before a sentence that it can copy from", metavar="N", basic=True, between=(1, None)
    )

    @property
    def reading(self) -> ReadingPlan:
        return _plan(written=None, given_text=True)


# Texts of several sentences: structural positions, joined sentences.

_OF_LEVELS = ("levels", "learned_levels", "learned_words", "level_scale")
_MULTI_LEVEL = Needs("position", ("multi_level",), typed=True)
_OF_LEVELS_NEED = [_MULTI_LEVEL, READ_POSITIONS]
#: The conditions for options of the levels above the word.
ABOVE_WORDS = [*_OF_LEVELS_NEED, Needs("levels", (2, 3, 4), typed=True)]


@dataclass(frozen=True)
class LevelOptions(TransformerConfig):
    """Options of positions that know the structure of a text of several sentences."""

    free: ClassVar[tuple[str, ...]] = ("level_scale",)
    position: str = option("multi_level", "position family", choices=POSITIONS.names)
    levels: int = option(
        3,
        "structural levels that positions know: 1 word, 2 sentence, 3 paragraph, 4 section",
        between=(1, 4),
        needs=_OF_LEVELS_NEED,
    )
    position_count: Literal["unit", "document", "mixed"] = option(
        "unit",
        "count positions inside the parent unit; all from the document's start; or words from there and the "
        "others inside the parent unit (the paper's PE135,4,2: word 135 of the text, in sentence 4 of paragraph 2)",
        needs=READ_POSITIONS,
    )
    learned_levels: bool = option(
        False, "levels above the word have learned tables of --max-positions rows, not sines", needs=ABOVE_WORDS
    )
    learned_words: bool = option(False, "the word's level has a learned table, too", needs=_OF_LEVELS_NEED)
    level_scale: float = option(
        0.7, "what positions above the word are multiplied by at the start; learned", needs=ABOVE_WORDS
    )

    @property
    def learned_tables(self) -> bool:
        """True if positions, of one level or several, are rows of learned tables."""
        of_levels = self.learned_words or (self.learned_levels and self.levels > 1)
        return of_levels if self.position == "multi_level" else super().learned_tables

    @property
    def position_settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _OF_LEVELS} if self.position == "multi_level" else {}


@dataclass(frozen=True)
class StructuredConfig(LevelOptions):
    """Options of architectures that read several sentences as one sequence."""

    also_needs: ClassVar[dict[str, Needs]] = {"position_count": _MULTI_LEVEL}

    @property
    def joined_count(self) -> PositionCount:
        """The way positions are counted in joined sentences; families of one level count along the whole sequence."""
        return self.position_count if self.position == "multi_level" else "sequence"


@dataclass(frozen=True)
class JoinedConfig(StructuredConfig):
    """Options of sentences joined with a break token between them (Trankova and Rykunov, section 1.3.1), or without."""

    source_breaks: bool = option(
        True, "<brk> stands between the sentences of the source; without, only positions tell them apart (section 1.2)"
    )

    @property
    def reading(self) -> ReadingPlan:
        return _plan(written=None, joined=True, source_breaks=self.source_breaks, positions=self.joined_count)


@dataclass(frozen=True)
class ConcatConfig(JoinedConfig):
    """Options of the concatenation of a few sentences (Tiedemann and Scherrer 2017)."""

    also_needs: ClassVar[dict[str, Needs]] = {"source_breaks": Needs("source_context", without=(0,), typed=True)}

    position: str = option("sinusoidal", "position family", choices=POSITIONS.names)
    source_context: int = option(
        1, "source sentences that are read before the last one translated", metavar="K", basic=True, between=(0, None)
    )
    target_window: int = option(
        1,
        "sentences translated together, the last of those read (2-to-1: K=1 J=1; 2-to-2: K=1 J=2)",
        metavar="J",
        basic=True,
        between=(1, None),
    )
    window_stride: int | None = option(
        None,
        "windows begin so many sentences after one another; where they overlap, a translation is kept from the "
        "first that has it (1: sliding) [J: no overlap]",
        metavar="N",
        between=(1, None),
    )
    context_word_dropout: float = option(
        0.0, "in training, how often a word of a sentence that is only read is replaced by <mask>", between=(0, Open(1))
    )

    @property
    def reading(self) -> ReadingPlan:
        return replace(
            super().reading,
            written=self.target_window,
            earlier=self.source_context + 1 - self.target_window,
            stride=self.window_stride or self.target_window,
            masked_context=self.context_word_dropout,
        )

    def problems(self) -> list[str]:
        problems, read = super().problems(), self.source_context + 1
        if self.context_word_dropout and self.target_window == read:
            problems.append("--context-word-dropout has no effect where all sentences that are read are translated")
        if self.target_window > read:
            problems.append(f"--target-window: must be at most {read}, --source-context + 1, got {self.target_window}")
        if (self.window_stride or 1) > self.target_window:
            problems.append(f"--window-stride: must be at most --target-window, got {self.window_stride}")
        return problems


@dataclass(frozen=True)
class ScaleformerConfig(JoinedConfig):
    """Options of linear attention with relative positions in encoder and decoder (Favier and Dal'Maz Silva)."""

    position: str = option("none", "position family of the embeddings, besides relative ones", choices=POSITIONS.names)
    attention: str = option(
        "linear", "a Scaleformer has no other; with softmax it is a doc_transformer", choices=("linear",)
    )
    relative_horizon: int | None = option(
        4, "r of relative positions inside attention; 0 for none", metavar="R", between=(0, 1 << 17)
    )


# Context attention.

#: The default of `--target-top-t`.
DEFAULT_TARGET_TOP_T = 4

_OWN_BLOCK = Needs(
    "context_blocks",
    says="a block that reads the document alone: give --context-placement block or --target-context",
    typed=True,
)


@dataclass(frozen=True)
class ContextOptions(TransformerConfig):
    """Options of a context attention in encoder and decoder."""

    free: ClassVar[tuple[str, ...]] = ("target_top_t", "equal_start")

    context_placement: Literal["block", "heads", "replace"] = option(
        "block", "context attention as a block of its own, as extra heads, or in place of self-attention heads"
    )
    context_norm: Literal["pre", "post"] = option(
        "post",
        "the layer norm of blocks that read a document: after the residual sum as in the "
        "others, or before the block, which so can start without an effect (--finetune-from-model)",
        needs=[Needs("norm", ("post",), typed=True), _OWN_BLOCK],
    )
    context_heads: int | None = option(
        None,
        "heads of the context attention; 'replace' may take all of --heads [--heads; half of them for 'replace']",
        between=(1, None),
    )
    equal_start: bool = option(
        True,
        "queries and keys of context attention start with the same projections, so that at first a word finds "
        "what resembles it",
    )
    context_sides: Literal["both", "encoder", "decoder"] = option("both", "where there is a context attention")
    summary_input: Literal["layer", "embeddings"] = option(
        "layer",
        "source2token reads what every encoder layer's context attention reads (eq. 5), or the embeddings once "
        "(figure 1)",
        needs=Needs("context_sides", ("both", "encoder"), typed=True),
    )
    context_word_dropout: float = option(
        0.0,
        "in training, how often a word is hidden from context attention (not from its own sentence)",
        between=(0, Open(1)),
    )
    context_dropout: float = option(
        0.0,
        "in training, how often a document is read without context: each of its sentences reads itself alone",
        between=(0, Open(1)),
    )
    target_context: Literal["none", "summaries", "conditional"] = option(
        "none",
        "what the decoder reads of the translations before its sentence: their summaries, or the words of the "
        "most relevant ones (eq. 7); the reference's in training, the model's own in decoding",
        basic=True,
    )
    target_top_t: int | None = option(
        None,
        "sentences that each word and head keeps of earlier translations [4]",
        between=(1, None),
        needs=Needs("target_context", ("conditional",)),
    )

    @property
    def heads_of_context(self) -> int:
        """The number of heads of a layer's context attention."""
        return self.context_heads or (max(1, self.heads // 2) if self.context_placement == "replace" else self.heads)

    @property
    def heads_beside_context(self) -> int:
        """The number of heads left to the sublayer beside it; 0: there is no such sublayer."""
        return self.heads - (self.heads_of_context if self.context_placement == "replace" else 0)

    @property
    def context_blocks(self) -> bool:
        """True if a block of some layer reads the document and nothing else."""
        return self.context_placement == "block" or not self.heads_beside_context or self.target_context != "none"

    def problems(self) -> list[str]:
        problems = super().problems()
        if self.context_placement == "replace" and (self.context_heads or 1) > self.heads:
            problems.append(
                f"--context-placement replace: there are no --context-heads {self.context_heads} to replace among the "
                f"--heads {self.heads}"
            )
        return problems


@dataclass(frozen=True)
class HierTransformerConfig(ContextOptions, LevelOptions):
    """Options of document models: structural positions and a context attention (Trankova and Rykunov, figure 1).

    At first the content of two sentences must weigh more than their places: else attention over the document finds the
    nearest sentence, not the one about the same thing. If sentences are joined, places must tell them apart.
    """

    also_needs: ClassVar[dict[str, Needs]] = {
        "position_count": Needs(
            "position", ("multi_level", "sinusoidal", "learned", "rope_input", "relative_input"), typed=True
        )
    }

    # a group that extends a class brings that class's defaults again, so defaults changed by a group are repeated here
    position: str = option("multi_level", "position family", choices=POSITIONS.names)
    level_scale: float = option(
        0.1, "what positions above the word are multiplied by at the start; learned", needs=ABOVE_WORDS
    )

    @property
    def reading(self) -> ReadingPlan:  # whole documents, each sentence a sequence of its own
        own_text = self.target_context != "none"
        return _plan(
            written=None, positions=self.position_count, own_text=own_text, dropped_context=self.context_dropout
        )


@dataclass(frozen=True)
class CondTransformerConfig(HierTransformerConfig):
    """Options of ConditionalAttention (Trankova and Rykunov, eq. 7)."""

    free: ClassVar[tuple[str, ...]] = ("top_t", "read_all_updates", "always_own_sentence")

    top_t: int = option(4, "sentences that each word and head keeps", basic=True, between=(1, None))
    read_all_updates: int = option(
        0,
        "read every sentence of the source document in the first so many updates, then only --top-t (short "
        "documents only: this costs quadratic time)",
        between=(0, None),
    )
    always_own_sentence: bool = option(
        False,
        "a word's own sentence (a target word's: the one it translates) is always among those it keeps",
        needs=Needs("top_t", without=(1,)),
    )

    def notes(self) -> list[str]:
        """Return warnings about options that would waste a training run."""
        flags = {"--top-t": self.top_t == 1, "--target-top-t": self.target_top_t == 1}
        return [
            f"{flag} 1: softmax does not see the relevance of a sentence that is read alone, so the choice gets no "
            "gradient and is not learned; 2 or more learn it"
            for flag, alone in flags.items()
            if alone
        ]


@dataclass(frozen=True)
class HierCondTransformerConfig(CondTransformerConfig):
    """Options of HierarchicalCondAtt (Trankova and Rykunov, section 3.3)."""

    merge: str | None = option(
        None,
        "find sentences by a tree over the summaries (ConstructBT, TraverseTree) with this Merge(left, right), not "
        "through blocks of neighbouring sentences",
        choices=MERGES.names,
    )
    select_on: Literal["cumulative", "node"] = option(
        "cumulative",
        "the top t of a tree level are chosen by the sum of relevances on their path, or by their own",
        needs="merge",
    )

    count_copies: bool = option(
        True,
        "the relevance of a node without a sibling, of which its parent is a copy, is added to the sum a second time",
        needs="merge",
    )


# The options of a model: its own, and those of the parts that it chooses by name.

#: The options by which a model chooses parts that bring options of their own.
PARTS: dict[str, Registry[Any]] = {"position": POSITIONS, "position_fusion": FUSIONS, "attention": ATTENTIONS}


def chosen_parts(config: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen value of each option of `PARTS`, given or by default; "" for options that the model lacks."""
    return {name: values.get(name, getattr(config, name, "")) for name in PARTS}


def model_config(model: str, values: Mapping[str, Any]) -> type:
    """Return the configuration class of a model, with the options of the parts that it chooses.

    Args:
        values: settings of the model by name; a missing option of `PARTS` has its default.
    """
    config = MODELS.config(model)
    chosen = chosen_parts(config, values)
    parts = [registry.config(chosen[name]) for name, registry in PARTS.items() if chosen[name] in registry]
    return _extended(config, *(part for part in parts if part is not NoOptions))


@functools.cache
def _extended(config: type, *parts: type) -> type:
    """Return a configuration class that also has the options, rules and problems of others."""
    if not parts:
        return config
    names = [setting.name for part in (config, *parts) for setting in settings(part)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(
            f"{' and '.join(part.__qualname__ for part in parts)}: {config.__qualname__} has options of the same name: "
            f"{', '.join(twice)}; rename them"
        )

    def problems(self: object) -> list[str]:
        return [problem for part in (config, *parts) for problem in own_problems(self, part)]

    namespace = {"problems": problems}
    return dataclasses.make_dataclass(config.__name__, [], bases=(config, *parts), namespace=namespace, frozen=True)
