"""The command docnmt-completion: print shell completions for all commands."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import docnmt.cli
from docnmt.cli.command import Command, Given, Parser, add_common, add_options
from docnmt.options import Section, option
from docnmt.runtime.system import UserError

COMMAND = Command(
    "docnmt-completion",
    """Print what makes a shell complete the options of every docnmt command, their values and files. It is generated
from the options themselves; print it again after an update.""",
    """
docnmt-completion bash > ~/.docnmt-completion.bash   (and in ~/.bashrc: source ~/.docnmt-completion.bash)
docnmt-completion zsh > ~/.docnmt-completion.zsh   (and in ~/.zshrc, behind compinit: source ~/.docnmt-completion.zsh)
docnmt-completion fish > ~/.config/fish/conf.d/docnmt.fish
""",
)

#: Further command lines of commands whose options depend on others.
VARIANTS: dict[str, Sequence[list[str]]] = {
    "docnmt-score": [
        ["--contrastive", "FILE"],
        ["--generative", "FILE", "--sys", "FILE"],
        ["--generative", "FILE", "--path", "CKPT"],
    ],
}
#: Placeholders of option values that are files or folders.
FILES, FOLDERS = ("FILE", "CKPT", "PREFIX", "IN", "OUT", "PATH"), ("DIR", "DATA")


@dataclass(frozen=True)
class CompletionConfig:
    """The option for the shell."""

    shell: Literal["bash", "zsh", "fish"] = option(
        dataclasses.MISSING, "bash, zsh or fish", positional=True, metavar="SHELL"
    )


class _Found(Exception):
    """Carries the sections that a command would read."""

    def __init__(self, sections: Sequence[Section]) -> None:
        super().__init__()
        self.sections = sections


class _Asking(Given):
    """The words of a command that stops at its options."""

    def parse(self, sections: Sequence[Section]) -> NoReturn:
        """Raise an exception with the sections."""
        raise _Found(sections)


def commands() -> Iterator[tuple[Command, Callable[[Given], None]]]:
    """Yield every command, with its body."""
    for found in pkgutil.iter_modules(docnmt.cli.__path__):
        module = importlib.import_module(f"docnmt.cli.{found.name}")
        if isinstance(command := getattr(module, "COMMAND", None), Command):
            yield command, module.main.__wrapped__


def parser_of(command: Command, body: Callable[[Given], None]) -> argparse.ArgumentParser:
    """Return a parser of all options that a command may have, whatever is chosen by name."""
    sections: list[Section] = []
    for words in [[], *VARIANTS.get(command.prog, [])]:
        try:
            body(_Asking(command.prog, words))
        except _Found as found:
            sections += found.sections
    parser = Parser(command.prog)
    add_options(parser, sections)
    common = add_common(parser)
    for name, help in command.flags.items():
        common.add_argument(name, help=help, action="store_true")
    _tell_values(parser, sections)
    return parser


def _tell_values(parser: argparse.ArgumentParser, sections: Sequence[Section]) -> None:
    """Set the values that shtab offers: names, files, folders."""
    import shtab

    choices = {setting.name: setting.choices for section in sections for setting in section.settings}
    for action in parser._actions:
        metavar = str(action.metavar or "").partition("[")[0].partition(".")[0]
        if choices.get(action.dest) and not isinstance(action, argparse.BooleanOptionalAction):
            action.choices = [str(choice) for choice in choices[action.dest] or ()]
        elif metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif metavar in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]


@COMMAND.main
def main(given: Given) -> None:
    """Print the script."""
    config = COMMAND.resolve(given, [Section("completion", CompletionConfig)])["completion"]
    try:
        import shtab
    except ImportError as error:
        raise UserError("docnmt-completion needs shtab: pip install shtab") from error

    for command, body in commands():
        print(shtab.complete(parser_of(command, body), config.shell))


if __name__ == "__main__":
    sys.exit(main())
