"""What happens at a validation: the log, the best checkpoint and those to keep."""

from __future__ import annotations

import time
from collections.abc import Callable

from docnmt.errors import Terminated
from docnmt.training.interrupts import Interrupts
from docnmt.training.journal import Journal, format_values
from docnmt.training.run import Run
from docnmt.training.validation import best_updates, is_better, validate


def judge(
    run: Run, journal: Journal, interrupts: Interrupts, say: Callable[[str], None], *, scheduled: bool = True
) -> None:
    """Validate, log, and save: checkpoint_last always, checkpoint_best when it is a new best, and those to keep.

    A validation outside the schedule, made because a limit was reached, may give a new best; patience and the plateau
    schedule do not count it, so that a prolonged run goes on as if the limit had never been there.
    """
    state, metric, started = run.state, run.training.best_checkpoint_metric, time.perf_counter()
    try:
        with interrupts.at_once():
            run.scores = validate(run)
    except (Terminated, KeyboardInterrupt):
        save_last(run)
        raise
    state.seconds += time.perf_counter() - started
    score = run.scores[metric]
    if scheduled:
        state.validated = state.update
        state.history.append([state.update, score])
    else:
        state.concluded = state.update
    journal.write("valid", state.update, {"epoch": state.epoch, **run.scores, "wall": state.seconds})
    new_best = is_better(metric, score, state.best[1] if state.best else None)
    if new_best:
        state.best = [state.update, score]
        run.save(run.folder.best, optimizer=False)
    mark = " (best)" if new_best else f" (best {metric} {state.best[1]:.3f} at {state.best[0]:,})" if state.best else ""
    say(f"update {state.update:,}: valid {format_values(run.scores)}{mark}")
    keep(run)
    save_last(run)


def keep(run: Run) -> None:
    """Write the checkpoints that `--keep-last` and `--keep-best` ask for, and delete those they no longer do."""
    state, folder, limits = run.state, run.folder, run.limits
    best = best_updates(run.training.best_checkpoint_metric, state, limits.keep_best)
    if limits.keep_last:
        run.save(folder.keep(state.update), optimizer=False)
        for path in list(folder.kept().values())[: -limits.keep_last]:
            path.unlink()
    if state.update in best:
        run.save(folder.keep(state.update, "best_"), optimizer=False)
        for update, path in folder.kept("best_").items():
            if update not in best:
                path.unlink()


def save_is_due(run: Run) -> bool:
    """Whether `--save-interval-updates` asks for a checkpoint here, or the last is older than a quarter of an hour."""
    every = run.limits.save_interval_updates
    due = every is not None and run.state.update % every == 0
    return due or time.monotonic() - run.saved_at > 15 * 60


def save_last(run: Run) -> None:
    """Write checkpoint_last."""
    run.save(run.folder.last, optimizer=True)
    run.saved, run.saved_at = run.state.update, time.monotonic()
