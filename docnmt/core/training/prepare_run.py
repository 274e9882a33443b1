"""Preparation of a run from resolved options: task, model, optimizer, and the state it continues from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from docnmt.core.training.check_options import (
    check_criterion,
    check_judged,
    check_made_for,
    check_metric,
    check_noise,
    check_same,
    check_validation,
)
from docnmt.core.training.checkpoint import Checkpoint, load_checkpoint, load_state, say_changed_plugins
from docnmt.core.training.config import SECTIONS
from docnmt.core.training.finetune import learning_rate_scales, start_from
from docnmt.core.training.restore_run import restore
from docnmt.core.training.run import MeanWeights, Run, TrainingState, build_optimizer, seed_everything
from docnmt.core.training.run_folder import RunFolder
from docnmt.modules.reduced_precision import multiplies_bfloat16, replace_linear
from docnmt.modules.trained_linear import TrainedLinear
from docnmt.registry.options import to_dict
from docnmt.registry.registry import ARCHITECTURES, CRITERIA, MODELS, TASKS
from docnmt.runtime import ranks
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.tuning import pick_device, trains_linear

if TYPE_CHECKING:  # FSDP2 takes a second to import
    from docnmt.core.training.run import ShardedLoss


def prepare(config: dict[str, Any], folder: RunFolder | None = None) -> Run:
    """Build a run from resolved sections; it continues from the save-dir's last checkpoint if there is one.

    Args:
        folder: the save-dir, if it is locked already.

    Raises:
        UserError: the save-dir is not a run's, an option differs from the run it has, or data or checkpoint is damaged.
        UsageError: `--bf16` on a processor without its products.
    """
    limits, training = config["run"], config["training"]
    check_noise(config)
    check_made_for(config)
    folder = folder or RunFolder(Path(limits.save_dir))
    device = pick_device(limits.device)
    if training.bf16 and device.type == "cpu" and not limits.force_bf16 and not multiplies_bfloat16():
        raise UsageError(
            "--bf16: this processor has no bfloat16 products (x86: AVX512-BF16 or AMX), and float32 is many times "
            "faster: --no-bf16; --force-bf16 computes without them"
        )
    checkpoint = _earlier(folder, config)
    task = TASKS.get(training.task).load(config["task"], Path(limits.data))
    if checkpoint is not None and checkpoint.header["fingerprint"] != task.fingerprint:
        raise UserError(
            f"{limits.data}: is not the data that {folder.last} was trained on (its fingerprint differs); "
            "give the same data, or another --save-dir"
        )
    seed_everything(training.seed, 0)
    model = task.build_model(MODELS.get(ARCHITECTURES.get(training.arch).model), config["model"])
    criterion = CRITERIA.get(training.criterion).build(config["criterion"], task)
    check_criterion(training, model, criterion)
    check_metric(training, task, criterion)
    check_validation(config, task, model)
    check_judged(config, task)
    state, start = TrainingState(), None
    if checkpoint is not None:
        load_state(model, checkpoint.group("model"), checkpoint.path)
        start = checkpoint.start
    elif training.finetune_from_model is not None:
        start = start_from(model, config["model"], task, training)
    model.to(device)
    if trains_linear() and device.type == "cpu" and not training.bf16:
        replace_linear(model, TrainedLinear)
    sharded: ShardedLoss | None = None
    if limits.shard and ranks.world() > 1:
        from docnmt.core.training.run import ShardedLoss, check_sharding

        check_sharding()
        sharded = ShardedLoss(model, criterion, device)
    optimizer = build_optimizer(config["optimization"], model, learning_rate_scales(model, training))
    run = Run(config, folder, task, model, criterion, optimizer, device, state, start=start, sharded=sharded)
    if training.ema is not None:
        run.mean = MeanWeights(model, training.ema)
    if checkpoint is not None:
        restore(run, checkpoint)
    return run


def _earlier(folder: RunFolder, config: dict[str, Any]) -> Checkpoint | None:
    """Return the checkpoint from which the run continues; None for a new run."""
    if config["run"].overwrite:
        return None
    if not folder.last.exists():
        folder.check_new()
        return None
    checkpoint = load_checkpoint(folder.last)
    check_same(config, checkpoint)
    say_changed_plugins(checkpoint)
    return checkpoint


def agree_across_ranks(run: Run) -> None:
    """Check, once all ranks have prepared, that they have the same options and state, with bitwise equal weights.

    What one rank decides by its own options or progress, such as when to validate, the others then decide, too.

    Raises:
        UserError: data, save-dir or options differ; paths and devices may.
    """
    own = ("data", "save_dir", "device", "tensorboard_logdir", "finetune_from_model")
    options = [{k: v for k, v in to_dict(run.config[name]).items() if k not in own} for name in SECTIONS]
    ranks.check_alike(ranks.exchange(json.dumps(options)), "the options")
    ranks.check_alike(ranks.exchange(run.task.fingerprint), f"{run.limits.data}: the data")
    progress = json.dumps([run.state.to_json(), run.saved, run.started_with])
    ranks.check_alike(ranks.exchange(progress), f"{run.limits.save_dir}: the progress")
    if run.sharded is None:
        moments = [value for held in run.optimizer.state.values() for value in held.values() if torch.is_tensor(value)]
        ranks.same_everywhere([*run.model.state_dict().values(), *moments])
