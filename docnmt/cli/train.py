"""The command docnmt-train: train a model on a folder of preprocessed data.

words ─ resolve: --arch, --task, --criterion … choose parts ─ their options ─ {section: dataclass} ─ training
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from docnmt.cli.command import Chosen, Command, Given, known, parts_of
from docnmt.core.models.config import PARTS, chosen_parts, model_config
from docnmt.core.training.config import OptimizationConfig, RunConfig, TrainingConfig
from docnmt.options import Section
from docnmt.registry import ALL, ARCHITECTURES, CRITERIA, MODELS, TASKS, Registry
from docnmt.runtime.launch import job_process
from docnmt.runtime.system import OpenObject, UsageError, UserError, read_json

#: What `--help` says before the names of the models.
SIZES = """--arch NAME takes one of these, most of them with a size, too: NAME_tiny, NAME_small, NAME_big (see --list).
--arch NAME --help shows the options of one:"""

#: The options that choose parts with options of their own.
CHOSEN: dict[str, Registry[Any]] = {"arch": MODELS, "task": TASKS, "criterion": CRITERIA, **PARTS}
_CHOSEN = tuple(Chosen(name, name, registry) for name, registry in CHOSEN.items())
RUN, TRAINING = Section("run", RunConfig), Section("training", TrainingConfig)
_OPTIMIZATION = Section("optimization", OptimizationConfig)


def _train(given: Given) -> None:
    if "--list" in given.words:
        print("\n\n".join(f"{registry.kind}:\n{_lines_of(registry)}" for registry in ALL))
        return
    config = resolve(given)
    from docnmt.core.training.start import dry_run, train_command

    if config["run"].dry_run:
        if job_process().world > 1:
            raise UsageError("--dry-run: expected one process, which it describes; leave torchrun or srun out")
        print(dry_run(config))
    else:
        train_command(config)


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Return the resolved sections of a command line; plug-ins must have been imported."""
    return resolve(Given(TRAIN.prog, words))


def resolve(given: Given) -> dict[str, Any]:
    """Return the resolved sections of the given options: names are chosen first, as they decide on other options."""
    given.read_choices(*CHOSEN)
    for option in CHOSEN:
        if not isinstance(given.get(option), (str, NoneType)):  # a file may have any value
            raise UsageError(f"--config {given.config}: {option}: expected a name, got {given.get(option)!r}")
    every = [section for registry in CHOSEN.values() for section in parts_of(registry)]
    if given.get("arch") is None:
        return _without_architecture(given, every)
    arch = known(ARCHITECTURES, "--arch", str(given.get("arch")))
    name = known(MODELS, f"--arch {arch}", ARCHITECTURES.get(arch).model)
    try:
        overrides = dict(ARCHITECTURES.get(arch).overrides())
    except Exception as error:  # a plug-in's
        raise UsageError(f"--arch {arch}: expected a function that returns its settings by name: {error!r}") from error
    values = {**overrides, **{option: given.get(option) for option in CHOSEN if given.get(option) is not None}}
    model = Section("model", model_config(name, values), overrides)
    options = {setting.name for setting in model.settings}
    if misspelt := [option for option in overrides if option not in options]:
        raise UsageError(
            f"--arch {arch}: its registration sets {', '.join(misspelt)}, which '{name}' does not have; "
            f"it has {', '.join(sorted(options))}"
        )
    given.parse([RUN, TRAINING, _OPTIMIZATION, model, *every])
    usual = getattr(MODELS.config(name), "default_task", "document_translation")
    task = known(TASKS, "--task", str(given.get("task") or _task_of_data(given) or usual))
    usual = getattr(TASKS.config(task), "default_criterion", "label_smoothed_cross_entropy")
    criterion = known(CRITERIA, "--criterion", str(given.get("criterion") or usual))
    sections = [
        RUN,
        Section("training", TrainingConfig, {"task": task, "criterion": criterion}),
        _OPTIMIZATION,
        Section("task", TASKS.config(task)),
        model,
        Section("criterion", CRITERIA.config(criterion)),
    ]
    chosen = {"arch": arch, "task": task, "criterion": criterion, **chosen_parts(model.config, values)}
    return TRAIN.resolve(given, sections, choices={part: str(chosen[part.option]) for part in _CHOSEN})


def _without_architecture(given: Given, every: Sequence[Section]) -> dict[str, Any]:
    """Show the help that is the same for all architectures, or raise all that is wrong besides."""
    general = [RUN, TRAINING, _OPTIMIZATION]
    if given.help is not None:
        return TRAIN.resolve(given, general, epilog=f"{SIZES}\n{_lines_of(MODELS)}")
    given.parse([*general, *every])
    problems = []
    try:
        _task_of_data(given)
    except UserError as error:
        problems.append(str(error))
    bases = ", ".join(name for name in ARCHITECTURES.names() if ARCHITECTURES.get(name).model == name)
    raise UsageError([*problems, f"--arch is required: {bases} (--list shows all)"])


class _Meta(OpenObject):
    """What is read here of a data folder's `meta.json`, of any task."""

    task: str


def _task_of_data(given: Given) -> str | None:
    """Return the task of the data folder; None without one, or if only help is requested."""
    if given.get("data") is None or given.help is not None:
        return None
    data = Path(str(given.get("data")))
    if not data.is_dir():
        if data.exists():
            raise UserError(f"{data}: is a file; expected the --destdir of a docnmt-preprocess")
        raise UserError(f"{data}: no such folder; make it with docnmt-preprocess --destdir {data}")
    if not (data / "meta.json").is_file():
        raise UserError(
            f"{data}: is no data folder, it has no meta.json; give the --destdir of a docnmt-preprocess, or give --task"
        )
    return read_json(data / "meta.json", _Meta, "run docnmt-preprocess again").task


def _lines_of(registry: Registry[Any]) -> str:
    """Return the names of one kind, one per line, each with its line of help."""
    width = max(map(len, registry.names()), default=0)
    return "\n".join(f"  {name:<{width}}  {registry.help(name)}".rstrip() for name in registry.names())


TRAIN = Command(
    "train",
    "train a model",
    """Train a model on a folder that docnmt-preprocess wrote. The same command again continues where the last
checkpoint in --save-dir is, bit for bit as if it had never stopped; only the options of the group "run" may change.
SIGTERM, SIGHUP and Ctrl-C save first. --arch NAME --help shows the options of that architecture, too.""",
    """
docnmt-train data-bin --arch transformer_small --save-dir runs/sentence --max-update 20000
docnmt-train data-bin --arch transformer_small --save-dir runs/sentence --max-update 20000 --dry-run
docnmt-train data-bin --arch cond_transformer_small --save-dir runs/document --finetune-from-model runs/sentence
docnmt-train data-bin --arch transformer --save-dir runs/large --max-tokens 8192 --update-freq 4 --bf16
docnmt-train data-bin --arch transformer_small --save-dir runs/bleu --best-checkpoint-metric bleu --patience 10
docnmt-train data-bin --arch doc_transformer_small --save-dir runs/mixed --resolutions 1 2 4 0
docnmt-train --list
""",
    (RUN, TRAINING, _OPTIMIZATION, *_CHOSEN),
    _train,
    {"--list": "show every task, architecture, criterion, position ... by name"},
)
main = TRAIN

if __name__ == "__main__":
    sys.exit(main())
