"""Options of a run, of optimisation and of the criteria; without torch, as the command line reads them, too."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.options import Needs, Open, option


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Options of cross-entropy; there are none."""


@dataclass(frozen=True)
class LabelSmoothedCrossEntropyConfig:
    """Options of label-smoothed cross-entropy."""

    label_smoothing: float = option(
        0.1, "share of the probability given to all labels alike", basic=True, between=(0, Open(1))
    )
    r_drop: float = option(
        0.0,
        "R-Drop: two passes an update, and this weight on how differently they predict (5 in its paper); of "
        "copy_transformer without what is copied",
        metavar="ALPHA",
        between=(0, None),
    )


@dataclass(frozen=True)
class FormChoiceConfig(LabelSmoothedCrossEntropyConfig):
    """Options of the criterion of forms of address."""

    form_choice: float = option(
        4.0, "how many times the choice between the forms of address counts in training", between=(0, None)
    )


@dataclass(frozen=True)
class OptimizationConfig:
    """Options of AdamW and a schedule. No schedule depends on a limit, so prolonging a run does not change its past."""

    lr: float = option(5e-4, "peak learning rate", basic=True, between=(Open(0), None))
    lr_scheduler: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = option(
        "inverse_sqrt", "how the rate falls after the warm-up"
    )
    warmup_updates: int = option(
        4000, "updates over which the rate rises linearly from 0; 0 for none", basic=True, between=(0, None)
    )
    lr_period_updates: int | None = option(
        None, "updates from the peak down to --min-lr", between=(1, None), needs=Needs("lr_scheduler", ("cosine",))
    )
    min_lr: float | None = option(
        None, "the rate never falls below it [0]", between=(0, None), needs=Needs("lr_scheduler", ("cosine", "plateau"))
    )
    adam_betas: tuple[float, ...] = option(
        (0.9, 0.98), "decay rates of Adam's two moments", metavar="F", between=(0, Open(1))
    )
    weight_decay: float = option(0.0, "decoupled (AdamW), on matrices only", between=(0, None))
    clip_norm: float = option(1.0, "largest norm of the gradient; 0 does not clip", between=(0, None))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        messages = []
        if len(self.adam_betas) != 2:
            messages.append(f"--adam-betas: expected two numbers, got {' '.join(map(str, self.adam_betas))}")
        if (self.min_lr or 0) > self.lr:
            messages.append(f"--min-lr {self.min_lr} is above --lr {self.lr}")
        if self.lr_scheduler == "cosine" and self.lr_period_updates is None:
            messages.append("--lr-scheduler cosine needs --lr-period-updates, the length of its fall")
        return messages


#: The names of the sections of `docnmt-train`: in `--help`, in config.yaml and in a checkpoint's header.
SECTIONS = ("run", "training", "optimization", "task", "model", "criterion")


@dataclass(frozen=True)
class RunConfig:
    """Options for limits, folders and logging: the only ones that may differ when the same command continues a run."""

    data: str = option(dataclasses.MISSING, "folder written by docnmt-preprocess", positional=True, metavar="DATA")
    save_dir: str = option(dataclasses.MISSING, "for checkpoints and logs; a run in it is continued", metavar="DIR")
    max_update: int | None = option(None, "stop after this many updates", basic=True, between=(0, None))
    max_epoch: int | None = option(None, "stop after this many passes over the data", basic=True, between=(0, None))
    patience: int | None = option(None, "stop after this many validations without a new best", between=(1, None))
    device: str = option("auto", "cpu, cuda, cuda:1 …; auto takes cuda where there is one", metavar="NAME")
    log_interval: int = option(100, "updates between two lines of train.jsonl", between=(1, None))
    tensorboard_logdir: str | None = option(None, "also write the log for TensorBoard there", metavar="DIR")
    save_interval_updates: int | None = option(
        None, "save every N updates, besides at every validation, at the end and every 15 minutes", between=(1, None)
    )
    keep_last: int = option(
        0,
        "also keep the checkpoints of the N last validations (without validation: saves) under names of their own, "
        "for docnmt-average",
        aliases=("--keep-last-epochs",),
        between=(0, None),
    )
    context_worth: bool = option(
        True,
        "at each validation of a model that reads context, also measure what context is worth: nll in foreign "
        "context and without any, two more passes over the validation data",
    )
    dry_run: bool = option(False, "print options, parameters, batches and memory, and write nothing")
    shard: bool = option(
        False,
        "divide parameters, gradients and the optimizer's moments among the processes of torchrun (FSDP2), for "
        "models that do not fit into one; checkpoints stay the same",
    )
    force_bf16: bool = option(
        False, "compute with --bf16 even on a processor without bfloat16 products, many times slower than float32"
    )
    overwrite: bool = option(False, "start anew: delete the checkpoints and logs that --save-dir holds")


@dataclass(frozen=True)
class TrainingConfig:
    """Options for the model, the data, the updates and the validation of a training."""

    arch: str = option(dataclasses.MISSING, "architecture; --list names them all", metavar="NAME")
    task: str | None = option(None, "task [the one DATA was made for]", metavar="NAME")
    criterion: str | None = option(None, "loss [the task's]", metavar="NAME")
    finetune_from_model: str | None = option(
        None,
        "start from the weights of this checkpoint or --save-dir: a sentence 'transformer' for a document model, "
        "which then begins exactly where that one is, or a model of the same kind",
        metavar="CKPT",
        basic=True,
    )
    finetune_lr_scale: float | None = option(
        None,
        "the learning rate of the parts that a sentence model has, too, as a share of --lr, as 0.2; 0 freezes "
        "them; of a new sentence model these are all parameters",
        between=(0, None),
        needs="finetune_from_model",
    )
    finetune_freeze: tuple[str, ...] = option(
        (),
        "parameters that keep their values, by patterns of their names, as 'encoder.*' (docnmt-inspect lists "
        "modules): they need no memory for gradients and moments",
        metavar="PATTERN",
        needs="finetune_from_model",
    )
    max_tokens: int = option(4096, "largest batch, in subwords of its longer side", basic=True, between=(1, None))
    max_sentences: int | None = option(
        None, "largest batch, in units of the data", aliases=("--batch-size",), between=(1, None)
    )
    update_freq: int = option(1, "batches accumulated for one update", between=(1, None))
    seed: int = option(1, "of initial weights, order and dropout", between=(0, None))
    ema: float | None = option(
        None,
        "keep the running mean of the weights with this decay, as 0.999; validation judges it, and all "
        "checkpoints but checkpoint_last hold it",
        metavar="DECAY",
        between=(Open(0), Open(1)),
    )
    bf16: bool = option(False, "compute in bfloat16 where it is safe; weights stay in float32", basic=True)
    validate_interval: int = option(1, "epochs between two validations", between=(1, None))
    validate_interval_updates: int | None = option(None, "validate every N updates, too", between=(1, None))
    disable_validation: bool = option(
        False, "never validate: there is no best checkpoint then", excludes=("eval_metrics", "best_checkpoint_metric")
    )
    best_checkpoint_metric: str = option(
        "loss",
        "what chooses checkpoint_best and drives --patience: loss, nll, or a metric of the task such as bleu; more is "
        "better, except for loss, nll, ppl and ter",
        metavar="NAME",
        basic=True,
    )
    eval_metrics: bool = option(
        False,
        "compute the task's own metrics (BLEU) at each validation, also when they choose nothing",
        aliases=("--eval-bleu",),
    )

    def asks_metrics(self, metrics: tuple[str, ...]) -> bool:
        """Return True if validation computes the task's own metrics, such as BLEU."""
        return self.eval_metrics or self.best_checkpoint_metric in metrics
