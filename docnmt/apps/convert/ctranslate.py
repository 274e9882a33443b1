"""Export of a sentence `transformer` as a folder for CTranslate2."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any  # CTranslate2's specifications, which have no types

import torch
from torch import Tensor

from docnmt.apps.convert.sentence_model import SentenceModel, write_pieces
from docnmt.core.data.tokenizer import BOS, BRK, EOS, MASK, SPECIAL, UNK
from docnmt.core.models.encoder_decoder import Stack
from docnmt.core.training.checkpoint import unique_state
from docnmt.modules.fusion import Concat
from docnmt.modules.softmax_attention import SelfAttention
from docnmt.runtime.errors import UserError

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}
#: Parts of a layer in CTranslate2's specification, and the corresponding modules of docnmt.
_ENCODER_LAYER = {
    "self_attention/linear_0": "attention.qkv",
    "self_attention/linear_1": "attention.output",
    "self_attention/layer_norm": "attention_residual.norm",
    "ffn/linear_0": "feed_forward.inner",
    "ffn/linear_1": "feed_forward.output",
    "ffn/layer_norm": "feed_forward_residual.norm",
}
_DECODER_LAYER = {
    **_ENCODER_LAYER,
    "attention/linear_0": "cross.query",
    "attention/linear_1": "cross.key_value",
    "attention/linear_2": "cross.output",
    "attention/layer_norm": "cross_residual.norm",
}
#: The longest text in CTranslate2 and ONNX, in subwords: rows of the table of positions. docnmt has no such limit.
POSITIONS = 1024
#: The bias of entries that are never written: CTranslate2 and ONNX have no list of them. It fits into 16-bit types.
NEVER = -1e4


def require_ctranslate2() -> ModuleType:
    """Return CTranslate2's module of specifications.

    Raises:
        UserError: the package is not installed.
    """
    try:
        return importlib.import_module("ctranslate2.specs")
    except ImportError as error:
        raise UserError("--to ctranslate2: CTranslate2 is not installed; pip install 'docnmt[convert]'") from error


def write_ctranslate2(sentence: SentenceModel, folder: Path) -> None:
    """Write the model, its vocabularies, and its SentencePiece models as source.spm and target.spm.

    The weights stay in single precision; CTranslate2 quantises when it loads them (`compute_type="int8"`). `<s>`,
    `<mask>` and, in models of single sentences, `<brk>` get the probability 0, because no translation has them.

    Raises:
        UserError: CTranslate2 is not installed, or does not support the model's options.
    """
    specs, config, task = require_ctranslate2(), sentence.config, sentence.task
    if found := _problems(sentence):
        raise UserError(f"{sentence.path}: cannot be a CTranslate2 model: {'; '.join(found)}")
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=getattr(specs.common_spec.Activation, _ACTIVATIONS[config.activation]),
        layernorm_embedding=config.norm_embeddings,
    )
    model, own = sentence.model, unique_state(sentence.model)
    for name, stack, table in (("encoder", model.encoder, _ENCODER_LAYER), ("decoder", model.decoder, _DECODER_LAYER)):
        _set_inputs(getattr(spec, name), stack)
        parts = {f"{name}/layer_norm": f"{name}.norm"} if config.norm == "pre" else {}
        parts |= {f"{name}/layernorm_embedding": f"{name}.embedding.norm"} if config.norm_embeddings else {}
        for n in range(len(stack.layers)):
            parts |= {f"{name}/layer_{n}/{part}": f"{name}.layers.{n}.{module}" for part, module in table.items()}
        for part, module in parts.items():
            kinds = ("gamma", "beta") if part.endswith(("layer_norm", "layernorm_embedding")) else ("weight", "bias")
            for kind, parameter in zip(kinds, ("weight", "bias"), strict=True):
                setattr(specs.model_spec.index_spec(spec, part), kind, own[f"{module}.{parameter}"])
    spec.decoder.projection.weight, spec.decoder.projection.bias = projection(sentence)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (SPECIAL[n] for n in (UNK, BOS, EOS))
    spec.config.decoder_start_token, spec.config.add_source_eos = SPECIAL[BOS], True
    spec.register_source_vocabulary(task.source_tokenizer.vocabulary())
    spec.register_target_vocabulary(task.target_tokenizer.vocabulary())
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    write_pieces(sentence, folder)


def attention_problems(sentence: SentenceModel) -> list[str]:
    """Return a message for each option of attention that is not exported."""
    config, attention = sentence.config, sentence.model.decoder.stack[0].sublayer("attention")
    if not isinstance(attention, SelfAttention):
        return [f"--attention {config.attention}: only softmax is exported"]
    if attention.position is not None:
        return [f"--position {config.position}: inside attention; only those added to embeddings are exported"]
    return []


def _problems(sentence: SentenceModel) -> list[str]:
    """Return a message for each option that CTranslate2 does not support."""
    config, found = sentence.config, attention_problems(sentence)
    if config.position_fusion not in ("add", "concat"):
        found.append(f"--position-fusion {config.position_fusion}: only add and concat are exported")
    return found


def _set_inputs(part: Any, stack: Stack) -> None:
    """Set the embeddings and the positions in the specification of the encoder or the decoder, which adds them.

    For concatenation, W[sE; P] + b is the sum of s·E·W_E^T and P·W_P^T + b, so the two tables contain the projection.
    """
    embedding = stack.embedding
    tokens, scale = embedding.tokens.weight.detach(), embedding.scale
    table = position_table(stack)
    if isinstance(embedding.fusion, Concat):
        words, positions = (matrix.detach() for matrix in embedding.fusion.matrices)
        bias = embedding.fusion.projection.bias.detach()
        tokens, scale, table = scale * tokens @ words.T, 1.0, table @ positions.T + bias
    embeddings = part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings
    embeddings.weight, part.scale_embeddings, part.position_encodings.encodings = tokens, scale, table


def position_table(stack: Stack) -> Tensor:
    """Return the encoding (`POSITIONS`, d) of the places 0, 1, … of encoder or decoder; 0 without positions."""
    embedding = stack.embedding
    places = torch.zeros(POSITIONS, 4, dtype=torch.int64)
    places[:, 0] = torch.arange(POSITIONS)
    table = torch.zeros(POSITIONS, embedding.tokens.embedding_dim)
    return table if embedding.position is None else embedding.position(places).detach()


def projection(sentence: SentenceModel) -> tuple[Tensor, Tensor]:
    """Return weight (V, d) and bias (V,) of the output, with `NEVER` for entries that no translation has."""
    output = sentence.model.output
    bias = torch.zeros(output.out_features) if output.bias is None else output.bias.detach().clone()
    bias[[BOS, MASK] if sentence.joined else [BOS, BRK, MASK]] = NEVER
    return output.weight.detach(), bias
