"""Where a run begins: resumed, fine-tuned, or with equal projections."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from docnmt.core.models.config import ContextOptions, LevelOptions, TransformerConfig
from docnmt.core.models.encoder_decoder import EncoderDecoder
from docnmt.core.scoring.text_files import ModelRecord
from docnmt.core.tasks.task import Task, TaskState
from docnmt.core.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_optimizer,
    load_state,
    say_changed_plugins,
    stored_model_config,
    unique_state,
)
from docnmt.core.training.config import SECTIONS, TrainingConfig
from docnmt.core.training.dry_run import describe_run
from docnmt.core.training.run import MeanWeights, Run, TrainingState, build_optimizer, seed_everything
from docnmt.core.training.run_folder import RunFolder
from docnmt.core.training.trainer import (
    check_criterion,
    check_judged,
    check_made_for,
    check_metric,
    check_noise,
    check_same,
    check_validation,
    is_finished,
    say,
    train,
)
from docnmt.core.translation_task import DocumentTranslation
from docnmt.modules.fusion import Concat
from docnmt.modules.layers import DocumentPart, Layer
from docnmt.modules.linear_layers import TrainedLinear, multiplies_bfloat16, replace_linear
from docnmt.options import collected, flag, settings, to_dict
from docnmt.registry import ARCHITECTURES, CRITERIA, MODELS, TASKS
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import pick_device, trains_linear, tune
from docnmt.runtime.system import Terminated, UsageError, UserError, find_checkpoint

if TYPE_CHECKING:
    from docnmt.core.training.run import ShardedLoss


# Starting a document model from a sentence model: its additional parts, which begin without an effect.


def own_parameters(model: nn.Module) -> set[str]:
    """Return the names of the parameters that a sentence model lacks."""
    parts: list[nn.Module] = [module for module in model.modules() if isinstance(module, DocumentPart)]
    parts += [norm for layer in model.modules() if isinstance(layer, Layer) for norm in layer.document_residuals]
    own = {id(parameter) for part in parts for parameter in part.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in own}


def new_parameters(model: nn.Module) -> set[str]:
    """Return the names of parameters that may be missing in a sentence model that this one starts from: its own, and
    those of concatenation, which can begin as addition."""
    modules = model.named_modules()
    fusions = {f"{name}.{own}" for name, each in modules if isinstance(each, Concat) for own in each.state_dict()}
    return own_parameters(model) | fusions


def start_as_sentence_model(model: nn.Module, given: Collection[str]) -> None:
    """Make the document parts add nothing: context attention returns 0, words know only their place in the sentence.
    Their gradients are not 0, so both are learned from here on.

    Concatenation that the sentence model lacks begins as addition.

    Args:
        given: the parameters that the sentence model had; parts that have some of them are not changed.
    """
    for name, module in model.named_modules():
        if any(parameter.startswith(f"{name}.") for parameter in given):
            continue
        if isinstance(module, DocumentPart):
            module.start_closed()
        elif isinstance(module, Concat):
            module.start_as_addition()


def settings_that_differ(old: object, new: object) -> list[str]:
    """Return the settings of `old`, described, under which its weights would mean something else in `new`.

    Configurations name in `free` the options that do not change the meaning of weights; dropout never does.
    """
    free = collected(type(old), "free")
    every = [setting.name for setting in settings(type(old))]
    names = [name for name in every if name not in free and not name.endswith("dropout")]
    # `new` may lack an option that a position family of `old` has of its own
    pairs = {name: (getattr(old, name), getattr(new, name, None)) for name in names}
    return [f"{flag(name)} is {there} there and {here} here" for name, (there, here) in pairs.items() if there != here]


def start_problems(sentence: TransformerConfig, document: TransformerConfig) -> list[str]:
    """Return the reasons why a document model of this configuration cannot start from a sentence model."""
    wanted = replace(sentence, relative_horizon=document.relative_horizon)
    levels = document if isinstance(document, LevelOptions) and document.position == "multi_level" else None
    if sentence.position == "sinusoidal" and levels is not None and not levels.learned_words:
        wanted = replace(wanted, position="multi_level")  # its levels above the word can begin with 0
    if (sentence.position_fusion, document.position_fusion) == ("add", "concat"):
        wanted = replace(wanted, position_fusion="concat")
    found = settings_that_differ(wanted, document)
    if sentence.horizon != document.horizon:
        found.append(f"--relative-horizon is {sentence.horizon} there and {document.horizon} here")
    context = document if isinstance(document, ContextOptions) else None
    if context is not None and context.context_placement == "replace":
        found.append(
            "--context-placement replace takes heads away that the sentence model has; give --context-placement block "
            "or heads"
        )
    blocks = context is not None and (context.context_placement == "block" or context.target_context != "none")
    if context is not None and blocks and context.norm == context.context_norm == "post":
        found.append("--norm post: a context block's layer norm changes what it is given; give --context-norm pre")
    count = document.position_count if isinstance(document, LevelOptions) else "unit"
    if count != "unit" and (context is not None or document.position == "multi_level"):
        found.append(f"--position-count {count}: the sentence model's words count from their sentence's start")
    return found


# `--finetune-from-model`: the weights of another run as the start of this one.
#
# A model of the same kind takes all of them. A document model takes a sentence model's, and its own parts begin such
# that
# they add nothing: its first update starts from exactly what the sentence model computes.


#: The model that others can start from.
SENTENCE_MODEL = "transformer"


def start_from(model: nn.Module, model_config: object, task: Task, training: TrainingConfig) -> ModelRecord:
    """Copy the weights of `--finetune-from-model` into a new model; return that model's record.

    Raises:
        UserError: there is no such checkpoint, it has another task or vocabulary, or its model does not fit; the
            message names every option, or else every tensor, that does not fit. Nothing is copied then.
    """
    assert training.finetune_from_model is not None
    checkpoint = load_checkpoint(find_checkpoint(training.finetune_from_model), optimizer=False)
    check_task(checkpoint, task, training)
    kind, theirs = ARCHITECTURES.get(training.arch).model, checkpoint.header["model"]
    new_parts: set[str] = set()
    stored = stored_model_config(checkpoint)
    if theirs == kind:
        problems = settings_that_differ(stored, model_config)
    elif (
        theirs == SENTENCE_MODEL
        and isinstance(model, EncoderDecoder)
        and isinstance(stored, TransformerConfig)
        and isinstance(model_config, TransformerConfig)
    ):
        new_parts = new_parameters(model)
        problems = start_problems(stored, model_config)
    else:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: is a '{theirs}'; a '{kind}' starts from a '{SENTENCE_MODEL}' "
            "(if it translates) or from its own kind"
        )
    own, tensors = unique_state(model), checkpoint.group("model")
    problems = problems or tensors_that_differ(own, tensors, new_parts)
    if problems:
        raise UserError(f"--finetune-from-model {checkpoint.path}: cannot start a '{kind}': {'; '.join(problems)}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)
    if theirs != kind:
        start_as_sentence_model(model, tensors)
    return checkpoint.record()


def learning_rate_scales(model: nn.Module, training: TrainingConfig) -> dict[str, float]:
    """Return `--finetune-lr-scale` for every parameter that a sentence model also has, if it is given, and 0 for those
    of `--finetune-freeze`.

    Raises:
        UsageError: a pattern fits no parameter, or nothing would be trained.
    """
    names, scale = [name for name, _ in model.named_parameters()], training.finetune_lr_scale
    own = own_parameters(model)
    if not own and scale == 0:
        raise UsageError(
            f"--finetune-lr-scale 0: --arch {training.arch} has no parts that a sentence model lacks; nothing would "
            "learn"
        )
    scales = {} if scale is None else {name: scale for name in names if name not in own}
    for pattern in training.finetune_freeze:
        if not (frozen := fnmatch.filter(names, pattern)):
            raise UsageError(f"--finetune-freeze {pattern}: fits no parameter, such as {names[0]} or {names[-1]}")
        scales |= dict.fromkeys(frozen, 0.0)
    if all(scales.get(name, 1.0) == 0 for name in names):
        raise UsageError(f"--finetune-freeze {' '.join(training.finetune_freeze)}: nothing would learn")
    return scales


def check_task(checkpoint: Checkpoint, task: Task, training: TrainingConfig) -> None:
    """Refuse a checkpoint in which token ids have another meaning.

    Raises:
        UserError: the task, the vocabulary or a language differs.
    """
    if checkpoint.header["task"] != training.task:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: was trained for the task '{checkpoint.header['task']}', the "
            f"data is for '{training.task}'"
        )
    ours, theirs = task.state(), TaskState(checkpoint.header["task_state"], checkpoint.task_tensors)
    theirs = _between_languages_of(task, theirs)
    meaning = (ours.json.keys() | theirs.json.keys()) - {"levels"}  # document structure changes no id
    names = [n for n in meaning if ours.json.get(n) != theirs.json.get(n)]
    names += [n for n in ours.tensors.keys() | theirs.tensors.keys() if not _same(ours.tensors, theirs.tensors, n)]
    if names:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: its {', '.join(sorted(names)).replace('_', ' ')} are not those "
            f"of the data; preprocess the data with --srcdict {checkpoint.path}"
        )


def _between_languages_of(task: object, theirs: TaskState) -> TaskState:
    """Return the state of a checkpoint's task set to the languages of `task`, if its model knows several."""
    if isinstance(task, DocumentTranslation):
        with suppress(UsageError):
            return task.restore(task.config, theirs).between(*task.languages).state()
    return theirs


def _same(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], name: str) -> bool:
    return name in ours and name in theirs and torch.equal(ours[name], theirs[name])


def tensors_that_differ(own: Mapping[str, Tensor], theirs: Mapping[str, Tensor], new_parts: set[str]) -> list[str]:
    """Describe every tensor without a counterpart, except `new_parts`, or of another shape or type."""
    found = []
    for name in sorted(own.keys() | theirs.keys()):
        if name not in own:
            found.append(f"'{name}' {tuple(theirs[name].shape)} is not part of the new model")
        elif name not in theirs and name not in new_parts:
            found.append(f"'{name}' {tuple(own[name].shape)} is missing there")
        elif name in theirs and (own[name].shape != theirs[name].shape or own[name].dtype != theirs[name].dtype):
            found.append(
                f"'{name}' is {theirs[name].dtype} {tuple(theirs[name].shape)} there and {own[name].dtype} "
                f"{tuple(own[name].shape)} here"
            )
    return found


# Restoring of a run from its last checkpoint.


def restore(run: Run, checkpoint: Checkpoint) -> None:
    """Restore optimizer and progress from the checkpoint."""
    run.state = TrainingState.from_json(checkpoint.header["progress"], where=str(checkpoint.path))
    run.scores, run.saved = checkpoint.header["scores"], run.state.update
    if run.state.update and not checkpoint.group("optimizer"):
        raise UserError(f"{checkpoint.path}: holds no optimizer state, so training cannot continue from it")
    run.started_with = int(checkpoint.header.get("ranks", 1)) if run.state.update else ranks.world()
    load_optimizer(run.optimizer, run.model, checkpoint)
    for parameter, held in run.optimizer.state.items():
        run.optimizer.state[parameter] = {key: part_of_rank(value, parameter) for key, value in held.items()}
    if run.mean is not None:
        load_means(run.mean, checkpoint)
    for name, now in (("threads", torch.get_num_threads()), ("device", run.device.type)):
        if checkpoint.header[name] != now:
            print(
                f"warning: {checkpoint.path} was trained with {name} {checkpoint.header[name]}, this process has "
                f"{now}: the run continues, but not bit for bit as without the interruption",
                file=sys.stderr,
            )


def load_means(mean: MeanWeights, checkpoint: Checkpoint) -> None:
    """Restore the mean weights from the checkpoint.

    Raises:
        UserError: a tensor is missing, or has another shape.
    """
    stored = checkpoint.group("ema")
    for name, own in mean.means.items():
        if name not in stored or stored[name].shape != own.shape:
            raise UserError(f"{checkpoint.path}: tensor 'ema.{name}' is missing or does not fit; it cannot continue")
    mean.load({name: part_of_rank(stored[name], own) for name, own in mean.means.items()})


def part_of_rank(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this rank's part of a whole tensor, divided like `like` under `--shard`."""
    if type(like) in (Tensor, nn.Parameter):
        return tensor
    from docnmt.core.training.run import part_of

    return part_of(tensor, like)


# Preparation of a run from resolved options: task, model, optimizer, and the state it continues from.


def prepare(config: dict[str, Any], folder: RunFolder | None = None) -> Run:
    """Build a run from resolved sections; it continues from the save-dir's last checkpoint if there is one.

    Args:
        folder: the save-dir, if it is locked already.

    Raises:
        UserError: the save-dir is not a run's, an option differs from the run it has, or data or checkpoint is damaged.
        UsageError: `--bf16` on a processor without its products.
    """
    limits, training = config["run"], config["training"]
    check_noise(config)
    check_made_for(config)
    folder = folder or RunFolder(Path(limits.save_dir))
    device = pick_device(limits.device)
    if training.bf16 and device.type == "cpu" and not limits.force_bf16 and not multiplies_bfloat16():
        raise UsageError(
            "--bf16: this processor has no bfloat16 products (x86: AVX512-BF16 or AMX), and float32 is many times "
            "faster: --no-bf16; --force-bf16 computes without them"
        )
    checkpoint = _earlier(folder, config)
    task = TASKS.get(training.task).load(config["task"], Path(limits.data))
    if checkpoint is not None and checkpoint.header["fingerprint"] != task.fingerprint:
        raise UserError(
            f"{limits.data}: is not the data that {folder.last} was trained on (its fingerprint differs); "
            "give the same data, or another --save-dir"
        )
    seed_everything(training.seed, 0)
    model = task.build_model(MODELS.get(ARCHITECTURES.get(training.arch).model), config["model"])
    criterion = CRITERIA.get(training.criterion).build(config["criterion"], task)
    check_criterion(training, model, criterion)
    check_metric(training, task, criterion)
    check_validation(config, task, model)
    check_judged(config, task)
    state, start = TrainingState(), None
    if checkpoint is not None:
        load_state(model, checkpoint.group("model"), checkpoint.path)
        start = checkpoint.start
    elif training.finetune_from_model is not None:
        start = start_from(model, config["model"], task, training)
    model.to(device)
    if trains_linear() and device.type == "cpu" and not training.bf16:
        replace_linear(model, TrainedLinear)
    sharded: ShardedLoss | None = None
    if limits.shard and ranks.world() > 1:
        from docnmt.core.training.run import ShardedLoss

        sharded = ShardedLoss(model, criterion, device)
    optimizer = build_optimizer(config["optimization"], model, learning_rate_scales(model, training))
    run = Run(config, folder, task, model, criterion, optimizer, device, state, start=start, sharded=sharded)
    if training.ema is not None:
        run.mean = MeanWeights(model, training.ema)
    if checkpoint is not None:
        restore(run, checkpoint)
    return run


def _earlier(folder: RunFolder, config: dict[str, Any]) -> Checkpoint | None:
    """Return the checkpoint from which the run continues; None for a new run."""
    if config["run"].overwrite:
        return None
    if not folder.last.exists():
        folder.check_new()
        return None
    checkpoint = load_checkpoint(folder.last)
    check_same(config, checkpoint)
    say_changed_plugins(checkpoint)
    return checkpoint


def agree_across_ranks(run: Run) -> None:
    """Check, once all ranks have prepared, that they have the same options and state, with bitwise equal weights.

    What one rank decides by its own options or progress, such as when to validate, the others then decide, too.

    Raises:
        UserError: data, save-dir or options differ; paths and devices may.
    """
    own = ("data", "save_dir", "device", "tensorboard_logdir", "finetune_from_model")
    options = [{k: v for k, v in to_dict(run.config[name]).items() if k not in own} for name in SECTIONS]
    ranks.check_alike(ranks.exchange(json.dumps(options)), "the options")
    ranks.check_alike(ranks.exchange(run.task.fingerprint), f"{run.limits.data}: the data")
    progress = json.dumps([run.state.to_json(), run.saved, run.started_with])
    ranks.check_alike(ranks.exchange(progress), f"{run.limits.save_dir}: the progress")
    if run.sharded is None:
        moments = [value for held in run.optimizer.state.values() for value in held.values() if torch.is_tensor(value)]
        ranks.same_everywhere([*run.model.state_dict().values(), *moments])


# The command `docnmt-train` after its options are resolved.


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
