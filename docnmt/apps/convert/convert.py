"""docnmt-convert: a model of one form becomes one of another form: Marian's folder, CTranslate2, ONNX, a checkpoint.

A folder (`transformers_folder`) or a checkpoint → `SentenceModel` → what is written.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import (
    Any,  # CTranslate2's specifications, which have no types
    cast,
)

import safetensors.torch
import torch
import yaml
from torch import Tensor, nn
from typing_extensions import TypeIs

from docnmt.apps.convert.sentence_model import (
    ADDED,
    CONFIG,
    DECODER_LAYER,
    ENCODER_LAYER,
    GENERATION,
    LANGUAGE,
    PIECES,
    TABLES,
    TOKENIZER,
    WEIGHTS,
    SentenceModel,
    to_marian,
)
from docnmt.apps.convert.transformers_folder import KINDS as MULTILINGUAL
from docnmt.apps.convert.transformers_folder import JsonFile, read_marian, read_multilingual
from docnmt.apps.options import ConvertConfig
from docnmt.core.models.architectures import ConcatTransformer, Transformer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.models.encoder_decoder import Stack, is_translation_model
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, SPECIAL, UNK, Preparation
from docnmt.core.training.checkpoint import (
    load_checkpoint,
    load_model,
    read_header,
    save_checkpoint,
    unique_state,
)
from docnmt.core.training.dry_run import model_card
from docnmt.core.training.run import TrainingState
from docnmt.core.translation_task import DocumentTranslation
from docnmt.modules.attention import CrossAttention, SelfAttention
from docnmt.modules.fusion import Concat, Fusion
from docnmt.modules.layers import Layer
from docnmt.options import to_dict
from docnmt.registry import CONCATENATED
from docnmt.runtime.system import (
    BEST,
    LAST,
    UsageError,
    UserError,
    __version__,
    check_folder,
    find_checkpoint,
    needing,
    replacing_folder,
    write_json,
    write_text,
)

#: The model's options as a `--config` file; the name is not config.yaml, because no training run has this folder.
OPTIONS = "model.yaml"
#: The options that a model needs to start from this one; positions may have more levels, all others may differ.
_OF_WEIGHTS = (
    "encoder_layers", "decoder_layers", "embed_dim", "heads", "ffn_dim", "dropout", "activation", "norm",
    "share_embeddings", "tie_output", "output_bias", "scale_embeddings", "position_fusion", "sinusoids",
    "norm_embeddings",
)  # fmt: skip
#: More of them, of models with learned positions.
_OF_TABLES = ("position", "max_positions", "share_positions")


def write_pieces(sentence: SentenceModel, folder: Path) -> None:
    """Write the SentencePiece models as source.spm and target.spm, for toolkits that cut texts by themselves."""
    sides = (sentence.task.source_tokenizer, sentence.task.target_tokenizer)
    for name, tokenizer in zip(PIECES, sides, strict=True):
        (folder / name).write_bytes(tokenizer.prepared(Preparation()).to_bytes())


def read_checkpoint(path: Path, form: str) -> SentenceModel:
    """Read the model of a docnmt checkpoint or save-dir, to be written as `form`."""
    file = find_checkpoint(path)
    loaded = load_model(file)
    if _is_exported(loaded.model):
        assert isinstance(loaded.model_config, TransformerConfig)
        return SentenceModel(file, loaded.model, loaded.model_config, cast(DocumentTranslation, loaded.task))
    why, windows = "it translates no text", isinstance(loaded.model, ConcatTransformer)
    if is_translation_model(loaded.model):
        noun, windows = loaded.model.reading.noun, isinstance(cast(object, loaded.model), ConcatTransformer)
        why = (
            "its positions or its source without <brk> have no counterpart there"
            if windows
            else "its layers are unknown there"
            if noun == "sentence"
            else f"it reads a {noun}, and models there read a sentence"
        )
    raise UserError(
        f"{file}: a '{loaded.header['model']}' cannot be exported to {form}: {why}; export a 'transformer', such as "
        "the sentence model that a document model started from"
    )


def _is_exported(model: object) -> TypeIs[Transformer | ConcatTransformer]:
    if type(model) is ConcatTransformer:
        return model.reading.positions == "sequence" and model.reading.source_breaks
    return type(model) is Transformer


def write_checkpoint(sentence: SentenceModel, folder: Path) -> None:
    """Write a checkpoint, and its model's options as a `--config` file for models that start from it."""
    state = sentence.task.state()
    sections = {"task": to_dict(sentence.task.config), "model": to_dict(sentence.config)}
    header = {
        "arch": "transformer", "model": "transformer", "criterion": "label_smoothed_cross_entropy",
        "task": "document_translation",
        "config": {"run": {}, "training": {}, "optimization": {}, "criterion": {}, **sections},
        "task_state": state.json, "progress": TrainingState().to_json(), "fingerprint": "", "threads": 1,
        "device": "cpu", "scores": {},
    }  # fmt: skip
    tensors = {f"model.{name}": tensor for name, tensor in unique_state(sentence.model).items()}
    save_checkpoint(folder / BEST, header, tensors | state.tensors)
    names = (*_OF_WEIGHTS, *(_OF_TABLES if sentence.config.position == "learned" else ()))
    options = {name.replace("_", "-"): getattr(sentence.config, name) for name in names}
    command = "docnmt-train DATA --config FILE --finetune-from-model FOLDER"
    head = f"# what a model needs that starts from this one: {command}\n"
    write_text(folder / OPTIONS, head + yaml.safe_dump(options, sort_keys=False))


# A folder of transformers' MarianMTModel and MarianTokenizer, as OPUS-MT has them.

#: The longest text in other toolkits, in subwords: rows of the table of positions. docnmt has no such limit.
POSITIONS = 1024


def write_marian(sentence: SentenceModel, folder: Path) -> None:
    """Write a folder that `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` read."""
    config, task = sentence.config, sentence.task
    wanted = {
        "norm": "post", "position": "sinusoidal", "sinusoids": "paper", "position_fusion": "add",
        "attention": "softmax", "norm_embeddings": False,
    }  # fmt: skip
    if problems := [
        f"--{name.replace('_', '-')} {getattr(config, name)}: Marian has {value} only"
        for name, value in wanted.items()
        if getattr(config, name) != value
    ]:
        raise UserError(f"{sentence.path}: cannot be a Marian model: {'; '.join(problems)}")
    sides = (task.source_tokenizer, task.target_tokenizer)
    (source, source_order), (target, target_order) = (_marian_table(side.vocabulary()) for side in sides)
    eos, pad, *banned = (target_order.index(number) for number in (EOS, BOS, BRK, MASK))
    tensors = to_marian(config, unique_state(sentence.model), (source_order, target_order))
    (folder / WEIGHTS).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))
    write_json(folder / CONFIG, _marian_config(config, (len(source), len(target)), eos, pad))
    never = [pad, *(banned[1:] if sentence.joined else banned)]
    search: dict[str, object] = {  # docnmt's, with its default beam
        "bad_words_ids": [[row] for row in never], "decoder_start_token_id": pad, "early_stopping": True,
        "eos_token_id": eos, "forced_eos_token_id": eos, "length_penalty": 1.0, "max_length": 512, "num_beams": 5,
        "pad_token_id": pad,
    }  # fmt: skip
    write_json(folder / GENERATION, search)
    if sentence.joined:  # else `<brk>` would be cut into letters
        write_json(folder / ADDED, {SPECIAL[BRK]: banned[0]})
    write_json(folder / TABLES[0], source)
    if not task.joined:
        write_json(folder / TABLES[1], target)
    write_pieces(sentence, folder)
    names = {
        "tokenizer_class": "MarianTokenizer", "source_lang": task.source_lang, "target_lang": task.target_lang,
        "unk_token": "<unk>", "eos_token": "</s>", "pad_token": list(target)[pad], "separate_vocabs": not task.joined,
        "model_max_length": POSITIONS, "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    write_json(folder / TOKENIZER, names)


def _marian_config(config: TransformerConfig, sizes: tuple[int, int], eos: int, pad: int) -> dict[str, object]:
    """Return config.json of a model with these options."""
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


def _marian_table(names: list[str]) -> tuple[dict[str, int], list[int]]:
    """Return Marian's table of a docnmt vocabulary, and docnmt's number of each of its rows."""
    order = [EOS, UNK, BOS, *range(BRK, len(names))]
    pad = next(name for name in ("<pad>", SPECIAL[BOS]) if name not in names[len(SPECIAL) :])
    entries_by_row = [pad if number == BOS else LANGUAGE.sub(r"\1", names[number]) for number in order]
    return {name: row for row, name in enumerate(entries_by_row)}, order


# Export of a sentence `transformer` as a folder for CTranslate2.

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}
#: The bias of entries that are never written: CTranslate2 and ONNX have no list of them. It fits into 16-bit types.
NEVER = -1e4


def require_ctranslate2() -> ModuleType:
    """Return CTranslate2's module of specifications."""
    with needing("--to ctranslate2 needs CTranslate2", "convert"):
        return importlib.import_module("ctranslate2.specs")


def write_ctranslate2(sentence: SentenceModel, folder: Path) -> None:
    """Write the model, its vocabularies, and its SentencePiece models as source.spm and target.spm.

    The weights stay in single precision; CTranslate2 quantises when it loads them (`compute_type="int8"`).
    """
    specs, config, task = require_ctranslate2(), sentence.config, sentence.task
    problems = attention_problems(sentence)
    if config.position_fusion not in ("add", *CONCATENATED):
        problems.append(f"--position-fusion {config.position_fusion}: only addition and concatenation are exported")
    if problems:
        raise UserError(f"{sentence.path}: cannot be a CTranslate2 model: {'; '.join(problems)}")
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers), config.heads, pre_norm=config.norm == "pre",
        activation=getattr(specs.common_spec.Activation, _ACTIVATIONS[config.activation]),
        layernorm_embedding=config.norm_embeddings,
    )  # fmt: skip
    model, parameters = sentence.model, unique_state(sentence.model)
    for name, stack, table in (("encoder", model.encoder, ENCODER_LAYER), ("decoder", model.decoder, DECODER_LAYER)):
        _set_inputs(getattr(spec, name), stack)
        parts = {f"{name}/layer_norm": f"{name}.norm"} if config.norm == "pre" else {}
        parts |= {f"{name}/layernorm_embedding": f"{name}.embedding.norm"} if config.norm_embeddings else {}
        for n in range(len(stack.layers)):
            parts |= {f"{name}/layer_{n}/{part}": f"{name}.layers.{n}.{ours}" for ours, (part, _) in table.items()}
        for part, module in parts.items():
            kinds = ("gamma", "beta") if part.endswith(("layer_norm", "layernorm_embedding")) else ("weight", "bias")
            for kind, parameter in zip(kinds, ("weight", "bias"), strict=True):
                setattr(specs.model_spec.index_spec(spec, part), kind, parameters[f"{module}.{parameter}"])
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
    if type(attention) is not SelfAttention:  # a plug-in's subclass adds something
        return [f"--attention {config.attention}: only softmax is exported"]
    if attention.position is not None:
        return [f"--position {config.position}: inside attention; only those added to embeddings are exported"]
    return []


def _set_inputs(part: Any, stack: Stack) -> None:
    """Set the embeddings and the positions in the specification of the encoder or the decoder, which adds them."""
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


# Parts of the ONNX graphs: how torch writes one, and layers and attention over padded batches by plain operators.

#: The files of the graphs that every model has.
ENCODER, STEP = "encoder.onnx", "step.onnx"
#: The version of the operators.
_OPSET = 18


def export(
    graph: nn.Module, path: Path, inputs: Mapping[str, tuple[Tensor, Sequence[int]]], outputs: Sequence[str]
) -> None:
    """Write a graph as an ONNX file.

    Args:
        inputs: for each argument of the graph, an example and which of its sizes are any. These may be neither 1
            nor equal to others, and no two examples the same tensor: torch takes them for fixed, or for the same.
    """
    any_size = torch.export.Dim.DYNAMIC
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of parts that nothing here needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(), (), str(path), kwargs={name: example for name, (example, _) in inputs.items()},
            input_names=[*inputs], output_names=[*outputs],
            dynamic_shapes={name: dict.fromkeys(sizes, any_size) for name, (_, sizes) in inputs.items()},
            dynamo=True, verbose=False, opset_version=_OPSET,
        )  # fmt: skip


def through(layer: Layer, x: Tensor, attend: Mapping[str, Callable[[Tensor], Tensor]]) -> Tensor:
    """Return x (B, L, d) behind a layer, given how its attentions read."""
    for block in layer.blocks:
        residual = layer.residual(block)
        read = residual.norm(x) if residual.pre else x
        first, *beside = [attend[name](read) if name in attend else layer.sublayer(name)(read) for name in block]
        x = x + sum(beside, start=first)
        x = x if residual.pre else residual.norm(x)
    return x


def heads_of(x: Tensor, parts: int, heads: int) -> Tensor:
    """(B, L, parts · h · d_h) → (parts, B, h, L, d_h)."""
    return x.view(*x.shape[:-1], parts, heads, -1).permute(2, 0, 3, 1, 4)


def mixed(output: nn.Linear, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax attention of q to k and v, (B, h, L, d_h) each; mask (B, L) of the keys → (B, L, d)."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
    read: Tensor = output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    return read


def whole(attention: SelfAttention, mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Return self-attention of rows (B, L, d) in an encoder; mask (B, L)."""

    def attend(read: Tensor) -> Tensor:
        q, k, v = heads_of(attention.qkv(read), 3, attention.heads)
        return mixed(attention.output, q, k, v, mask)

    return attend


def next_word(attention: SelfAttention, before: Tensor, written: list[Tensor]) -> Callable[[Tensor], Tensor]:
    """Return self-attention of one word (B, 1, d) to keys and values (2, B, h, T, d_h); `written` gets T + 1."""

    def attend(read: Tensor) -> Tensor:
        q, *new = heads_of(attention.qkv(read), 3, attention.heads)
        keys = torch.cat([before, torch.stack(new)], dim=3)  # (2, B, h, T + 1, d_h)
        written.append(keys)
        return mixed(attention.output, q, keys[0], keys[1], None)

    return attend


def across(attention: CrossAttention, source: Tensor, mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the attention of one word, (B, 1, d), to keys and values (2, B, h, L, d_h) of its source; mask (B, L)."""

    def attend(read: Tensor) -> Tensor:
        (q,) = heads_of(attention.query(read), 1, attention.heads)
        return mixed(attention.output, q, source[0], source[1], mask)

    return attend


# Export of a `transformer` or `concat_transformer` as two ONNX graphs: the encoder, and one step of the decoder.
#
# The graphs compute what the model computes, in padded batches and with plain operators. Their values:
#
#     source (B, L) int64, mask (B, L) bool       subwords of B texts with `</s>`, and which of them are no padding
#     memory (D, 2, B, h, L, d_h)                 keys and values of the source for each of D decoder layers
#     token (B,) int64                            the last subword of each translation; `<s>` at the beginning
#     cache (D, 2, B, h, T, d_h) → (…, T + 1, …)  keys and values of the T subwords before it; 0 at the beginning
#     scores (B, V)                               logits of the next subword


def require_onnx() -> None:
    """Check that the packages are there with which torch writes ONNX."""
    for name in ("onnx", "onnxscript"):
        with needing(f"--to onnx needs {name}", "convert"):
            importlib.import_module(name)


def write_onnx(sentence: SentenceModel, folder: Path) -> None:
    """Write the graphs, and the SentencePiece models as source.spm and target.spm."""
    require_onnx()
    if problems := attention_problems(sentence):
        raise UserError(f"{sentence.path}: cannot be an ONNX model: {'; '.join(problems)}")
    heads, width = sentence.config.heads, sentence.config.embed_dim
    layers, size = sentence.config.decoder_layers, width // heads
    source, mask = torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.bool)
    memory, cache = (torch.zeros(layers, 2, 2, heads, length, size) for length in (5, 3))
    text = {"source": (source, (0, 1)), "mask": (mask, (0, 1))}
    export(EncoderGraph(sentence), folder / ENCODER, text, ("memory",))
    step = {"token": (source[:, 0], (0,)), "cache": (cache, (2, 4)), "memory": (memory, (2, 4)), "mask": text["mask"]}
    export(StepGraph(sentence), folder / STEP, step, ("scores", "new_cache"))
    write_pieces(sentence, folder)


class Inputs(nn.Module):
    """The embeddings of a side, with positions from a table."""

    table: Tensor

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.embedding, self.fusion = stack.embedding, cast("Fusion | None", stack.embedding.fusion)
        self.register_buffer("table", position_table(stack))

    def forward(self, tokens: Tensor, first: int) -> Tensor:
        """tokens (B, L), of which the first stands in this place → (B, L, d)."""
        x: Tensor = self.embedding.tokens(tokens) * self.embedding.scale
        if self.fusion is not None:
            places = self.table.narrow(0, first, tokens.shape[1])
            x = self.fusion.combine(x, places.expand_as(x), None)
        if self.embedding.norm is not None:
            x = self.embedding.norm(x)
        return x


class EncoderGraph(nn.Module):
    """The encoder, and the decoder's projections of what it returns."""

    def __init__(self, sentence: SentenceModel) -> None:
        super().__init__()
        self.encoder, self.inputs = sentence.model.encoder, Inputs(sentence.model.encoder)
        self.heads = sentence.config.heads
        layers = sentence.model.decoder.stack
        self.cross = nn.ModuleList(cast(CrossAttention, layer.sublayer("cross")).key_value for layer in layers)

    def forward(self, source: Tensor, mask: Tensor) -> Tensor:
        """source, mask (B, L) → memory (D, 2, B, h, L, d_h)."""
        x = self.inputs(source, 0)
        for layer in self.encoder.stack:
            x = through(layer, x, {"attention": whole(cast(SelfAttention, layer.sublayer("attention")), mask)})
        x = self.encoder.norm(x)
        return torch.stack([heads_of(project(x), 2, self.heads) for project in self.cross])


class StepGraph(nn.Module):
    """One step of the decoder."""

    bias: Tensor

    def __init__(self, sentence: SentenceModel) -> None:
        super().__init__()
        self.decoder, self.inputs = sentence.model.decoder, Inputs(sentence.model.decoder)
        self.output = sentence.model.output
        self.register_buffer("bias", projection(sentence)[1])

    def forward(self, token: Tensor, cache: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """token (B,), cache (D, 2, B, h, T, d_h), memory, mask → scores (B, V), cache (D, 2, B, h, T + 1, d_h)."""
        x = self.inputs(token[:, None], cache.shape[4])  # (B, 1, d)
        written: list[Tensor] = []
        for number, layer in enumerate(self.decoder.stack):
            attention = next_word(cast(SelfAttention, layer.sublayer("attention")), cache[number], written)
            cross = across(cast(CrossAttention, layer.sublayer("cross")), memory[number], mask)
            x = through(layer, x, {"attention": attention, "cross": cross})
        features = self.decoder.norm(x)[:, 0]
        return nn.functional.linear(features, self.output.weight, self.bias), torch.stack(written)


#: The file that marks a folder as written by docnmt-convert.
MARKER = "converted.json"
#: The kind of docnmt's own models; all other kinds are `model_type`s of transformers.
_DOCNMT = "docnmt"
_WRITE: dict[str, Callable[[SentenceModel, Path], None]] = {
    "docnmt": write_checkpoint, "hf-marian": write_marian, "ctranslate2": write_ctranslate2, "onnx": write_onnx,
    "hub-folder": write_checkpoint,
}  # fmt: skip


def convert(config: ConvertConfig, say: Callable[[str], None]) -> None:
    """Write the model of IN to OUT, completely or not at all; `say` receives messages, line by line."""
    source, folder = Path(config.input), Path(config.output)
    kind = _all_of(lambda: _kind(source, config), lambda: _check_output(source, folder, config))
    description, write = _read(source, kind, config, say)
    with replacing_folder(folder, marker=MARKER, overwrite=config.overwrite) as temporary:
        write(temporary)
        if config.to == "hub-folder":  # its card has gaps that only the author can fill
            search = BeamSearchConfig()
            write_text(temporary / "README.md", model_card(temporary / BEST, folder.resolve().name) + "\n")
            settings = {
                "num_beams": search.beam, "length_penalty": search.lenpen, "early_stopping": True, "bos_token_id": BOS,
                "decoder_start_token_id": BOS, "eos_token_id": EOS,
            }  # fmt: skip
            write_json(temporary / GENERATION, settings)
        write_json(temporary / MARKER, {"docnmt": __version__, "from": source.name, "to": config.to})
    say(f"{folder}: written: {description}")
    if config.to == "docnmt":
        say(
            f"a model that starts from it: docnmt-preprocess --srcdict {folder} … --destdir DATA; "
            f"docnmt-train DATA --config {folder / OPTIONS} --finetune-from-model {folder} --arch … --save-dir …"
        )


def _all_of(first: Callable[[], str], *others: Callable[[], None]) -> str:
    """Return the result of the first check; if several checks fail, one error has all their messages."""
    result, problems = "", list[UserError]()
    for check in (first, *others):
        try:
            result = check() or result
        except UserError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise UsageError([text for problem in problems for text in getattr(problem, "problems", [str(problem)])])
    return result


def _check_output(source: Path, folder: Path, config: ConvertConfig) -> None:
    """Check that OUT can be written."""
    check_folder(folder, marker=MARKER, overwrite=config.overwrite, reads=[source])
    if config.to == "ctranslate2":
        require_ctranslate2()
    if config.to == "onnx":
        require_onnx()


def _kind(source: Path, config: ConvertConfig) -> str:
    """Return the kind of IN: a `model_type` of transformers, or docnmt's. No weights are read."""
    if not source.exists():
        raise UserError(f"{source}: no such file or folder")
    if source.is_file() and (source.suffix == ".json" or (source.parent / CONFIG).is_file()):
        raise UserError(f"{source}: is one file of a folder; give the folder, {source.resolve().parent}")
    is_folder = (source / CONFIG).is_file()
    for name, model in (("source.spm", "a Marian"), ("sentencepiece.bpe.model", "an M2M100, NLLB or mBART-50")):
        if not is_folder and (source / name).is_file():
            raise UserError(f"{source / CONFIG}: no such file; a folder of {model} model has one")
    kind = str(JsonFile(source / CONFIG).values.get("model_type")) if is_folder else _DOCNMT
    if not is_folder:
        read_header(_checkpoint(source))
    problems = []
    if config.to == {"marian": "hf-marian"}.get(kind, kind):
        problems.append(f"--to {config.to}: {source} is in this form already")
    if config.to == "hf-marian" and kind in MULTILINGUAL:
        why = "norms its layers before and has other positions"
        problems.append(f"--to hf-marian: {source} is {MULTILINGUAL[kind]}, which {why}; take docnmt or ctranslate2")
    if config.languages and kind not in MULTILINGUAL:
        problems.append(f"--languages is for M2M100, NLLB and mBART-50; {source} is none")
    languages = {"--source-lang": config.source_lang, "--target-lang": config.target_lang}
    useless = [name for name, value in languages.items() if value is not None and not is_folder]
    problems += [f"{name} has no effect: the checkpoint {source} has its languages" for name in useless]
    if problems:
        raise UsageError(problems)
    return kind


def _checkpoint(source: Path) -> Path:
    """Return the path of the checkpoint that IN is or contains."""
    if source.is_dir() and not any((source / name).is_file() for name in (BEST, LAST)):
        expected = f"a folder of transformers with {CONFIG}, or a --save-dir with {BEST} or {LAST}"
        raise UserError(f"{source}: holds no model; expected {expected}")
    return find_checkpoint(source)


def _read(
    source: Path, kind: str, config: ConvertConfig, say: Callable[[str], None]
) -> tuple[str, Callable[[Path], None]]:
    """Return a description of the model, and a function that writes it into a folder."""
    is_folder = kind != _DOCNMT
    if not is_folder and config.to == "hub-folder":
        file = find_checkpoint(source)
        checkpoint = load_checkpoint(file, optimizer=False)
        description = f"{checkpoint.header['arch']} of {file}"
        return description, lambda folder: save_checkpoint(folder / BEST, checkpoint.header, checkpoint.tensors)
    if kind in MULTILINGUAL:
        sentence = read_multilingual(source, config, say)
    elif is_folder:
        sentence = read_marian(source, (config.source_lang, config.target_lang), say)
    else:
        sentence = read_checkpoint(source, config.to)  # texts are prepared before they are cut, and not there
        sides = [side.preparation for side in (sentence.task.source_tokenizer, sentence.task.target_tokenizer)]
        if any(side.punctuation for side in sides):
            say(f"note: --normalize-punctuation: {config.to} does not do it; give it text with uniform punctuation")
        if tags := " and ".join(side.tags[side.tag] for side in sides if side.tag):
            say(f"note: {config.to} does not put {tags} before texts, as docnmt does; do it yourself")
    return str(sentence), partial(_WRITE[config.to], sentence)
