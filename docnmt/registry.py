"""Components that users choose by name: registries, the built-in ones, and plug-ins that add to them.

name ─ Registry ─ "module:object", imported when it is first used, so that --help and options need no torch
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from docnmt.options import PLUGIN, NoOptions, nearest
from docnmt.runtime.system import Terminated, UsageError, UserError

if TYPE_CHECKING:
    from torch import nn

    from docnmt.core.task import Task
    from docnmt.core.training.criterions import Criterion
    from docnmt.modules.fusion import Fusion
    from docnmt.modules.layers import Sublayer
    from docnmt.modules.positions import Position

T = TypeVar("T")
R = TypeVar("R")

#: The version of the names of options and tensors that a checkpoint stores; another one is not read.
CONFIG_VERSION = 4


@dataclass(frozen=True)
class Architecture:
    """A model with named settings: `overrides()` returns the configuration values that differ from the model's."""

    model: str
    overrides: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class MetricKind:
    """A metric of translations: `make` is a function, or a reference to it, from the name of sacreBLEU's tokenizer and
    the references, each a list of lines, to a `docnmt.core.scoring.metrics.Metric` or a metric of sacreBLEU; `of` says
    what a line is."""

    make: Callable[[str, Sequence[Sequence[str]]], Any] | str
    lower_is_better: bool = False
    of: Literal["sentences", "documents"] = "sentences"

    def made(self, tokenize: str, references: Sequence[Sequence[str]]) -> Any:
        """Return the metric for these references."""
        return cast(Callable[..., Any], _load(self.make))(tokenize, references)


@dataclass(frozen=True)
class _Entry(Generic[T]):
    """A registered component: the object or a reference to it, its configuration class likewise, one line of help."""

    target: T | str
    config: type | str | None
    help: str


class Registry(Generic[T]):
    """The registered names of one kind of component."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, _Entry[T]] = {}

    def add(self, name: str, target: T | str, *, config: type | str | None = None, help: str = "") -> None:
        """Register `target` (an object or a `"module:object"` reference) under `name`, with its configuration
        dataclass, or a reference to it, by default its attribute `Config`, and one line of help, by default of its
        docstring.

        A different object under a taken name is a `ValueError` that names both places; the same one again, also after
        another import of its module, is allowed."""
        if name in self._entries and (first := _place(self._entries[name].target)) != (now := _place(target)):
            raise ValueError(f"{self.kind} '{name}' is registered twice: first {first}, now {now}; rename one of them")
        if not help and not isinstance(target, str):
            help = summary(target)
        config = config if config is not None else getattr(target, "Config", None)
        if isinstance(config, type) and not dataclasses.is_dataclass(config):
            missing = f"{config.__qualname__} is no dataclass; @dataclass(frozen=True) is missing"
            raise TypeError(f"{self.kind} '{name}': {missing}")
        self._entries[name] = _Entry(target, config, help)

    def register(self, name: str, *, config: type | None = None) -> Callable[[R], R]:
        """Return a decorator that calls `add`."""

        def _decorate(target: R) -> R:
            self.add(name, cast(T, target), config=config)
            return target

        return _decorate

    def _entry(self, name: str) -> _Entry[T]:
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


def summary(target: object) -> str:
    """Return the first line of an object's docstring."""
    return (inspect.getdoc(target) or "").partition("\n")[0]


def _load(reference: object) -> object:
    """Return the object behind a `"module:object"` reference; return anything else unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _place(target: object) -> str:
    """Return `module:name` of an object, which another import of its module does not change; else a unique text."""
    if isinstance(target, MetricKind):
        return f"{_place(target.make)} (of {target.of}{', lower is better' * target.lower_is_better})"
    if isinstance(target, Architecture):
        return f"{_place(target.overrides)} (a setting of {target.model})"
    if isinstance(target, str):
        return target
    name = getattr(target, "__qualname__", f"{type(target).__name__} at {id(target):#x}")
    unique = f" at {id(target):#x}" if "<" in name else ""  # <locals>, <lambda>
    return f"{getattr(target, '__module__', type(target).__module__)}:{name}{unique}"


TASKS: Registry[type[Task]] = Registry("task")
MODELS: Registry[Any] = Registry("model")  # a class that its task can build, in each task's own way
ARCHITECTURES: Registry[Architecture] = Registry("architecture")
CRITERIA: Registry[type[Criterion]] = Registry("criterion")
GENERATORS: Registry[Any] = Registry("generator")  # a class whose objects are built from its own configuration
POSITIONS: Registry[Callable[..., Position]] = Registry("position")
FUSIONS: Registry[Callable[..., Fusion]] = Registry("fusion")
CONCATENATED = ("concat", "concat_addition")  # W[E; P] + b: they differ in how they begin
UNFUSED = ("add", "concat_addition", "none")  # where a position family has nothing to fuse
ATTENTIONS: Registry[Callable[..., Sublayer]] = Registry("attention")
MERGES: Registry[Callable[..., nn.Module]] = Registry("merge")
METRICS: Registry[MetricKind] = Registry("metric")
#: All registries, in the order in which `docnmt-train --list` prints them.
ALL: tuple[Registry[Any], ...] = (
    TASKS, MODELS, ARCHITECTURES, CRITERIA, GENERATORS, POSITIONS, FUSIONS, ATTENTIONS, MERGES, METRICS,
)  # fmt: skip


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
    """Register a position family under `name` (`--position`). It is called with
    `docnmt.modules.positions.PositionSettings` and, by name, with the values of the options of `config`, and returns a
    `Position`. `config` is a frozen dataclass of `docnmt.options` fields: they are on the command line, and stored with
    the model, if the family is chosen."""
    return POSITIONS.register(name, config=config)


def register_fusion(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register a module that joins positions with embeddings under `name` (`--position-fusion`). It is called with the
    width and, by name, with the values of the options of `config` (see `register_position`), and returns a module:
    `fusion(embeddings, positions, offsets)`."""
    return FUSIONS.register(name, config=config)


def register_attention(name: str, *, config: type | None = None) -> Callable[[T], T]:
    """Register a self-attention, a class of sublayers, under `name` (`--attention`). It is called by name with
    `d_model`, `heads`, `d_head`, `causal` (true in a decoder), `position` (an `AttentionPosition` to apply, or None)
    and the values of the options of `config` (see `register_position`)."""
    return ATTENTIONS.register(name, config=config)


def register_merge(name: str) -> Callable[[T], T]:
    """Register a module that merges two tree nodes into their parent under `name` (`--merge`)."""
    return MERGES.register(name)


def register_metric(
    name: str, lower_is_better: bool = False, of: Literal["sentences", "documents"] = "sentences"
) -> Callable[[T], T]:
    """Register a metric under `name` (`--metrics`). It is called with the name of sacreBLEU's tokenizer
    (`--sacrebleu-tokenize`) and a list of references, each a list of lines, and returns a `Metric`: `counts(lines)`
    returns additive counts (n, K) of the lines of a translation, `score(sums)` the score of summed counts (K,), and
    `signature` says what the number depends on. A line is one `of` the sentences, or a document, its sentences joined
    as in d-BLEU."""

    def _decorate(make: T) -> T:
        METRICS.add(name, MetricKind(cast(Callable[..., Any], make), lower_is_better, of), help=summary(make))
        return make

    return _decorate


# The built-in components: importing this module imports none of them.

#: Sizes by suffix: layers, width, heads, feed-forward width (encoder and decoder alike).
SIZES = {"_tiny": (2, 128, 4, 512), "_small": (3, 256, 4, 1024), "": (6, 512, 8, 2048), "_big": (6, 1024, 16, 4096)}


def _add(registry: Registry[Any], module: str, options: str, *rows: tuple[str, ...]) -> None:
    """Register rows of name, object in `module`, help and, if it has options, their class in the module `options`."""
    for name, target, help, *config in rows:
        reference = f"docnmt.{options}:{config[0]}" if config else None
        registry.add(name, f"docnmt.{module}:{target}", config=reference, help=help)


def _architecture(name: str, model: str, help: str, **values: object) -> None:
    ARCHITECTURES.add(name, Architecture(model, lambda: dict(values)), help=help)


def register_sizes(name: str, suffixes: Collection[str] = ("_tiny", "_small", "_big")) -> None:
    """Register the architectures NAME_tiny, NAME_small and NAME_big of a translation model, also a plug-in's."""
    for suffix in suffixes:
        layers, width, heads, ffn = SIZES[suffix]
        help = f"{MODELS.help(name)} ({layers}+{layers} layers, width {width}, {heads} heads)"
        sizes = {"encoder_layers": layers, "decoder_layers": layers, "embed_dim": width, "heads": heads, "ffn_dim": ffn}
        _architecture(name + suffix, name, help, **sizes)


_add(
    TASKS, "core.translation_task", "core.data_options",
    ("document_translation", "DocumentTranslation", "translate documents, sentence for sentence, with their structure",
     "DocumentTranslationConfig"),
)  # fmt: skip
_add(
    TASKS, "other_tasks.classification", "other_tasks.options",
    ("text_classification", "TextClassification", "label texts", "TextClassificationConfig"),
)  # fmt: skip
_add(
    TASKS, "other_tasks.sentence_vectors.use", "other_tasks.options",
    ("nli", "Nli", "tell entailment, neutrality and contradiction of sentence pairs: training of sentence vectors",
     "NliConfig"),
)  # fmt: skip
_add(
    MODELS, "core.models.architectures", "core.models.config",
    ("transformer", "Transformer", "every sentence by itself: the control", "TransformerConfig"),
    ("copy_transformer", "CopyTransformer",
     "every sentence by itself, with a pointer to the document's earlier translations", "CopyTransformerConfig"),
    ("hier_transformer", "HierTransformer", "attention over source2token summaries of the document's sentences",
     "HierTransformerConfig"),
    ("cond_transformer", "CondTransformer",
     "ConditionalAttention: each word reads the words of its top t sentences (eq. 7)", "CondTransformerConfig"),
    ("hier_cond_transformer", "HierCondTransformer",
     "the same; in long documents the top t are found through blocks of sentences, or (--merge) a tree",
     "HierCondTransformerConfig"),
    ("concat_transformer", "ConcatTransformer",
     "a few sentences as one sequence with break tokens: 2-to-1, 2-to-2, k-to-k", "ConcatConfig"),
    ("doc_transformer", "DocTransformer", "the whole document as one sequence with break tokens", "JoinedConfig"),
    ("scaleformer", "Scaleformer",
     "the whole document as one sequence, with linear attention and relative positions", "ScaleformerConfig"),
)  # fmt: skip
for _name in MODELS.names():
    register_sizes(_name, SIZES)

_CLASSIFIER = "an encoder with a mean over words, to study how positions join embeddings"
_add(
    MODELS, "other_tasks.classification", "other_tasks.options",
    ("fusion_classifier", "FusionClassifier", _CLASSIFIER, "FusionClassifierConfig"),
)  # fmt: skip
for _suffix, (_layers, _width, _heads, _ffn, _more) in {
    "": (4, 256, 8, 1024, {"activation": "gelu"}), "_arxiv": (2, 128, 8, 256, {"activation": "relu"}),
    **{suffix: (*size, {}) for suffix, size in SIZES.items() if suffix},
}.items():  # fmt: skip
    _architecture(
        f"fusion_classifier{_suffix}", "fusion_classifier",
        f"{_CLASSIFIER} ({_layers} layers, width {_width}, {_heads} heads)",
        encoder_layers=_layers, embed_dim=_width, heads=_heads, ffn_dim=_ffn, **_more,
    )  # fmt: skip

_SENTENCE_PAIRS = (
    ("inferlite", "InferLiteEncoder", "gated word vectors of several types, max-pooled", "InferLiteConfig"),
    ("bag_of_words", "BagOfWords", "mean, maximum or SIF mean of word vectors", "BagOfWordsConfig"),
    ("bilstm_max", "BiLstmMax", "InferSent: bidirectional LSTM, max-pooling", "BiLstmMaxConfig"),
    ("source2token_encoder", "Source2TokenEncoder",
     "self-attention layers and source2token summaries as sentence vectors", "Source2TokenEncoderConfig"),
)  # fmt: skip
_add(MODELS, "other_tasks.sentence_vectors.encoders", "other_tasks.options", *_SENTENCE_PAIRS)
for _name, _, _help, _ in _SENTENCE_PAIRS:
    _architecture(_name, _name, _help)
for _suffix, _width, _output in (("_tiny", 64, 512), ("_small", 128, 1024), ("_big", 512, 4096)):
    _help = f"{MODELS.help('inferlite')} (width {_width}, vectors of {_output:,})"
    _architecture(f"inferlite{_suffix}", "inferlite", _help, hidden_dim=_width, output_dim=_output)

_add(
    CRITERIA, "core.training.criterions", "core.training.config",
    ("label_smoothed_cross_entropy", "LabelSmoothedCrossEntropy",
     "cross-entropy with label smoothing, chunked over tokens", "LabelSmoothedCrossEntropyConfig"),
    ("cross_entropy", "CrossEntropy", "cross-entropy, chunked over tokens", "CrossEntropyConfig"),
    ("form_choice", "FormChoice",
     "label-smoothed cross-entropy that also counts the choice between forms of address (tu or vous), for "
     "--formality-share and dialogue", "FormChoiceConfig"),
    ("classification", "Classification", "cross-entropy of a text's label", "CrossEntropyConfig"),
    ("nli", "Classification", "cross-entropy of a pair's label", "CrossEntropyConfig"),
)  # fmt: skip
_add(
    GENERATORS, "core.search.generators", "core.search.config",
    ("beam_search", "BeamSearch", "the --beam best hypotheses at every step", "BeamSearchConfig"),
    ("greedy", "Greedy", "the best token at every step", "GreedyConfig"),
    ("sampling", "Sampling", "tokens drawn from the model, with --temperature and --top-k/--top-p", "SamplingConfig"),
)  # fmt: skip
_add(
    POSITIONS, "modules.positions", "",
    ("sinusoidal", "sinusoidal", "sines and cosines of the word's index"),
    ("learned", "learned", "a learned vector for each word index"),
    ("multi_level", "multi_level",
     "one encoding for each structural level (word, sentence, paragraph, section), added up"),
    ("rope", "rope", "rotary positions, inside attention"),
    ("relative", "relative", "learned embeddings of the distance between words, inside attention"),
    ("alibi", "alibi", "a penalty that grows with the distance between words, inside attention"),
    ("rope_input", "rope_input",
     "what the notebooks of Fusion Matters call RoPE: a sinusoidal table in another order, fused"),
    ("relative_input", "relative_input",
     "what those notebooks call relative: a learned table of unit variance, fused"),
    ("none", "none", "no position: attention sees a bag of words"),
)  # fmt: skip
_add(
    FUSIONS, "modules.fusion", "",
    ("add", "Add", "E + P"),
    ("mul", "Multiply", "E ∘ P"),
    ("concat", "Concat", "W[E; P] + b"),
    ("concat_addition", "ConcatAddition", "W[E; P] + b that begins as E + P"),
    ("gate_scalar", "ScalarGate", "gE + (1-g)P, one gate a token from [E; P]"),
    ("gate_vector", "VectorGate", "gE + (1-g)P, one gate a feature from [E; P]"),
    ("gate_mlp", "MlpGate", "gE + (1-g)P, one gate a feature from a network on [E; P]"),
    ("mlp", "Mlp", "a network on [E; P], no gate"),
    ("gate_conv", "ConvolutionGate", "gE + (1-g)P, the gate from a depth-wise convolution over P"),
    ("none", "Ignore", "control: E alone"),
    ("scale", "Scale", "control: aE + bP, learned scalars"),
    ("gate_constant", "ConstantGate", "control: gE + (1-g)P, one learned scalar gate"),
    ("gate_content", "ContentGate", "control: gE, the gate from E alone"),
)  # fmt: skip
_add(
    ATTENTIONS, "modules.attention", "",
    ("softmax", "SelfAttention", "over all words of the span (Vaswani et al. 2017)"),
    ("linear", "LinearSelfAttention", "kernelised, in linear time (Scaleformer), between source and target, too"),
)  # fmt: skip
_add(
    MERGES, "modules.document_context", "",
    ("mean", "MeanMerge", "the mean of both children"),
    ("source2token", "Source2TokenMerge",
     "source2token over both children and a layer norm, shared by the whole tree"),
    ("plain_source2token", "PlainSource2TokenMerge", "the same without the layer norm, as in the paper"),
    ("multidim_source2token", "MultiDimSource2TokenMerge",
     "source2token feature by feature, shared by the whole tree"),
)  # fmt: skip
_METRICS = "docnmt.core.scoring.metrics"
for _name, _kind, _help in (
    ("s-BLEU", MetricKind(f"{_METRICS}:bleu"), "BLEU of sentences"),
    ("d-BLEU", MetricKind(f"{_METRICS}:bleu", of="documents"), "BLEU of documents"),
    ("chrF", MetricKind(f"{_METRICS}:chrf"), "chrF of sentences"),
    ("chrF++", MetricKind(f"{_METRICS}:chrf_of_words"), "chrF that counts words and word pairs, too"),
    ("s-BLEU-lc", MetricKind(f"{_METRICS}:lower_cased_bleu"), "BLEU of sentences in lower case"),
    ("TER", MetricKind(f"{_METRICS}:ter", lower_is_better=True), "translation edit rate"),
):
    METRICS.add(_name, _kind, help=_help)


# Plug-ins: installed packages with an entry point `docnmt.plugins`, and folders given as `--user-dir`.

#: Files in a plug-in folder that are not imported.
_OTHERS = ("test_*.py", "*_test.py", "conftest.py", "setup.py")
#: A checksum of each plug-in file or package that was imported, by its path.
_imported: dict[Path, str] = {}


def import_plugins(user_dir: str | Path | None) -> None:
    """Import the plug-in folder of `--user-dir` and the installed plug-ins (entry points `docnmt.plugins`)."""
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="docnmt.plugins"):
        _guarded(f"the installed plug-in '{entry_point.name}' ({entry_point.value})", entry_point.load)
    if user_dir is None:
        return
    folder = Path(user_dir).resolve()
    if not folder.is_dir():
        raise UsageError(f"--user-dir {user_dir}: {'is a file, expected a' if folder.exists() else 'no such'} folder")
    files = [file for file in sorted(folder.glob("*.py")) if not any(file.match(other) for other in _OTHERS)]
    if (folder / "__init__.py").exists():
        files = [folder]
    if not files:
        raise UsageError(f"--user-dir {user_dir}: holds no Python files")
    if str(files[0].parent) not in sys.path:
        sys.path.append(str(files[0].parent))  # last, so that no file hides a module
    for file in files:
        if file not in _imported:
            _guarded(f"--user-dir {user_dir}: {file.name}", functools.partial(_import, file), file)


def _guarded(what: str, load: Callable[[], object], path: Path = Path()) -> None:
    """Turn any error of an import into one that names the innermost file and line, a plug-in's if possible."""
    try:
        load()
    except (UserError, KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # `sys.exit`, too: it would end the command with status 0
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_file()]
        frame = ([frame for frame in frames if _of_plugin(frame.filename)] or frames)[-1]
        file, line, message = frame.filename, frame.lineno, repr(error)
        if isinstance(error, SyntaxError) and error.filename is not None:
            file, line, message = error.filename, error.lineno, f"{type(error).__name__}: {error.msg}"
        _imported.pop(path, None)
        raise UsageError(f"{what} fails to import: {message} ({Path(file).name}, line {line})") from error


def _import(path: Path) -> None:
    """Import a file or a package under its own name, or under another one if a module has that already."""
    sources = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    _imported[path] = f"{zlib.crc32(b''.join(source.read_bytes() for source in sources)):08x}"
    file, inside = (path / "__init__.py", [str(path)]) if path.is_dir() else (path, None)
    importlib.invalidate_caches()
    of_name = sys.modules[path.stem].__spec__ if path.stem in sys.modules else importlib.util.find_spec(path.stem)
    ours = of_name is None or of_name.origin == str(file)
    name = path.stem if ours else f"{path.stem}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert spec is not None
    assert spec.loader is not None  # it has Python's ending
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def imported() -> dict[str, str]:
    """Return the plug-in files and packages of this process, with a checksum of each."""
    return {path.name: content for path, content in _imported.items()}


def _of_plugin(file: str) -> bool:
    return any(path in (Path(file), *Path(file).parents) for path in _imported)


def place_in_plugin(error: BaseException) -> str:
    """Return file and line of the innermost call in a plug-in that an error came through; "" if it met none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _of_plugin(frame.filename)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
