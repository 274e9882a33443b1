"""Every built-in component by name. Importing this module registers them all and imports none of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from docnmt.registry import (
    ARCHITECTURES,
    CRITERIA,
    FUSIONS,
    GENERATORS,
    MERGES,
    MODELS,
    POSITIONS,
    TASKS,
    Architecture,
)

#: Sizes by suffix: layers, width, heads, feed-forward width (encoder and decoder alike).
SIZES = {"_tiny": (2, 128, 4, 512), "_small": (3, 256, 4, 1024), "": (6, 512, 8, 2048), "_big": (6, 1024, 16, 4096)}


def _size(suffix: str) -> dict[str, Any]:
    layers, width, heads, ffn = SIZES[suffix]
    return {
        "encoder_layers": layers, "decoder_layers": layers, "embed_dim": width, "heads": heads, "ffn_dim": ffn,
    }  # fmt: skip


def _architecture(name: str, model: str, values: dict[str, Any], help: str) -> None:
    def overrides() -> dict[str, Any]:
        return dict(values)

    ARCHITECTURES.add(name, Architecture(model, overrides), help=help)


def register_sizes(name: str, suffixes: Collection[str] = ("_tiny", "_small", "_big")) -> None:
    """Architectures NAME_tiny, NAME_small and NAME_big of a translation model that is registered."""
    help = MODELS.help(name)
    for suffix in suffixes:
        size = _size(suffix)
        note = "{encoder_layers}+{decoder_layers} layers, width {embed_dim}, {heads} heads".format(**size)
        _architecture(name + suffix, name, size, f"{help} ({note})")


def _translation_model(name: str, target: str, config: str, help: str) -> None:
    MODELS.add(name, f"docnmt.models.architectures:{target}", config=f"docnmt.models.config:{config}", help=help)
    register_sizes(name, SIZES)


TASKS.add(
    "document_translation",
    "docnmt.tasks.document_translation:DocumentTranslation",
    config="docnmt.tasks.config:DocumentTranslationConfig",
    help="translate documents, sentence for sentence, with their structure",
)
_translation_model(
    "transformer", "Transformer", "TransformerConfig", "every sentence by itself: the control"
)
_translation_model(
    "hier_transformer", "HierTransformer", "HierTransformerConfig",
    "attention over source2token summaries of the document's sentences",
)  # fmt: skip
_translation_model(
    "cond_transformer", "CondTransformer", "CondTransformerConfig",
    "ConditionalAttention: each word reads the words of its top t sentences (eq. 7)",
)  # fmt: skip
_translation_model(
    "hier_cond_transformer", "HierCondTransformer", "HierCondTransformerConfig",
    "HierarchicalCondAtt: the top t sentences are found by descending a tree",
)  # fmt: skip
_translation_model(
    "concat_transformer", "ConcatTransformer", "ConcatConfig",
    "a few sentences as one sequence with break tokens: 2-to-1, 2-to-2, k-to-k",
)  # fmt: skip
_translation_model(
    "doc_transformer", "DocTransformer", "StructuredConfig",
    "the whole document as one sequence with break tokens",
)  # fmt: skip
_translation_model(
    "scaleformer", "Scaleformer", "ScaleformerConfig",
    "the whole document as one sequence, with linear attention and relative positions",
)  # fmt: skip
CRITERIA.add(
    "label_smoothed_cross_entropy",
    "docnmt.criterions.cross_entropy:LabelSmoothedCrossEntropy",
    config="docnmt.criterions.config:LabelSmoothedCrossEntropyConfig",
    help="cross-entropy with label smoothing, chunked over tokens",
)
CRITERIA.add(
    "cross_entropy",
    "docnmt.criterions.cross_entropy:CrossEntropy",
    config="docnmt.criterions.config:CrossEntropyConfig",
    help="cross-entropy, chunked over tokens",
)
GENERATORS.add(
    "beam_search", "docnmt.search.beam_search:BeamSearch",
    config="docnmt.search.config:BeamSearchConfig", help="the --beam best hypotheses at every step",
)  # fmt: skip
GENERATORS.add(
    "greedy", "docnmt.search.greedy:Greedy",
    config="docnmt.search.config:GreedyConfig", help="the best token at every step",
)  # fmt: skip
GENERATORS.add(
    "sampling", "docnmt.search.sampling:Sampling",
    config="docnmt.search.config:SamplingConfig",
    help="tokens drawn from the model, with --temperature and --top-k/--top-p",
)  # fmt: skip
TASKS.add(
    "text_classification",
    "docnmt.classification.task:TextClassification",
    config="docnmt.classification.config:TextClassificationConfig",
    help="label texts",
)
_CLASSIFIER = "an encoder with a mean over words, to study how positions join embeddings"
MODELS.add(
    "fusion_classifier",
    "docnmt.classification.model:FusionClassifier",
    config="docnmt.classification.config:FusionClassifierConfig",
    help=_CLASSIFIER,
)
for _suffix, _overrides in {
    "": {"encoder_layers": 4, "embed_dim": 256, "heads": 8, "ffn_dim": 1024, "activation": "gelu"},
    "_arxiv": {"encoder_layers": 2, "embed_dim": 128, "heads": 8, "ffn_dim": 256, "activation": "relu"},
    **{suffix: {k: v for k, v in _size(suffix).items() if k != "decoder_layers"} for suffix in SIZES if suffix},
}.items():
    _note = "{encoder_layers} layers, width {embed_dim}, {heads} heads".format(**_overrides)
    _architecture("fusion_classifier" + _suffix, "fusion_classifier", _overrides, f"{_CLASSIFIER} ({_note})")
CRITERIA.add(
    "classification",
    "docnmt.criterions.classification:Classification",
    config="docnmt.criterions.config:CrossEntropyConfig",
    help="cross-entropy of a text's label",
)
for _name, _help in {
    "sinusoidal": "sines and cosines of the word's index",
    "learned": "a learned vector for each word index",
    "multi_level": "one encoding for each structural level (word, sentence, paragraph, section), added up",
    "rope": "rotary positions, inside attention",
    "relative": "learned embeddings of the distance between words, inside attention",
    "alibi": "a penalty that grows with the distance between words, inside attention",
    "rope_input": "what the notebooks of Fusion Matters call RoPE: a sinusoidal table in another order, fused",
    "relative_input": "what those notebooks call relative: a learned table of unit variance, fused",
    "none": "no position: attention sees a bag of words",
}.items():
    POSITIONS.add(_name, f"docnmt.modules.positions.build:{_name}", help=_help)
for _name, _class, _help in (
    ("add", "Add", "E + P"),
    ("mul", "Multiply", "E ∘ P"),
    ("concat", "Concat", "W[E; P] + b"),
    ("gate_scalar", "ScalarGate", "gE + (1-g)P, one gate a token from [E; P]"),
    ("gate_vector", "VectorGate", "gE + (1-g)P, one gate a feature from [E; P]"),
    ("gate_mlp", "MlpGate", "gE + (1-g)P, one gate a feature from a network on [E; P]"),
    ("mlp", "Mlp", "a network on [E; P], no gate"),
    ("gate_conv", "ConvolutionGate", "gE + (1-g)P, the gate from a depth-wise convolution over P"),
    ("none", "Ignore", "control: E alone"),
    ("scale", "Scale", "control: aE + bP, learned scalars"),
    ("gate_constant", "ConstantGate", "control: gE + (1-g)P, one learned scalar gate"),
    ("gate_content", "ContentGate", "control: gE, the gate from E alone"),
):
    FUSIONS.add(_name, f"docnmt.modules.fusion:{_class}", help=_help)
for _name, _class, _help in (
    ("mean", "MeanMerge", "the mean of both children"),
    ("source2token", "Source2TokenMerge", "source2token over both children, shared by the whole tree"),
    ("multidim_source2token", "MultiDimSource2TokenMerge", "source2token feature by feature, shared by the whole tree"),
):
    MERGES.add(_name, f"docnmt.modules.source2token:{_class}", help=_help)
TASKS.add(
    "nli", "docnmt.sentence_vectors.task:Nli", config="docnmt.sentence_vectors.config:NliConfig",
    help="tell entailment, neutrality and contradiction of sentence pairs: training of sentence vectors",
)  # fmt: skip
CRITERIA.add(
    "nli", "docnmt.criterions.classification:Classification", config="docnmt.criterions.config:CrossEntropyConfig",
    help="cross-entropy of a pair's label",
)  # fmt: skip
for _name, _target, _config, _help in (
    ("inferlite", "InferLite", "InferLiteConfig", "gated word vectors of several types, max-pooled"),
    ("bag_of_words", "BagOfWords", "BagOfWordsConfig", "mean, maximum or SIF mean of word vectors"),
    ("bilstm_max", "BiLstmMax", "BiLstmMaxConfig", "InferSent: bidirectional LSTM, max-pooling"),
    (
        "source2token_encoder", "Source2TokenEncoder", "Source2TokenEncoderConfig",
        "self-attention layers and source2token summaries as sentence vectors",
    ),
):  # fmt: skip
    _room = "docnmt.sentence_vectors"
    MODELS.add(_name, f"{_room}.model:{_target}", config=f"{_room}.config:{_config}", help=_help)
    _architecture(_name, _name, {}, _help)
for _suffix, _hidden, _output in (("_tiny", 64, 512), ("_small", 128, 1024), ("_big", 512, 4096)):
    _note = f"{MODELS.help('inferlite')} (width {_hidden}, vectors of {_output:,})"
    _architecture("inferlite" + _suffix, "inferlite", {"hidden_dim": _hidden, "output_dim": _output}, _note)
