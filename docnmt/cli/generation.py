"""The options of all commands that translate: a generator is chosen by name and has its own options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from docnmt.apps.options import MemoryConfig, ModelsConfig, check_memory_window
from docnmt.cli.command import Choice, Command, Given
from docnmt.core.search.config import GenerationConfig
from docnmt.options import Section
from docnmt.registry import GENERATORS
from docnmt.runtime.system import UsageError


def parse(
    command: Command,
    given: Given,
    own: type,
    *more: Section,
    memory: bool = True,
    elsewhere: Callable[[str], str] = lambda name: "",
) -> dict[str, Any]:
    """Return the sections `command` (options of class `own`), `models`, `memory`, `generation`, `search`, and `more`.

    Args:
        memory: False for commands without a translation memory, which lack its section.
        elsewhere: see `Command.resolve`.

    Raises:
        UsageError: with every problem found.
    """
    given.choose("generator")
    chosen = str(given.get("generator") or GenerationConfig.generator)
    if chosen not in GENERATORS:
        raise UsageError(f"--generator: no generator named '{chosen}'; there are {', '.join(GENERATORS.names())}")
    memories = [Section("memory", MemoryConfig)] if memory else []
    sections = [
        Section("command", own),
        Section("models", ModelsConfig),
        *memories,
        Section("generation", GenerationConfig),
        Section("search", GENERATORS.config(chosen)),
        *more,
    ]
    choices = [Choice("generator", chosen, GENERATORS)]
    config = command.resolve(given, sections, choices=choices, elsewhere=elsewhere)
    if memory:
        check_memory_window(config["memory"].memory, config["models"].context_window)
    return config


def check_one_translation(config: Mapping[str, Any]) -> None:
    """Refuse `--nbest` in commands that give each text one translation.

    Raises:
        UsageError: it is above 1.
    """
    if getattr(config["search"], "nbest", 1) > 1:
        raise UsageError("--nbest has no effect: a text has one translation here; docnmt-generate prints several")
