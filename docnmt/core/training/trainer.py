"""The training loop."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from docnmt.core.tasks.task import Dataset
from docnmt.core.training.interrupts import Interrupts
from docnmt.core.training.journal import Journal, format_values, say
from docnmt.core.training.probe import peak_memory, probe
from docnmt.core.training.run import Run, averages, learning_rate
from docnmt.core.training.update import Update, change_weights, check_finite, gradient
from docnmt.core.training.validation import (
    history,
    save,
    save_last,
    validate_and_save,
    validation_is_due,
    validations_since_best,
)
from docnmt.modules.context_attention import tell_update
from docnmt.runtime import ranks
from docnmt.runtime.errors import UserError
from docnmt.runtime.progress import Progress


def train(run: Run) -> str:
    """Train until a limit is reached and return it. Everything is saved on return, and when a signal ends training.

    Raises:
        UserError: there is no data, memory is full, a loss is not a number (the batch is named), or the disk is full.
        Terminated, KeyboardInterrupt: after SIGTERM, SIGHUP or Ctrl-C, when checkpoint_last is written.
    """
    state, training = run.state, run.training
    log = run.folder.log if ranks.rank() == 0 else None
    board, metric = run.limits.tensorboard_logdir, training.best_checkpoint_metric
    journal = Journal(log, update=state.update, tensorboard=board, options=run.config, metric=metric)
    with Interrupts() as interrupts, journal:
        epoch = open_epoch(run, interrupts.share)
        interrupts.share(lambda: probe(run, epoch.data, epoch.plan).peak_memory, alone=run.sharded is None)
        if state.update and validation_is_due(run):  # a signal had stopped it
            validate_and_save(run, journal, interrupts, say)
        while not (reason := stop_reason(run)):
            if epoch.number != state.epoch:
                epoch = open_epoch(run)
            with epoch.progress(run) as bar:
                for group in epoch.groups(state.batches, run.batches_an_update):
                    started = time.perf_counter()
                    rate = set_learning_rate(run)
                    update = take_step(run, epoch, group, interrupts)
                    sums, seconds = update.sums, time.perf_counter() - started
                    state.advance(batches=len(group), sums={**sums, "gnorm": update.norm, "seconds": seconds})
                    loss = sums["loss"] / max(sums["size"], 1)
                    bar.update(epoch.tokens(group), note=f"update {state.update:,}, loss {loss:.3f}")
                    if state.update % run.limits.log_interval == 0:
                        log_interval(run, journal, rate)
                    if state.batches == len(epoch.plan):
                        bar.update(0, note=finish_epoch(run, journal))
                    if update.stopped:
                        save_last(run)
                        raise ranks.stop(update.stopped)
                    if validation_is_due(run):
                        validate_and_save(run, journal, interrupts, bar.print)
                    elif update.overdue or state.update % (run.limits.save_interval_updates or math.inf) == 0:
                        save(run)
                    if stop_reason(run):
                        break
        if not training.disable_validation and state.update not in (0, state.validated, state.concluded):
            validate_and_save(run, journal, interrupts, say, scheduled=False)
        elif run.saved != state.update:
            save(run)
    return reason


def take_step(run: Run, epoch: Epoch, group: Sequence[np.ndarray], interrupts: Interrupts) -> Update:
    """Update the weights, and their running mean, by the gradient of some batches.

    Raises:
        UserError: the gradient is not finite.
    """
    tell_update(run.model, run.state.update)
    following = epoch.plan[run.state.batches + len(group) :][:1]
    update = gradient(run, epoch.data, group, interrupts.name, *following)
    check_finite(run, "the gradient's norm", update.norm, epoch.data, np.concatenate(group))
    change_weights(run, update.sums["size"], update.norm)
    if run.mean is not None:
        run.mean.advance(run.state.update + 1)
    return update


@dataclass(frozen=True, eq=False)
class Epoch:
    """One pass over the training data: its units and their batches."""

    number: int
    data: Dataset
    plan: list[np.ndarray]

    def groups(self, done: int, size: int) -> Iterator[list[np.ndarray]]:
        """Yield the batches of each update, after the first `done` batches."""
        for begin in range(done, len(self.plan), size):
            yield self.plan[begin : begin + size]

    @property
    def digest(self) -> int:
        """A checksum of the plan, which must be the same in all ranks."""
        return zlib.crc32(np.concatenate(self.plan).tobytes(), len(self.plan))

    def tokens(self, batches: list[np.ndarray]) -> int:
        """Return the number of tokens of some batches."""
        return sum(int(self.data.sizes[units].sum()) for units in batches)

    def progress(self, run: Run) -> Progress:
        """Return a progress display of the epoch's remaining batches under `--max-update`."""
        state, limit = run.state, run.limits.max_update
        end = len(self.plan)
        if limit is not None:
            end = min(end, state.batches + (limit - state.update) * run.batches_an_update)
        done = self.tokens(self.plan[: state.batches])
        total = done + self.tokens(self.plan[state.batches : end])
        return Progress(total, f"epoch {self.number}", unit="tok", initial=done)


def open_epoch(run: Run, share: Callable[[Callable[[], int]], list[int]] = ranks.share) -> Epoch:
    """Return the data of the current epoch, in its order.

    Args:
        share: runs the work in all ranks; `Interrupts.share` if a signal may interrupt it.

    Raises:
        UserError: there is no data, or the ranks do not have the same.
    """
    state = run.state

    epochs: list[Epoch] = []

    def _open() -> int:
        data = run.task.dataset("train", run.model, seed=run.training.seed, epoch=state.epoch, training=True)
        plan = run.plan(data, shuffle=True)
        if not plan:
            raise UserError(f"{run.limits.data}: the training split is empty")
        if state.batches >= len(plan):
            raise UserError(
                f"{run.folder.last}: the progress in its header is damaged: batch {state.batches:,} of an epoch of "
                f"{len(plan):,}; use another checkpoint"
            )
        epochs.append(Epoch(state.epoch, data, plan))
        return epochs[0].digest

    ranks.check_alike(share(_open), f"the batches of epoch {state.epoch}")
    return epochs[0]


def stop_reason(run: Run) -> str:
    """Return the limit that has been reached, or an empty string."""
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
    """Return True if a limit is reached and nothing is left to do."""
    judged = run.training.disable_validation or run.state.update in (run.state.validated, run.state.concluded)
    return bool(stop_reason(run)) and judged and run.saved == run.state.update


def set_learning_rate(run: Run) -> float:
    """Set and return the rate of the next update; groups of parameters may use a part of it."""
    plateau = run.optimization.lr_scheduler == "plateau"
    scores = history(run.training.best_checkpoint_metric, run.state) if plateau else ()
    rate = learning_rate(run.optimization, run.state.update + 1, scores)
    for parameters in run.optimizer.param_groups:
        parameters["lr"] = rate * parameters["scale"]
    return rate


def log_interval(run: Run, journal: Journal, rate: float) -> None:
    """Log the averages since the last line of the log."""
    state = run.state
    memory = {"peak_memory": peak_memory(run.device)}
    values = {"epoch": state.epoch, **averages(state.interval), "lr": rate, "wall": state.seconds, **memory}
    journal.write("train", state.update, values)
    state.interval = {}
    if run.device.type == "cpu" and (warning := run.processor_time.warning(torch.get_num_threads())):
        say(warning)


def finish_epoch(run: Run, journal: Journal) -> str:
    """Log the epoch's averages, begin the next epoch, and return the averages in words."""
    state = run.state
    values = averages(state.whole_epoch)
    memory = {"peak_memory": peak_memory(run.device)}  # a short epoch may have no other line in the log
    journal.write("epoch", state.update, {"epoch": state.epoch, **values, "wall": state.seconds, **memory})
    state.epoch, state.batches, state.whole_epoch = state.epoch + 1, 0, {}
    values.pop("tokens_per_second")  # the bar shows its own
    return f"update {state.update:,}, {format_values(values)}"
