"""The base of all commands: options from dataclasses, `--help`, and the exit status."""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import os
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from docnmt.cli.command_line import Given, Parser, add_common, add_options, is_option
from docnmt.registry.migrate import gone, migrate_file, moved_to
from docnmt.registry.options import Section, build, flag, underscored
from docnmt.registry.registry import Registry
from docnmt.registry.user_dir import import_plugins, place_in_plugin
from docnmt.runtime import launch
from docnmt.runtime.checksums import skipped
from docnmt.runtime.errors import Terminated, UsageError, UserError, printable, shortened
from docnmt.runtime.interrupt import work_begins
from docnmt.runtime.launch import apart, mute, place

#: The commands that divide their work among the processes of a job; for any other, the first process does it all.
SHARING = ("docnmt-train", "docnmt-generate", "docnmt-embed", "docnmt-score")


@dataclass(frozen=True)
class Choice:
    """A part that is chosen by name and has options: the option that chooses it, its value, and the registry."""

    option: str
    chosen: str
    registry: Registry[Any]

    @property
    def sections(self) -> list[Section]:
        """The options of every part."""
        return [Section(name, self.registry.config(name)) for name in self.registry.names()]

    def explain(self, name: str) -> str:
        """Return an explanation for an option that the chosen part lacks: which others have it."""
        names = {name, name.removeprefix("no_")}
        found = ", ".join(s.name for s in self.sections if names & {setting.name for setting in s.settings})
        return f": has no effect with {flag(self.option)} {self.chosen}; it belongs to {found}" if found else ""


class Main(Protocol):
    """A command as a function from its words, by default those of the process, to the exit status."""

    def __call__(self, argv: Sequence[str] | None = None) -> int: ...


@dataclass(frozen=True)
class Command:
    """A command's name, its description in a sentence or two, and examples, one per line, at the beginning of `--help`.

    `flags` are words that its body handles itself, each with its help.
    """

    prog: str
    description: str
    examples: str
    flags: Mapping[str, str] = field(default_factory=dict)

    def resolve(
        self,
        given: Given,
        sections: Sequence[Section],
        *,
        choices: Sequence[Choice] = (),
        explain: Callable[[str], str] | None = None,
        epilog: str = "",
    ) -> dict[str, Any]:
        """Return the configuration of every section, by section name; if `--help` was given, print it and exit instead.

        Args:
            choices: the parts that were chosen by name, so that options of others can be explained.
            explain: may return more on an unknown option (with a leading space or punctuation).
            epilog: the end of the help.

        Raises:
            UsageError: with all problems found.
        """
        if given.help is not None:
            print(self.help(sections, epilog, basic=given.help == "basic"))
            raise SystemExit(0)
        if not given.parsed:
            given.parse([*sections, *(section for choice in choices for section in choice.sections)])
        known = {setting.name: setting.flag for section in sections for setting in section.settings}

        def _reason(word: str) -> str:
            name = underscored(word.partition("=")[0])
            close = difflib.get_close_matches(name, known, n=1) if len(name) > 2 else []
            meant = f"; did you mean {known[close[0]]}?" if close else ""
            of_others = (choice.explain(name) for choice in choices)
            said = (explain(name) if explain else "", *of_others, gone(name), moved_to(name), meant)
            return next(filter(None, said), "")

        problems = self._unknown(given, known, _reason)
        typed = {name: value for name, value in given.typed.items() if name in known}
        try:
            resolved = build(sections, migrate_file(given.file, known), typed, _reason)
        except UsageError as error:
            named = [problem.replace("--config: ", f"--config {given.config}: ", 1) for problem in error.problems]
            raise UsageError(problems + named) from None
        if problems:
            raise UsageError(problems)
        return resolved

    def _unknown(self, given: Given, known: Collection[str], reason: Callable[[str], str]) -> list[str]:
        """Return problems of words on the command line that have no meaning there."""
        unknown = [word for word in given.rest if is_option(word)]
        unknown += [flag(name) for name in given.typed if name not in known]
        problems = []
        for word in unknown:
            why = reason(word)
            problems.append(f"{word}{why}" if why.startswith(": has no effect") else f"unknown option {word}{why}")
        if given.rest and not problems:
            problems = [f"unexpected argument '{given.rest[0]}'; see {self.prog} --help"]
        return problems

    def main(self, body: Callable[[Given], None]) -> Main:
        """Decorate the body of a command: return a function of its words that returns the exit status."""

        @functools.wraps(body)
        def _main(argv: Sequence[str] | None = None) -> int:
            debug = False

            def work(words: list[str]) -> None:
                """Run the body on the words."""
                nonlocal debug
                given = Given(self.prog, words)
                debug = given.debug
                import_plugins(given.user_dir)
                with skipped(given.skip_checksums):
                    body(given)

            return run(self.prog, work, argv, debug=lambda: debug)

        return _main

    def help(self, sections: Sequence[Section], epilog: str = "", *, basic: bool) -> str:
        """Return the text of `--help`, or with `basic=False` of `--help-all`."""
        positional = [f" [{s.option.metavar}]" for section in sections for s in section.settings if s.option.positional]
        examples = "examples:\n" + textwrap.indent(self.examples.strip(), "  ")
        about = f"{self.description}\n\n{examples}"
        parser = Parser(self.prog, usage=f"%(prog)s{''.join(positional)} [OPTION ...]", description=about)
        left = add_options(parser, sections, basic=basic)
        common = add_common(parser)
        for name, help in self.flags.items():
            common.add_argument(name, help=help, action="store_true")
        more = [f"{left} more options: --help-all"] if left else []
        parser.epilog = "\n\n".join(filter(None, [*more, epilog]))
        return parser.format_help().rstrip("\n")


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


def _words_of(error: Exception) -> str:
    """Return a message of one line for an error that is not the user's."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'input or output'}: {error.strerror}"
    if isinstance(error, MemoryError) or re.search(r"out of memory|can't allocate memory|bad_alloc", text):
        return f"out of memory: {text[:300]}; give less at once (--max-tokens, --beam), or a smaller model"
    place = place_in_plugin(error)
    return f"{place and f'plug-in {place}: '}{type(error).__name__}: {text} (unexpected; --debug shows where)"


def run(
    prog: str,
    work: Callable[[list[str]], int | None],
    argv: Sequence[str] | None = None,
    *,
    debug: Callable[[], bool] = lambda: False,
) -> int:
    """Do the work on the words of the command line and return the exit status for every way it can end.

    0 success (or what the work returns), 2 usage error, 1 any other error, 143 after SIGTERM, 130 after Ctrl-C. A
    user's error is one line on stderr; `--debug`, or `debug()` afterwards, adds the traceback.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    launch.command = prog
    came: list[str] = []
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # text is UTF-8 in every locale
    if place().rank and prog not in SHARING:
        return 0  # the first process does all the work, and reads standard input
    if place().local_rank:
        mute()  # errors before the ranks of a job connect are printed once a machine
    try:
        with _signals_raise() as came:
            work_begins()
            status = work(words) or 0
            if sys.stdout is not None:
                sys.stdout.flush()  # else a full disk would show only after Python can no longer report it
            return status
    except Terminated as error:
        early = " before the processes of this job had met; was one killed, what started them says which" * apart()
        print(f"{prog}: stopped by {came[0] if came else error.signal}{early}", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        # If it came out of an `exec` of a string (dataclasses), Python would end by the signal, until the next `exec`.
        exec("")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains again on exit
        return 1
    except Exception as error:
        if "--debug" in words or debug():
            traceback.print_exc()
        text = " ".join(str(error).split()) if isinstance(error, UserError) else _words_of(error)
        print(f"{prog}: error: {printable(shortened(text))}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
