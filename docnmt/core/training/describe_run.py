"""Descriptions of a checkpoint, and of a run before it starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from docnmt.core.scoring.text_files import ModelRecord
from docnmt.core.training.checkpoint import read_header
from docnmt.core.training.journal import format_values
from docnmt.core.training.probe import largest_batches, probe
from docnmt.core.training.progress_state import TrainingState
from docnmt.core.training.rehearsal import rehearse
from docnmt.core.training.run import Run
from docnmt.core.training.trainer import open_epoch
from docnmt.registry.options import to_dict
from docnmt.runtime.progress import format_seconds


def describe_checkpoint(path: Path) -> str:
    """Describe a checkpoint: architecture, parameters by module, configuration, progress, vocabulary size and scores.

    Raises:
        UserError: the file is not a checkpoint that this version reads.
    """
    header, shapes = read_header(path)
    progress = TrainingState.from_json(header["progress"], where=str(path))
    best = progress.best
    model = {name.removeprefix("model."): shape for name, shape in shapes.items() if name.startswith("model.")}
    moments = sum(name.startswith("optimizer.") for name in shapes)
    written = f"format {header['format']}, docnmt {header['docnmt']}, {path.stat().st_size / 1e6:.1f} MB"
    facts: dict[str, Any] = {
        "checkpoint": f"{path} ({written})",
        "arch": f"{header['arch']} (model {header['model']})",
        "task": "; ".join([header["task"], *_task_facts(header["task_state"])]),
        "criterion": header["criterion"],
        "progress": f"update {progress.update}, epoch {progress.epoch}",
        "best": f"{best[1]:.4g} at update {best[0]:,.0f}" if best else "not validated",
        "scores": format_values(header["scores"]) or "none",
        "data": f"fingerprint {header['fingerprint']}",
        "optimizer": f"{moments} tensors: training can continue" if moments else "none: to use, not to continue",
    }
    if "averaged" in header:
        facts["averaged"] = ", ".join(header["averaged"])
    if "start" in header:
        facts["start"] = str(msgspec.convert(header["start"], ModelRecord))
    lines = [f"{name:<12}{value}" for name, value in facts.items()]
    return "\n".join([*lines, "", *parameter_table(model), "", *options_table(header["config"])])


def _task_facts(state: Mapping[str, Any]) -> list[str]:
    """Describe a task's state in short: `languages en, de`, `vocabulary of 8,000`."""
    facts = []
    for name, value in state.items():
        if isinstance(value, list) and len(value) > 4:
            facts.append(f"{name.replace('_', ' ')} of {len(value):,}")
        else:
            facts.append(f"{name.replace('_', ' ')} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    return facts


def parameter_table(shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return lines with the number of parameters by module (two levels deep) and in total."""
    counts: dict[str, int] = {}
    for name, shape in shapes.items():
        parts = name.split(".")
        module = ".".join(parts[: min(2, max(len(parts) - 1, 1))])
        counts[module] = counts.get(module, 0) + math.prod(shape)
    width = max(map(len, counts), default=0)
    rows = [f"  {module:<{width}}  {count:>13,}" for module, count in counts.items()]
    return [f"parameters: {sum(counts.values()):,}", *rows]


def options_table(config: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return lines with all options by section."""
    lines = []
    for section, values in config.items():
        lines.append(f"{section}:")
        lines += [f"  --{name.replace('_', '-'):<28} {value}" for name, value in values.items()]
    return lines


def describe_run(run: Run) -> str:
    """Return the text of `--dry-run`: options, parameters, the current epoch's batches, and their memory and time."""
    epoch = open_epoch(run)
    sizes, plan = epoch.data.sizes, epoch.plan
    tokens = np.array([sizes[units].sum() for units in plan])
    updates = math.ceil(len(plan) / run.batches_an_update)
    over = int((sizes > run.training.max_tokens).sum())
    largest = [f"{sizes[units].sum():,} tokens in {len(units)} units" for units in largest_batches(sizes, plan)]
    probe(run, epoch.data, plan)
    expected = rehearse(run, epoch.data, plan)
    where = "GPU" if run.device.type == "cuda" else "process"
    most, tried = (f"{size / 2**20:,.0f} MiB" for size in (expected.predicted, expected.measured))
    speed = f"about {format_seconds(expected.seconds)} an epoch on this machine as busy as it is now"
    shapes = {name: tuple(parameter.shape) for name, parameter in run.model.named_parameters()}
    return "\n".join([
        *options_table({name: to_dict(values) for name, values in run.config.items()}), "",
        *parameter_table(shapes), "",
        f"batches: {len(plan):,} of {tokens.min():,} to {tokens.max():,} tokens (median {np.median(tokens):,.0f}) "
        f"from {len(sizes):,} units, {updates:,} updates an epoch",
        f"units above --max-tokens, each a batch of its own: {over:,}",
        f"largest batch: {'; largest unit in: '.join(largest)}",
        f"memory: about {most} at the most ({where}; {tried} in the updates that were tried)",
        f"time: {speed}, without validation",
        f"start: update {run.state.update:,}, epoch {run.state.epoch}, batch {run.state.batches:,}",
    ])  # fmt: skip
