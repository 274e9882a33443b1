"""A command: words → options → body → exit status; and its --help.

words ─ Given (the words and the --config file, each read once) ─ Command.config ─ {section: dataclass} ─ body
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn

from docnmt.options import Section, Setting, build, flag, option, read_yaml, settings, underscored, words_of
from docnmt.registry import GENERATORS, Registry, import_plugins, place_in_plugin
from docnmt.runtime.launch import job_process, mute, unconnected
from docnmt.runtime.progress import lasting
from docnmt.runtime.system import Terminated, UsageError, UserError, __version__, printable, shortened, skipped

# The input of a command: the words typed and the `--config` file, each read once.

#: The commands that read much: they may leave out the comparison with checksums.
_READING = ("docnmt-train", "docnmt-generate")
#: The common options, by the names of their values.
_COMMON = ("help", "config", "user_dir", "skip_checksums", "debug")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are `UsageError`s; options that are not given leave no value."""

    def __init__(self, prog: str) -> None:
        form, left_out = argparse.RawDescriptionHelpFormatter, argparse.SUPPRESS
        super().__init__(prog, formatter_class=form, argument_default=left_out, add_help=False, allow_abbrev=False)
        self._negative_number_matcher = re.compile(r"-[.\d]")  # -1e-3 is a value, too, as in `_is_option`

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")

    def _print_message(self, message: str, file: object = None) -> None:
        print(message, end="", flush=True)  # `--version`; what cannot be written is an error


class _SeveralValues(argparse.Action):
    """An option of several values. If it is there twice the last ones count, and a note says so."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        if hasattr(namespace, self.dest):
            print(f"note: {option} is there twice, and only its last values are used", file=sys.stderr)
        setattr(namespace, self.dest, values)


@dataclass(frozen=True)
class _Switches:
    """The common options that may also stand in a `--config` file."""

    skip_checksums: bool = option(False, "do not compare data folders and checkpoints with their checksums")
    debug: bool = option(False, "show the traceback of an error")


class Given:
    """The words of a command line, parsed step by step, and the options of its `--config` file; a `UsageError` says
    that the file cannot be read, or names plug-ins."""

    def __init__(self, prog: str, words: Sequence[str]) -> None:
        parser = Parser(prog)
        _add_common(parser)
        self.prog, self.words = prog, list(words)
        common = vars(parser.parse_known_args(self.words)[0])
        self.help: Literal["basic", "all"] | None = common.get("help")  # the options that `--help` shows
        for name in ("config", "user_dir"):
            if len(files := common.get(name, ())) > 1:
                raise UsageError(f"{flag(name)}: given {len(files)} times, {' and '.join(files)}; give one")
        self.config: str | None = common.get("config", [None])[0]
        self.user_dir: str | None = common.get("user_dir", [None])[0]
        self.file = read_yaml(Path(self.config)) if self.config is not None else {}  # by its own keys
        if "user_dir" in map(underscored, self.file):  # it runs code, so it must be visible on the command line
            raise UsageError(f"--config {self.config}: user-dir is for the command line only: --user-dir DIR")
        for setting in settings(_Switches) if prog in _READING else settings(_Switches)[1:]:
            for key in [key for key in self.file if underscored(key) == setting.name]:
                try:
                    common.setdefault(setting.name, setting.convert(self.file.pop(key)))
                except ValueError as error:
                    raise UsageError(f"--config {self.config}: {error}") from None
        self.debug: bool = common.get("debug", False)
        self.skip_checksums: bool = common.get("skip_checksums", False)
        self.typed: dict[str, Any] = {}  # by field name: strings, lists of them, and true or false
        self.rest: list[str] = []  # after `parse`, the words that mean nothing
        self.parsed = False

    def read_choices(self, *names: str) -> None:
        """Read these options, each of one value, on which the set of other options depends."""
        self.typed |= vars(self._parser(names).parse_known_args(self.words)[0])

    def parse(self, sections: Sequence[Section]) -> None:
        """Read the options of all sections that may apply; of two with the same name the first determines the type.

        All words are read at once, those of `read_choices` and the common ones, too: without such an option, a word
        behind it would become another value of the option in front of it. Positional words may stand anywhere between
        options; behind `--` all words are positional."""
        by_name = {setting.name: setting for section in reversed(sections) for setting in section.settings}
        parser = self._parser([name for name in self.typed if name not in by_name])
        _add_common(parser)
        _add_options(parser, sections, described=False)
        end = self.words.index("--") if "--" in self.words else len(self.words)
        known, rest = parser.parse_known_args(self.words[:end])
        self.typed |= {name: value for name, value in vars(known).items() if name not in _COMMON}
        positional = [word for word in rest if not _is_option(word)] + self.words[end + 1 :]
        for setting in by_name.values():
            if setting.option.positional and positional:
                taken = len(positional) if setting.several else 1
                self.typed[setting.name] = positional if setting.several else positional[0]
                positional = positional[taken:]
        self.rest = [*filter(_is_option, rest), *positional]
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


def _is_option(word: str) -> bool:
    """Return whether a word can only be an option: `-` is a name of a file, -1 a value."""
    return word.startswith("-") and word != "-" and not word[1:2].isdigit()


def _add_common(parser: Parser) -> argparse._ArgumentGroup:
    """Add the options that every command has, as a group."""
    common = parser.add_argument_group("common")
    common.add_argument("-h", "--help", action="store_const", const="basic", help="show the options that matter most")
    common.add_argument("--help-all", dest="help", action="store_const", const="all", help="show all options")
    common.add_argument("--version", action="version", version=f"docnmt {__version__}", help="show the version")
    common.add_argument("--config", action="append", metavar="FILE.yaml", help="options by name; typed ones win")
    common.add_argument("--user-dir", action="append", metavar="DIR", help="import plug-ins from this folder first")
    for setting in settings(_Switches) if parser.prog in _READING else settings(_Switches)[1:]:
        common.add_argument(setting.flag, action="store_true", help=setting.option.help)
    return common


def _add_options(parser: Parser, sections: Sequence[Section], *, basic: bool = False, described: bool = True) -> int:
    """Add the options of sections, with `basic` only those marked so; return how many are left out."""
    seen: set[str] = set()
    left = 0
    for section in sections:
        every = section.settings
        marked = [s for s in every if s.required or s.option.positional or s.option.basic]
        shown = marked if basic and any(setting.option.basic for setting in every) else every
        left += len(every) - len(shown)
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
        group.add_argument(*names, dest=setting.name, metavar=metavar, nargs="+", action=_SeveralValues, help=help)
    else:
        group.add_argument(*names, dest=setting.name, metavar=metavar, help=help)


# A command: its options from dataclasses, `--help`, and the exit status.

#: The commands that divide their work among the processes of a job; for any other, the first process does it all.
_SHARING = ("docnmt-train", "docnmt-generate", "docnmt-embed", "docnmt-score")


@dataclass(frozen=True)
class Chosen:
    """A section whose class the option `option` chooses by name in a registry; its own name may contain {}."""

    name: str
    option: str
    registry: Registry[Any]
    default: str = ""

    def chosen(self, given: Given) -> str:
        """Return the registered name that was given, or the default."""
        given.read_choices(self.option)
        return known(self.registry, flag(self.option), str(given.get(self.option) or self.default))

    def lacks(self, chosen: str, name: str) -> str:
        """Return when an option that other parts have has no effect, and which these are; "" if no part has it."""
        names = {name, name.removeprefix("no_")}
        parts = parts_of(self.registry)
        owners = ", ".join(part.name for part in parts if names & {setting.name for setting in part.settings})
        return f"with {flag(self.option)} {chosen}; it belongs to {owners}" if owners else ""


#: The options of a search, in commands that translate.
SEARCH = Chosen("search", "generator", GENERATORS, "beam_search")


def parts_of(registry: Registry[Any]) -> list[Section]:
    """Return the options of every part of a registry."""
    return [Section(name, registry.config(name)) for name in registry.names()]


def sections_of(part: Section | Chosen) -> list[Section]:
    """Return a section, or all those of which it will be one."""
    return parts_of(part.registry) if isinstance(part, Chosen) else [part]


def known(registry: Registry[Any], flag: str, name: str) -> str:
    """Return `name` if it is registered."""
    try:
        registry.help(name)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    return name


@dataclass(frozen=True)
class Command:
    """A command as data; called with the words of a command line, it returns the exit status."""

    name: str  # without `docnmt-`
    summary: str  # one line, for `docnmt --help`
    description: str  # a sentence or two
    examples: str  # one per line, at the beginning of `--help`
    sections: tuple[Section | Chosen, ...]  # all options that it may have
    body: Callable[[Given], object]
    flags: Mapping[str, str] = field(default_factory=dict)  # words that its body handles itself, with their help
    more: Callable[[], str] = str  # returns the end of its help

    @property
    def prog(self) -> str:
        """Its name as a program."""
        return f"docnmt-{self.name}"

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run it on words, by default the process's (one of a job ends then), and return the exit status."""
        debug = False

        def work(words: list[str]) -> None:
            nonlocal debug
            given = Given(self.prog, words)
            debug = given.debug
            with _as_given(given):
                self.body(given)

        return run(self.prog, work, argv, debug=lambda: debug)

    def config(
        self, given: Given, parts: Sequence[Section | Chosen] | None = None,
        elsewhere: Callable[[str], str] = lambda name: "",
    ) -> dict[str, Any]:  # fmt: skip
        """Return the configuration of all its sections, or of these, with the parts chosen by name; see `resolve`."""
        parts = self.sections if parts is None else parts
        choices = {part: part.chosen(given) for part in parts if isinstance(part, Chosen)}
        sections = [
            Section(part.name.format(choices[part]), part.registry.config(choices[part]))
            if isinstance(part, Chosen)
            else part
            for part in parts
        ]
        return self.resolve(given, sections, choices=choices, elsewhere=elsewhere)

    def resolve(
        self, given: Given, sections: Sequence[Section], *, choices: Mapping[Chosen, str] = MappingProxyType({}),
        elsewhere: Callable[[str], str] = lambda name: "", epilog: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """Return the configuration of every section, by section name; if `--help` was given, print it and exit instead.
        `choices` are the parts that were chosen by name, so that options of others can be explained; `elsewhere`
        returns when an option of this command has no effect ("with --contrastive"), or ""."""
        if given.help is not None:
            print(self.help(sections, epilog or self.more(), basic=given.help == "basic"), flush=True)
            raise SystemExit(0)
        if not given.parsed:
            given.parse([*sections, *(part for choice in choices for part in parts_of(choice.registry))])
        flags = {setting.name: setting.flag for section in sections for setting in section.settings}

        def unknown(word: str, noun: str) -> str:
            name = underscored(word.partition("=")[0].strip("'"))
            reasons = (elsewhere(name), *(part.lacks(chosen, name) for part, chosen in choices.items()))
            if when := next(filter(None, reasons), ""):
                return f"{word}: has no effect {when}"
            close = difflib.get_close_matches(name, flags, n=1) if len(name) > 2 else []
            return f"unknown {noun} {word}" + (f"; did you mean {flags[close[0]]}?" if close else "")

        words = [word for word in given.rest if _is_option(word)]
        words += [flag(name) for name in given.typed if name not in flags]
        problems = [unknown(word, "option") for word in words]
        if given.rest and not problems:
            problems = [f"unexpected argument '{given.rest[0]}'; see {self.prog} --help"]
        typed, where = {name: given.typed[name] for name in given.typed if name in flags}, f"--config {given.config}"
        try:
            resolved = build(sections, given.file, typed, lambda key: unknown(key, "key"), where)
        except UsageError as error:
            raise UsageError(problems + error.problems) from None
        if problems:
            raise UsageError(problems)
        return resolved

    def help(self, sections: Sequence[Section], epilog: str = "", *, basic: bool) -> str:
        """Return the text of `--help`, or with `basic=False` of `--help-all`."""
        parser, left = self.parser(sections, basic=basic)
        positional = [f" [{s.option.metavar}]" for section in sections for s in section.settings if s.option.positional]
        parser.usage = f"%(prog)s{''.join(positional)} [OPTION ...]"
        parser.description = f"{self.description}\n\nexamples:\n{textwrap.indent(self.examples.strip(), '  ')}"
        more = [f"{left} more options: --help-all"] if left else []
        parser.epilog = "\n\n".join(filter(None, [*more, epilog]))
        return parser.format_help().rstrip("\n")

    def parser(self, sections: Sequence[Section], *, basic: bool = False) -> tuple[Parser, int]:
        """Return a parser of these options with their help, and the number of those left out as not `basic`."""
        parser = Parser(self.prog)
        left = _add_options(parser, sections, basic=basic)
        common = _add_common(parser)
        for word, help in self.flags.items():
            common.add_argument(word, help=help, action="store_true")
        return parser, left


@contextlib.contextmanager
def _as_given(given: Given) -> Iterator[Given]:
    """Import plug-ins, and compare checksums inside the context, as the common options say."""
    import_plugins(given.user_dir)
    with skipped(given.skip_checksums):
        yield given


@contextlib.contextmanager
def called(command: Command, words: Sequence[str], options: Mapping[str, Any]) -> Iterator[Given]:
    """Open the context of a command's work for a Python program, with options by name. Behind it the program's output
    is as before, also in ranks that were muted."""
    given = Given(command.prog, [*words, *words_of(options)])
    with contextlib.redirect_stdout(sys.stdout), contextlib.redirect_stderr(sys.stderr), _as_given(given):
        yield given


@contextlib.contextmanager
def _signals_raise() -> Iterator[list[str]]:
    """Make SIGTERM, and SIGHUP unless ignored (nohup), raise inside the context; the list names the one that came."""
    came: list[str] = []

    def _raise(number: int, frame: object) -> None:
        came.append(signal.Signals(number).name)
        raise Terminated

    numbers = [signal.SIGTERM] + [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)
    old = [signal.signal(number, _raise) for number in numbers]
    try:
        yield came
    finally:
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)


def _one_line(error: Exception) -> str:
    """Return a message of one line for an error that is not the user's."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'input or output'}: {error.strerror}"
    if isinstance(error, MemoryError) or re.search(r"out of memory|can't allocate memory|bad_alloc", text):
        return f"out of memory: {text[:300]}; give less at once (--max-tokens, --beam), or a smaller model"
    plugin = place_in_plugin(error)
    return f"{plugin and f'plug-in {plugin}: '}{type(error).__name__}: {text} (unexpected; --debug shows where)"


def run(
    prog: str, work: Callable[[list[str]], int | None], argv: Sequence[str] | None = None, *,
    debug: Callable[[], bool] = lambda: False,
) -> int:  # fmt: skip
    """Do the work on the words of the command line and return the exit status for every way it can end.

    0 success (or what the work returns), 2 usage error, 1 any other error, 143 after SIGTERM, 130 after Ctrl-C. A
    user's error is one line on stderr; `--debug`, or `debug()` afterwards, adds the traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (for the rest of the process)
    if sys.stdout is None:
        print(f"{prog}: error: stdout is closed; expected a file or a pipe, or > /dev/null", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # text is UTF-8 in every locale
    try:
        process = job_process()
    except UsageError as error:
        print(f"{prog}: error: {printable(str(error))}", file=sys.stderr)
        return 2
    if process.rank and prog not in _SHARING:
        return 0  # the first process does all the work, and reads standard input
    if process.local_rank:
        mute()  # errors before the ranks of a job connect are printed once a machine
    with contextlib.redirect_stderr(lasting(sys.stderr, waits=True)):
        status = _status(prog, work, words, debug)
    if argv is None and status == 0 and process.world > 1:
        # All is written. Native threads of --shard may abort while Python is taken down (PyTorch, pull request 179291).
        os._exit(0)
    return status


def _status(prog: str, work: Callable[[list[str]], int | None], words: list[str], debug: Callable[[], bool]) -> int:
    came: list[str] = []
    try:
        with _signals_raise() as came:
            status = work(words) or 0
            sys.stdout.flush()  # else a full disk would show only after Python can no longer report it
            return status
    except Terminated as error:
        early = " before the processes of this job had met; was one killed, what started them says which"
        signal_name = came[0] if came else error.signal
        print(f"{prog}: stopped by {signal_name}{early if unconnected() else ''}", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_unwritable()
        return 1
    except Exception as error:
        if "--debug" in words or debug():
            traceback.print_exc()
        text = " ".join(str(error).split()) if isinstance(error, UserError) else _one_line(error)
        print(f"{prog}: error: {printable(shortened(text))}", file=sys.stderr)
        _drop_unwritable()
        return 2 if isinstance(error, UsageError) else 1


def _drop_unwritable() -> None:
    """Drop what stdout holds and cannot write, else Python complains again on exit."""
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
