"""The command docnmt-train: train a model on a folder of preprocessed data."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, TypedDict

from docnmt.cli.command import Choice, Chosen, Command, Given, known, parts_of
from docnmt.core.models.config import PARTS, chosen_parts, model_config
from docnmt.core.training.config import OptimizationConfig, RunConfig, TrainingConfig
from docnmt.options import Section, flag
from docnmt.registry import ALL, ARCHITECTURES, CRITERIA, MODELS, TASKS, Registry, import_plugins
from docnmt.runtime.system import UsageError, UserError, skipped

#: What `--help` says before the names of the models.
SIZES = """--arch NAME takes one of these, most of them with a size, too: NAME_tiny, NAME_small, NAME_big (see --list).
--arch NAME --help shows the options of one:"""

#: The options that choose parts with options of their own.
CHOSEN: dict[str, Registry[Any]] = {"arch": MODELS, "task": TASKS, "criterion": CRITERIA, **PARTS}
RUN, TRAINING = Section("run", RunConfig), Section("training", TrainingConfig)
OPTIMIZATION = Section("optimization", OptimizationConfig)


def _train(given: Given) -> None:
    if "--list" in given.words:
        print(_list_components())
        return
    config = resolve(given)
    from docnmt.core.training.start import dry_run, train_command

    if config["run"].dry_run:
        print(dry_run(config))
    else:
        train_command(config)


@dataclass(frozen=True)
class Trained:
    """The results of a training.

    Attributes:
        path: the `--save-dir`, an argument of `docnmt.load`.
        last, best: its checkpoints, or None.
        history: the events of its `train.jsonl`, in order.
    """

    path: Path
    last: Path | None
    best: Path | None
    history: list[dict[str, Any]]


def train(data: str | Path, **options: object) -> Trained:
    """Train as docnmt-train does: `docnmt.train("data-bin", arch="transformer_tiny", save_dir="runs/a", max_update=9)`.

    Messages go to stderr.

    Args:
        data: a folder that docnmt-preprocess wrote.
        options: the command's options, with underscores; None leaves one out, several values are a list.

    Raises:
        UserError: for the command's errors.
    """
    given = Given(TRAIN.prog, [str(data), *words_of(options)])
    import_plugins(given.user_dir)
    config = resolve(given)
    if config["run"].dry_run:
        raise UsageError("--dry-run: docnmt.train() trains; the command docnmt-train shows what a training would be")
    from docnmt.core.training.run_folder import RunFolder
    from docnmt.core.training.start import train_command

    with skipped(given.skip_checksums):
        train_command(config)
    folder = RunFolder(Path(config["run"].save_dir))
    last, best = (path if path.exists() else None for path in (folder.last, folder.best))
    log = folder.log.read_text(encoding="utf-8") if folder.log.exists() else ""
    return Trained(folder.path, last, best, [json.loads(line) for line in log.splitlines()])


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Convert options by name to the words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        elif isinstance(value, (list, tuple)):
            words += [flag(name), *map(str, value)] if value else []
        elif value is not None:
            words.append(f"{flag(name)}={value}")
    return words


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Return the resolved sections of a command line; plug-ins must have been imported.

    Raises:
        UsageError: with every problem found.
    """
    return resolve(Given(TRAIN.prog, words))


def resolve(given: Given) -> dict[str, Any]:
    """Return the resolved sections of the given options.

    Raises:
        UsageError: with every problem found.
    """
    given.choose(*CHOSEN)
    for option in CHOSEN:
        if not isinstance(given.get(option), (str, NoneType)):  # a file may have any value
            raise UsageError(f"--config {given.config}: {option}: expected a name, got {given.get(option)!r}")
    general = [RUN, TRAINING, OPTIMIZATION]
    every = [section for registry in CHOSEN.values() for section in parts_of(registry)]
    if given.get("arch") is None:
        if given.help is None:
            given.parse([*general, *every])
            bases = ", ".join(name for name in ARCHITECTURES.names() if ARCHITECTURES.get(name).model == name)
            raise UsageError([*_no_data(given), f"--arch is required: {bases} (--list shows all)"])
        names = f"{SIZES}\n{_lines_of(MODELS)}"
        return TRAIN.resolve(given, general, epilog=names)
    arch = known(ARCHITECTURES, "--arch", str(given.get("arch")))
    architecture = ARCHITECTURES.get(arch)
    overrides = _overrides_of(arch)
    values = {**overrides, **{n: given.get(n) for n in CHOSEN if given.get(n) is not None}}
    model = Section("model", model_config(architecture.model, values), overrides)
    settings_there = {setting.name for setting in model.settings}
    if misspelt := [name for name in model.values if name not in settings_there]:
        raise UsageError(
            f"--arch {arch}: its registration sets {', '.join(misspelt)}, which '{architecture.model}' does not have; "
            f"it has {', '.join(sorted(settings_there))}"
        )
    given.parse([*general, model, *every])
    task = known(TASKS, "--task", str(given.get("task") or _task_of_data(given) or _default_task(architecture.model)))
    usual = getattr(TASKS.config(task), "default_criterion", "label_smoothed_cross_entropy")
    criterion = known(CRITERIA, "--criterion", str(given.get("criterion") or usual))
    sections = [
        RUN,
        Section("training", TrainingConfig, {"task": task, "criterion": criterion}),
        OPTIMIZATION,
        Section("task", TASKS.config(task)),
        model,
        Section("criterion", CRITERIA.config(criterion)),
    ]
    of_model = chosen_parts(model.config, values)
    chosen = {"arch": arch, "task": task, "criterion": criterion, **of_model}
    choices = [Choice(option, str(chosen[option]), parts) for option, parts in CHOSEN.items()]
    return TRAIN.resolve(given, sections, choices=choices)


def _overrides_of(arch: str) -> Mapping[str, Any]:
    """Return the settings by which an architecture differs from its model.

    Raises:
        UsageError: its registration, perhaps a plug-in's, is wrong.
    """
    architecture = ARCHITECTURES.get(arch)
    known(MODELS, f"--arch {arch}", architecture.model)
    try:
        return dict(architecture.overrides())
    except Exception as error:
        raise UsageError(f"--arch {arch}: expected a function that returns its settings by name: {error!r}") from error


def _no_data(given: Given) -> list[str]:
    """Return the error of the data folder, if any, in a list."""
    try:
        _task_of_data(given)
    except UserError as error:
        return [str(error)]
    return []


def _default_task(model: str) -> str:
    """Return the task that a model is usually trained for, which `--help` shows without data."""
    return getattr(MODELS.config(model), "default_task", "document_translation")


def _task_of_data(given: Given) -> str | None:
    """Return the task of the data folder; None without one, or if only help is requested.

    Raises:
        UserError: the folder is not preprocessed.
    """
    if given.get("data") is None or given.help is not None:
        return None
    data = Path(str(given.get("data")))
    path = data / "meta.json"
    if not path.is_file():
        if not data.is_dir():
            raise UserError(f"{data}: no such folder; make it with docnmt-preprocess --destdir {data}")
        raise UserError(
            f"{data}: is no data folder, it has no meta.json; give the --destdir of a docnmt-preprocess, or give --task"
        )
    from docnmt.runtime.system import read_json  # not at the top: --help needs none

    return read_json(path, _Task, "run docnmt-preprocess again")["task"]


class _Task(TypedDict):
    """The entry in `meta.json` of any task that is read here."""

    task: str


def _list_components() -> str:
    """Return every registered name of every kind, with one line on each."""
    return "\n\n".join(f"{registry.kind}:\n{_lines_of(registry)}" for registry in ALL)


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
    (RUN, TRAINING, OPTIMIZATION, *(Chosen(name, name, registry, "") for name, registry in CHOSEN.items())),
    _train,
    {"--list": "show every task, architecture, criterion, position ... by name"},
)
main = TRAIN

if __name__ == "__main__":
    sys.exit(main())
