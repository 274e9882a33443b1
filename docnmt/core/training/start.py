"""From options to a run: its parts are built and checked; it begins anew, as another model, or where it stopped.

folder locked → `prepare`: options, checkpoint → task, model, criterion → weights → `Run` → the ranks agree → `train`
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from typing_extensions import get_protocol_members

from docnmt.core.models.config import ContextOptions, LevelOptions, TransformerConfig
from docnmt.core.models.encoder_decoder import EncoderDecoder
from docnmt.core.task import Task, TaskState
from docnmt.core.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_optimizer,
    load_state,
    not_finite,
    say_changed_plugins,
    state_problems,
    stored_config,
    stored_model_config,
    unique_state,
)
from docnmt.core.training.config import SECTIONS, RunConfig, TrainingConfig
from docnmt.core.training.criterions import Criterion
from docnmt.core.training.dry_run import describe_run
from docnmt.core.training.run import (
    MeanWeights,
    Run,
    ShardedLoss,
    TrainingState,
    build_optimizer,
    part_of,
    say,
    seed_everything,
)
from docnmt.core.training.run_folder import ModelRecord, RunFolder
from docnmt.core.training.trainer import is_finished, open_epoch, train
from docnmt.core.translation_task import DocumentTranslation
from docnmt.modules.fusion import Concat
from docnmt.modules.layers import DocumentPart, Layer
from docnmt.modules.linear_layers import TrainedLinear, multiplies_bfloat16, replace_linear
from docnmt.options import flag, settings, to_dict
from docnmt.registry import ARCHITECTURES, CONCATENATED, CRITERIA, MODELS, TASKS
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import pick_device, trains_linear, tune
from docnmt.runtime.system import Terminated, UsageError, UserError, find_checkpoint


def train_command(config: dict[str, Any]) -> None:
    """Train, or continue, or print that nothing is left to do: the command after its options are resolved."""
    with ranks.joined(afterwards="the last checkpoint goes on"), contextlib.ExitStack() as stack:
        runtime = tune(new_shapes=True)
        runs: list[Run] = []
        folder = RunFolder(Path(config["run"].save_dir))

        # lock first: what is loaded next cannot change then
        ranks.share(lambda: stack.enter_context(folder.opened()) if ranks.rank() == 0 else None)
        ranks.share(lambda: runs.append(prepare(config, folder)))
        run = runs[0]
        _agree_across_ranks(run)
        if is_finished(run):
            done = f"{folder.path}: training is finished already (update {run.state.update:,})"
            say(f"{done}; raise its limit to go on")
            return
        epoch = open_epoch(run)  # damaged data is refused before anything is written
        if ranks.rank() == 0:
            if run.limits.overwrite:
                folder.clear()
            folder.write_config(config)
        _introduce(run, str(runtime))
        try:
            reason = train(run, epoch)
        except (Terminated, KeyboardInterrupt):
            say(f"{run.what_is_saved}; the same command goes on from there")
            raise
        ranks.exchange(None)  # the first has written the last checkpoint
        say(f"stopped: {reason}; {folder.last}" + (f", {folder.best}" if run.state.best else ""))


def _introduce(run: Run, runtime: str) -> None:
    world, batches = ranks.world(), run.batches_an_update
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    begin = f"continuing at update {run.state.update:,}" if run.saved is not None else "new"
    many = f" in each of {world} processes" if world > 1 else ""
    notes = _notes(run.config)
    if world != run.started_with:
        began = f"note: this run began with {run.started_with} processes and has {world} now"
        notes.append(f"{began}; an update stays {batches} batches")
    if world > batches:
        notes.append(f"note: {world - batches} of the processes have nothing to do")
    model = f"{run.training.arch}: {parameters:,} parameters on {run.device}{many}"
    for line in (runtime, f"{model}; {run.folder.path}: {begin}", *notes):
        say(line)


def dry_run(config: dict[str, Any]) -> str:
    """Describe a run without writing anything."""
    head = "\n".join([str(tune(new_shapes=True)), *_notes(config)])
    return f"{head}\n\n{describe_run(prepare(config))}"


def _notes(config: dict[str, Any]) -> list[str]:
    """Return notes of the model's configuration, and on limits that are probably mistakes."""
    texts = list(getattr(config["model"], "notes", list)())
    limits, training, warmup = config["run"], config["training"], config["optimization"].warmup_updates
    if limits.max_update is None and limits.max_epoch is None and limits.patience is None:
        texts.append("no --max-update, --max-epoch or --patience: training goes on until Ctrl-C or SIGTERM, which save")
    if limits.max_update is not None and warmup > limits.max_update > 0:
        texts.append(
            f"--warmup-updates {warmup} is above --max-update {limits.max_update}: --lr is never reached; lower it"
        )
    if training.ema and training.disable_validation and not limits.keep_last:
        texts.append("--ema: with --disable-validation no checkpoint has the mean as its model; give --keep-last N")
    if training.disable_validation and (training.validate_interval_updates or training.validate_interval != 1):
        texts.append("--validate-interval and --validate-interval-updates have no effect with --disable-validation")
    if limits.shard and ranks.world() == 1:
        texts.append("--shard has no effect in one process; start several with torchrun")
    if training.max_tokens < 16:
        texts.append(f"--max-tokens {training.max_tokens}: nearly every unit is a batch of its own")
    return [f"note: {text}" for text in texts]


def prepare(config: dict[str, Any], folder: RunFolder | None = None) -> Run:
    """Build a run from resolved sections; it continues from the save-dir's last checkpoint if there is one. `folder` is
    the save-dir, if it is locked already."""
    limits: RunConfig = config["run"]
    training: TrainingConfig = config["training"]
    device, folder = pick_device(limits.device), folder or RunFolder(Path(limits.save_dir))
    _check_options(config, device)
    checkpoint: Checkpoint | None = None
    if not limits.overwrite and folder.last.exists():
        try:
            checkpoint = load_checkpoint(folder.last)
        except UserError as error:
            raise UserError(f"{error}; it is what the training would go on from: --overwrite starts anew") from error
        _check_same(config, checkpoint)
        say_changed_plugins(checkpoint)
    elif not limits.overwrite:
        folder.check_new()
    task_class = _with(TASKS.get(str(training.task)), f"--task {training.task}", "load")
    task: Task = task_class.load(config["task"], Path(limits.data))
    without_scores = {"evaluate"} if getattr(task, "metrics", None) == () else set[str]()  # then it is never called
    _with(task, f"--task {training.task}", *get_protocol_members(Task) - without_scores)
    if checkpoint is not None and checkpoint.header["fingerprint"] != task.fingerprint:
        raise UserError(
            f"{limits.data}: is not the data that {folder.last} was trained on (its fingerprint differs); "
            "give the same data, or another --save-dir"
        )
    seed_everything(training.seed, 0)
    model_class = MODELS.get(ARCHITECTURES.get(training.arch).model)
    model = task.build_model(model_class, config["model"])
    criterion_class = _with(CRITERIA.get(str(training.criterion)), f"--criterion {training.criterion}", "build")
    criterion = criterion_class.build(config["criterion"], task)
    _with(criterion, f"--criterion {training.criterion}", "metrics", "__call__")
    _check_parts(config, task, model, criterion)
    start = None
    if checkpoint is not None:
        load_state(model, checkpoint.group("model"), checkpoint.path)
        start = checkpoint.start
    elif training.finetune_from_model is not None:
        start = start_from(model, config["model"], task, training)
    model.to(device)
    if trains_linear() and device.type == "cpu" and not training.bf16:
        replace_linear(model, TrainedLinear)
    sharded = ShardedLoss(model, criterion, device) if limits.shard and ranks.world() > 1 else None
    optimizer = build_optimizer(config["optimization"], model, _learning_rate_scales(model, training, start))
    run = Run(config, folder, task, model, criterion, optimizer, device, TrainingState(), start=start, sharded=sharded)
    if training.ema is not None:
        run.mean = MeanWeights(model, training.ema)
    if checkpoint is not None:
        _restore(run, checkpoint)
    return run


def _with(part: Any, option: str, *members: str) -> Any:
    """Return a class or an object, maybe a plug-in's, that has these members."""
    if missing := sorted(member for member in members if not hasattr(part, member)):
        kind = part if isinstance(part, type) else type(part)
        raise UserError(f"{option}: its class, {kind.__module__}.{kind.__qualname__}, has no {', '.join(missing)}")
    return part


def _restore(run: Run, checkpoint: Checkpoint) -> None:
    run.state = TrainingState.from_json(checkpoint.header["progress"], where=str(checkpoint.path))
    run.scores, run.saved = checkpoint.header["scores"], run.state.update
    if run.state.update and not checkpoint.group("optimizer"):
        raise UserError(f"{checkpoint.path}: holds no optimizer state, so training cannot continue from it")
    run.started_with = int(checkpoint.header.get("ranks", 1)) if run.state.update else ranks.world()
    load_optimizer(run.optimizer, run.model, checkpoint)
    for parameter, moments in run.optimizer.state.items():
        run.optimizer.state[parameter] = {key: part_of(value, parameter) for key, value in moments.items()}
    means, stored = run.mean.means if run.mean is not None else {}, checkpoint.group("ema")
    for name, mean in means.items():
        if name not in stored or stored[name].shape != mean.shape:
            raise UserError(f"{checkpoint.path}: tensor 'ema.{name}' is missing or does not fit; it cannot continue")
        mean.copy_(part_of(stored[name], mean))
    for name, now in (("threads", torch.get_num_threads()), ("device", run.device.type)):
        if checkpoint.header[name] != now:
            trained = f"warning: {checkpoint.path} was trained with {name} {checkpoint.header[name]}"
            say(
                f"{trained}, this process has {now}: the run continues, but not bit for bit as without the interruption"
            )


def _agree_across_ranks(run: Run) -> None:
    """Check that all ranks have the same options, data and progress, by which each decides; and share the weights."""
    free = ("data", "save_dir", "device", "tensorboard_logdir", "finetune_from_model")  # paths and devices may differ
    options = [{k: v for k, v in to_dict(run.config[name]).items() if k not in free} for name in SECTIONS]
    ranks.check_alike(ranks.exchange(json.dumps(options)), "the options")
    ranks.check_alike(ranks.exchange(run.task.fingerprint), f"{run.limits.data}: the data")
    progress = json.dumps([run.state.to_json(), run.saved, run.started_with])
    ranks.check_alike(ranks.exchange(progress), f"{run.limits.save_dir}: the progress")
    if run.sharded is None:
        states = run.optimizer.state.values()
        moments = [value for state in states for value in state.values() if torch.is_tensor(value)]
        means = run.mean.means.values() if run.mean is not None else ()
        ranks.same_everywhere([*run.model.state_dict().values(), *moments, *means])


# Parts and options that do not go together, or differ from those of the run to continue.


def _check_options(config: Mapping[str, Any], device: torch.device) -> None:
    """Refuse options that do not go together, before anything is read."""
    training: TrainingConfig = config["training"]
    made_for = getattr(config["model"], "default_task", None) or training.task
    if getattr(config["criterion"], "r_drop", 0) and not getattr(config["model"], "dropout", 0):
        raise UsageError("--r-drop compares passes with other dropout, and there is none: give --dropout")
    if made_for != training.task:
        raise UsageError(
            f"--arch {training.arch} does not go with --task {training.task} and --criterion {training.criterion}: "
            f"it is made for --task {made_for}"
        )
    if training.bf16 and device.type == "cpu" and not config["run"].force_bf16 and not multiplies_bfloat16():
        raise UsageError(
            "--bf16: this processor has no bfloat16 products (x86: AVX512-BF16 or AMX), and float32 is many times "
            "faster: --no-bf16; --force-bf16 computes without them"
        )


def _check_parts(config: Mapping[str, Any], task: Task, model: nn.Module, criterion: Criterion) -> None:
    """Refuse a run whose parts do not fit, that cannot validate, or has options without an effect."""
    training: TrainingConfig = config["training"]
    predicted, judged = getattr(model, "predicts", None), getattr(criterion, "predicts", None)
    if predicted and judged and predicted != judged:  # plug-ins may leave it undeclared
        raise UsageError(
            f"--criterion {training.criterion} judges {judged}, and --arch {training.arch} predicts {predicted}; leave "
            "--criterion out to take the task's own"
        )
    metrics = ("loss", *criterion.metrics, *(("ppl",) if "nll" in criterion.metrics else ()), *task.metrics)
    if training.best_checkpoint_metric not in metrics:
        raise UsageError(
            f"--best-checkpoint-metric: there is no '{training.best_checkpoint_metric}' with --task {training.task} "
            f"and --criterion {training.criterion}; there are {', '.join(metrics)}"
        )
    if training.disable_validation:
        plateau = config["optimization"].lr_scheduler == "plateau"
        judges = {"--patience": config["run"].patience, "--lr-scheduler plateau": plateau}
        if useless := [option for option, given in judges.items() if given]:
            raise UsageError(f"--disable-validation leaves nothing for {' and '.join(useless)} to judge by")
    else:
        try:
            task.dataset("valid", model, seed=training.seed)
        except UserError as error:
            raise UserError(f"{error}; preprocess a validation split, or train with --disable-validation") from error
    judged_by_task = training.asks_metrics(task.metrics) and not training.disable_validation
    if not judged_by_task and getattr(config["task"], "eval_bleu_beam", 1) > 1:
        raise UsageError(
            "--eval-bleu-beam has no effect where validation computes no BLEU; give --eval-metrics or make BLEU the "
            "metric"
        )


def _check_same(config: Mapping[str, Any], checkpoint: Checkpoint) -> None:
    """Refuse to continue a run with other options, and name all of them; those of the section `run` may change."""
    problems = []
    for name in SECTIONS[1:]:  # the first is `run`
        of_model = name == "model"
        stored = stored_model_config(checkpoint) if of_model else stored_config(checkpoint, name, type(config[name]))
        old, new = to_dict(stored), to_dict(config[name])
        different = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        problems += [f"{flag(key)} was {old.get(key)} and is now {new.get(key)}" for key in different]
        if {"arch", "task", "criterion"} & set(different):
            break  # other parts have other options
    if problems:
        where = f"{checkpoint.path} holds a run with other options; give the same, or another --save-dir"
        raise UsageError([f"{where}: {problems[0]}", *problems[1:]])


# `--finetune-from-model`: a model of the same kind takes all weights of another run. A document model takes a sentence
# model's, and its own parts begin such that they add nothing: its first update starts from what that model computes.

#: The model that others can start from.
_SENTENCE_MODEL = "transformer"


def start_from(model: nn.Module, model_config: object, task: Task, training: TrainingConfig) -> ModelRecord:
    """Copy the weights of `--finetune-from-model` into a new model; return that model's record."""
    assert training.finetune_from_model is not None
    checkpoint = load_checkpoint(find_checkpoint(training.finetune_from_model), optimizer=False)
    _check_task(checkpoint, task, training)
    kind, other_kind = ARCHITECTURES.get(training.arch).model, checkpoint.header["model"]
    state, tensors = unique_state(model), checkpoint.group("model")
    stored = _with_fusion(stored_model_config(checkpoint), model_config)
    fusions = {name: module for name, module in model.named_modules() if isinstance(module, Concat)}
    lacks = tuple(name for name in fusions if not any(tensor.startswith(f"{name}.") for tensor in tensors))
    new_parts = {f"{name}.{key}" for name in lacks for key in fusions[name].state_dict()}
    if other_kind == kind:
        problems = settings_that_differ(stored, model_config)
    elif (
        other_kind == _SENTENCE_MODEL
        and isinstance(model, EncoderDecoder)
        and isinstance(stored, TransformerConfig)
        and isinstance(model_config, TransformerConfig)
    ):
        # The sentence model's levels have no numbers, and those of a document begin with 0.
        state, tensors = ({n: t for n, t in group.items() if t.numel()} for group in (state, tensors))
        new_parts |= document_parameters(model)
        problems = _start_problems(stored, model_config)
    else:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: is a '{other_kind}'; a '{kind}' starts from a "
            f"'{_SENTENCE_MODEL}' (if it translates) or from its own kind"
        )
    problems = problems or state_problems(state, tensors, optional=new_parts) or not_finite(tensors)
    if problems:
        raise UserError(f"--finetune-from-model {checkpoint.path}: cannot start a '{kind}': {'; '.join(problems)}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)
    for name in lacks:
        fusions[name].start_as_addition()
    if other_kind != kind:
        start_as_sentence_model(model, tensors)
    record = checkpoint.record()
    record.lacks = lacks
    return record


def _check_task(checkpoint: Checkpoint, task: Task, training: TrainingConfig) -> None:
    """Refuse a checkpoint of another task, vocabulary or language: in it token ids have another meaning."""
    if checkpoint.header["task"] != training.task:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: was trained for the task '{checkpoint.header['task']}', the "
            f"data is for '{training.task}'"
        )
    ours, theirs = task.state(), TaskState(checkpoint.header["task_state"], checkpoint.task_tensors)
    of_data: object = task
    if isinstance(of_data, DocumentTranslation):  # its model may know several languages, of which these are two
        with contextlib.suppress(UsageError):
            theirs = of_data.restore(of_data.config, theirs).between(*of_data.languages).state()
    values = (ours.json.keys() | theirs.json.keys()) - {"levels"}  # document structure changes no id
    names = [name for name in values if ours.json.get(name) != theirs.json.get(name)]
    for name in ours.tensors.keys() | theirs.tensors.keys():
        one, other = ours.tensors.get(name), theirs.tensors.get(name)
        if one is None or other is None or not torch.equal(one, other):
            names.append(name)
    if names:
        raise UserError(
            f"--finetune-from-model {checkpoint.path}: its {', '.join(sorted(names)).replace('_', ' ')} are not those "
            f"of the data; preprocess the data with --srcdict {checkpoint.path}"
        )


def settings_that_differ(old: object, new: object) -> list[str]:
    """Return the settings of `old`, described, under which its weights would mean something else in `new`; not those
    that its class names in `free`, nor dropout."""
    free = {name for part in type(old).__mro__ for name in vars(part).get("free", ())}
    values = {  # `new` may lack an option that a position family of `old` has of its own
        setting.name: (getattr(old, setting.name), getattr(new, setting.name, None))
        for setting in settings(type(old))
        if setting.name not in free and not setting.name.endswith("dropout")
    }
    return [f"{flag(name)} is {was} there and {now} here" for name, (was, now) in values.items() if was != now]


def _with_fusion(stored: Any, new: object) -> Any:
    """Return the configuration with the fusion of `new`, if that has the same weights or can begin as addition."""
    fusion = getattr(new, "position_fusion", None)
    same = fusion in CONCATENATED and getattr(stored, "position_fusion", None) in ("add", *CONCATENATED)
    return replace(stored, position_fusion=fusion) if same else stored


def _start_problems(sentence: TransformerConfig, document: TransformerConfig) -> list[str]:
    """Return the reasons why a document model of this configuration cannot start from a sentence model."""
    wanted = replace(sentence, relative_horizon=document.relative_horizon)
    levels = document if isinstance(document, LevelOptions) and document.position == "multi_level" else None
    if sentence.position == "sinusoidal" and levels is not None and not levels.learned_words:
        wanted = replace(wanted, position="multi_level")  # its levels above the word can begin with 0
    problems = settings_that_differ(wanted, document)
    if sentence.horizon != document.horizon:
        problems.append(f"--relative-horizon is {sentence.horizon} there and {document.horizon} here")
    context = document if isinstance(document, ContextOptions) else None
    if context is not None and context.context_placement == "replace":
        problems.append(
            "--context-placement replace takes heads away that the sentence model has; give --context-placement block "
            "or heads"
        )
    blocks = context is not None and (context.context_placement == "block" or context.target_context != "none")
    if context is not None and blocks and context.norm == context.context_norm == "post":
        problems.append("--norm post: a context block's layer norm changes what it is given; give --context-norm pre")
    count = document.position_count if isinstance(document, LevelOptions) else "unit"
    if count != "unit" and (context is not None or document.position == "multi_level"):
        problems.append(f"--position-count {count}: the sentence model's words count from their sentence's start")
    return problems


def document_parameters(model: nn.Module) -> set[str]:
    """Return the names of the parameters that a sentence model lacks."""
    parts: list[nn.Module] = [module for module in model.modules() if isinstance(module, DocumentPart)]
    parts += [norm for layer in model.modules() if isinstance(layer, Layer) for norm in layer.document_residuals]
    parameters = {id(parameter) for part in parts for parameter in part.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in parameters}


def start_as_sentence_model(model: nn.Module, given: Collection[str]) -> None:
    """Make the document parts that have none of the `given` parameters add nothing: context attention returns 0, words
    know only their place in the sentence. Their gradients are not 0."""
    for name, module in model.named_modules():
        if any(parameter.startswith(f"{name}.") for parameter in given):
            continue
        if isinstance(module, DocumentPart):
            module.start_closed()


def _learning_rate_scales(model: nn.Module, training: TrainingConfig, start: ModelRecord | None) -> dict[str, float]:
    """`--finetune-lr-scale` of each parameter that its start has, too, and 0 of those of `--finetune-freeze`."""
    names, scale = [name for name, weights in model.named_parameters() if weights.numel()], training.finetune_lr_scale
    lacking = tuple(f"{part}." for part in (start.lacks if start else ()))
    new = {name for name in names if name.startswith(lacking)} | (document_parameters(model) & {*names})
    if not new and scale == 0:
        raise UsageError(
            f"--finetune-lr-scale 0: --arch {training.arch} has no parts that a sentence model lacks; nothing would "
            "learn"
        )
    scales = {} if scale is None else {name: scale for name in names if name not in new}
    for pattern in training.finetune_freeze:
        if not (frozen := fnmatch.filter(names, pattern)):
            raise UsageError(f"--finetune-freeze {pattern}: fits no parameter, such as {names[0]} or {names[-1]}")
        scales |= dict.fromkeys(frozen, 0.0)
    if all(scales.get(name, 1.0) == 0 for name in names):
        raise UsageError(f"--finetune-freeze {' '.join(training.finetune_freeze)}: nothing would learn")
    return scales
