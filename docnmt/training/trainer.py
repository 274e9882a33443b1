"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from docnmt.errors import UserError
from docnmt.modules.context import tell_update
from docnmt.optim.schedules import learning_rate
from docnmt.progress import Progress
from docnmt.tasks.protocol import Dataset
from docnmt.training.interrupts import Interrupts
from docnmt.training.journal import Journal, format_values, say
from docnmt.training.probe import is_out_of_memory, peak_memory, probe
from docnmt.training.run import Run, seed_everything
from docnmt.training.state import averages
from docnmt.training.validation import history, judge, save_is_due, save_last, validation_is_due, validations_since_best


def train(run: Run) -> str:
    """Train until a limit is reached and return which. Everything is saved when it returns, and when a signal ends it.

    Raises:
        UserError: no data, no memory, a loss that is not a number (the batch is named), a disk that is full.
        Terminated, KeyboardInterrupt: after SIGTERM or Ctrl-C, when checkpoint_last is written.
    """
    state, training = run.state, run.training
    journal = Journal(run.folder.log, update=state.update, tensorboard=run.limits.tensorboard_logdir)
    with Interrupts() as interrupts, journal:
        with interrupts.at_once():
            epoch = open_epoch(run)
            probe(run, epoch.data, epoch.plan)
        if state.update and validation_is_due(run):  # a signal had stopped it
            judge(run, journal, interrupts, say)
        while not (reason := stop_reason(run)):
            if epoch.number != state.epoch:
                epoch = open_epoch(run)
            with epoch.progress(run) as bar:
                for group in epoch.groups(state.batches, training.update_freq):
                    started = time.perf_counter()
                    seed_everything(training.seed, state.update + 1)
                    tell_update(run.model, state.update)
                    rate = set_learning_rate(run)
                    sums = forward_backward(run, epoch.data, group)
                    norm = normalise_gradient(run, sums["size"])
                    check_finite(run, "the gradient's norm", norm, epoch.data, np.concatenate(group))
                    run.optimizer.step()
                    run.optimizer.zero_grad(set_to_none=True)

                    seconds = time.perf_counter() - started
                    state.advance(batches=len(group), sums={**sums, "gnorm": norm, "seconds": seconds})
                    loss = sums["loss"] / max(sums["size"], 1)
                    bar.update(epoch.tokens(group), note=f"update {state.update:,}, loss {loss:.3f}")
                    if state.update % run.limits.log_interval == 0:
                        log_interval(run, journal, rate)
                    if state.batches == len(epoch.plan):
                        bar.update(0, note=finish_epoch(run, journal))
                    if validation_is_due(run):
                        judge(run, journal, interrupts, bar.print)
                    elif save_is_due(run):
                        save_last(run)
                    if interrupts.pending:
                        save_last(run)
                        interrupts.check()
                    if stop_reason(run):
                        break
        if not training.disable_validation and state.update not in (0, state.validated, state.concluded):
            judge(run, journal, interrupts, say, scheduled=False)
        elif run.saved != state.update:
            save_last(run)
    return reason


@dataclass(frozen=True, eq=False)
class Epoch:
    """One pass over the training data: its units and their batches."""

    number: int
    data: Dataset
    plan: list[np.ndarray]

    def groups(self, done: int, size: int) -> Iterator[list[np.ndarray]]:
        """The batches of each update, after the first `done` batches."""
        for begin in range(done, len(self.plan), size):
            yield self.plan[begin : begin + size]

    def tokens(self, batches: list[np.ndarray]) -> int:
        """How many tokens some batches have."""
        return sum(int(self.data.sizes[units].sum()) for units in batches)

    def progress(self, run: Run) -> Progress:
        """A progress display over what is left of the epoch under `--max-update`."""
        state, limit = run.state, run.limits.max_update
        end = len(self.plan)
        if limit is not None:
            end = min(end, state.batches + (limit - state.update) * run.training.update_freq)
        done = self.tokens(self.plan[: state.batches])
        total = done + self.tokens(self.plan[state.batches : end])
        return Progress(total, f"epoch {self.number}", unit="tok", initial=done)


def open_epoch(run: Run) -> Epoch:
    """The data of the epoch under way, in its order."""
    state = run.state
    data = run.task.dataset("train", run.model, seed=run.training.seed, epoch=state.epoch, training=True)
    plan = run.plan(data, shuffle=True)
    if not plan:
        raise UserError(f"{run.limits.data}: the training split is empty")
    return Epoch(state.epoch, data, plan)


def stop_reason(run: Run) -> str:
    """The limit that has been reached, or nothing."""
    state, limits = run.state, run.limits
    if limits.max_update is not None and state.update >= limits.max_update:
        return f"--max-update {limits.max_update} is reached"
    if limits.max_epoch is not None and state.epoch > limits.max_epoch:
        return f"--max-epoch {limits.max_epoch} is reached"
    metric = run.training.best_checkpoint_metric
    if limits.patience is not None and (waited := validations_since_best(metric, state)) >= limits.patience:
        return f"--patience {limits.patience}: {waited} validations without a better {metric}"
    return ""


def is_finished(run: Run) -> bool:
    """Whether a limit is reached and nothing is left to do."""
    judged = run.training.disable_validation or run.state.update in (run.state.validated, run.state.concluded)
    return bool(stop_reason(run)) and judged and run.saved == run.state.update


def set_learning_rate(run: Run) -> float:
    """Set and return the rate of the coming update; groups of parameters may have a part of it, or none yet."""
    plateau = run.optimization.lr_scheduler == "plateau"
    scores = history(run.training.best_checkpoint_metric, run.state) if plateau else ()
    rate = learning_rate(run.optimization, run.state.update + 1, scores)
    frozen = run.state.update < (run.training.finetune_frozen_updates or 0)
    for parameters in run.optimizer.param_groups:
        parameters["lr"] = 0.0 if frozen and parameters["old"] else rate * parameters["scale"]
    return rate


def forward_backward(run: Run, data: Dataset, batches: list[np.ndarray]) -> dict[str, float]:
    """Add up the gradients of the summed loss; returns the sums to log."""
    sums: dict[str, float] = {}
    for units in batches:
        try:
            loss, logs = run.loss(data, units)
            value = float(loss.detach())
            check_finite(run, "the loss", value, data, units)
            torch.autograd.backward(loss)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise UserError(
                f"update {run.state.update + 1}: out of memory with {int(data.sizes[units].sum()):,} tokens in "
                f"{len(units)} units, {data.describe(units)}; continue with a smaller --max-tokens in a new --save-dir"
            ) from error
        for name, part in {"loss": value, **logs}.items():
            sums[name] = sums.get(name, 0.0) + part
    return sums


def normalise_gradient(run: Run, size: float) -> float:
    """Divide the summed gradient by the sample size and clip it, in one pass; return its norm before clipping."""
    gradients = [p.grad for p in run.model.parameters() if p.grad is not None]
    norm = float(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]).norm()) / max(size, 1)
    clip = run.optimization.clip_norm
    factor = (clip / norm if clip and norm > clip else 1.0) / max(size, 1)
    for gradient in gradients:
        gradient.mul_(factor)
    return norm


def check_finite(run: Run, what: str, value: float, data: Dataset, units: np.ndarray) -> None:
    """Stop before the weights are touched.

    Raises:
        UserError: `value` is not a number or infinite; it names the batch.
    """
    if not math.isfinite(value):
        kept = f"{run.folder.last} holds update {run.saved}" if run.saved is not None else "nothing was saved yet"
        raise UserError(
            f"update {run.state.update + 1} (epoch {run.state.epoch}): {what} is {value} on {data.describe(units)}; "
            f"{kept}; look at that text, or use a lower --lr or more --warmup-updates"
        )


def log_interval(run: Run, journal: Journal, rate: float) -> None:
    """Write what happened since the last line of the log."""
    state = run.state
    memory = {"peak_memory": peak_memory(run.device)}
    values = {"epoch": state.epoch, **averages(state.interval), "lr": rate, "wall": state.seconds, **memory}
    journal.write("train", state.update, values)
    state.interval = {}


def finish_epoch(run: Run, journal: Journal) -> str:
    """Write the epoch's averages, turn to the next, and return them in words."""
    state = run.state
    values = averages(state.whole_epoch)
    memory = {"peak_memory": peak_memory(run.device)}  # a short epoch may have no other line
    journal.write("epoch", state.update, {"epoch": state.epoch, **values, "wall": state.seconds, **memory})
    state.epoch, state.batches, state.whole_epoch = state.epoch + 1, 0, {}
    values.pop("tokens_per_second")  # the bar shows its own
    return f"update {state.update:,}, {format_values(values)}"
