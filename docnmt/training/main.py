"""What `docnmt-train` does once its options are resolved."""

from __future__ import annotations

from typing import Any

from docnmt.runtime import tune
from docnmt.training.describe import describe_run
from docnmt.training.journal import say
from docnmt.training.run import prepare
from docnmt.training.trainer import is_finished, train


def train_command(config: dict[str, Any]) -> None:
    """Train, or continue, or say that nothing is left to do."""
    runtime = tune(new_shapes=True)
    run = prepare(config)
    if is_finished(run):
        say(f"{run.folder.path}: training is finished already (update {run.state.update:,}); raise its limit to go on")
        return
    with run.folder.opened():
        if run.limits.overwrite:
            run.folder.clear()
        run.folder.write_config(run.config)
        parameters = sum(parameter.numel() for parameter in run.model.parameters())
        at = f"continuing at update {run.state.update:,}" if run.saved is not None else "new"
        say(str(runtime))
        say(f"{run.training.arch}: {parameters:,} parameters on {run.device}; {run.folder.path}: {at}")
        for note in notes(config):
            say(note)
        reason = train(run)
        say(f"stopped: {reason}; {run.folder.last}" + (f", {run.folder.best}" if run.state.best else ""))


def dry_run(config: dict[str, Any]) -> str:
    """What a run would be; nothing is written."""
    head = "\n".join([str(tune(new_shapes=True)), *notes(config)])
    return f"{head}\n\n{describe_run(prepare(config))}"


def notes(config: dict[str, Any]) -> list[str]:
    """What a model's configuration says is worth knowing first."""
    return [f"note: {note}" for note in getattr(config["model"], "notes", list)()]
