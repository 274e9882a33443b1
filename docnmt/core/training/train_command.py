"""The command `docnmt-train` after its options are resolved."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from docnmt.core.training.dry_run import describe_run
from docnmt.core.training.journal import say
from docnmt.core.training.prepare_run import agree_across_ranks, prepare
from docnmt.core.training.run import Run
from docnmt.core.training.run_folder import RunFolder
from docnmt.core.training.trainer import is_finished, train
from docnmt.modules.reduced_precision import multiplies_bfloat16
from docnmt.runtime import ranks
from docnmt.runtime.errors import Terminated
from docnmt.runtime.tuning import pick_device, tune


def train_command(config: dict[str, Any]) -> None:
    """Train, or continue, or print that nothing is left to do."""
    with ranks.joined(afterwards="the last checkpoint goes on"), contextlib.ExitStack() as stack:
        runtime = tune(new_shapes=True)
        runs: list[Run] = []
        folder = RunFolder(Path(config["run"].save_dir))

        def _open() -> None:
            if ranks.rank() == 0:  # lock first: what is loaded next cannot change then
                stack.enter_context(folder.opened())

        def _prepare() -> None:
            runs.append(prepare(config, folder))

        ranks.share(_open)
        ranks.share(_prepare)
        run = runs[0]
        agree_across_ranks(run)
        if is_finished(run):
            at = f"update {run.state.update:,}"
            say(f"{run.folder.path}: training is finished already ({at}); raise its limit to go on")
            return
        if ranks.rank() == 0:
            if run.limits.overwrite:
                run.folder.clear()
            run.folder.write_config(run.config)
        introduce(run, str(runtime))
        reason = train_or_say(run)
        say(f"stopped: {reason}; {run.folder.last}" + (f", {run.folder.best}" if run.state.best else ""))


def introduce(run: Run, runtime: str) -> None:
    """Print the model, the device and the folder."""
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    at = f"continuing at update {run.state.update:,}" if run.saved is not None else "new"
    many = f" in each of {ranks.world()} processes" if ranks.world() > 1 else ""
    say(runtime)
    say(f"{run.training.arch}: {parameters:,} parameters on {run.device}{many}; {run.folder.path}: {at}")
    for note in notes(run.config):
        say(note)
    if ranks.world() != run.started_with:
        say(
            f"note: this run began with {run.started_with} processes and has {ranks.world()} now; an update stays "
            f"{run.batches_an_update} batches"
        )
    if ranks.world() > run.batches_an_update:
        say(f"note: {ranks.world() - run.batches_an_update} of the processes have nothing to do")


def train_or_say(run: Run) -> str:
    """Train; if a signal ends it, print what was saved and how to continue."""
    try:
        return train(run)
    except (Terminated, KeyboardInterrupt):
        what = f"{run.folder.last} holds update {run.saved:,}" if run.saved is not None else "nothing was saved yet"
        say(f"{what}; the same command goes on from there")
        raise


def dry_run(config: dict[str, Any]) -> str:
    """Describe a run without writing anything."""
    head = "\n".join([str(tune(new_shapes=True)), *notes(config)])
    return f"{head}\n\n{describe_run(prepare(config))}"


def notes(config: dict[str, Any]) -> list[str]:
    """Return notes of the model's configuration, and on limits that are probably mistakes."""
    found = list(getattr(config["model"], "notes", list)())
    limits, warmup = config["run"], config["optimization"].warmup_updates
    if limits.max_update is None and limits.max_epoch is None and limits.patience is None:
        found.append("no --max-update, --max-epoch or --patience: training goes on until Ctrl-C or SIGTERM, which save")
    if limits.max_update is not None and warmup > limits.max_update > 0:
        found.append(f"--warmup-updates {warmup} is above --max-update {limits.max_update}: --lr is never reached")
    if config["training"].ema and config["training"].disable_validation and not limits.keep_last:
        found.append("--ema: with --disable-validation no checkpoint has the mean as its model; give --keep-last N")
    if config["training"].max_tokens < 16:
        found.append(f"--max-tokens {config['training'].max_tokens}: nearly every unit is a batch of its own")
    if config["training"].bf16 and pick_device(limits.device).type == "cpu" and not multiplies_bfloat16():
        found.append("--bf16: this processor has no bfloat16 products, and float32 is many times faster")
    return [f"note: {note}" for note in found]
