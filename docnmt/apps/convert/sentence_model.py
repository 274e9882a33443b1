"""A sentence model on its way between toolkits, and the tensors of Marian and multilingual models under our names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from docnmt.core.models.architectures import ConcatTransformer, Transformer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.tokenizer import SPECIAL, known_languages
from docnmt.core.training.checkpoint import load_state
from docnmt.core.translation_task import DocumentTranslation
from docnmt.modules.positions import sinusoids
from docnmt.runtime.system import UserError

#: The files of a folder of transformers.
CONFIG, WEIGHTS, GENERATION, TOKENIZER = (
    "config.json", "model.safetensors", "generation_config.json", "tokenizer_config.json",
)  # fmt: skip
#: The entries that were added to the vocabulary, and the tables of Marian, piece → row: of both languages, or of each.
ADDED, TABLES = "added_tokens.json", ("vocab.json", "target_vocab.json")
#: The SentencePiece models of source and target in a folder for another toolkit.
PIECES = ("source.spm", "target.spm")
#: The target language before a source text, `>>deu<< A text`. transformers splits it off before SentencePiece;
#: SentencePiece itself finds it if the piece includes the space that SentencePiece puts before a text.
LANGUAGE = re.compile(r"▁?(>>[^<>]+<<)")


@dataclass(frozen=True, eq=False)
class SentenceModel:
    """A `transformer` with its weights, its options, its task, and the `path` from which it was read, for messages.

    It can be a `concat_transformer` if it is only written: for other toolkits, a sentence model with the word `<brk>`.
    """

    path: Path
    model: Transformer | ConcatTransformer
    config: TransformerConfig
    task: DocumentTranslation

    @property
    def joined(self) -> bool:
        """True if its texts are several sentences with `<brk>` between them."""
        return isinstance(self.model, ConcatTransformer)

    def __str__(self) -> str:
        c, task = self.config, self.task
        sizes = dict.fromkeys((task.source_vocabulary_size, task.target_vocabulary_size))
        targets = known_languages((task.source_tokenizer, task.target_tokenizer), "target")
        several = f" ({len(targets)} target languages)" if targets else ""
        kind = "concat_transformer" if self.joined else "transformer"
        return (
            f"{kind} {'-'.join(task.languages)}{several}, {c.encoder_layers}+{c.decoder_layers} layers, width "
            f"{c.embed_dim}, {c.heads} heads, vocabulary {' and '.join(f'{size:,}' for size in sizes)}"
        )


def built(
    folder: Path, config: TransformerConfig, task: DocumentTranslation, tensors: Mapping[str, Tensor], *,
    rows: tuple[Sequence[int], Sequence[int]], shared: bool, tied: bool,
) -> SentenceModel:  # fmt: skip
    """Return a model with the weights of a folder of transformers; arguments as of `from_transformers`."""
    try:
        parameters = from_transformers(config, tensors, rows=rows, shared=shared, tied=tied)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    config = replace(
        config, share_embeddings=TARGET not in parameters, tie_output=OUTPUT not in parameters,
        output_bias=OUTPUT_BIAS in parameters,
    )  # fmt: skip
    model = Transformer.build(config, task).eval()
    load_state(model, parameters, folder)
    return SentenceModel(folder, model, config, task)


#: The modules of a layer in docnmt, each with its part in CTranslate2's specification, and with Marian's modules whose
#: rows it contains, one after the other.
ENCODER_LAYER: dict[str, tuple[str, str]] = {
    "attention.qkv": ("self_attention/linear_0", "self_attn.q_proj self_attn.k_proj self_attn.v_proj"),
    "attention.output": ("self_attention/linear_1", "self_attn.out_proj"),
    "attention_residual.norm": ("self_attention/layer_norm", "self_attn_layer_norm"),
    "feed_forward.inner": ("ffn/linear_0", "fc1"),
    "feed_forward.output": ("ffn/linear_1", "fc2"),
    "feed_forward_residual.norm": ("ffn/layer_norm", "final_layer_norm"),
}
DECODER_LAYER: dict[str, tuple[str, str]] = {
    **ENCODER_LAYER,
    "cross.query": ("attention/linear_0", "encoder_attn.q_proj"),
    "cross.key_value": ("attention/linear_1", "encoder_attn.k_proj encoder_attn.v_proj"),
    "cross.output": ("attention/linear_2", "encoder_attn.out_proj"),
    "cross_residual.norm": ("attention/layer_norm", "encoder_attn_layer_norm"),
}
#: Modules whose columns are the model's features; in the other modules the features are the rows.
_READING = (".qkv", ".query", ".key_value", ".inner")

#: Names of Marian's parameters.
SHARED, ENCODER, DECODER, HEAD, BIAS = (
    "model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight",
    "final_logits_bias",
)  # fmt: skip
_SIDES = ("encoder", "decoder")
_POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in _SIDES)
#: Rows at the beginning of mBART's tables of positions that no word has.
_OFFSET = 2
#: Names of docnmt's parameters. A matrix equal to the one before, or a bias of zeros, is left out.
SOURCE, TARGET = "encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight"
OUTPUT, OUTPUT_BIAS = "output.weight", "output.bias"

#: The output bias of entries that Marian lacks: they are e^-20 times as probable as an entry with weights of 0, and
#: training can still raise the bias.
ABSENT = -20.0


def _modules(config: TransformerConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield each of docnmt's modules, and Marian's modules in it."""
    sides = {"encoder": (config.encoder_layers, ENCODER_LAYER), "decoder": (config.decoder_layers, DECODER_LAYER)}
    for side, (layers, table) in sides.items():
        for layer in (f"{side}.layers.{number}" for number in range(layers)):
            for ours, (_, theirs) in table.items():
                yield f"{layer}.{ours}", [f"model.{layer}.{name}" for name in theirs.split()]


def _reordered(module: str, weight: Tensor, bias: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Return a module's weight and bias with the model's features in another order."""
    return (weight[:, order], bias) if module.endswith(_READING) else (weight[order], bias[order])


def from_transformers(
    config: TransformerConfig, tensors: Mapping[str, Tensor], *, rows: tuple[Sequence[int], Sequence[int]],
    shared: bool, tied: bool,
) -> dict[str, Tensor]:  # fmt: skip
    """Return docnmt's parameters, in single precision; equal source, target and output matrices are stored once.

    If a decoder begins with `</s>`, one row is docnmt's `<s>` and `</s>`. Then the output bias makes the special entry
    that comes first, `<s>`, improbable, because only `</s>` ends a sentence.

    Args:
        rows: for each of docnmt's source and target entries, the row in the other model's matrices, or -1.
        shared, tied: True if source and target embeddings are one matrix, or target embeddings and output.
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise UserError(f"tensor '{name}' is {tensor.dtype}; expected floating-point weights, not quantised ones")
    left = {name: tensor.float() for name, tensor in tensors.items()}
    order = torch.arange(config.embed_dim)  # docnmt's feature j is the other model's order[j]
    parameters: dict[str, Tensor] = {}
    if config.position == "learned":
        parameters |= _norms(left, config, "embedding.norm", "layernorm_embedding")
        table_shape = (config.max_positions + _OFFSET, config.embed_dim)
        for side, name in zip(_SIDES, _POSITIONS, strict=True):
            parameters[f"{side}.embedding.position.weight"] = _take(left, name, config, table_shape)[_OFFSET:]
    elif config.sinusoids == "paper":
        for name in _POSITIONS:
            table, width = left.pop(name, None), config.embed_dim
            if table is not None and (
                table.shape[1:] != (width,)
                or not torch.allclose(table, sinusoids(len(table), width, concatenated=True).float(), atol=2e-3)
            ):
                raise UserError(f"'{name}' has learned positions; only Marian's sines and cosines can be converted")
        order = order.view(2, -1).t().flatten()
    else:
        for side in _SIDES:
            left.pop(f"model.{side}.embed_positions.weights", None)  # the table, in files of early versions
    # each is large, so what is one matrix in the file is computed once
    (source_name, matrix), *others = _matrices(left, shared, tied, config.embed_dim)
    source = _at(source_name, matrix, rows[0])[:, order]
    (target_name, matrix), (output_name, output_matrix) = others
    same = target_name == source_name and list(rows[0]) == list(rows[1])
    target = source if same else _at(target_name, matrix, rows[1])[:, order]
    output = target if output_name == target_name else _at(output_name, output_matrix, rows[1])[:, order]
    bias = left.pop(BIAS, torch.zeros(1, 1 + max(rows[1])))  # (1, V)
    bias = _at(BIAS, bias.flatten(), rows[1], absent=ABSENT)
    bias[[n for n, row in enumerate(rows[1][: len(SPECIAL)]) if row >= 0 and row in rows[1][n + 1 :]]] = ABSENT
    parameters[SOURCE] = source
    if not torch.equal(source, target):
        parameters[TARGET] = target
    if not torch.equal(output, target):
        parameters[OUTPUT] = output
    if bias.any():
        parameters[OUTPUT_BIAS] = bias
    for module, names in _modules(config):
        weight = torch.cat([_take(left, f"{name}.weight", config) for name in names])
        its_bias = torch.cat([_take(left, f"{name}.bias", config) for name in names])
        parameters[f"{module}.weight"], parameters[f"{module}.bias"] = _reordered(module, weight, its_bias, order)
    if config.norm == "pre":  # the normalizations after the last layers
        parameters |= _norms(left, config, "norm", "layer_norm")
    if left:
        kinds = {"post": "MarianMTModel", "pre": "M2M100ForConditionalGeneration"}
        kind = "MBartForConditionalGeneration" if config.norm_embeddings else kinds[config.norm]
        raise UserError(f"tensor '{sorted(left)[0]}' is none that a {kind} of this config.json has")
    return parameters


def _norms(left: dict[str, Tensor], config: TransformerConfig, ours: str, theirs: str) -> dict[str, Tensor]:
    """Return a normalization of encoder and decoder, and remove it from `left`."""
    return {
        f"{side}.{ours}.{kind}": _take(left, f"model.{side}.{theirs}.{kind}", config)
        for side in _SIDES
        for kind in ("weight", "bias")
    }


def to_marian(
    config: TransformerConfig, ours: Mapping[str, Tensor], orders: tuple[Sequence[int], Sequence[int]]
) -> dict[str, Tensor]:
    """Return Marian's parameters of docnmt's `own`; `orders`: for each source and target row of Marian, our entry."""
    order = torch.arange(config.embed_dim).view(-1, 2).t().flatten()  # Marian's feature i is docnmt's order[i]
    target = ours.get(TARGET, ours[SOURCE])
    output = ours.get(OUTPUT, target)
    source, target, output = (
        matrix[list(rows)][:, order]
        for matrix, rows in zip((ours[SOURCE], target, output), (*orders, orders[1]), strict=True)
    )
    if config.tie_output:
        parameters = {SHARED: source} if config.share_embeddings else {ENCODER: source, DECODER: target}
    else:
        parameters = {ENCODER: source, DECODER: target, HEAD: output}
    parameters[BIAS] = ours.get(OUTPUT_BIAS, torch.zeros(len(output)))[list(orders[1])][None]  # (1, V)
    for module, names in _modules(config):
        weight, bias = _reordered(module, ours[f"{module}.weight"], ours[f"{module}.bias"], order)
        for kind, tensor in (("weight", weight), ("bias", bias)):
            parts = zip(names, tensor.chunk(len(names)), strict=True)
            parameters |= {f"{name}.{kind}": part for name, part in parts}
    return {name: tensor.clone() for name, tensor in parameters.items()}  # in a file no two tensors share memory


def _matrices(left: dict[str, Tensor], shared: bool, tied: bool, width: int) -> list[tuple[str, Tensor]]:
    """Return source embeddings, target embeddings and output matrix, each with its name; remove them from `left`."""
    if shared and tied:
        names: list[tuple[str, ...]] = [(SHARED, ENCODER, DECODER, HEAD)] * 3
    elif tied:
        names = [(ENCODER,), (DECODER, HEAD), (DECODER, HEAD)]
    else:
        names = [(ENCODER, SHARED), (DECODER, SHARED), (HEAD,)]
    matrices = []
    for group in names:
        there = [name for name in group if name in left]
        if not there:
            raise UserError(f"tensor '{group[0]}' is missing")
        if tied and any(not torch.equal(left[there[0]], left[name]) for name in there[1:]):
            raise UserError(f"'{there[0]}' and '{there[1]}' differ, and by tie_word_embeddings in config.json are one")
        if left[there[0]].shape[1:] != (width,):
            raise UserError(f"'{there[0]}' has the shape {tuple(left[there[0]].shape)}, expected (entries, {width})")
        matrices.append((there[0], left[there[0]]))
    for name in (SHARED, ENCODER, DECODER, HEAD):
        left.pop(name, None)
    return matrices


def unused_rows(tensors: Mapping[str, Tensor], rows: tuple[Sequence[int], Sequence[int]]) -> int:
    """Return the number of matrix rows without an entry in the vocabulary; `rows` as for `from_transformers`."""
    used = [len(set(of_side) - {-1}) for of_side in rows]
    sides = ((SHARED, used[0]), (ENCODER, used[0]), (DECODER, used[1]), (HEAD, used[1]))
    return max((tensors[name].shape[:1].numel() - count for name, count in sides if name in tensors), default=0)


def _at(name: str, matrix: Tensor, rows: Sequence[int], absent: float = 0.0) -> Tensor:
    """Return these rows of a matrix or vector; for -1, a row of the value `absent`."""
    if max(rows) >= len(matrix):
        raise UserError(f"'{name}' has {len(matrix):,} rows, and the vocabulary an entry of number {max(rows):,}")
    return torch.cat([matrix, matrix.new_full((1, *matrix.shape[1:]), absent)])[list(rows)]


def _take(
    left: dict[str, Tensor], name: str, config: TransformerConfig, expected: tuple[int, int] | None = None
) -> Tensor:
    """Return a tensor of the right shape, which is `expected` or that of a layer's, and remove it from `left`."""
    d, inner = config.embed_dim, config.ffn_dim
    module, _, kind = name.rpartition(".")
    module = module.rpartition(".")[2]
    shape = {"fc1": (inner, d), "fc2": (d, inner)}.get(module, (d,) if "norm" in module else (d, d))
    shape = expected or (shape if kind == "weight" else shape[:1])
    if name not in left:
        raise UserError(f"tensor '{name}' is missing")
    if left[name].shape != shape:
        raise UserError(f"tensor '{name}' has the shape {tuple(left[name].shape)}, by config.json it is {shape}")
    return left.pop(name)
