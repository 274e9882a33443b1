"""Every option of every command is written down in options.txt, so that none comes, goes or changes by accident."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docnmt.cli import commands
from docnmt.cli.command import Chosen, Command
from docnmt.cli.commands import PREPROCESSORS
from docnmt.options import NoOptions, Setting, flag, settings
from docnmt.registry import ALL, ARCHITECTURES, Registry

FILE = Path(__file__).with_name("options.txt")


def chosen(kind: str, registry: Registry) -> dict[str, type]:
    """The options of every part of the package, not of plug-ins."""
    configs = {f"{kind} {name}": registry.config(name) for name in registry.names()}
    ours = {name: config for name, config in configs.items() if config.__module__.startswith("docnmt.")}
    return {name: config for name, config in ours.items() if config is not NoOptions}


def sections(command: Command) -> dict[str, type]:
    """The configuration classes of a command, by their names."""
    classes: dict[str, type] = {}
    for part in command.sections:
        classes |= chosen(part.option, part.registry) if isinstance(part, Chosen) else {part.name: part.config}
    return classes


COMMANDS = {name: sections(command) for name, command in commands.COMMANDS.items()}


def described(setting: Setting) -> str:
    """An option's type, default and other spellings."""
    kind = setting.kind.__name__ if setting.choices is None else "|".join(map(str, setting.choices))
    if callable(setting.option.choices):
        kind = "name"  # of those at the end of the list
    shape = kind + (" ..." if setting.several else "") + (" or none" if setting.optional else "")
    default = "required" if setting.required else repr(setting.default)
    return "  ".join([setting.flag, *setting.option.aliases, shape, default])


def lines() -> Iterator[str]:
    for command, parts in COMMANDS.items():
        for section, config in parts.items():
            yield f"\ndocnmt-{command}, {section}"
            yield from (f"  {described(setting)}" for setting in settings(config))
    for registry in (*ALL, PREPROCESSORS):
        targets = {name: entry.target for name, entry in registry._entries.items()}
        built_in = [name for name, target in targets.items() if isinstance(getattr(target, "make", target), str)]
        if built_in:
            yield f"\n{registry.kind}\n  {' '.join(built_in)}"
    yield "\narchitecture"
    for name in ARCHITECTURES.names():
        architecture = ARCHITECTURES.get(name)
        if f"arch {architecture.model}" in COMMANDS["train"]:
            values = " ".join(f"{flag(key)} {value}" for key, value in architecture.overrides().items())
            yield f"  {name}: {architecture.model} {values}".rstrip()


def blocks(text: str) -> dict[str, str]:
    by_title: dict[str, str] = {}
    for title, _, block in (part.partition("\n") for part in text.strip().split("\n\n")):
        by_title[title] = by_title.get(title, "") + f"{block}\n"  # there are two registries of tasks
    return by_title


def test_options_are_those_of_the_file() -> None:
    """A registry and the architectures may have more than those of the file, a command may not."""
    now, written = blocks("\n".join(lines())), blocks(FILE.read_text(encoding="utf-8"))
    for title, block in written.items():
        if title == "architecture":
            assert set(block.splitlines()) <= set(now[title].splitlines())
        elif not title.startswith("docnmt-"):
            assert set(block.split()) <= set(now[title].split())
    changed = {title for title in now | written if title.startswith("docnmt-") and now.get(title) != written.get(title)}
    assert not changed, (
        "an option appeared, vanished or changed. Is that wanted? Then raise CONFIG_VERSION if a checkpoint stores it, "
        "and update the list: python tests/compat/test_options.py"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_the_options_of_the_file(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And no others, so that the list above forgets none; --help shows some of them."""
    shown: dict[str, set[str]] = {}
    for which in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            importlib.import_module(f"docnmt.cli.{command}").main([which])
        shown[which] = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    common = {"--help", "--help-all", "--version", "--config", "--user-dir", "--debug"}
    common |= {"--list", "--skip-checksums"} if command in ("train", "generate") else set()
    every = {setting.flag for config in COMMANDS[command].values() for setting in settings(config)}
    assert shown["--help"] <= shown["--help-all"] <= every | common
    assert len(shown["--help"] - common) <= 16


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()).strip() + "\n", encoding="utf-8")
