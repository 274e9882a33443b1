"""The loop of training: epochs, updates, validation, patience, signals, log.

rate → update (`update`) → log → validate and save (`run`).
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

import numpy as np
import torch

from docnmt.core.scoring.metrics import lower_is_better
from docnmt.core.task import ContextTask, Dataset, SampleTask
from docnmt.core.training.run import Run, averages, learning_rate, say
from docnmt.core.training.update import naming_batch, peak_memory, probe, take_step
from docnmt.options import to_dict
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import to_host
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import (
    Count,
    HungUp,
    OpenObject,
    Terminated,
    UserError,
    checked,
    parse_json,
    printable,
    read_limited,
    replacing,
)

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def train(run: Run, epoch: Epoch) -> str:
    """Train from `epoch`, the current one, until a limit is reached and return that. Everything is saved on return, and
    when a signal ends training."""
    state, training = run.state, run.training
    log = run.folder.log if ranks.rank() == 0 else None
    with _Interrupts() as interrupts, Journal(log, update=state.update, run=run) as journal:
        ranks.share(interrupts.at_once()(lambda: probe(run, epoch.data, epoch.plan)), alone=run.sharded is None)
        if state.update and _validation_is_due(run):  # a signal had stopped it
            _validate_and_save(run, journal, interrupts, say)
        while not (reason := _stop_reason(run)):
            if epoch.number != state.epoch:
                epoch = open_epoch(run)
            with epoch.progress(run) as bar:
                for begin in range(state.batches, len(epoch.plan), run.batches_an_update):
                    started, end = time.perf_counter(), begin + run.batches_an_update
                    batches, following = epoch.plan[begin:end], epoch.plan[end : end + 1]
                    rate = set_learning_rate(run)
                    update = take_step(run, epoch.data, batches, interrupts.name, *following)
                    sums, seconds = update.sums, time.perf_counter() - started
                    state.advance(batches=len(batches), sums={**sums, "gnorm": update.norm, "seconds": seconds})
                    loss = sums["loss"] / max(sums["size"], 1)
                    bar.update(epoch.tokens(batches), note=f"update {state.update:,}, loss {loss:.3f}")
                    if state.update % run.limits.log_interval == 0:
                        _log_interval(run, journal, rate)
                    if state.batches == len(epoch.plan):
                        bar.update(0, note=_finish_epoch(run, journal))
                    if update.stopped:
                        _save_last(run)
                        raise ranks.stop(update.stopped)
                    if _validation_is_due(run):
                        _validate_and_save(run, journal, interrupts, bar.print)
                    elif update.overdue or state.update % (run.limits.save_interval_updates or math.inf) == 0:
                        _save(run)
                    if _stop_reason(run):
                        break
        if not training.disable_validation and state.update not in (0, state.validated, state.concluded):
            _validate_and_save(run, journal, interrupts, say, scheduled=False)
        elif run.saved != state.update:
            _save(run)
    return reason


@dataclass(frozen=True, eq=False)
class Epoch:
    """One pass over the training data: its units and their batches."""

    number: int
    data: Dataset
    plan: list[np.ndarray]

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


def open_epoch(run: Run) -> Epoch:
    """Return the data of the current epoch, in its order, which must be the same in all ranks."""
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
        return zlib.crc32(np.concatenate(plan).tobytes(), len(plan))

    ranks.check_alike(ranks.share(_open), f"the batches of epoch {state.epoch}")
    return epochs[0]


def _stop_reason(run: Run) -> str:
    """Return the limit that has been reached, or an empty string."""
    state, limits, metric = run.state, run.limits, run.training.best_checkpoint_metric
    if limits.max_update is not None and state.update >= limits.max_update:
        return f"--max-update {limits.max_update} is reached"
    if limits.max_epoch is not None and state.epoch > limits.max_epoch:
        return f"--max-epoch {limits.max_epoch} is reached"
    if limits.patience is not None and (scores := _oriented_history(run)):
        waited = len(scores) - 1 - scores.index(max(scores))
        if waited >= limits.patience:
            return f"--patience {limits.patience}: {waited} validations without a better {metric}"
    return ""


def is_finished(run: Run) -> bool:
    """Return True if a limit is reached and nothing is left to do."""
    judged = run.training.disable_validation or run.state.update in (run.state.validated, run.state.concluded)
    return bool(_stop_reason(run)) and judged and run.saved == run.state.update


def set_learning_rate(run: Run) -> float:
    """Set and return the rate of the next update; groups of parameters may use a part of it."""
    plateau = run.optimization.lr_scheduler == "plateau"
    rate = learning_rate(run.optimization, run.state.update + 1, _oriented_history(run) if plateau else ())
    for parameters in run.optimizer.param_groups:
        parameters["lr"] = rate * parameters["scale"]
    return rate


def _log_interval(run: Run, journal: Journal, rate: float) -> None:
    state = run.state
    values = {"epoch": state.epoch, **averages(state.interval), "lr": rate, "wall": state.seconds}
    journal.write("train", state.update, {**values, "peak_memory": peak_memory(run.device)})
    state.interval = {}
    if run.device.type == "cpu" and (warning := run.processor_time.warning(torch.get_num_threads())):
        say(warning)


def _finish_epoch(run: Run, journal: Journal) -> str:
    """Log the epoch's averages, begin the next epoch, and return the averages in words."""
    state = run.state
    values = averages(state.whole_epoch)
    memory = {"peak_memory": peak_memory(run.device)}  # a short epoch may have no other line in the log
    journal.write("epoch", state.update, {"epoch": state.epoch, **values, "wall": state.seconds, **memory})
    state.epoch, state.batches, state.whole_epoch = state.epoch + 1, 0, {}
    values.pop("tokens_per_second")  # the bar shows its own
    return f"update {state.update:,}, {format_values(values)}"


# Validation: scores, log lines, patience, and the checkpoints that follow from them.


def _validate(run: Run) -> dict[str, float]:
    """Compute loss, perplexity, the criterion's metrics and, if requested, the task's, on the validation split."""
    training = run.training
    with run.whole_model():
        run.model.eval()
        scores = _mean_scores(run, run.task.dataset("valid", run.model, seed=training.seed), "loss")
        if training.asks_metrics(run.task.metrics):
            scores |= run.task.evaluate(run.model, "valid", {"max_tokens": training.max_tokens})
        if run.limits.context_worth and "nll" in scores and isinstance(run.task, ContextTask):
            others = run.task.other_contexts("valid", run.model)
            scores |= {
                f"nll_{name}": _mean_scores(run, data, f"context: {name}")["nll"] for name, data in others.items()
            }
        run.model.train()
    return ranks.exchange(scores)[0]


def _mean_scores(run: Run, data: Dataset, label: str) -> dict[str, float]:
    """Compute loss, perplexity and the criterion's metrics on a validation split; `label` is for the progress bar."""
    plan = run.plan(data, shuffle=False)
    sizes = [int(data.sizes[units].sum()) for units in plan]
    bar = Progress(sum(sizes) // ranks.world(), f"validating ({label})", unit="tok", lasting=False)  # of this rank

    def _score(batch: int) -> dict[str, float]:
        with torch.no_grad(), naming_batch(f"validation after update {run.state.update}", data, plan[batch]):
            loss, logs = run.loss(data, plan[batch])
        values = dict(zip(("loss", *logs), to_host([loss, *logs.values()]), strict=True))
        bar.update(sizes[batch])
        return values

    sums: dict[str, float] = {}
    with bar:
        for logs in ranks.shared_out(sizes, _score):
            for name, value in logs.items():
                sums[name] = sums.get(name, 0.0) + value
    if not sums.get("size"):
        raise UserError("the validation split is empty; preprocess one, or train with --disable-validation")
    return averages(sums)


def _validation_is_due(run: Run) -> bool:
    """Return True if the schedule demands a validation at this update that has not been run."""
    state, training = run.state, run.training
    if training.disable_validation or state.validated == state.update:
        return False
    epoch_ended = state.batches == 0 and (state.epoch - 1) % training.validate_interval == 0
    every = training.validate_interval_updates
    return epoch_ended or (every is not None and state.update % every == 0)


def _oriented_history(run: Run) -> list[float]:
    """Return the metric's values in all scheduled validations, such that higher is better."""
    return [_oriented(run.training.best_checkpoint_metric, score) for _, score in run.state.history]


def _oriented(metric: str, score: float) -> float:
    """Return the score, negated if lower is better; NaN is the worst."""
    return -math.inf if math.isnan(score) else -score if lower_is_better(metric) else score


def _validate_and_save(
    run: Run, journal: Journal, interrupts: _Interrupts, say: Callable[[str], None], *, scheduled: bool = True
) -> None:
    """Validate, log and save; patience and the plateau schedule ignore what is not `scheduled` but at a limit."""
    state, metric, started = run.state, run.training.best_checkpoint_metric, time.perf_counter()
    try:
        with run.mean_weights(), interrupts.at_once():  # weights are exchanged outside: half of them must not be saved
            scores = run.scores = _validate(run)
            if run.limits.tensorboard_logdir is not None and isinstance(run.task, SampleTask):
                with run.whole_model():
                    journal.show(state.update, run.task.samples(run.model, "valid"))
    except (Terminated, KeyboardInterrupt):
        if run.mean is None or run.mean.is_aside:  # else a second signal came while they were exchanged
            _save_last(run)
        raise
    state.seconds += time.perf_counter() - started
    if scheduled:
        state.validated = state.update
        state.history.append([state.update, scores[metric]])
    else:
        state.concluded = state.update
    journal.write("valid", state.update, {"epoch": state.epoch, **scores, "wall": state.seconds})
    mark = f" (best {metric} {state.best[1]:.3f} at {state.best[0]:,})" if state.best else ""
    if _oriented(metric, scores[metric]) > (_oriented(metric, state.best[1]) if state.best else -math.inf):
        state.best, mark = [state.update, scores[metric]], " (best)"
        with run.mean_weights():
            run.save(run.folder.best, optimizer=False)
    usual = {name: value for name, value in scores.items() if name not in ("nll_foreign", "nll_none")}
    say(f"update {state.update:,}: valid {format_values(usual)}{mark}")
    if "nll_none" in scores:
        names = {"true": "nll", "foreign": "nll_foreign", "none": "nll_none"}
        known = ", ".join(f"{name} {scores[key]:.4f}" for name, key in names.items() if key in scores)
        worth = scores.get("nll_foreign", scores["nll_none"]) - scores["nll"]  # another document does not give it
        say(f"context is worth {worth:.4f} nats a subword ({known})")
    _keep(run)
    _save_last(run)


def _keep(run: Run) -> None:
    """Write the checkpoint that `--keep-last` demands, and delete those that it no longer does."""
    folder, number = run.folder, run.limits.keep_last
    if not number:
        return
    with run.mean_weights():
        run.save(folder.path / f"checkpoint_{run.state.update}.safetensors", optimizer=False)
    for path in list(folder.numbered().values())[:-number] if ranks.rank() == 0 else ():
        path.unlink()


def _save(run: Run) -> None:
    """Write checkpoint_last and, if there is no validation, the checkpoints of `--keep-last`."""
    if run.training.disable_validation:
        _keep(run)
    _save_last(run)


def _save_last(run: Run) -> None:
    run.save(run.folder.last, optimizer=True)
    run.saved, run.saved_at = run.state.update, time.monotonic()


# Deferred signals: SIGTERM and Ctrl-C wait until the model can be saved and all ranks know of them.


_RAISES: dict[int, type[BaseException]] = {
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
    signal.SIGINT: KeyboardInterrupt,
}
#: A second signal within this many seconds is an echo: the first goes to the whole job and again through its launcher.
_ECHO = 10.0


class _Interrupts:
    """Inside, the first signal is only noted (`name`), and shared with the other ranks; a second one raises at once."""

    def __init__(self) -> None:
        self.pending: type[BaseException] | None = None
        self._at_once, self._noted = False, 0.0
        self._old: dict[int, object] = {}

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            heard = [n for n in _RAISES if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]  # nohup
            self._old = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        kind = _RAISES[number]
        again = self.pending is kind and (ranks.world() == 1 or time.monotonic() - self._noted > _ECHO)
        if again or (self._at_once and ranks.may_stop()):
            raise kind
        if self.pending is None:
            self._noted = time.monotonic()
        self.pending = kind

    @property
    def name(self) -> str:
        """The name of the signal that has arrived here, for the other ranks, or an empty string."""
        return "" if self.pending is None else self.pending.__name__

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise signals on arrival inside the context, for work that changes nothing."""
        if self.pending is not None and ranks.may_stop():
            raise self.pending
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False


# The log of a run: train.jsonl, TensorBoard and lines on stderr.


_FORMATS = {"lr": ".3g", "tokens_per_second": ",.0f", "ppl": ".2f", "epoch": "d", "update": ",d"}


def format_values(values: Mapping[str, float]) -> str:
    """Format values as `loss 3.214, ppl 18.20, lr 0.0005`."""
    return ", ".join(f"{name.replace('_', ' ')} {value:{_FORMATS.get(name, '.3f')}}" for name, value in values.items())


class _Entry(OpenObject):
    """The part of a log line that is checked when a run continues."""

    update: Count = 0
    event: str = ""


class Journal:
    """Appends JSON objects, one per line, to `path`, or to nothing (None) in all ranks but the first; a continued run
    first drops lines written after its checkpoint. `run` is for TensorBoard, if it asks for that."""

    def __init__(self, path: Path | None, *, update: int, run: Run | None = None) -> None:
        self.path = path
        self._file: TextIO | None = None
        self._board: SummaryWriter | None = None
        if path is None:
            return
        if path.exists():
            judged = run is None or update in (run.state.validated, run.state.concluded)
            self._drop_after(path, update, judged=judged)
        try:
            self._file = path.open("a", encoding="utf-8")
            if run is not None and run.limits.tensorboard_logdir is not None:
                self._open_board(run, run.limits.tensorboard_logdir)
        except OSError as error:
            raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from error

    def _open_board(self, run: Run, folder: str) -> None:
        """Begin TensorBoard's files with the options and the metric, by which it compares runs."""
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self._board = SummaryWriter(folder, purge_step=run.state.update + 1)
        values = {
            f"{section}.{name}": value if isinstance(value, (bool, int, float, str)) else str(value)
            for section, config in run.config.items()
            for name, value in to_dict(config).items()
        }
        for summary in hparams(values, {f"valid/{run.training.best_checkpoint_metric}": 0.0}):
            self._board._get_file_writer().add_summary(summary)

    def _drop_after(self, path: Path, update: int, *, judged: bool) -> None:
        """Drop lines after `update`, its validation if it is not `judged`, damaged lines and an unfinished last one."""
        content = read_limited(path)
        lines = content.splitlines(keepends=True)
        earlier: list[bytes] = []
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            try:
                entry = checked(parse_json(line, where), _Entry, where)
                if entry.update < update + (judged or entry.event != "valid"):
                    earlier.append(line if line.endswith(b"\n") else line + b"\n")
            except UserError as error:
                if number < len(lines) or line.endswith(b"\n"):
                    say(f"warning: {printable(str(error))}; the line is left out")
        if b"".join(earlier) != content:
            with replacing(path) as temporary:
                temporary.write_bytes(b"".join(earlier))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        for output in (self._file, self._board):
            if output is not None:
                output.close()

    def show(self, update: int, texts: Mapping[str, str]) -> None:
        """Show texts in Markdown, in TensorBoard only."""
        if self._board is not None:
            for name, text in texts.items():
                self._board.add_text(name, text, update)

    def write(self, event: str, update: int, values: Mapping[str, float]) -> None:
        """Log the values of one kind of event (`train`, `valid`, `epoch`) at an update."""
        if self._file is None:
            return
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}  # JSON has no NaN
        try:
            self._file.write(json.dumps({"event": event, "update": update, **finite}) + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{event}/{name}", value, update)
