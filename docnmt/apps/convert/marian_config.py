"""Conversion between config.json of a Marian model and the options of docnmt's `transformer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docnmt.apps.convert.json_file import JsonFile
from docnmt.core.models.config import TransformerConfig
from docnmt.runtime.errors import UserError
from docnmt.runtime.version import __version__

#: Names of transformers → docnmt's.
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
#: Settings that early versions of transformers wrote. A model with other values is no Marian model.
_FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
#: The longest text in transformers, in subwords: rows of its table of positions. docnmt has no such limit.
POSITIONS = 1024


def read_config(settings: JsonFile) -> TransformerConfig:
    """Return the model's options, except those for shared matrices, which follow from the weights.

    Raises:
        UserError: a setting is missing or has another type, or docnmt cannot compute some settings, all of them named.
    """
    problems = [
        f"'{name}' is {settings.values[name]!r}, expected {value!r}, as transformers computes it"
        for name, value in _FIXED.items()
        if settings.values.get(name, value) != value
    ]
    start, pad = settings.whole("decoder_start_token_id"), settings.whole("pad_token_id")
    if start != pad:
        problems.append(f"'decoder_start_token_id' is {start} and 'pad_token_id' {pad}; in a Marian model they are one")
    return replace(read_layers(settings, default="gelu", problems=problems), norm="post")


def read_layers(settings: JsonFile, *, default: str, problems: Sequence[str] = ()) -> TransformerConfig:
    """Return the options that the configurations of Marian, M2M100, NLLB and mBART have in common.

    Args:
        default: the activation if none is named. problems: messages of problems already found.

    Raises:
        UserError: as for `read_config`.
    """
    problems = list(problems)
    for what in ("attention_heads", "ffn_dim"):
        encoder, decoder = (settings.whole(f"{side}_{what}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            problems.append(f"'encoder_{what}' is {encoder} and 'decoder_{what}' {decoder}; docnmt has one for both")
    activation = settings.token("activation_function", default)
    if activation not in _ACTIVATIONS:
        problems.append(f"'activation_function' is {activation!r}, expected one of {', '.join(_ACTIVATIONS)}")
    config = TransformerConfig(
        encoder_layers=settings.whole("encoder_layers"),
        decoder_layers=settings.whole("decoder_layers"),
        embed_dim=settings.whole("d_model"),
        heads=settings.whole("encoder_attention_heads"),
        ffn_dim=settings.whole("encoder_ffn_dim"),
        dropout=settings.number("dropout", 0.1),
        activation=_ACTIVATIONS.get(activation, "relu"),  # type: ignore[arg-type]
        position_fusion="add",
        scale_embeddings=settings.flag("scale_embedding", False),
    )
    if problems := problems or config.problems():
        raise UserError(f"{settings.path}: {'; '.join(problems)}")
    return config


def config_problems(config: TransformerConfig) -> list[str]:
    """Return a message for each option that Marian does not support."""
    wanted = {
        "norm": "post",
        "position": "sinusoidal",
        "sinusoids": "paper",
        "position_fusion": "add",
        "attention": "softmax",
        "norm_embeddings": False,
    }
    return [
        f"--{name.replace('_', '-')} {getattr(config, name)}: Marian has {value} only"
        for name, value in wanted.items()
        if getattr(config, name) != value
    ]


def config_json(config: TransformerConfig, sizes: tuple[int, int], eos: int, pad: int) -> dict[str, object]:
    """Return config.json of a model with these options.

    Args:
        sizes: sizes of the source's and the target's vocabulary. eos, pad: rows of `</s>` and `<pad>`.
    """
    sides = {
        f"{side}_{name}": value
        for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
        for name, value in (("layers", layers), ("attention_heads", config.heads), ("ffn_dim", config.ffn_dim))
    }
    return {
        "architectures": ["MarianMTModel"], "model_type": "marian", "docnmt_version": __version__, "dtype": "float32",
        "d_model": config.embed_dim, **sides, "activation_function": config.activation, "dropout": config.dropout,
        "attention_dropout": 0.0, "activation_dropout": 0.0, "scale_embedding": config.scale_embeddings,
        "max_position_embeddings": POSITIONS, "static_position_embeddings": True,
        "vocab_size": sizes[0], "decoder_vocab_size": sizes[1],
        # without tied output transformers does not share embeddings either, whatever is said here
        "share_encoder_decoder_embeddings": config.share_embeddings and config.tie_output,
        "tie_word_embeddings": config.tie_output, "is_encoder_decoder": True,
        "eos_token_id": eos, "forced_eos_token_id": eos, "pad_token_id": pad, "decoder_start_token_id": pad,
    }  # fmt: skip


def generation_json(eos: int, pad: int, banned: list[int]) -> dict[str, object]:
    """Return generation_config.json: docnmt's search with its default beam; `banned` rows are never written."""
    return {
        "bad_words_ids": [[row] for row in banned],
        "decoder_start_token_id": pad,
        "early_stopping": True,
        "eos_token_id": eos,
        "forced_eos_token_id": eos,
        "length_penalty": 1.0,
        "max_length": 512,
        "num_beams": 5,
        "pad_token_id": pad,
    }
