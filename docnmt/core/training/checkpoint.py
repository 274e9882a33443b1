"""A checkpoint: ONE safetensors file, which is all that using or continuing a model needs; its use and its mean.

model.* (shared parameters once) · optimizer.MOMENT.PARAMETER and ema.*, to continue · the task's own (tokenizer.*)
metadata: `docnmt`, JSON (`_CheckpointHeader`), and `xxh3`, checksums of that text and of each tensor
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from docnmt.core.models.config import PARTS, model_config
from docnmt.core.task import Task, TaskState
from docnmt.core.training.run_folder import ModelRecord, RunFolder
from docnmt.options import C, flag, from_dict, to_dict
from docnmt.registry import CONFIG_VERSION, MERGES, MODELS, TASKS, Registry, imported
from docnmt.runtime.system import (
    KIND,
    Count,
    OpenObject,
    Positive,
    UserError,
    Value,
    __version__,
    check_tensor,
    checked,
    checksum,
    find_checkpoint,
    parse_json,
    replacing,
    stored_checksums,
    tensor_checksum,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: Version of this layout; a reader refuses any other.
FORMAT = 1


class _CheckpointHeader(OpenObject):
    format: int
    docnmt: str
    arch: str  # these four are names of registered parts
    model: str
    criterion: str
    task: str
    config: dict[str, dict[str, Value]]  # by section and name
    task_state: dict[str, object]
    progress: dict[str, object]
    fingerprint: str  # of the data
    threads: int
    device: str
    scores: dict[str, float]
    config_version: Count = 1
    averaged: list[str] | None = None
    start: ModelRecord | None = None  # the model of --finetune-from-model
    ranks: Positive = 1
    plugins: dict[str, str] | None = None  # checksums of the files that were imported


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The content of a checkpoint: JSON header and tensors on the CPU."""

    path: Path
    header: dict[str, Any]  # JSON, whose types `_CheckpointHeader` lists
    tensors: dict[str, Tensor]

    def group(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors under `prefix.`, by their names without it."""
        return {n.removeprefix(f"{prefix}."): t for n, t in self.tensors.items() if n.startswith(f"{prefix}.")}

    @property
    def task_tensors(self) -> dict[str, Tensor]:
        """The tensors that are neither the model's, nor the optimizer's, nor means of weights (`--ema`)."""
        return {n: t for n, t in self.tensors.items() if not n.startswith(("model.", "optimizer.", "ema."))}

    @property
    def start(self) -> ModelRecord | None:
        """The model that this one was started from (`--finetune-from-model`)."""
        return msgspec.convert(self.header.get("start"), ModelRecord | None)

    def record(self) -> ModelRecord:
        """Return what a results folder and a model that starts from this one record about it."""
        header = self.header
        names = sorted(self.group("model").items())
        return ModelRecord(
            checkpoint=str(self.path),
            arch=header["arch"],
            update=header["progress"].get("update", 0),
            weights=checksum(*(f"{name} {tensor_checksum(*_content(tensor))} ".encode() for name, tensor in names)),
            data=header["fingerprint"],
            loss=header["scores"].get("loss"),
            averaged=len(header.get("averaged") or ()),
            start=self.start,
        )


def save_checkpoint(path: Path, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint completely or not at all."""
    versions = {"format": FORMAT, "config_version": CONFIG_VERSION, "docnmt": __version__}
    text = json.dumps({**header, **versions}, ensure_ascii=False).encode("utf-8", "replace").decode()  # odd paths
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    for name, tensor in stored.items():
        if tensor.untyped_storage().nbytes() != tensor.nbytes:  # a part of another's memory, which would be stored, too
            stored[name] = tensor.clone()
    with replacing(path) as temporary:
        try:
            safetensors.torch.save_file(stored, temporary, metadata={"docnmt": text, KIND: checksums_of(text, stored)})
        except safetensors.SafetensorError as error:
            # the system's message in `Error while serializing: I/O error: … (os error 28)`
            raise OSError(None, str(error).rpartition(": ")[2].partition(" (os error")[0]) from error


def checksums_of(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the checksums of a header's text and of each tensor, as they stand beside the header."""
    sums = {name: tensor_checksum(*_content(tensor)) for name, tensor in tensors.items()}
    return json.dumps({"header": checksum(text.encode()), "tensors": sums})


def _content(tensor: Tensor) -> tuple[str, torch.Size, np.ndarray]:
    """Return what a tensor's checksum covers: type, shape and bytes."""
    return str(tensor.dtype).removeprefix("torch."), tensor.shape, tensor.reshape(-1).view(torch.uint8).numpy()


def read_header(path: Path) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """Read and check the header of a checkpoint; return it with the shape of every tensor, without reading tensors."""
    with _opened(path) as (file, header, checksums):
        return header, {name: tuple(file.get_slice(name).get_shape()) for name in checksums}


def load_checkpoint(path: Path, *, optimizer: bool = True) -> Checkpoint:
    """Read a checkpoint and compare every tensor with its checksum; without `optimizer`, its tensors are not read."""
    with _opened(path) as (file, header, checksums):
        names = [name for name in checksums if optimizer or not name.startswith("optimizer.")]
        tensors = {name: file.get_tensor(name) for name in names}
    for name, tensor in tensors.items():
        check_tensor(path, name, checksums[name], *_content(tensor))
    return Checkpoint(path, header, tensors)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[safetensors.safe_open, dict[str, Any], dict[str, str]]]:
    """Open a file and check its header; give it with the checksums of all tensors."""
    if not path.is_file():
        raise UserError(f"{path}: {'is a folder; give a checkpoint in it' if path.is_dir() else 'no such checkpoint'}")
    try:
        opened = safetensors.safe_open(path, framework="pt", device="cpu")
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"{path}: is not a whole safetensors file: {error}; use another checkpoint") from error
    with opened as file:
        metadata, names = file.metadata() or {}, list(file.keys())
        if "docnmt" not in metadata:
            raise UserError(f"{path}: is a safetensors file, but not written by docnmt")
        header: Any = parse_json(metadata["docnmt"], f"{path}: its header")
        stored = header if isinstance(header, dict) else {}
        for name, version in (("format", FORMAT), ("config_version", CONFIG_VERSION)):
            if stored.get(name) != version:
                written = f"{path}: its {name} is {stored.get(name)} (written by docnmt {stored.get('docnmt')})"
                raise UserError(f"{written}; docnmt {__version__} reads {version}: train it again")
        checksums = stored_checksums(path, metadata, names)
        checked(header, _CheckpointHeader, f"{path}: its header")
        yield file, header, {name: checksums[name] for name in names}


def unique_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's state; a tensor with several names (tied embeddings) appears under the first only."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    seen: set[object] = set()
    state = {}
    for name, tensor in model.state_dict().items():
        plain = type(tensor) is Tensor  # else a rank's part, which may be empty
        memory = (tensor.data_ptr(), tensor.shape) if plain else id(parameters[name])
        if tensor.numel() == 0 or memory not in seen:
            state[name] = tensor
        seen.add(memory)
    return state


def load_state(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy `tensors` into a model, after checking all of them against it."""
    state = unique_state(model)
    if problems := state_problems(state, tensors) or not_finite(tensors):
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise UserError(f"{path}: cannot be used: {'; '.join(sorted(problems)[:3])}{more}")
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(tensors[name])


def state_problems(
    state: Mapping[str, Tensor], tensors: Mapping[str, Tensor], optional: Collection[str] = ()
) -> list[str]:
    """Describe each tensor that only the model's state or only `tensors` have, unless it is optional, or that differs
    in shape or type."""
    problems = []
    for name in sorted(state.keys() | tensors.keys()):
        stored, built = tensors.get(name), state.get(name)
        if built is None:
            problems.append(f"'model.{name}' is not part of this architecture")
        elif stored is None and name not in optional:
            problems.append(f"'model.{name}' is missing")
        elif stored is not None and (stored.shape != built.shape or stored.dtype != built.dtype):
            problems.append(
                f"'model.{name}' is {stored.dtype} of shape {tuple(stored.shape)}, "
                f"the architecture has {built.dtype} of shape {tuple(built.shape)}"
            )
    return problems


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return a message for each of the model's tensors that has NaN or infinite numbers."""
    return [
        f"'model.{name}' holds numbers that are not finite: its training had failed"
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and not torch.isfinite(tensor.sum())  # or too large a sum
        if not torch.isfinite(tensor).all()
    ]


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimizer's moments by name: `optimizer.exp_avg.<parameter>`."""
    return {
        f"optimizer.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, checkpoint: Checkpoint) -> None:
    """Restore the optimizer's moments."""
    parameters = dict(model.named_parameters())
    moments: dict[str, dict[str, Tensor]] = {}
    for full, tensor in checkpoint.group("optimizer").items():
        key, _, name = full.partition(".")
        if name not in parameters or (tensor.dim() and tensor.shape != parameters[name].shape):
            raise UserError(f"{checkpoint.path}: tensor 'optimizer.{full}' does not fit the model; it cannot continue")
        moments.setdefault(name, {})[key] = tensor
    expected = {key for state in moments.values() for key in state}
    for name, state in moments.items():
        if state.keys() != expected:
            missing = sorted(expected - state.keys())[0]
            raise UserError(f"{checkpoint.path}: tensor 'optimizer.{missing}.{name}' is missing; it cannot continue")
        optimizer.state[parameters[name]] = {key: value.to(parameters[name].device) for key, value in state.items()}


# Loading of a trained model, ready to use, from a checkpoint alone.


#: Options that determine the number of layers, or their width; options of plug-ins are not known.
_LAYERS = ("encoder_layers", "decoder_layers", "conv_layers")
_WIDTHS = ("embed_dim", "ffn_dim", "hidden_dim", "output_dim", "classifier_dim", "hash_bits")


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model in evaluation mode with its task, configuration, checkpoint header and record."""

    model: nn.Module
    task: Task
    model_config: DataclassInstance
    arch: str
    header: dict[str, Any]
    record: ModelRecord


def load_model(path: str | Path, *, device: torch.device | str = "cpu") -> LoadedModel:
    """Load the model of a checkpoint file, or the best one of a `--save-dir`."""
    checkpoint = load_checkpoint(find_checkpoint(path), optimizer=False)
    header = checkpoint.header
    _check_known(checkpoint, TASKS, header["task"])
    task_config: object = stored_config(checkpoint, "task", TASKS.config(header["task"]))
    state = TaskState(header["task_state"], checkpoint.task_tensors)
    try:
        task = TASKS.get(header["task"]).restore(task_config, state)
    except Exception as error:  # whatever a task, maybe a plug-in's, raises for a state that it did not write
        raise UserError(f"{checkpoint.path}: the task's state in it is damaged: {error!r}") from error
    _check_known(checkpoint, MODELS, header["model"])
    say_changed_plugins(checkpoint)
    config = stored_model_config(checkpoint)
    _check_believable(checkpoint, config)
    try:
        model = task.build_model(MODELS.get(header["model"]), config)
    except UserError:
        raise
    except Exception as error:  # whatever a model, maybe a plug-in's, raises for unexpected options
        raise UserError(f"{checkpoint.path}: no model can be built from its configuration: {error}") from error
    load_state(model, checkpoint.group("model"), checkpoint.path)
    return LoadedModel(model.to(device).eval(), task, config, header["arch"], header, checkpoint.record())


def _check_believable(checkpoint: Checkpoint, config: DataclassInstance) -> None:
    """Refuse more layers than the file has tensors, or a width that no tensor has: they would exhaust memory."""
    shapes = [tensor.shape for tensor in checkpoint.group("model").values() if tensor.numel()]
    widest = max((size for shape in shapes for size in shape), default=0)
    for name, value in to_dict(config).items():
        most = len(shapes) if name in _LAYERS else widest
        if name in _LAYERS + _WIDTHS and isinstance(value, int) and value > most:
            raise UserError(f"{checkpoint.path}: {flag(name)} is {value} in its header, and its tensors have {most}")


def stored_model_config(checkpoint: Checkpoint) -> DataclassInstance:
    """Return the configuration of a checkpoint's model."""
    values = checkpoint.header["config"].get("model", {})
    for option, registry in (*PARTS.items(), ("merge", MERGES)):
        if isinstance(part := values.get(option), str) and part != "none":
            _check_known(checkpoint, registry, part)
    kind = model_config(checkpoint.header["model"], values)
    return cast("DataclassInstance", stored_config(checkpoint, "model", kind))


def stored_config(checkpoint: Checkpoint, section: str, config: type[C]) -> C:
    """Return a section of a checkpoint's configuration as a `config`; options added since have their defaults."""
    where = f"{checkpoint.path}: configuration of the {section}"
    return from_dict(config, checkpoint.header["config"].get(section, {}), where=where)


def _check_known(checkpoint: Checkpoint, registry: Registry[Any], name: str) -> None:
    if name not in registry:
        raise UserError(
            f"{checkpoint.path}: was made with the {registry.kind} '{name}', which is not built in; "
            "give the --user-dir of the plug-in that has it (docnmt.import_plugins in Python)"
        )


def say_changed_plugins(checkpoint: Checkpoint) -> None:
    """Warn if a plug-in has changed since it made the checkpoint."""
    now = imported()
    stored = checkpoint.header.get("plugins") or {}
    if changed := [name for name, content in stored.items() if now.get(name, content) != content]:
        print(
            f"warning: {checkpoint.path}: was made by another state of {', '.join(changed)}; the results may be others",
            file=sys.stderr,
        )


# Averaging of checkpoints: one model whose weights are the mean of several checkpoints of a run.


def last_checkpoints(save_dir: Path, count: int) -> list[Path]:
    """Return the `count` newest checkpoints that `--keep-last` kept in a run's folder, oldest first."""
    if not save_dir.is_dir():
        raise UserError(f"--save-dir {save_dir}: no such folder")
    paths = list(RunFolder(save_dir).numbered().values())
    if len(paths) < count:
        raise UserError(
            f"--save-dir {save_dir}: holds {len(paths)} numbered checkpoints, --last asks for {count}; "
            f"train with --keep-last {count}"
        )
    return paths[-count:]


def average_checkpoints(inputs: Sequence[Path], output: Path) -> None:
    """Write the mean of the inputs' weights, computed in float64, without an optimizer; the header, which lists the
    inputs, counters and the task's tensors are the last input's."""
    first = last = load_checkpoint(inputs[0], optimizer=False)
    sums: dict[str, Tensor] = {}
    averaged = []
    for path in inputs:
        last = load_checkpoint(path, optimizer=False)
        _check_alike(first, last)
        if problems := not_finite(last.group("model")):
            raise UserError(f"{path}: {problems[0]}; leave it out")
        for name, value in last.header["config"].get("task", {}).items():
            if value != (other := first.header["config"].get("task", {}).get(name, value)):
                differing = f"{flag(name)} is {other} in {inputs[0]}, {value} in {path}"
                print(f"note: {differing}; {output} has that of the last input", file=sys.stderr)
        averaged.append(f"{path.name} (update {last.header['progress'].get('update')})")
        for name, tensor in last.group("model").items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, torch.zeros_like(tensor, dtype=torch.float64)) + tensor
    model = {
        f"model.{name}": (sums[name] / len(inputs)).to(tensor.dtype) if name in sums else tensor
        for name, tensor in last.group("model").items()
    }
    save_checkpoint(output, {**last.header, "averaged": averaged, "scores": {}}, model | last.task_tensors)


def _check_alike(first: Checkpoint, other: Checkpoint) -> None:
    for what in ("arch", "model", "task", "fingerprint"):
        if first.header[what] != other.header[what]:
            raise UserError(
                f"{other.path}: its {what} is '{other.header[what]}', that of {first.path} is '{first.header[what]}'; "
                "only checkpoints of one architecture and one data folder can be averaged"
            )
    options, others = first.header["config"].get("model", {}), other.header["config"].get("model", {})
    for name in options.keys() & others.keys():
        if options[name] != others[name] and not name.endswith("dropout"):
            raise UserError(
                f"{other.path}: {flag(name)} is {others[name]}, in {first.path} it is {options[name]}; weights of "
                "different models have no mean"
            )
    if first.header["task_state"] != other.header["task_state"]:
        raise UserError(f"{other.path}: its vocabulary differs from that of {first.path}")
    if problems := state_problems(first.group("model"), other.group("model")):
        raise UserError(f"{other.path}: is not as {first.path}: {problems[0]}")
