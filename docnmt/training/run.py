"""One training run put together: from resolved options to task, model, optimizer and the state it continues from."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.batching.plan import plan_batches
from docnmt.config import to_dict
from docnmt.criterions.protocol import Criterion
from docnmt.errors import UsageError, UserError
from docnmt.optim.config import OptimizationConfig
from docnmt.optim.optimizer import build_optimizer
from docnmt.registry import ARCHITECTURES, CRITERIA, MODELS, TASKS
from docnmt.runtime import pick_device
from docnmt.tasks.protocol import Dataset, Task
from docnmt.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_optimizer,
    load_state,
    optimizer_tensors,
    save_checkpoint,
    unique_state,
)
from docnmt.training.checks import (
    check_criterion,
    check_judged,
    check_metric,
    check_noise,
    check_same,
    check_validation,
)
from docnmt.training.config import SECTIONS, RunConfig, TrainingConfig
from docnmt.training.finetune import learning_rate_scales, start_from
from docnmt.training.folder import RunFolder
from docnmt.training.state import TrainingState


@dataclass(eq=False)
class Run:
    """Everything the loop works on."""

    config: dict[str, Any]
    folder: RunFolder
    task: Task
    model: nn.Module
    criterion: Criterion
    optimizer: torch.optim.Optimizer
    device: torch.device
    state: TrainingState
    scores: dict[str, float] = field(default_factory=dict)
    saved: int | None = None
    saved_at: float = field(default_factory=time.monotonic)

    @property
    def limits(self) -> RunConfig:
        """The options that may change when the run continues."""
        limits: RunConfig = self.config["run"]
        return limits

    @property
    def training(self) -> TrainingConfig:
        """The options of the training."""
        training: TrainingConfig = self.config["training"]
        return training

    @property
    def optimization(self) -> OptimizationConfig:
        """The options of optimizer and schedule."""
        optimization: OptimizationConfig = self.config["optimization"]
        return optimization

    def plan(self, data: Dataset, *, shuffle: bool) -> list[np.ndarray]:
        """The batches of a dataset in this epoch."""
        return plan_batches(
            data.sizes, self.training.max_tokens, max_units=self.training.max_sentences,
            seed=self.training.seed, epoch=self.state.epoch, shuffle=shuffle,
        )  # fmt: skip

    def loss(self, data: Dataset, units: np.ndarray) -> tuple[Tensor, dict[str, float]]:
        """The summed loss of a batch, and its sums to log: `size`, `tokens` and the criterion's own."""
        batch = data.batch(units).to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.bf16):  # where it is safe
            loss, size, logs = self.criterion(self.model, batch)
        return loss, {"size": size, "tokens": batch.num_tokens, **logs}

    def save(self, path: Path, *, optimizer: bool) -> None:
        """Write a checkpoint; without `optimizer` it can be used and averaged, not continued."""
        task_state = self.task.state()
        tensors = {f"model.{name}": tensor for name, tensor in unique_state(self.model).items()} | task_state.tensors
        if optimizer:
            tensors |= optimizer_tensors(self.optimizer, self.model)
        training = self.training
        header = {
            "arch": training.arch,
            "model": ARCHITECTURES.get(training.arch).model,
            "criterion": training.criterion,
            "task": training.task,
            "config": {name: to_dict(self.config[name]) for name in SECTIONS},
            "task_state": task_state.json,
            "progress": self.state.to_json(),
            "fingerprint": self.task.fingerprint,
            "threads": torch.get_num_threads(),
            "device": self.device.type,
            "scores": self.scores,
        }
        save_checkpoint(path, header, tensors)


def prepare(config: dict[str, Any]) -> Run:
    """Build a run from resolved sections, continuing from the save-dir's last checkpoint if there is one.

    Raises:
        UserError: the save-dir is not ours, an option differs from the run it holds, or data or checkpoint is damaged.
    """
    limits, training = config["run"], config["training"]
    check_noise(config)
    check_made_for(config)
    folder = RunFolder(Path(limits.save_dir))
    device = pick_device(limits.device)
    checkpoint = load_checkpoint(folder.last) if folder.last.exists() and not limits.overwrite else None
    if checkpoint is not None:
        check_same(config, checkpoint)
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
    check_validation(limits, training, task, model)
    check_judged(config, task)
    state = TrainingState()
    if checkpoint is not None:
        load_state(model, checkpoint.group("model"), checkpoint.path)
    elif training.finetune_from_model is not None:
        start_from(model, config["model"], task, training)
    model.to(device)
    optimizer = build_optimizer(config["optimization"], model, learning_rate_scales(model, training))
    run = Run(config, folder, task, model, criterion, optimizer, device, state)
    if checkpoint is not None:
        restore(run, checkpoint)
    return run


def check_made_for(config: Mapping[str, Any]) -> None:
    """Refuse an architecture that was made for another task, where its configuration names one.

    Raises:
        UsageError: naming both.
    """
    training, made_for = config["training"], getattr(config["model"], "default_task", None)
    if made_for is not None and made_for != training.task:
        raise UsageError(
            f"--arch {training.arch} does not go with --task {training.task} and --criterion {training.criterion}: "
            f"it is made for --task {made_for}"
        )


def restore(run: Run, checkpoint: Checkpoint) -> None:
    """Put optimizer and progress where the checkpoint was."""
    run.state = TrainingState.from_json(checkpoint.header["progress"], where=str(checkpoint.path))
    run.scores, run.saved = checkpoint.header["scores"], run.state.update
    if run.state.update and not checkpoint.group("optimizer"):
        raise UserError(f"{checkpoint.path}: holds no optimizer state, so training cannot continue from it")
    load_optimizer(run.optimizer, run.model, checkpoint)
    for name, now in (("threads", torch.get_num_threads()), ("device", run.device.type)):
        if checkpoint.header[name] != now:
            print(
                f"warning: {checkpoint.path} was trained with {name} {checkpoint.header[name]}, this process has "
                f"{now}: the run continues, but not bit by bit as without the interruption", file=sys.stderr,
            )  # fmt: skip


def seed_everything(seed: int, update: int) -> None:
    """Seed torch for one update; update 0 is the model's initial weights."""
    torch.manual_seed(int(np.random.SeedSequence([seed, update]).generate_state(1, np.uint64)[0]))
