"""Model cards in Markdown (Mitchell et al. 2019): what a recipient of a checkpoint has to know."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docnmt.core.models.config import chosen_parts, model_config
from docnmt.core.training.checkpoint import read_header
from docnmt.core.training.progress_state import TrainingState
from docnmt.registry.options import flag, settings
from docnmt.registry.registry import ARCHITECTURES, CRITERIA, MODELS, TASKS, Architecture, Registry


def model_card(path: Path, name: str | None = None) -> str:
    """Return a card with architecture, languages, data, sizes, training command, scores and use; what only the author
    knows is left to be filled in.

    Args:
        name: of the model on a hub, from which others load it; None: that of the checkpoint's folder.

    Raises:
        UserError: the file is not a checkpoint that this version reads.
    """
    header, shapes = read_header(path)
    progress = TrainingState.from_json(header["progress"], where=str(path))
    parameters = sum(math.prod(shape) for name, shape in shapes.items() if name.startswith("model."))
    languages = header["task_state"].get("languages", [])
    address, name = f"ORGANISATION/{name}" if name else path.name, name or path.parent.name or path.stem
    facts = {
        "architecture": f"`{header['arch']}`"
        + (f": {MODELS.help(kind)}" if (kind := header["model"]) in MODELS else ""),
        "task": header["task"] + (f", {' to '.join(languages)}" if languages else ""),
        "parameters": f"{parameters:,}",
        "vocabulary": f"{len(header['task_state'].get('vocabulary', [])):,} subwords" + _separate(header["task_state"]),
        "file": f"`{path.name}`, {path.stat().st_size / 1e6:.1f} MB, docnmt {header['docnmt']}",
        "training": f"{progress.update:,} updates, epoch {progress.epoch}",
        "data": f"fingerprint `{header['fingerprint'] or 'unknown'}` (TODO: name the corpora)",
    }
    scores = [f"| {metric} | {value:.4g} |" for metric, value in header["scores"].items()]
    front = ["---", *(["language:", *(f"- {each}" for each in languages)] if languages else [])]
    return "\n".join([
        *front, "license: TODO", "library_name: docnmt", "---", "",
        f"# {name}", "",
        *(f"- **{key}**: {value}" for key, value in facts.items()), "",
        "## Use", "",
        "```python", "import docnmt", "",
        f'model = docnmt.load("{address}")',
        'model.translate(["A document.", "It has two sentences."])', "```", "",
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


def _separate(state: Mapping[str, Any]) -> str:
    """Describe the target's vocabulary if it has one of its own."""
    other = [value for name, value in state.items() if "vocabulary" in name and name != "vocabulary" and value]
    return "".join(f", {len(value):,} on the target side" for value in other if isinstance(value, list))


def _model_defaults(architecture: Architecture, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default of each option of a model with these values under `--arch` alone."""
    config, preset = model_config(architecture.model, values), dict(architecture.overrides())
    defaults = {each.name: each.default for each in settings(config)} | preset
    if "position" in values:  # the default fusion depends on it
        parts = chosen_parts(config, {**preset, "position": values["position"]})
        defaults["position_fusion"] = parts["position_fusion"]
    return defaults


def _command(header: Mapping[str, Any]) -> str:
    """Return the command that trained the model, without options that have their default."""
    from docnmt.core.training.config import OptimizationConfig, RunConfig, TrainingConfig

    classes: dict[str, type] = {"run": RunConfig, "training": TrainingConfig, "optimization": OptimizationConfig}
    config = header["config"]
    chosen: dict[str, Registry[Any]] = {"task": TASKS, "criterion": CRITERIA}
    classes |= {name: parts.config(header[name]) for name, parts in chosen.items() if header[name] in parts}
    defaults = {name: {each.name: each.default for each in settings(part)} for name, part in classes.items()}
    if header["arch"] in ARCHITECTURES:
        defaults["model"] = _model_defaults(ARCHITECTURES.get(header["arch"]), config["model"])
    words = ["docnmt-train", str(config["run"].get("data", "DATA")), f"--arch={header['arch']}"]
    for section, values in config.items():
        for name, value in values.items():
            default = defaults.get(section, {}).get(name)
            default = list(default) if isinstance(default, tuple) else default
            if name in ("data", "arch", "dry_run", "overwrite") or value == default:
                continue
            if isinstance(value, bool):
                words.append(flag(name if value else f"no_{name}"))
            elif isinstance(value, list):
                words += [flag(name), *map(str, value)]
            else:
                words.append(f"{flag(name)}={'none' if value is None else value}")
    return shlex.join(words)
