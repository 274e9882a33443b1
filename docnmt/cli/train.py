"""docnmt-train: train a model on a folder of preprocessed data."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from docnmt import builtin  # noqa: F401  (registers every component)
from docnmt.cli import command as cli
from docnmt.cli.command import Command
from docnmt.config import Section, settings
from docnmt.errors import UsageError, UserError
from docnmt.optim.config import OptimizationConfig
from docnmt.registry import ALL, ARCHITECTURES, CRITERIA, MODELS, TASKS, Registry
from docnmt.training.config import NoOptions, RunConfig, TrainingConfig

DESCRIPTION = """Train a model on a folder that docnmt-preprocess wrote. The same command again continues where the last
checkpoint in --save-dir is, bit by bit as if it had never stopped; only the options of the group "run" may change.
SIGTERM and Ctrl-C save first. --list names every task, architecture, criterion, position ...; --arch NAME --help shows
the options of that architecture."""

EXAMPLES = (
    "docnmt-train data-bin/bible --arch hier_cond_transformer_small --save-dir runs/bible --max-update 20000",
    "docnmt-train data-bin/bible --arch transformer --save-dir runs/base --max-tokens 8192 --update-freq 4 --bf16",
    "docnmt-train data-bin/bible --arch transformer --save-dir runs/bleu --best-checkpoint-metric bleu --patience 10",
    "docnmt-train data-bin/bible --arch cond_transformer --save-dir runs/doc --finetune-from-model runs/base",
    "docnmt-train data-bin/bible --arch doc_transformer --save-dir runs/mixed --resolutions 1 2 4 0",
    "docnmt-train data-bin/bible --arch transformer --save-dir runs/base --dry-run",
    "docnmt-train --list",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    return cli.run("docnmt-train", body, argv)


def body(argv: list[str]) -> int:
    """Parse, then train, or print what would be."""
    if "--list" in argv:
        print(list_components())
        return 0
    config = parse(argv)
    from docnmt.training.main import dry_run, train_command

    if config["run"].dry_run:
        print(dry_run(config))
    else:
        train_command(config)
    return 0


def parse(argv: list[str]) -> dict[str, Any]:
    """The resolved sections of the command line.

    Raises:
        UsageError: with every problem found.
    """
    command = Command("docnmt-train", DESCRIPTION, EXAMPLES)
    run, optimization = Section("run", RunConfig), Section("optimization", OptimizationConfig)
    general = [run, Section("training", TrainingConfig), optimization]
    given = command.given(argv, [*general, *every_section()])
    asks_help = bool({"-h", "--help", "--version"} & set(argv))
    if given.get("arch") is None:
        if not asks_help:
            raise UsageError([*no_data(given.get("data")), f"--arch is required: {bases()} (--list shows all)"])
        command.epilog += f"\n\narchitectures (--arch NAME --help shows the options of one):\n{lines_of(ARCHITECTURES)}"
        return command.parse(argv, general)
    arch = known(ARCHITECTURES, "--arch", str(given["arch"]))
    architecture = ARCHITECTURES.get(arch)
    task = str(given.get("task") or task_of_data(given.get("data"), asks_help) or default_task(architecture.model))
    known(TASKS, "--task", task)
    usual = getattr(TASKS.config(task), "default_criterion", "label_smoothed_cross_entropy")
    criterion = known(CRITERIA, "--criterion", str(given.get("criterion") or usual))
    sections = [
        run,
        Section("training", TrainingConfig, {"task": task, "criterion": criterion}),
        optimization,
        Section("task", TASKS.config(task) or NoOptions),
        Section("model", MODELS.config(architecture.model) or NoOptions, architecture.overrides()),
        Section("criterion", CRITERIA.config(criterion) or NoOptions),
    ]
    return command.parse(argv, sections, explain=explain(arch, task, criterion))


def bases() -> str:
    """The architectures that have the name of their model: those with a size in their name are many."""
    return ", ".join(name for name in ARCHITECTURES.names() if ARCHITECTURES.get(name).model == name)


def no_data(data: str | None) -> list[str]:
    """What is wrong with the data folder besides, as a list of at most one problem."""
    try:
        task_of_data(data, asks_help=False)
    except UserError as error:
        return [str(error)]
    return []


def known(registry: Registry, flag: str, name: str) -> str:
    """`name` if it is registered.

    Raises:
        UsageError: naming the flag, the nearest name and all there are.
    """
    try:
        registry.help(name)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    return name


def default_task(model: str) -> str:
    """The task that a model is usually trained for: what `--help` shows without data."""
    return getattr(MODELS.config(model), "default_task", "document_translation")


def task_of_data(data: str | None, asks_help: bool) -> str | None:
    """The task that a data folder was made for; None without one.

    Raises:
        UserError: it is not a preprocessed folder.
    """
    if data is None or asks_help:
        return None
    path = Path(data) / "meta.json"
    if not path.is_file():
        if not Path(data).is_dir():
            raise UserError(f"{data}: no such folder; make it with docnmt-preprocess --destdir {data}")
        raise UserError(
            f"{data}: is no data folder, it has no meta.json; give the --destdir of a docnmt-preprocess, or give --task"
        )
    try:
        task = json.loads(path.read_text(encoding="utf-8"))["task"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UserError(f"{path}: is damaged ({error!r}); run docnmt-preprocess again") from error
    return str(task)


def every_section() -> list[Section]:
    """The options of every task, model and criterion: to tell which words of the command line are values."""
    registries = {"task": TASKS, "model": MODELS, "criterion": CRITERIA}
    return [
        Section(f"{kind} {name}", registry.config(name))
        for kind, registry in registries.items()
        for name in registry.names()
        if registry.config(name) is not None
    ]


def explain(arch: str, task: str, criterion: str) -> Callable[[str], str]:
    """What to say of an option that these parts do not have: to which others it belongs."""
    chosen = {"model": f"--arch {arch}", "task": f"--task {task}", "criterion": f"--criterion {criterion}"}

    def reason(option: str) -> str:
        names = {option, option.removeprefix("no_")}
        for kind, part in chosen.items():
            owners = [
                section.name.partition(" ")[2]
                for section in every_section()
                if section.name.startswith(kind) and names & {s.name for s in settings(section.config)}
            ]
            if owners:
                return f": has no effect with {part}; it belongs to {', '.join(owners)}"
        return ""

    return reason


def list_components() -> str:
    """Every registered name of every kind, with one line on each."""
    return "\n\n".join(f"{registry.kind}:\n{lines_of(registry)}" for registry in ALL)


def lines_of(registry: Registry) -> str:
    """The names of one kind, one a line, each with its line of help."""
    width = max(map(len, registry.names()), default=0)
    return "\n".join(f"  {name:<{width}}  {registry.help(name)}".rstrip() for name in registry.names())


if __name__ == "__main__":
    sys.exit(main())
