"""The registration of every built-in component by name. Importing this module imports none of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any  # values of options, and components of every kind

from docnmt.registry.registry import (
    ARCHITECTURES,
    CRITERIA,
    FUSIONS,
    GENERATORS,
    MERGES,
    METRICS,
    MODELS,
    POSITIONS,
    TASKS,
    Architecture,
    MetricKind,
    Registry,
)

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
    CRITERIA, "docnmt",
    ("label_smoothed_cross_entropy", "core.training.criterions:LabelSmoothedCrossEntropy",
     "cross-entropy with label smoothing, chunked over tokens", "core.training.config:LabelSmoothedCrossEntropyConfig"),
    ("cross_entropy", "core.training.criterions:CrossEntropy", "cross-entropy, chunked over tokens", "core.training.config:CrossEntropyConfig"),
    ("form_choice", "core.training.criterions:FormChoice",
     "label-smoothed cross-entropy that also counts the choice between forms of address (tu or vous), for "
     "--formality-share and dialogue", "core.training.config:FormChoiceConfig"),
    ("classification", "core.training.criterions:Classification", "cross-entropy of a text's label",
     "core.training.config:CrossEntropyConfig"),
    ("nli", "core.training.criterions:Classification", "cross-entropy of a pair's label", "core.training.config:CrossEntropyConfig"),
)  # fmt: skip
_add(
    GENERATORS, "docnmt",
    ("beam_search", "core.search.generators:BeamSearch", "the --beam best hypotheses at every step", "core.search.config:BeamSearchConfig"),
    ("greedy", "core.search.generators:Greedy", "the best token at every step", "core.search.config:GreedyConfig"),
    ("sampling", "core.search.generators:Sampling", "tokens drawn from the model, with --temperature and --top-k/--top-p",
     "core.search.config:SamplingConfig"),
    ("diverse_beam_search", "core.search.generators:DiverseBeamSearch",
     "beam search in --diverse-beam-groups that avoid each other's words: up to --nbest translations that differ more",
     "core.search.config:DiverseBeamSearchConfig"),
)  # fmt: skip
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
