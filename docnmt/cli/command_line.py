"""The input of a command: the words typed and the `--config` file, each read once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from docnmt.registry.options import Section, Setting, convert, flag, read_yaml, underscored
from docnmt.runtime.errors import UsageError
from docnmt.runtime.version import __version__


class Parser(argparse.ArgumentParser):
    """A parser whose errors are `UsageError`s; options that are not given leave no value."""

    def __init__(self, prog: str, *, usage: str | None = None, description: str | None = None) -> None:
        super().__init__(
            prog,
            usage,
            description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and ending the process."""
        raise UsageError(f"{message}; see {self.prog} --help")


class SeveralValues(argparse.Action):
    """An option of several values. If it is there twice the last ones count, and a note says so."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Store the values."""
        if hasattr(namespace, self.dest):
            print(f"note: {option} is there twice, and only its last values are used", file=sys.stderr)
        setattr(namespace, self.dest, values)


class Given:
    """The words of a command line, parsed step by step, and the options of its `--config` file.

    Attributes:
        help: the options that `--help` shows, None without it.
        user_dir: the folder of plug-ins.
        debug: True if tracebacks are requested.
        skip_checksums: True if files are not compared with their checksums.
        words: the command line.
        typed: the typed options by field name: strings, lists of them, and true or false.
        config: the path of the `--config` file. file: its content, by its own keys.
        rest: after `parse`, the words that mean nothing.
        parsed: True after `parse` was called.

    Raises:
        UsageError: the file cannot be read, or names plug-ins.
    """

    def __init__(self, prog: str, words: Sequence[str]) -> None:
        parser = Parser(prog)
        add_common(parser)
        self.prog, self.words = prog, list(words)
        common = vars(parser.parse_known_args(self.words)[0])
        self.help: Literal["basic", "all"] | None = common.get("help")
        self.config: str | None = common.get("config")
        self.file = read_yaml(Path(common["config"])) if "config" in common else {}
        if "user_dir" in map(underscored, self.file):  # it runs code, so it must be visible on the command line
            raise UsageError(f"--config {common['config']}: user-dir is for the command line only: --user-dir DIR")
        ours = {underscored(key): self.file.pop(key) for key in list(self.file) if underscored(key) in _IN_FILES}
        self.user_dir: str | None = common.get("user_dir")
        switches = {name: convert(value, bool) for name, value in ours.items()}
        if wrong := [name for name, value in switches.items() if value is None]:
            expected = f"expected true or false, got {ours[wrong[0]]!r}"
            raise UsageError(f"--config {self.config}: {flag(wrong[0])}: {expected}")
        self.debug = bool(common.get("debug", switches.get("debug")))
        self.skip_checksums = bool(common.get("skip_checksums", switches.get("skip_checksums")))
        self.typed: dict[str, Any] = {}
        self.rest: list[str] = []
        self.parsed = False

    def choose(self, *names: str) -> None:
        """Read these options, each of one value, on which the set of other options depends."""
        self.typed |= vars(self._parser(names).parse_known_args(self.words)[0])

    def parse(self, sections: Sequence[Section]) -> None:
        """Read the options of all sections that may apply; of two with the same name the first determines the type.

        All words are read at once, those of `choose` and the common ones, too: if such an option was taken out before,
        the words around it would become neighbours, and a word behind it another value of the option in front of it.
        Positional words may stand anywhere between options; behind `--` all words are positional.
        """
        settings = {setting.name: setting for section in reversed(sections) for setting in section.settings}
        parser = self._parser([name for name in self.typed if name not in settings])
        add_common(parser)
        add_options(parser, sections, described=False)
        end = self.words.index("--") if "--" in self.words else len(self.words)
        known, rest = parser.parse_known_args(self.words[:end])
        self.typed |= {name: value for name, value in vars(known).items() if name not in _COMMON}
        places = [word for word in rest if not is_option(word)] + self.words[end + 1 :]
        for setting in settings.values():
            if setting.option.positional and places:
                taken = len(places) if setting.several else 1
                self.typed[setting.name] = places if setting.several else places[0]
                places = places[taken:]
        self.rest = [*filter(is_option, rest), *places]
        self.parsed = True

    def _parser(self, names: Iterable[str]) -> Parser:
        """Return a parser of these options, each of one value."""
        parser = Parser(self.prog)
        for name in names:
            parser.add_argument(flag(name))
        return parser

    def get(self, name: str) -> object:
        """Return the given value of a field, unchecked: a string as typed, any value from the file, or None."""
        in_file = {underscored(key): value for key, value in self.file.items()}
        return self.typed.get(name, in_file.get(name))


#: The common options, by the names of their values, and those that are also allowed in a `--config` file.
_COMMON = ("help", "config", "user_dir", "skip_checksums", "debug")
_IN_FILES = ("debug", "skip_checksums")


def is_option(word: str) -> bool:
    """Return whether a word can only be an option: `-` is a name of a file, -1 a value."""
    return word.startswith("-") and word != "-" and not word[1:2].isdigit()


def add_common(parser: Parser) -> argparse._ArgumentGroup:
    """Add the options that every command has, as a group."""
    common = parser.add_argument_group("common")
    common.add_argument("-h", "--help", action="store_const", const="basic", help="show the options that matter most")
    common.add_argument("--help-all", dest="help", action="store_const", const="all", help="show all options")
    common.add_argument("--version", action="version", version=f"docnmt {__version__}", help="show the version")
    common.add_argument("--config", metavar="FILE.yaml", help="options by name; typed ones win")
    common.add_argument("--user-dir", metavar="DIR", help="import plug-ins from this folder first")
    common.add_argument(
        "--skip-checksums", action="store_true", help="do not compare data folders and checkpoints with their checksums"
    )
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return common


def add_options(parser: Parser, sections: Sequence[Section], *, basic: bool = False, described: bool = True) -> int:
    """Add the options of sections, a group each; with `basic` only those marked so. Returns the number left out.

    Args:
        described: with their help, which takes most of the time, and with the positional words.
    """
    seen: set[str] = set()
    left = 0
    for section in sections:
        own = section.settings
        marked = [s for s in own if s.required or s.option.positional or s.option.basic]
        shown = marked if basic and any(setting.option.basic for setting in own) else own
        left += len(own) - len(shown)
        group = parser.add_argument_group(section.name)
        for setting in sorted(shown, key=lambda setting: not setting.required):
            if setting.name not in seen and (described or not setting.option.positional):
                # an option that two sections share is added once and reaches both
                default = section.values.get(setting.name, setting.default)
                _add_option(group, setting, _described(setting, default, section.use) if described else None)
            seen.add(setting.name)
    return left


def _described(setting: Setting, default: object, use: str) -> str:
    about = setting.option
    shown = "" if setting.required or default in (None, "", (), False) else f" [{default}]"
    required = f" (required{use and ' '}{use})" if setting.required and not about.positional else ""
    rules = "".join(f"; {rule}" for rule in about.rules())
    return (about.help + rules + shown + required).replace("%", "%%")


def _add_option(group: argparse._ArgumentGroup, setting: Setting, help: str | None) -> None:
    about = setting.option
    if about.positional:
        nargs = "*" if setting.several else "?"
        group.add_argument(setting.name, metavar=about.metavar, help=help, nargs=nargs)
        return
    names = [setting.flag, *about.aliases]
    if setting.kind is bool:
        group.add_argument(*names, dest=setting.name, action=argparse.BooleanOptionalAction, help=help)
        return
    metavar = about.metavar or {int: "N", float: "F", str: "TEXT"}[setting.kind]
    if setting.choices is not None and about.metavar is None:
        metavar = "{" + ",".join(map(str, setting.choices)) + "}"
    if setting.several:
        group.add_argument(*names, dest=setting.name, metavar=metavar, nargs="+", action=SeveralValues, help=help)
    else:
        group.add_argument(*names, dest=setting.name, metavar=metavar, help=help)
