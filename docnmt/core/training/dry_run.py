"""What a run will need (`--dry-run`), and what a checkpoint is (`docnmt-inspect`): descriptions and a model card."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from docnmt.core.models.config import model_config
from docnmt.core.task import Dataset
from docnmt.core.training.checkpoint import read_header
from docnmt.core.training.config import OptimizationConfig, RunConfig, TrainingConfig
from docnmt.core.training.run import Run, TrainingState
from docnmt.core.training.run_folder import ModelRecord
from docnmt.core.training.trainer import format_values, open_epoch
from docnmt.core.training.update import largest_batches, peak_memory, probe
from docnmt.options import settings, to_dict, words_of
from docnmt.registry import ARCHITECTURES, CRITERIA, MODELS, TASKS, Registry
from docnmt.runtime.progress import Progress, format_seconds, how_many, waiting

#: The additional memory of a process after many updates: freed memory between blocks still in use, too small for
#: the next batch. 0 to 10 % were measured (recipes/studies/gpu).
_FRAGMENTATION = 0.05
#: Number of batches tried. On a CPU oneDNN caches preparations for each new shape of bfloat16 products, up to a
#: limit (`docnmt.runtime.device.PREPARED_OF_NEW`), so that memory grows over some dozen updates.
_TRIED, _TRIED_IN_BFLOAT16 = 6, 24


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
    shapes = {name: tuple(parameter.shape) for name, parameter in run.model.named_parameters()}
    return "\n".join([
        *_options_table({name: to_dict(values) for name, values in run.config.items()}), "",
        *_parameter_table(shapes), "",
        f"batches: {len(plan):,} of {tokens.min():,} to {tokens.max():,} tokens (median {np.median(tokens):,.0f}) "
        f"from {len(sizes):,} units, {updates:,} updates an epoch",
        f"units above --max-tokens, each a batch of its own: {over:,}",
        f"largest batch: {'; largest unit in: '.join(largest)}",
        f"memory: about {most} at the most ({where}; {tried} in the updates that were tried)",
        f"time: about {format_seconds(expected.seconds)} an epoch on this machine as busy as it is now, without "
        "validation",
        f"start: update {run.state.update:,}, epoch {run.state.epoch}, batch {run.state.batches:,}",
    ])  # fmt: skip


class _Rehearsal(NamedTuple):
    """The memory and time of a training: bytes, the most so far; bytes in all; seconds an epoch, without validation."""

    measured: int
    predicted: int
    seconds: float


def rehearse(run: Run, data: Dataset, plan: list[np.ndarray]) -> _Rehearsal:
    """Train on a few batches of all sizes and on the largest; validate on the largest. The model is changed: use this
    only for a run that never begins. Memory must suffice (`probe`)."""

    def _update(batches: Sequence[np.ndarray]) -> None:
        for units in batches:
            torch.autograd.backward(run.loss(data, units)[0])
        run.optimizer.step()
        run.optimizer.zero_grad(set_to_none=True)

    tokens = np.array([int(data.sizes[units].sum()) for units in plan])
    number = _TRIED_IN_BFLOAT16 if run.training.bf16 and run.device.type == "cpu" else _TRIED
    tried = tokens.argsort()[np.linspace(0, len(plan) - 1, min(number, len(plan))).astype(int)]
    run.model.train()
    begun = time.perf_counter()
    with Progress(int(tokens[tried].sum()), f"trying {how_many(len(tried), 'update')}", unit="tok") as bar:
        for batch in tried:
            _update([plan[batch]])
            bar.update(int(tokens[batch]))
    if run.device.type == "cuda":
        torch.cuda.synchronize(run.device)
    seconds = (time.perf_counter() - begun) * float(tokens.sum() / tokens[tried].sum())
    with waiting("measuring the memory of the largest updates"):
        for units in largest_batches(data.sizes, plan):
            _update([units] * min(run.training.update_freq, 2))  # the second adds to the first's gradient
        if not run.training.disable_validation:
            valid = run.task.dataset("valid", run.model, seed=run.training.seed)
            plan = run.plan(valid, shuffle=False)
            run.model.eval()
            with torch.no_grad():
                for units in largest_batches(valid.sizes, plan) if plan else ():
                    run.loss(valid, units)
            run.model.train()
    measured = peak_memory(run.device)
    grows = run.device.type != "cuda"  # on a GPU, only the memory of tensors is counted
    return _Rehearsal(measured, round(measured * (1 + _FRAGMENTATION * grows)), seconds)


def _parameter_table(shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return lines with the number of parameters by module (two levels deep) and in total."""
    counts: dict[str, int] = {}
    for name, shape in shapes.items():
        parts = name.split(".")
        module = ".".join(parts[: min(2, max(len(parts) - 1, 1))])
        counts[module] = counts.get(module, 0) + math.prod(shape)
    width = max(map(len, counts), default=0)
    rows = [f"  {module:<{width}}  {count:>13,}" for module, count in counts.items()]
    return [f"parameters: {sum(counts.values()):,}", *rows]


def _options_table(config: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = []
    for section, values in config.items():
        lines.append(f"{section}:")
        lines += [f"  --{name.replace('_', '-'):<28} {value}" for name, value in values.items()]
    return lines


def describe_checkpoint(path: Path) -> str:
    """Describe a checkpoint: architecture, parameters by module, configuration, progress, vocabulary size, scores."""
    header, shapes = read_header(path)
    progress = TrainingState.from_json(header["progress"], where=str(path))
    best = progress.best
    model = {name.removeprefix("model."): shape for name, shape in shapes.items() if name.startswith("model.")}
    moments = sum(name.startswith("optimizer.") for name in shapes)
    written = f"format {header['format']}, docnmt {header['docnmt']}, {path.stat().st_size / 1e6:.1f} MB"
    task = [header["task"]]
    for name, value in header["task_state"].items():  # `languages en, de`, `vocabulary of 8,000`
        values = value if isinstance(value, list) else [value]
        content = f"of {len(values):,}" if len(values) > 4 else ", ".join(map(str, values))
        task.append(f"{name.replace('_', ' ')} {content}")
    facts: dict[str, Any] = {
        "checkpoint": f"{path} ({written})",
        "arch": f"{header['arch']} (model {header['model']})",
        "task": "; ".join(task),
        "criterion": header["criterion"],
        "progress": f"update {progress.update}, epoch {progress.epoch}",
        "best": f"{best[1]:.4g} at update {best[0]:,.0f}" if best else "not validated",
        "scores": format_values(header["scores"]) or "none",
        "data": f"fingerprint {header['fingerprint']}",
        "optimizer": f"{moments} tensors: training can continue" if moments else "none: to use, not to continue",
    }
    if averaged := header.get("averaged"):
        facts["averaged"] = ", ".join(map(str, averaged))
    if "start" in header:
        facts["start"] = str(msgspec.convert(header["start"], ModelRecord))
    lines = [f"{name:<12}{value}" for name, value in facts.items()]
    return "\n".join([*lines, "", *_parameter_table(model), "", *_options_table(header["config"])])


# Model cards in Markdown (Mitchell et al. 2019): what a recipient of a checkpoint has to know.


#: How models that do not translate are used, by their task.
USES = {
    "text_classification": ("    docnmt-classify --path CHECKPOINT < texts.txt",),
    "nli": ("    docnmt-embed --path CHECKPOINT --input sentences.txt --output vectors.npy",),
}


def model_card(path: Path, name: str | None = None) -> str:
    """Return a card with architecture, languages, data, sizes, training command, scores and use; what only the author
    knows is left to be filled in. `name` is the model's on a hub, or else that of the checkpoint's folder."""
    header, shapes = read_header(path)
    progress = TrainingState.from_json(header["progress"], where=str(path))
    parameters = sum(math.prod(shape) for name, shape in shapes.items() if name.startswith("model."))
    state = header["task_state"]
    languages = state.get("languages") or []
    lists = {name: value for name, value in state.items() if isinstance(value, list) and value}
    names = {"vocabulary": "subwords", "target_vocabulary": "on the target side", "words": "words"}
    sizes = ", ".join(f"{len(lists[name]):,} {what}" for name, what in names.items() if name in lists)
    labels = ", ".join(map(str, state.get("labels") or []))
    address, name = f"ORGANISATION/{name}" if name else path.name, name or path.parent.name or path.stem
    facts = {
        "architecture": f"`{header['arch']}`"
        + (f": {MODELS.help(kind)}" if (kind := header["model"]) in MODELS else ""),
        "task": header["task"] + (f", {' to '.join(languages)}" if languages else ""),
        "parameters": f"{parameters:,}",
        "vocabulary": sizes,
        "labels": labels,
        "file": f"`{path.name}`, {path.stat().st_size / 1e6:.1f} MB, docnmt {header['docnmt']}",
        "training": f"{progress.update:,} updates, epoch {progress.epoch}",
        "data": f"fingerprint `{header['fingerprint'] or 'unknown'}` (TODO: name the corpora)",
    }
    use = USES.get(header["task"]) or (
        "```python", "import docnmt", "", f'model = docnmt.load("{address}")',
        'model.translate(["A document.", "It has two sentences."])', "```",
    )  # fmt: skip
    scores = [f"| {metric} | {value:.4g} |" for metric, value in header["scores"].items()]
    front = ["---", *(["language:", *(f"- {language}" for language in languages)] if languages else [])]
    return "\n".join([
        *front, "license: TODO", "library_name: docnmt", "---", "",
        f"# {name}", "",
        *(f"- **{key}**: {value}" for key, value in facts.items() if value), "",
        "## Use", "",
        *use, "",
        "## Scores on the validation data", "",
        *(["| metric | value |", "| --- | ---: |", *scores] if scores else ["None were measured."]), "",
        "## Training", "",
        "What differs from the defaults; paths are those of the machine it was trained on.", "",
        "    " + _command(header), "",
        "## Limits", "",
        "TODO: what it was made for, what it should not be used for, what is known to go wrong.", "",
        "## Licence", "",
        "TODO: of the model and of its data.",
    ])  # fmt: skip


def _command(header: Mapping[str, Any]) -> str:
    """Return the command that trained the model, without options that have their default."""
    classes: dict[str, type] = {"run": RunConfig, "training": TrainingConfig, "optimization": OptimizationConfig}
    config = header["config"]
    chosen: dict[str, Registry[Any]] = {"task": TASKS, "criterion": CRITERIA}
    classes |= {name: parts.config(header[name]) for name, parts in chosen.items() if header[name] in parts}
    architecture = ARCHITECTURES.get(header["arch"]) if header["arch"] in ARCHITECTURES else None
    if architecture is not None:
        classes["model"] = model_config(architecture.model, config["model"])
    defaults = {name: {option.name: option.default for option in settings(part)} for name, part in classes.items()}
    if architecture is not None:
        defaults["model"] |= architecture.overrides()
    options: dict[str, Any] = {}
    for section, values in config.items():
        for name, value in values.items():
            default = defaults.get(section, {}).get(name)
            default = list(default) if isinstance(default, tuple) else default
            if name not in ("data", "arch", "dry_run", "overwrite") and value != default:
                options[name] = "none" if value is None else value
    data = str(config["run"].get("data", "DATA"))
    return shlex.join(["docnmt-train", data, f"--arch={header['arch']}", *words_of(options)])
