"""Components that users choose by name: registries, the built-in ones, and plug-ins that add to them."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
import types
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from docnmt.options import PLUGIN, NoOptions, flag, nearest, underscored
from docnmt.runtime.system import Terminated, UsageError, UserError

if TYPE_CHECKING:
    from torch import nn

    from docnmt.core.tasks.task import Task
    from docnmt.core.training.criterions import Criterion
    from docnmt.modules.fusion import Fusion
    from docnmt.modules.positions import Position


# The registry class for all components chosen by name: tasks, models, criteria, generators, positions, fusions …
#
# Built-in components are added by a `"module:object"` reference and imported when first used, so that `--help` and
# option parsing never pay for importing torch. Plug-ins use the decorators at the end of this module.


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Architecture:
    """A model with named settings: `overrides()` returns the configuration values that differ from the model's."""

    model: str
    overrides: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class MetricKind:
    """A metric of translations.

    Attributes:
        make: a function, or a reference to it, from the name of sacreBLEU's tokenizer and the references, each a list
            of lines, to a `docnmt.core.scoring.metrics.Metric` or a metric of sacreBLEU.
        of: what a line is.
    """

    make: Callable[[str, Sequence[Sequence[str]]], Any] | str
    lower_is_better: bool = False
    of: Literal["sentences", "documents"] = "sentences"

    def made(self, tokenize: str, references: Sequence[Sequence[str]]) -> Any:
        """Return the metric for these references."""
        return cast(Callable[..., Any], _load(self.make))(tokenize, references)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered component: the object or a reference to it, its configuration class likewise, one line of help."""

    target: T | str
    config: type | str | None
    help: str


class Registry(Generic[T]):
    """The registered names of one kind of component."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, target: T | str, *, config: type | str | None = None, help: str = "") -> None:
        """Register `target` (an object or a `"module:object"` reference) under `name`.

        Args:
            config: its configuration dataclass or a reference to it; by default, its attribute `Config`, if any.
            help: one line of help; by default, the first line of its docstring.

        Raises:
            ValueError: `name` is taken by a different object; the message names both places. Registering the same
                object again, also after another import of its module, is allowed.
            TypeError: the configuration is no dataclass.
        """
        if name in self._entries and not _same(taken := self._entries[name].target, target):
            first, now = _place(taken), _place(target, -1)
            raise ValueError(f"{self.kind} '{name}' is registered twice: first {first}, now {now}; rename one of them")
        if not help and not isinstance(target, str):
            help = summary(target)
        config = config if config is not None else getattr(target, "Config", None)
        if isinstance(config, type) and not dataclasses.is_dataclass(config):
            missing = f"{config.__qualname__} is no dataclass; @dataclass(frozen=True) is missing"
            raise TypeError(f"{self.kind} '{name}': {missing}")
        self._entries[name] = Entry(target, config, help)

    def register(self, name: str, *, config: type | None = None) -> Callable[[R], R]:
        """Return a decorator that calls `add`."""

        def _decorate(target: R) -> R:
            self.add(name, cast(T, target), config=config)
            return target

        return _decorate

    def _entry(self, name: str) -> Entry[T]:
        if name not in self._entries:
            meant = nearest(name, self._entries)
            raise ValueError(f"no {self.kind} named '{name}'; {meant}there are: {', '.join(self.names())}; {PLUGIN}")
        return self._entries[name]

    def get(self, name: str) -> T:
        """Return the object registered under `name`, imported now if it was registered by reference."""
        return cast(T, _load(self._entry(name).target))

    def config(self, name: str) -> type:
        """Return the configuration dataclass of `name`, which may have no fields, without importing the component."""
        return cast(type, _load(self._entry(name).config) or NoOptions)

    def options(self, name: str, config: object) -> dict[str, Any]:
        """Return the values in `config` of the options of `name`'s own configuration class."""
        return {field.name: getattr(config, field.name) for field in dataclasses.fields(self.config(name))}

    def help(self, name: str) -> str:
        """Return one line of help on `name`."""
        return self._entry(name).help

    def names(self) -> list[str]:
        """Return all registered names, in the order of registration."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries  # a file may give a list here


@contextlib.contextmanager
def forgotten_on_error() -> Iterator[None]:
    """Undo registrations made inside the context if it ends in an error, so that they can be repeated once fixed."""
    before = [(registry, dict(registry._entries)) for registry in ALL]
    try:
        yield
    except BaseException:
        for registry, entries in before:
            registry._entries = entries
        raise


def summary(target: object) -> str:
    """Return the first line of an object's docstring."""
    return (inspect.getdoc(target) or "").partition("\n")[0]


def _load(reference: object) -> object:
    """Return the object behind a `"module:object"` reference; return anything else unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _same(taken: object, target: object) -> bool:
    """Return True for the same object, or the same code executed again, but not for functions made inside others.

    Architectures are compared by model and function.
    """
    if isinstance(taken, MetricKind) and isinstance(target, MetricKind):
        return dataclasses.replace(taken, make=target.make) == target and _same(taken.make, target.make)
    if isinstance(taken, Architecture) and isinstance(target, Architecture):
        return taken.model == target.model and _same(taken.overrides, target.overrides)
    if taken is target or isinstance(taken, str):
        return taken == target
    place = _place(taken)
    alike = place == _place(taken, -1) == _place(target) == _place(target, -1)
    return alike and ".py, line " in place and "<locals>" not in place


def _place(target: object, which: Literal[0, -1] = 0) -> str:
    """Describe an object and its file and line; among several definitions of a class the first or the last."""
    if isinstance(target, MetricKind):
        return _place(target.make, which)
    if isinstance(target, Architecture):
        return f"{_place(target.overrides, which)} (a setting of {target.model})"
    name = target if isinstance(target, str) else getattr(target, "__qualname__", None)
    if name is None:
        return f"{type(target).__name__} at {id(target):#x}"  # unique
    if isinstance(target, types.FunctionType):
        return f"{name} in {target.__code__.co_filename}, line {target.__code__.co_firstlineno}"
    return f"{name} in {_definition(target, which)}" if isinstance(target, type) else name


def _definition(target: type, which: Literal[0, -1]) -> str:
    """Return file and line of a class: Python stores the line only from 3.13 on, but always that of methods."""
    try:
        file = inspect.getfile(target)
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        return target.__module__
    methods = [f.__code__ for f in vars(target).values() if isinstance(f, types.FunctionType)]
    inside = [code.co_firstlineno for code in methods if code.co_filename == file]  # without those of dataclasses
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == target.__name__]
    around = [node for node in named if all(node.lineno <= line <= (node.end_lineno or 0) for line in inside)]
    lines = [min([node.lineno, *(each.lineno for each in node.decorator_list)]) for node in around]
    return f"{file}, line {lines[which]}" if lines else target.__module__


TASKS: Registry[type[Task]] = Registry("task")
MODELS: Registry[Any] = Registry("model")  # a class that its task can build, in each task's own way
ARCHITECTURES: Registry[Architecture] = Registry("architecture")
CRITERIA: Registry[type[Criterion]] = Registry("criterion")
GENERATORS: Registry[Any] = Registry("generator")  # a class whose objects are built from its own configuration
POSITIONS: Registry[Callable[..., Position]] = Registry("position")
FUSIONS: Registry[Callable[..., Fusion]] = Registry("fusion")
MERGES: Registry[Callable[..., nn.Module]] = Registry("merge")
METRICS: Registry[MetricKind] = Registry("metric")

#: All registries, in the order in which `docnmt-train --list` prints them.
ALL: tuple[Registry[Any], ...] = (
    TASKS,
    MODELS,
    ARCHITECTURES,
    CRITERIA,
    GENERATORS,
    POSITIONS,
    FUSIONS,
    MERGES,
    METRICS,
)


def register_task(name: str) -> Callable[[T], T]:
    """Register a task class under `name` (`--task`); its `Config`, if any, has its options."""
    return TASKS.register(name)


def register_model(name: str) -> Callable[[T], T]:
    """Register a model class; it is also an architecture of its own with the defaults of its `Config`."""

    def _decorate(model: T) -> T:
        if name not in ARCHITECTURES or ARCHITECTURES.get(name).model != name:
            ARCHITECTURES.add(name, Architecture(name, dict), help=summary(model))
        MODELS.add(name, model)
        return model

    return _decorate


def register_architecture(model: str, name: str) -> Callable[[T], T]:
    """Register a function without arguments that returns the settings by which `--arch name` differs from `model`."""

    def _decorate(overrides: T) -> T:
        function = cast(Callable[[], Mapping[str, Any]], overrides)
        ARCHITECTURES.add(name, Architecture(model, function), help=summary(overrides) or f"a setting of {model}")
        return overrides

    return _decorate


def register_criterion(name: str) -> Callable[[T], T]:
    """Register a criterion class under `name` (`--criterion`); its `Config`, if any, has its options."""
    return CRITERIA.register(name)


def register_generator(name: str) -> Callable[[T], T]:
    """Register a generator (a search over target sequences) under `name` (`--generator`)."""
    return GENERATORS.register(name)


def register_position(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register a position family under `name` (`--position`).

    It is called with `docnmt.modules.positions.PositionSettings` and, by name, with the values of the options of
    `config`, and returns a `Position`. `config` is a frozen dataclass of `docnmt.options` fields: they
    are on the command line, and stored with the model, if the family is chosen.
    """
    return POSITIONS.register(name, config=config)


def register_fusion(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register a module that joins positions with embeddings under `name` (`--position-fusion`).

    It is called with the width and, by name, with the values of the options of `config` (see `register_position`), and
    returns a module: `fusion(embeddings, positions, offsets)`.
    """
    return FUSIONS.register(name, config=config)


def register_merge(name: str) -> Callable[[T], T]:
    """Register a module that merges two tree nodes into their parent under `name` (`--merge`)."""
    return MERGES.register(name)


def register_metric(
    name: str, lower_is_better: bool = False, of: Literal["sentences", "documents"] = "sentences"
) -> Callable[[T], T]:
    """Register a metric under `name` (`--metrics`).

    It is called with the name of sacreBLEU's tokenizer (`--sacrebleu-tokenize`) and a list of references, each a list
    of lines, and returns a `Metric`: `counts(lines)` returns additive counts (n, K) of the lines of a translation,
    `score(sums)` the score of summed counts (K,), and `signature` says what the number depends on.

    Args:
        of: what a line is: a sentence, or a document, its sentences joined as in d-BLEU.
    """

    def _decorate(make: T) -> T:
        kind = MetricKind(cast(Callable[..., Any], make), lower_is_better, of)
        METRICS.add(name, kind, help=summary(make))
        return make

    return _decorate


# The registration of every built-in component by name. Importing this module imports none of them.


#: Sizes by suffix: layers, width, heads, feed-forward width (encoder and decoder alike).
SIZES = {"_tiny": (2, 128, 4, 512), "_small": (3, 256, 4, 1024), "": (6, 512, 8, 2048), "_big": (6, 1024, 16, 4096)}


def _add(registry: Registry[Any], package: str, *rows: tuple[str, ...]) -> None:
    """Register rows of name, `module:object` in the package, help and, if there are options, `module:class`."""
    for name, target, help, *config in rows:
        reference = f"{package}.{config[0]}" if config else None
        registry.add(name, f"{package}.{target}", config=reference, help=help)


def _architecture(name: str, model: str, help: str, **values: object) -> None:
    ARCHITECTURES.add(name, Architecture(model, lambda: dict(values)), help=help)


def register_sizes(name: str, suffixes: Collection[str] = ("_tiny", "_small", "_big")) -> None:
    """Register the architectures NAME_tiny, NAME_small and NAME_big of a translation model, also a plug-in's."""
    for suffix in suffixes:
        layers, width, heads, ffn = SIZES[suffix]
        _architecture(
            name + suffix,
            name,
            f"{MODELS.help(name)} ({layers}+{layers} layers, width {width}, {heads} heads)",
            encoder_layers=layers,
            decoder_layers=layers,
            embed_dim=width,
            heads=heads,
            ffn_dim=ffn,
        )


_add(
    TASKS,
    "docnmt",
    (
        "document_translation",
        "core.translation_task:DocumentTranslation",
        "translate documents, sentence for sentence, with their structure",
        "core.data_options:DocumentTranslationConfig",
    ),
    (
        "text_classification",
        "other_tasks.classification.model:TextClassification",
        "label texts",
        "other_tasks.options:TextClassificationConfig",
    ),
    (
        "nli",
        "other_tasks.sentence_vectors.use:Nli",
        "tell entailment, neutrality and contradiction of sentence pairs: training of sentence vectors",
        "other_tasks.options:NliConfig",
    ),
)

_TRANSLATION = (
    (
        "transformer",
        "core.models.architectures:Transformer",
        "every sentence by itself: the control",
        "core.models.config:TransformerConfig",
    ),
    (
        "copy_transformer",
        "core.models.architectures:CopyTransformer",
        "every sentence by itself, with a pointer to the document's earlier translations",
        "core.models.config:CopyTransformerConfig",
    ),
    (
        "hier_transformer",
        "core.models.architectures:HierTransformer",
        "attention over source2token summaries of the document's sentences",
        "core.models.config:HierTransformerConfig",
    ),
    (
        "cond_transformer",
        "core.models.architectures:CondTransformer",
        "ConditionalAttention: each word reads the words of its top t sentences (eq. 7)",
        "core.models.config:CondTransformerConfig",
    ),
    (
        "hier_cond_transformer",
        "core.models.architectures:HierCondTransformer",
        "the same; in long documents the top t are found through blocks of sentences, or (--merge) a tree",
        "core.models.config:HierCondTransformerConfig",
    ),
    (
        "concat_transformer",
        "core.models.architectures:ConcatTransformer",
        "a few sentences as one sequence with break tokens: 2-to-1, 2-to-2, k-to-k",
        "core.models.config:ConcatConfig",
    ),
    (
        "doc_transformer",
        "core.models.architectures:DocTransformer",
        "the whole document as one sequence with break tokens",
        "core.models.config:JoinedConfig",
    ),
    (
        "scaleformer",
        "core.models.architectures:Scaleformer",
        "the whole document as one sequence, with linear attention and relative positions",
        "core.models.config:ScaleformerConfig",
    ),
)
_CLASSIFIER = "an encoder with a mean over words, to study how positions join embeddings"
_SENTENCE_PAIRS = (
    (
        "inferlite",
        "other_tasks.sentence_vectors.encoders:InferLiteEncoder",
        "gated word vectors of several types, max-pooled",
        "other_tasks.options:InferLiteConfig",
    ),
    (
        "bag_of_words",
        "other_tasks.sentence_vectors.encoders:BagOfWords",
        "mean, maximum or SIF mean of word vectors",
        "other_tasks.options:BagOfWordsConfig",
    ),
    (
        "bilstm_max",
        "other_tasks.sentence_vectors.encoders:BiLstmMax",
        "InferSent: bidirectional LSTM, max-pooling",
        "other_tasks.options:BiLstmMaxConfig",
    ),
    (
        "source2token_encoder",
        "other_tasks.sentence_vectors.encoders:Source2TokenEncoder",
        "self-attention layers and source2token summaries as sentence vectors",
        "other_tasks.options:Source2TokenEncoderConfig",
    ),
)
_add(MODELS, "docnmt", *_TRANSLATION)
_add(
    MODELS,
    "docnmt",
    (
        "fusion_classifier",
        "other_tasks.classification.model:FusionClassifier",
        _CLASSIFIER,
        "other_tasks.options:FusionClassifierConfig",
    ),
)
_add(MODELS, "docnmt", *_SENTENCE_PAIRS)

for _name, _, _, _ in _TRANSLATION:
    register_sizes(_name, SIZES)
for _suffix, (_layers, _width, _heads, _ffn, _more) in {
    "": (4, 256, 8, 1024, {"activation": "gelu"}), "_arxiv": (2, 128, 8, 256, {"activation": "relu"}),
    **{suffix: (*size, {}) for suffix, size in SIZES.items() if suffix},
}.items():  # fmt: skip
    _architecture(
        "fusion_classifier" + _suffix,
        "fusion_classifier",
        f"{_CLASSIFIER} ({_layers} layers, width {_width}, {_heads} heads)",
        encoder_layers=_layers,
        embed_dim=_width,
        heads=_heads,
        ffn_dim=_ffn,
        **_more,
    )
for _model, _, _help, _ in _SENTENCE_PAIRS:
    _architecture(_model, _model, _help)
for _suffix, _width, _output in (("_tiny", 64, 512), ("_small", 128, 1024), ("_big", 512, 4096)):
    _help = f"{MODELS.help('inferlite')} (width {_width}, vectors of {_output:,})"
    _architecture("inferlite" + _suffix, "inferlite", _help, hidden_dim=_width, output_dim=_output)

_add(
    CRITERIA,
    "docnmt",
    (
        "label_smoothed_cross_entropy",
        "core.training.criterions:LabelSmoothedCrossEntropy",
        "cross-entropy with label smoothing, chunked over tokens",
        "core.training.config:LabelSmoothedCrossEntropyConfig",
    ),
    (
        "cross_entropy",
        "core.training.criterions:CrossEntropy",
        "cross-entropy, chunked over tokens",
        "core.training.config:CrossEntropyConfig",
    ),
    (
        "form_choice",
        "core.training.criterions:FormChoice",
        "label-smoothed cross-entropy that also counts the choice between forms of address (tu or vous), for "
        "--formality-share and dialogue",
        "core.training.config:FormChoiceConfig",
    ),
    (
        "classification",
        "core.training.criterions:Classification",
        "cross-entropy of a text's label",
        "core.training.config:CrossEntropyConfig",
    ),
    (
        "nli",
        "core.training.criterions:Classification",
        "cross-entropy of a pair's label",
        "core.training.config:CrossEntropyConfig",
    ),
)
_add(
    GENERATORS,
    "docnmt",
    (
        "beam_search",
        "core.search.generators:BeamSearch",
        "the --beam best hypotheses at every step",
        "core.search.config:BeamSearchConfig",
    ),
    ("greedy", "core.search.generators:Greedy", "the best token at every step", "core.search.config:GreedyConfig"),
    (
        "sampling",
        "core.search.generators:Sampling",
        "tokens drawn from the model, with --temperature and --top-k/--top-p",
        "core.search.config:SamplingConfig",
    ),
    (
        "diverse_beam_search",
        "core.search.generators:DiverseBeamSearch",
        "beam search in --diverse-beam-groups that avoid each other's words: up to --nbest translations that differ "
        "more",
        "core.search.config:DiverseBeamSearchConfig",
    ),
)
_add(
    POSITIONS, "docnmt",
    ("sinusoidal", "modules.positions:sinusoidal", "sines and cosines of the word's index"),
    ("learned", "modules.positions:learned", "a learned vector for each word index"),
    ("multi_level", "modules.positions:multi_level",
     "one encoding for each structural level (word, sentence, paragraph, section), added up"),
    ("rope", "modules.positions:rope", "rotary positions, inside attention"),
    ("relative", "modules.positions:relative", "learned embeddings of the distance between words, inside attention"),
    ("alibi", "modules.positions:alibi", "a penalty that grows with the distance between words, inside attention"),
    ("rope_input", "modules.positions:rope_input",
     "what the notebooks of Fusion Matters call RoPE: a sinusoidal table in another order, fused"),
    ("relative_input", "modules.positions:relative_input",
     "what those notebooks call relative: a learned table of unit variance, fused"),
    ("none", "modules.positions:none", "no position: attention sees a bag of words"),
)  # fmt: skip
_add(
    FUSIONS, "docnmt",
    ("add", "modules.fusion:Add", "E + P"),
    ("mul", "modules.fusion:Multiply", "E ∘ P"),
    ("concat", "modules.fusion:Concat", "W[E; P] + b"),
    ("gate_scalar", "modules.fusion:ScalarGate", "gE + (1-g)P, one gate a token from [E; P]"),
    ("gate_vector", "modules.fusion:VectorGate", "gE + (1-g)P, one gate a feature from [E; P]"),
    ("gate_mlp", "modules.fusion:MlpGate", "gE + (1-g)P, one gate a feature from a network on [E; P]"),
    ("mlp", "modules.fusion:Mlp", "a network on [E; P], no gate"),
    ("gate_conv", "modules.fusion:ConvolutionGate", "gE + (1-g)P, the gate from a depth-wise convolution over P"),
    ("none", "modules.fusion:Ignore", "control: E alone"),
    ("scale", "modules.fusion:Scale", "control: aE + bP, learned scalars"),
    ("gate_constant", "modules.fusion:ConstantGate", "control: gE + (1-g)P, one learned scalar gate"),
    ("gate_content", "modules.fusion:ContentGate", "control: gE, the gate from E alone"),
)  # fmt: skip
_add(
    MERGES,
    "docnmt",
    ("mean", "modules.document_context:MeanMerge", "the mean of both children"),
    (
        "source2token",
        "modules.document_context:Source2TokenMerge",
        "source2token over both children and a layer norm, shared by the whole tree",
    ),
    (
        "plain_source2token",
        "modules.document_context:PlainSource2TokenMerge",
        "the same without the layer norm, as in the paper",
    ),
    (
        "multidim_source2token",
        "modules.document_context:MultiDimSource2TokenMerge",
        "source2token feature by feature, shared by the whole tree",
    ),
)
for _name, _kind, _help in (
    ("s-BLEU", MetricKind("docnmt.core.scoring.metrics:bleu"), "BLEU of sentences"),
    ("d-BLEU", MetricKind("docnmt.core.scoring.metrics:bleu", of="documents"), "BLEU of documents"),
    ("chrF", MetricKind("docnmt.core.scoring.metrics:chrf"), "chrF of sentences"),
    ("chrF++", MetricKind("docnmt.core.scoring.metrics:chrf_of_words"), "chrF that counts words and word pairs, too"),
    ("s-BLEU-lc", MetricKind("docnmt.core.scoring.metrics:lower_cased_bleu"), "BLEU of sentences in lower case"),
    ("TER", MetricKind("docnmt.core.scoring.metrics:ter", lower_is_better=True), "translation edit rate"),
):
    METRICS.add(_name, _kind, help=_help)


# Migration of options and tensors that earlier versions stored to the names of this version.
#
# A configuration stores the version of its names (`CONFIG_VERSION` when it is written; 1 if none is
# stored). To drop or rename an option, raise the version and add a line to `CHANGES`; to rename tensors, add one to
# `TENSOR_CHANGES`. No other module uses earlier names.


#: The version of the names that this code writes.
CONFIG_VERSION = 3


@dataclass(frozen=True, kw_only=True)
class Change:
    """An option that was dropped or renamed.

    Attributes:
        version: the first version with the change.
        section, name: its former place. In the section "model" only `models` had it.
        new: its current name; None if it was dropped.
        same_as: values that mean the current behaviour, so that the option can be left out; None: all values do.
        training: True if other values than these only prevent that the run is continued.
        instead: what to use instead, for users who give it.
    """

    version: int
    section: str
    name: str
    new: str | None = None
    models: tuple[str, ...] = ()
    same_as: tuple[Any, ...] | None = None
    training: bool = False
    instead: str = ""


def _of_training(section: str, name: str, same_as: object, instead: str) -> Change:
    """Return the change for an option of training that version 2 had; version 3 has one value for it."""
    return Change(version=3, section=section, name=name, same_as=(same_as,), training=True, instead=instead)


CHANGES: tuple[Change, ...] = (
    Change(version=2, section="run", name="save_interval_minutes", instead="a run saves every 15 minutes"),
    Change(
        version=2, section="model", name="relative_distance", new="relative_horizon", models=("fusion_classifier",)
    ),
    _of_training("optimization", "lr_shrink", None, "a plateau halves the rate"),
    _of_training("optimization", "lr_patience", None, "a plateau is two validations without a new best"),
    _of_training("optimization", "adam_eps", 1e-8, "it is 1e-8"),
    _of_training("training", "finetune_frozen_updates", None, "--finetune-lr-scale 0 freezes these parts"),
    Change(version=3, section="run", name="keep_best", same_as=(0,), instead="--keep-last keeps the last validations"),
    _of_training("model", "level_dropout", 0.1, "it is 0.1"),
    _of_training("task", "source_mask_epochs", None, "--source-mask holds in every epoch"),
    _of_training("task", "unit_window", None, "a unit of --unit-sentences reads its whole document"),
    _of_training("task", "eval_bleu_documents", None, "validation BLEU is that of the whole split"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TensorChange:
    """Renamed parameters: `pattern` (a regular expression on the whole name in the model) → `new`."""

    version: int
    models: tuple[str, ...]
    pattern: str
    new: str


_DOCUMENT_MODELS = ("hier_transformer", "cond_transformer", "hier_cond_transformer")
TENSOR_CHANGES: tuple[TensorChange, ...] = (  # context attention became a sublayer that has its own summaries
    TensorChange(
        version=2,
        models=_DOCUMENT_MODELS,
        pattern=r"((?:en|de)coder\.layers\.\d+\.(?:context|target))\.(.+)",
        new=r"\1.attention.\2",
    ),
    TensorChange(
        version=2,
        models=_DOCUMENT_MODELS,
        pattern=r"(encoder\.layers\.\d+)\.(summarise\..+)",
        new=r"\1.context.\2",
    ),
)


def migrate(config: Mapping[str, Mapping[str, Any]], version: int, model: str) -> dict[str, dict[str, Any]]:
    """Return a stored configuration, by sections, with the current options.

    An option whose value has no current equivalent is kept, so that reading its section fails. One that only concerns
    training moves to the section "training", which is read only to continue a run.

    Args:
        version: the version with which `config` was stored.
        model: the name of the model that the options in the section "model" belong to.
    """
    migrated = {section: dict(values) for section, values in config.items()}
    for change in CHANGES:
        if change.version > version and (not change.models or model in change.models):
            section = migrated.get(change.section, {})
            _apply(change, section, change.name)
            if change.training and change.name in section:
                migrated.setdefault("training", {})[change.name] = section.pop(change.name)
    return migrated


def _apply(change: Change, values: dict[str, Any], key: str) -> None:
    if key not in values:
        return
    if change.new is not None:
        values[change.new] = values.pop(key)
    elif change.same_as is None or values[key] in change.same_as:
        del values[key]


def migrate_file(values: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Migrate the content of a `--config` file of any version; names that are `known` have their current meaning.

    Options that a file has by both names are not changed.
    """
    migrated = dict(values)
    there = {underscored(key) for key in values}
    for change in CHANGES:
        for key in values:
            if change.models:  # the file's model is not known here; the old name is an alias there
                continue
            if underscored(key) == change.name and not {change.name} & set(known) and change.new not in there:
                _apply(change, migrated, key)
    return migrated


def gone(name: str) -> str:
    """Return an explanation for an option that an earlier version had and this one lacks; else ""."""
    for change in CHANGES:
        if change.name == name and not change.models:
            return f": is now {flag(change.new)}" if change.new else f": does not exist any more: {change.instead}"
    return ""


#: Options of fairseq with another name here, or none, and what to use instead.
FAIRSEQ = {
    "restore_file": "a run goes on by itself from the checkpoint_last in --save-dir; another's weights are taken by "
    "--finetune-from-model",
    "optimizer": "it is AdamW; --adam-betas and --weight-decay set it",
    "bpe": "text is cut by the tokenizer in the data folder; docnmt-preprocess --subword-model chooses its kind",
    "tokenizer": "text is raw on both sides; docnmt-preprocess --detokenize moses reads text that Moses cut",
    "sampling": "it is --generator sampling",
    "constraints": "terms that must be used are a --glossary",
    "log_format": "a log is train.jsonl in --save-dir; TensorBoard is --tensorboard-logdir",
    "keep_best_checkpoints": "--keep-last keeps the last N validations, for docnmt-average",
    "keep_interval_updates": "--keep-last keeps the last N validations, or N saves under --disable-validation",
    "save_interval": "every validation saves, and --validate-interval says after how many epochs",
    "no_epoch_checkpoints": "epochs have none unless --keep-last is given",
    "maximize_best_checkpoint_metric": "each metric of --best-checkpoint-metric has its direction",
    "valid_subset": "it is the split 'valid', docnmt-preprocess --validpref",
    "warmup_init_lr": "the rate rises from 0",
    "sentence_avg": "the loss is the mean over subwords",
    "fp16": "half precision is --bf16, which needs no loss scaling",
    "memory_efficient_fp16": "half precision is --bf16, which needs no loss scaling",
    "cpu": "it is --device cpu",
    "num_workers": "batches are made in the training process",
    "no_progress_bar": "there is no bar where stderr is no terminal",
    **dict.fromkeys(
        ("source_lang", "target_lang"), "the data folder has the languages; another direction needs another folder"
    ),
    **dict.fromkeys(
        ("share_all_embeddings", "share_decoder_input_output_embed"),
        "matrices are shared unless --no-share-embeddings or --no-tie-output is given",
    ),
    **dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim"), "both sides have one width, --embed-dim"),
    **dict.fromkeys(("encoder_ffn_embed_dim", "decoder_ffn_embed_dim"), "both sides have one width, --ffn-dim"),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), "both sides have as many, --heads"),
    **dict.fromkeys(("encoder_normalize_before", "decoder_normalize_before"), "it is --norm pre"),
    **dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos"), "it is --position learned"),
    "activation_fn": "it is --activation",
    **dict.fromkeys(
        ("attention_dropout", "activation_dropout", "relu_dropout"),
        "dropout is on embeddings and on the output of every block, --dropout",
    ),
    **dict.fromkeys(
        ("eval_bleu_args", "eval_bleu_detok", "eval_bleu_remove_bpe", "eval_bleu_print_samples"),
        "--eval-metrics scores text as it was given; --eval-bleu-beam sets its search",
    ),
    **dict.fromkeys(("remove_bpe", "post_process"), "translations are text already (the D- lines)"),
    **dict.fromkeys(
        ("max_source_positions", "max_target_positions", "skip_invalid_size_inputs_valid_test"),
        "documents are cut by --max-doc-tokens, long sentences by docnmt-preprocess --long-policy",
    ),
    **dict.fromkeys(("ddp_backend", "distributed_world_size"), "several processes are started by torchrun"),
    **dict.fromkeys(
        ("nwordssrc", "nwordstgt", "thresholdsrc", "thresholdtgt"), "subwords fill a vocabulary of --vocab-size entries"
    ),
}


def moved_to(name: str) -> str:
    """Return an explanation for an option of fairseq that has another name in docnmt; else ""."""
    return f": {FAIRSEQ[name]}" if name in FAIRSEQ else ""


def migrate_tensor(name: str, version: int, model: str) -> str:
    """Return a checkpoint tensor's current name: `model.<parameter>`, `optimizer.<moment>.<parameter>` or other."""
    kind, parameter = _split(name)
    for change in TENSOR_CHANGES:
        if kind and change.version > version and model in change.models:
            parameter = re.sub(f"^(?:{change.pattern})$", change.new, parameter)
    return kind + parameter


def _split(name: str) -> tuple[str, str]:
    """Split `optimizer.exp_avg.output.weight` into `optimizer.exp_avg.` and `output.weight`; others into "" and all."""
    found = re.match(r"model\.|optimizer\.[^.]+\.", name)
    return (name[: found.end()], name[found.end() :]) if found else ("", name)


# Plug-ins: installed packages with an entry point `docnmt.plugins`, and folders given as `--user-dir`.


#: Files in a plug-in folder that are not imported.
_OTHERS = ("test_*.py", "*_test.py", "conftest.py", "setup.py")
#: The files and packages imported so far: a checksum of each, by its path.
_imported: dict[Path, int] = {}


def import_plugins(user_dir: str | Path | None) -> None:
    """Import the plug-in folder of `--user-dir` and the installed plug-ins (entry points `docnmt.plugins`).

    Raises:
        UsageError: the folder is missing or fails to import, or has changed since this process imported it.
    """
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="docnmt.plugins"):
        with _named(f"the installed plug-in '{entry_point.name}' ({entry_point.value})"):
            entry_point.load()
    if user_dir is None:
        return
    folder = Path(user_dir).resolve()
    if not folder.is_dir():
        raise UsageError(f"--user-dir {user_dir}: {'is a file, expected a' if folder.exists() else 'no such'} folder")
    files = [folder] if (folder / "__init__.py").exists() else _files(folder)
    if not files:
        raise UsageError(f"--user-dir {user_dir}: holds no Python files")
    for file in files:
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))  # last, so that no file hides a module
        with _named(f"--user-dir {user_dir}: {file.name}", folder):
            _import(file)


def imported() -> dict[str, str]:
    """Return the plug-in files and packages of this process, with a checksum of each."""
    return {path.name: f"{content:08x}" for path, content in _imported.items()}


def _files(folder: Path) -> list[Path]:
    """Return the files of a plug-in, without its tests."""
    return [file for file in sorted(folder.glob("*.py")) if not any(file.match(other) for other in _OTHERS)]


@contextlib.contextmanager
def _named(what: str, folder: Path | None = None) -> Iterator[None]:
    """Turn any error while a plug-in is imported into one that names its place (in its folder, if possible), and
    undo its registrations."""
    try:
        with forgotten_on_error():
            yield
    except (UserError, KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # `sys.exit`, too: it would end the command with status 0
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_file()]
        frame = ([frame for frame in frames if folder in Path(frame.filename).parents] or frames)[-1]
        place = f" ({Path(frame.filename).name}, line {frame.lineno})"
        raise UsageError(f"{what} fails to import: {error!r}{place}") from error


def place_in_plugin(error: BaseException) -> str:
    """Return file and line of the innermost call in a plug-in that an error came through; "" if it met none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if any(path in (file, *file.parents) for path in _imported):
            return f"{file}, line {frame.lineno}"
    return ""


def _import(path: Path) -> None:
    """Import a file or a package once, under its own name, or another one if a module has that already.

    Raises:
        UsageError: it has changed since.
    """
    content = _checksum(path)
    if _imported.setdefault(path, content) != content:
        raise UsageError(f"{path}: has changed since this process imported it; start Python anew")
    inside = [str(path)] if path.is_dir() else None
    file = path / "__init__.py" if path.is_dir() else path
    name = path.stem
    if _is_another(name, file):
        name = f"{name}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert spec is not None
    assert spec.loader is not None  # it has Python's ending
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _imported[path]
        raise


def _checksum(path: Path) -> int:
    """Return the checksum of a file, or of all Python files of a package."""
    found = 0
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        found = zlib.crc32(file.read_bytes(), found)
    return found


def _is_another(name: str, file: Path) -> bool:
    """Return True if another module than this file has the name, imported or not."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) != str(file)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() != file.resolve()
