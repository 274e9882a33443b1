"""What all commands share: options from dataclasses, `--help`, and one exit for every way a command can end."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import os
import signal
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from docnmt.config import Section, Setting, aliases, build, read_yaml, settings, underscored, without_effect
from docnmt.errors import Terminated, UsageError, UserError
from docnmt.version import __version__


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def peek(argv: Sequence[str], *names: str) -> dict[str, str]:
    """The values of a few options, read before the full parser can be built (`--arch` decides which options exist)."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    for name in names:
        parser.add_argument("--" + name.replace("_", "-"))
    known = vars(parser.parse_known_args(list(argv))[0])
    file = read_yaml(Path(known["config"])) if known["config"] else {}
    file = underscored(file)
    return {n: str(known[n] if known[n] is not None else file[n]) for n in names if known[n] is not None or n in file}


def import_plugins(user_dir: str | None) -> None:
    """Import the plug-in folder of `--user-dir` and the installed plug-ins (entry points `docnmt.plugins`).

    Raises:
        UsageError: the folder is missing or fails to import.
    """
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="docnmt.plugins"):
        entry_point.load()
    if user_dir is None:
        return
    folder = Path(user_dir).resolve()
    if not folder.is_dir():
        raise UsageError(f"--user-dir {user_dir}: no such folder")
    files = [folder] if (folder / "__init__.py").exists() else sorted(folder.glob("*.py"))
    if not files:
        raise UsageError(f"--user-dir {user_dir}: holds no Python files")
    for file in files:
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        try:
            _import(file)
        except UserError:
            raise
        except Exception as error:
            raise UsageError(f"--user-dir {user_dir}: {file.name} fails to import: {error!r}") from error


def _import(path: Path) -> None:
    """Import a file or a package once, under its own name, or another one where a module has that already."""
    inside = [str(path)] if path.is_dir() else None
    file = path / "__init__.py" if path.is_dir() else path
    name = path.stem
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(file):
        name = f"{name}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert spec is not None
    assert spec.loader is not None  # it has Python's ending
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


class Command:
    """A command's parser: sections of options, plus the ones every command has.

    Args:
        prog: the command's name.
        description: what it does, in a sentence or two.
        examples: command lines shown at the end of `--help`.
    """

    def __init__(self, prog: str, description: str, examples: Sequence[str]) -> None:
        self.prog, self.description = prog, description
        self.epilog = "examples:\n" + "\n".join(f"  {example}" for example in examples)

    def parse(
        self,
        argv: Sequence[str],
        sections: Sequence[Section],
        *,
        explain: Callable[[str], str] | None = None,
    ) -> dict[str, Any]:
        """The resolved configuration of every section, by section name.

        `explain(name)` may say more of an unknown option (with a leading space or punctuation).

        Raises:
            UsageError: with all problems found.
        """
        parser = self._parser(sections)
        known, unknown = parser.parse_known_args(list(argv))
        typed = {k: v for k, v in vars(known).items() if k not in ("config", "debug", "user_dir")}
        names = {s.flag for section in sections for s in settings(section.config)}

        def reason(name: str) -> str:
            more = explain(name.lstrip("-").partition("=")[0].replace("-", "_")) if explain else ""
            close = difflib.get_close_matches("--" + name.lstrip("-").replace("_", "-"), names, n=1)
            return more or (f"; did you mean {close[0]}?" if close else "")

        options = [u for u in unknown if u.startswith("-") and not u[1:2].isdigit()]  # -1 is the value of one
        problems = [f"unknown option {option}{reason(option)}" for option in options]
        if unknown and not problems:
            problems = [f"unexpected argument '{unknown[0]}'; see {self.prog} --help"]
        file = read_yaml(Path(known.config)) if known.config else {}
        file = {key: value for key, value in file.items() if key.replace("-", "_") not in ("debug", "user_dir")}
        try:
            resolved = build(sections, file, typed, reason)
        except UsageError as error:
            raise UsageError(problems + error.problems) from None
        for config in resolved.values():  # a file may say more than is used: one written for several architectures
            problems += without_effect(config, typed)
        if problems:
            raise UsageError(problems)
        return resolved

    def given(self, argv: Sequence[str], sections: Sequence[Section]) -> dict[str, Any]:
        """What the command line and the `--config` file say, by field name, before it is known which sections apply.

        Nothing is checked and nothing is converted; `--help` and `--version` wait for `parse`.
        """
        rest = [word for word in argv if word not in ("-h", "--help", "--version")]
        known = vars(self._parser(sections).parse_known_args(rest)[0])
        file = read_yaml(Path(known["config"])) if known["config"] else {}
        names = aliases(sections)
        return {**{names.get(key, key): value for key, value in underscored(file).items()}, **known}

    def _parser(self, sections: Sequence[Section]) -> _Parser:
        parser = _Parser(
            prog=self.prog,
            description=self.description,
            epilog=self.epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        common = parser.add_argument_group("common")
        common.add_argument("--version", action="version", version=f"docnmt {__version__}")
        common.add_argument("--config", metavar="FILE.yaml", default=None, help="options by name; typed ones win")
        common.add_argument("--user-dir", metavar="DIR", default=None, help="import plug-ins from this folder first")
        common.add_argument("--debug", action="store_true", default=False, help="show the traceback of an error")
        seen: set[str] = set()
        for section in sections:
            group = parser.add_argument_group(section.name)
            for setting in settings(section.config):
                if setting.name not in seen:  # an option two sections share is given once and reaches both
                    _add_argument(group, setting, section.values)
                seen.add(setting.name)
        return parser


def _add_argument(group: argparse._ArgumentGroup, setting: Setting, values: Mapping[str, Any]) -> None:
    metadata = setting.field.metadata
    default = values.get(setting.name, setting.field.default)
    shown = "" if setting.required or default in (None, "", ()) else f" [{default}]"
    help = (metadata.get("help", "") + shown).replace("%", "%%")
    if metadata.get("positional"):
        nargs = "*" if setting.several else "?"
        group.add_argument(setting.name, metavar=metadata.get("metavar"), help=help, nargs=nargs)
        return
    names = [setting.flag, *setting.aliases]
    if setting.kind is bool:
        action: Any = argparse.BooleanOptionalAction
        group.add_argument(*names, dest=setting.name, action=action, help=help)
        return
    metavar = metadata.get("metavar") or {int: "N", float: "F", str: "TEXT"}[setting.kind]
    if setting.choices is not None and metadata.get("metavar") is None:
        metavar = "{" + ",".join(map(str, setting.choices)) + "}"
    several = "+" if setting.several else None
    group.add_argument(*names, dest=setting.name, metavar=metavar, nargs=several, help=help)


def _debug_by_file(arguments: Sequence[str]) -> bool:
    """Whether the `--config` file asks for tracebacks."""
    try:
        return peek(arguments, "debug").get("debug") == "True"
    except UserError:
        return False


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    def handler(number: int, frame: object) -> None:
        raise Terminated

    old = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)


def run(prog: str, body: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Import the plug-ins, run a command's body and turn every way it can end into the exit status of the contract.

    0 success, 2 usage error, 1 any other error, 143 after SIGTERM, 130 after Ctrl-C. A user's error is one line on
    stderr; `--debug` adds the traceback.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _sigterm_raises():
            import_plugins(peek(arguments, "user_dir").get("user_dir"))
            status = body(arguments) or 0
            if sys.stdout is not None:
                sys.stdout.flush()  # or a full disk shows after the last line of Python that could say so
            return status
    except Terminated:
        print(f"{prog}: stopped by SIGTERM", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again while it exits
        return 1
    except Exception as error:
        if "--debug" in arguments or _debug_by_file(arguments):
            traceback.print_exc()
        text = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and error.strerror:
            text = f"{error.filename or 'input or output'}: {error.strerror}"
        elif not isinstance(error, UserError):
            text = f"{type(error).__name__}: {text} (unexpected; --debug shows where)"
        print(f"{prog}: error: {text}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
