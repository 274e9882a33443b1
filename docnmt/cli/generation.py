"""The options that the commands which write text share: a generator is chosen by name and brings its own."""

from __future__ import annotations

from typing import Any

from docnmt.cli.command import Command
from docnmt.commands.config import ModelsConfig
from docnmt.config import Section, settings
from docnmt.errors import UsageError
from docnmt.registry import GENERATORS
from docnmt.search.config import GenerationConfig


def parse(command: Command, argv: list[str], own: type, *more: Section) -> dict[str, Any]:
    """The resolved sections `command` (its options, of class `own`), `models`, `generation`, `search`, and `more`.

    Raises:
        UsageError: with every problem found.
    """
    general = [Section("command", own), Section("models", ModelsConfig), Section("generation", GenerationConfig)]
    general += more
    searches = {name: Section(name, GENERATORS.config(name)) for name in GENERATORS.names()}
    chosen = str(command.given(argv, [*general, *searches.values()]).get("generator", GenerationConfig.generator))
    if chosen not in GENERATORS:
        raise UsageError(f"--generator: no generator named '{chosen}'; there are {', '.join(GENERATORS.names())}")

    def explain(option: str) -> str:
        owners = [n for n, s in searches.items() if option in {setting.name for setting in settings(s.config)}]
        return f": has no effect with --generator {chosen}; it belongs to {', '.join(owners)}" if owners else ""

    return command.parse(argv, [*general, Section("search", GENERATORS.config(chosen))], explain=explain)
