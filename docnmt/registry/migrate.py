"""Migration of options and tensors that earlier versions stored to the names of this version.

A configuration stores the version of its names (`CONFIG_VERSION` when it is written; 1 if none is
stored). To drop or rename an option, raise the version and add a line to `CHANGES`; to rename tensors, add one to
`TENSOR_CHANGES`. No other module uses earlier names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from docnmt.options import flag, underscored

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
