"""A run: model, optimizer, progress and what all parts of training do with them; its rate, means and shards.

batch → `Run.loss_of` (autocast, weights in bfloat16 at once, criterion) → … → `Run.save`: header and tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from docnmt.core.batch import plan_batches
from docnmt.core.models.encoder_decoder import EncoderDecoder
from docnmt.core.task import Batch, Dataset, Task
from docnmt.core.training.checkpoint import load_state, optimizer_tensors, save_checkpoint, unique_state
from docnmt.core.training.config import SECTIONS, OptimizationConfig, RunConfig, TrainingConfig
from docnmt.core.training.criterions import Criterion
from docnmt.core.training.run_folder import ModelRecord, RunFolder
from docnmt.modules.document_context import tell_update
from docnmt.modules.layers import Layer
from docnmt.options import to_dict
from docnmt.registry import ARCHITECTURES, MODELS, imported
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import graphs_wished
from docnmt.runtime.launch import processors
from docnmt.runtime.system import Count, Positive, UserError, checked, printable

if TYPE_CHECKING:
    from docnmt.core.training.graphed import FilledBatch, GraphedUpdates

#: [update, score]
_Scored = Annotated[list[float], Meta(min_length=2, max_length=2)]


def say(text: str) -> None:
    """Print a line on stderr, outside a progress bar."""
    print(printable(text), file=sys.stderr, flush=True)


@dataclass
class TrainingState:
    """The progress of a run. Random numbers follow from (seed, update) and (seed, epoch), so none are stored."""

    update: Count = 0  # optimizer steps done
    epoch: Positive = 1  # the current pass over the data
    batches: Count = 0  # of this epoch, done
    validated: Count = 0  # the update of the last scheduled validation; one that a signal interrupted is repeated
    concluded: Count = 0  # that of a validation outside the schedule, run because a limit was reached here; else 0
    history: list[_Scored] = field(default_factory=list)  # of scheduled validations, in the metric's own direction
    best: _Scored | None = None  # of checkpoint_best
    interval: dict[str, float] = field(default_factory=dict)  # sums since the last line of the log
    whole_epoch: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0  # spent training, validations included

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, from which numbers are restored exactly."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any], *, where: str) -> TrainingState:
        """Restore the state from the values of `to_json`; `where` names the file if one is missing or damaged."""
        advice = "use another checkpoint"
        checked(values, cls, f"{where}: the progress in its header is damaged", advice)
        if different := sorted(values.keys() ^ {field.name for field in dataclasses.fields(cls)}):
            raise UserError(f"{where}: the progress in its header is damaged: '{different[0]}'; {advice}")
        return cls(**values)  # as it is: a whole number stays one

    def advance(self, *, batches: int, sums: dict[str, float]) -> None:
        """Count one update over `batches` batches and add its sums to those of the interval and the epoch."""
        self.update += 1
        self.concluded = 0
        self.batches += batches
        self.seconds += sums["seconds"]
        for total in (self.interval, self.whole_epoch):
            for name, value in {**sums, "updates": 1}.items():
                total[name] = total.get(name, 0.0) + value


@dataclass(eq=False)
class Run:
    """A training run, on which the training loop works."""

    config: dict[str, Any]
    folder: RunFolder
    task: Task
    model: nn.Module
    criterion: Criterion
    optimizer: torch.optim.Optimizer
    device: torch.device
    state: TrainingState
    start: ModelRecord | None = None  # the model of --finetune-from-model
    scores: dict[str, float] = field(default_factory=dict)
    saved: int | None = None  # the update of checkpoint_last
    saved_at: float = field(default_factory=time.monotonic)
    started_with: int = field(default_factory=ranks.world)  # at the first update; an update keeps as many batches
    sharded: ShardedLoss | None = None  # the loss, if each rank has only a part of the model (--shard)
    mean: MeanWeights | None = None  # of the weights (--ema)
    _next_batch: tuple[np.ndarray, Batch] | None = None

    def __post_init__(self) -> None:
        self.limits: RunConfig = self.config["run"]
        self.training: TrainingConfig = self.config["training"]
        self.optimization: OptimizationConfig = self.config["optimization"]
        self.processor_time = ProcessorTime()

    @property
    def overdue(self) -> bool:
        """True if the last checkpoint is older than 15 minutes, by the clock of this rank."""
        return time.monotonic() - self.saved_at > 15 * 60

    @property
    def what_is_saved(self) -> str:
        """Where a run that ends now goes on, in words."""
        return f"{self.folder.last} holds update {self.saved:,}" if self.saved is not None else "nothing was saved yet"

    @property
    def batches_an_update(self) -> int:
        """The number of batches of one update, of all ranks together."""
        return self.training.update_freq * self.started_with

    @cached_property
    def counters(self) -> list[Tensor]:
        """The model's buffers that a checkpoint stores: counters, running means."""
        stored = self.model.state_dict().keys()
        return [buffer for name, buffer in self.model.named_buffers() if name in stored]

    @cached_property
    def half_weights(self) -> HalfWeights | None:
        """On a card, what autocast would make of a translation model's weights one by one."""
        if not self.training.bf16 or self.sharded is not None or not isinstance(self.model, EncoderDecoder):
            return None
        stacks = self.model.encoder, self.model.decoder
        again = any(stack.checkpoint_activations for stack in stacks)  # in the backward pass, with other weights
        return HalfWeights(self.model, stacks) if not again and next(self.model.parameters()).is_cuda else None

    @cached_property
    def graphs(self) -> GraphedUpdates | None:
        """On a card, what computes an update as CUDA graphs, where that can be and DOCNMT_GRAPHS is not off."""
        wish = graphs_wished()
        if wish is False or (wish is None and self.device.type != "cuda"):
            return None
        from docnmt.core.training.graphed import graphed

        return graphed(self, wished=wish is not None)

    def plan(self, data: Dataset, *, shuffle: bool) -> list[np.ndarray]:
        """Return the batches of a dataset in this epoch."""
        return plan_batches(
            data.sizes,
            self.training.max_tokens,
            max_units=self.training.max_sentences,
            seed=self.training.seed,
            epoch=self.state.epoch,
            shuffle=shuffle,
        )

    def prepare(self, data: Dataset, units: np.ndarray) -> None:
        """Collate a batch, for which `batch` is asked next, while a card computes another."""
        self._next_batch = units, data.batch(units)

    def batch(self, data: Dataset, units: np.ndarray) -> Batch:
        """Return the collated batch of some units of the training data."""
        prepared, self._next_batch = self._next_batch, None
        return prepared[1] if prepared is not None and prepared[0] is units else data.batch(units)

    def loss(self, data: Dataset, units: np.ndarray) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Return the summed loss of a batch, and its sums to log: `size`, `tokens` and the criterion's own."""
        return self.loss_of(self.batch(data, units).to(self.device))

    def loss_of(self, batch: Batch | FilledBatch) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Return the same of a batch on the device."""
        halves = contextlib.nullcontext() if self.half_weights is None else self.half_weights.in_place()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.bf16), halves:  # where it is safe
            loss, size, logs = self.criterion(self.model, batch) if self.sharded is None else self.sharded(batch)
        return loss, {"size": size, "tokens": batch.num_tokens, **logs}

    def mean_weights(self) -> contextlib.AbstractContextManager[None]:
        """Give the model the weights of validation inside the context: those of `--ema`, or its own."""
        return contextlib.nullcontext() if self.mean is None else self.mean.in_place()

    @contextlib.contextmanager
    def whole_model(self) -> Iterator[None]:
        """Make `model` whole in every rank inside the context: under `--shard` a copy that is used and not trained."""
        if self.sharded is None:
            yield
            return
        trained = self.model, self.sharded
        model = self.task.build_model(MODELS.get(ARCHITECTURES.get(self.training.arch).model), self.config["model"])
        with torch.no_grad():
            tensors = {name: _whole(tensor) for name, tensor in unique_state(self.model).items()}
            load_state(model, tensors, self.folder.last)
        tell_update(model, self.state.update)
        self.model, self.sharded = model.to(self.device), None
        try:
            yield
        finally:
            self.model, self.sharded = trained

    def save(self, path: Path, *, optimizer: bool) -> None:
        """Write a checkpoint (first rank only); without `optimizer` it can be used and averaged, not continued."""
        tensors = {f"model.{name}": tensor for name, tensor in unique_state(self.model).items()}
        if optimizer:
            tensors |= optimizer_tensors(self.optimizer, self.model)
            tensors |= {} if self.mean is None else {f"ema.{name}": mean for name, mean in self.mean.means.items()}
        if self.sharded is not None:  # gathered one by one to the CPU of the first rank; others keep nothing
            for name, tensor in tensors.items():
                full = _whole(tensor).detach()
                tensors[name] = full.cpu() if ranks.rank() == 0 else torch.empty(0)
        if ranks.rank():
            return
        self.folder.check_ours()
        task_state, training = self.task.state(), self.training
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
            "ranks": self.started_with,
            "device": self.device.type,
            "scores": self.scores,
            "plugins": imported(),
            **({} if self.start is None else {"start": msgspec.to_builtins(self.start)}),
        }
        save_checkpoint(path, header, tensors | task_state.tensors)
        if path == self.folder.last:
            self.folder.settle()


def seed_everything(seed: int, update: int, batch: int = 0) -> None:
    """Seed torch for one batch of one update, on whichever rank; update 0 is for the model's initial weights."""
    entropy = [seed, update, batch] if batch else [seed, update]  # batch 0 keeps the seeds of runs of one batch
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]))


#: Sums that are not divided by the number of labels.
_NOT_PER_LABEL = ("size", "updates", "seconds", "tokens", "gnorm", "busy", "slowest")


def averages(sums: dict[str, float]) -> dict[str, float]:
    """Turn an interval's sums into logged values: per label, with perplexity, and after updates mean gradient norm,
    tokens per second and, of several ranks, the share of time spent waiting (`idle`)."""
    size = max(sums.get("size", 0.0), 1.0)
    values = {k: v / size for k, v in sums.items() if k not in _NOT_PER_LABEL}
    if "nll" in values:
        values["ppl"] = math.exp(min(values["nll"], 700.0))
    if sums.get("updates"):
        values["gnorm"] = sums["gnorm"] / sums["updates"]
        values["tokens_per_second"] = sums["tokens"] / max(sums["seconds"], 1e-9)
    if sums.get("slowest"):
        values["idle"] = 1 - sums["busy"] / sums["slowest"]
    return values


#: Seconds before a warning is possible, and the share of the possible time below which it is given.
_SHARE_PATIENCE, _SHARE = 60.0, 0.5


@dataclass
class ProcessorTime:
    """Compares processor time since it was created with what threads and processors could give, and warns once."""

    wall: float = field(default_factory=time.monotonic)
    processor: float = field(default_factory=time.process_time)
    said: bool = False

    def warning(self, threads: int) -> str:
        """Return the warning that is due now, or an empty string."""
        wall, processor = time.monotonic() - self.wall, time.process_time() - self.processor
        possible = min(threads, processors()) * wall
        if self.said or wall < _SHARE_PATIENCE or processor >= _SHARE * possible:
            return ""
        self.said = True
        fewer = max(1, round(processor / wall))
        advice = f"OMP_NUM_THREADS={fewer} may be faster" if fewer < threads else "it would be faster alone"
        return (
            f"warning: {threads} threads got {100 * processor / possible:.0f} % of the processor time that they could "
            f"use: the machine is busy, or waits for the data; {advice}"
        )


# The optimizer, its learning rate, and the running mean of the weights.


def build_optimizer(
    config: OptimizationConfig, model: nn.Module, scales: Mapping[str, float] | None = None
) -> torch.optim.Optimizer:
    """Build AdamW (Loshchilov & Hutter 2019); weights of two or more dimensions decay, gains and biases do not.
    `scales` multiply the rates of the parameters that they name, and 0 freezes them. The fused form makes one pass over
    memory where the plain one makes many (5 times faster on a CPU)."""
    scales = scales or {}
    groups: dict[tuple[int, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        scale = scales.get(name, 1.0)
        parameter.requires_grad_(parameter.requires_grad and scale != 0)  # frozen: the backward pass leaves it out
        if parameter.requires_grad:
            groups.setdefault((min(parameter.dim(), 2), scale), []).append(parameter)
    first, second = config.adam_betas
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": config.weight_decay if dim == 2 else 0.0, "scale": scale}
            for (dim, scale), parameters in sorted(groups.items(), key=lambda group: group[0])
        ],
        lr=config.lr,
        betas=(first, second),
        eps=1e-8,
        fused=True,
    )


#: Of `plateau`: the factor, and how many validations without a new best it lets pass.
_SHRINK, _PATIENCE = 0.5, 1


def learning_rate(config: OptimizationConfig, update: int, scores: Sequence[float] = ()) -> float:
    """Return the rate of the `update`-th update, counted from 1: a pure function, also of the validation scores so far,
    oriented so that higher is better.

    Warm-up is linear from 0 for every schedule. After it, with w = warm-up updates: `inverse_sqrt` lr·√(w / update)
    (Vaswani et al. 2017, section 5.3, scaled to peak at lr; w = 0 counts as 1); `cosine` half a cosine from lr to
    min_lr over lr_period_updates, then min_lr (Loshchilov & Hutter 2017, eq. 5); `plateau` lr halved whenever two
    validations in a row give no new best; `constant` lr."""
    warmup, floor = config.warmup_updates, config.min_lr or 0.0
    if update < warmup:
        return config.lr * update / warmup
    if config.lr_scheduler == "inverse_sqrt":
        return config.lr * math.sqrt(max(warmup, 1) / update)
    if config.lr_scheduler == "cosine":
        fallen = min((update - warmup) / (config.lr_period_updates or 1), 1.0)
        return floor + (config.lr - floor) * 0.5 * (1 + math.cos(math.pi * fallen))
    if config.lr_scheduler == "plateau":
        return max(config.lr * _SHRINK ** stalls(scores, _PATIENCE), floor)
    return config.lr


def stalls(scores: Sequence[float], patience: int) -> int:
    """Count how often more than `patience` validations in a row brought no new best; each stall counts afresh."""
    best, waiting, count = -math.inf, 0, 0
    for score in scores:
        if score > best:
            best, waiting = score, 0
            continue
        waiting += 1
        if waiting > patience:
            count, waiting = count + 1, 0
    return count


class MeanWeights:
    """The running mean of a model's weights w (`--ema`): m ← d·m + (1 − d)·w after every update. After n updates d =
    min(decay, (1 + n) / (10 + n)) (Polyak and Juditsky 1992, Acceleration of stochastic approximation by averaging; the
    warm-up is TensorFlow's)."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.means = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        self.is_aside = True  # the model has its own weights, all of them

    @torch.no_grad()
    def advance(self, update: int) -> None:
        """Update the means after update number `update`."""
        share = 1 - min(self.decay, (1 + update) / (10 + update))
        for name, parameter in self.model.named_parameters():
            self.means[name].lerp_(parameter.detach(), share)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the mean weights inside the context, and afterwards its own, bit for bit."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        aside, self.is_aside = self.is_aside, False
        for name, parameter in self.model.named_parameters():
            weights = parameter.detach().clone()
            parameter.copy_(self.means[name])
            self.means[name].copy_(weights)
        self.is_aside = not aside


class HalfWeights:
    """What autocast makes of the weights of linear layers in `parts` of the model, with the same gradients, in a few
    launches; autocast casts each by a launch of its own, twice. Parameters of several modules stay as they are (an
    output layer's weights are embeddings, too), and those of a plug-in's modules, which may switch autocast off."""

    def __init__(self, model: nn.Module, parts: Iterable[nn.Module]) -> None:
        uses = Counter(id(parameter) for module in model.modules() for parameter in module.parameters(recurse=False))
        self._weights: list[tuple[nn.Module, str, nn.Parameter]] = [
            (module, name, parameter)
            for part in parts
            for owner in part.modules()
            if type(owner).__module__.partition(".")[0] in ("docnmt", "torch")
            for module in owner.children()
            if type(module) is nn.Linear
            for name, parameter in module.named_parameters(recurse=False)
            if uses[id(parameter)] == 1
        ]

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the linear layers have these weights; gradients reach the parameters themselves."""
        halves = _CastAll.apply(*(parameter for _, _, parameter in self._weights))  # type: ignore[no-untyped-call]
        for (module, name, _), half in zip(self._weights, halves, strict=True):
            module._parameters[name] = half
        try:
            yield
        finally:
            for module, name, parameter in self._weights:
                module._parameters[name] = parameter


class _CastAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.types = [weight.dtype for weight in weights]
        ctx.set_materialize_grads(False)
        halves = [torch.empty_like(weight, dtype=torch.bfloat16) for weight in weights]
        torch._foreach_copy_(halves, list(weights))
        return tuple(halves)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        wide = [None if g is None else torch.empty_like(g, dtype=t) for g, t in zip(grads, ctx.types, strict=True)]
        if pairs := [(w, g) for w, g in zip(wide, grads, strict=True) if w is not None and g is not None]:
            torch._foreach_copy_([w for w, _ in pairs], [g for _, g in pairs])
        return tuple(wide)


# `--shard`: parameters, gradients and moments divided among the ranks (PyTorch's FSDP2). A layer is gathered when a
# pass needs it. Parameters outside all layers, such as the output weights, are gathered around the whole loss, so that
# a criterion can read them outside the model's `forward`.


class ShardedLoss(nn.Module):
    """A criterion on a model, as one module, around which the parameters outside all layers are gathered."""

    def __init__(self, model: nn.Module, criterion: Criterion, device: torch.device) -> None:
        super().__init__()
        self.model, self.criterion = model, criterion
        mesh = init_device_mesh(device.type, (ranks.world(),))
        self.undivided = [parameter for parameter in model.parameters() if not parameter.dim()]
        for module in [*(module for module in model.modules() if isinstance(module, Layer)), self]:
            part = fully_shard(module, mesh=mesh, ignored_params=set(self.undivided))
            part.set_gradient_divide_factor(1.0)  # a sum: the loop divides by the tokens of all ranks
            part.set_force_sum_reduction_for_comms(True)
            part.set_reduce_scatter_unused_params(True)  # a batch may lack what another one has

    def forward(self, batch: object) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Return the criterion's values for a batch."""
        return self.criterion(self.model, batch)

    def gradient_norm(self) -> Tensor:
        """Return the norm of the whole gradient, the same in every rank."""
        squares = torch.zeros(1, device=next(self.parameters()).device)
        for parameter in self.parameters():
            gradient = parameter.grad
            if gradient is not None and (isinstance(gradient, DTensor) or ranks.rank() == 0):
                part = gradient.to_local() if isinstance(gradient, DTensor) else gradient
                squares += torch.linalg.vector_norm(part).square()
        ranks.sum_over_ranks([squares])
        return squares.sqrt()[0]


def _whole(tensor: Tensor) -> Tensor:
    """Gather a tensor of which each rank may have a part; all ranks must call this in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this rank's part of a whole tensor, divided like `like`."""
    if not isinstance(like, DTensor) or isinstance(tensor, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
