"""`docnmt COMMAND …` and `python -m docnmt COMMAND …`: the command docnmt-COMMAND with the words behind its name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from docnmt.options import nearest
from docnmt.runtime.system import UsageError, __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    from docnmt.cli.command import run
    from docnmt.cli.commands import COMMANDS

    name, *words = (sys.argv[1:] if argv is None else list(argv)) or [""]
    if name not in COMMANDS:
        return run("docnmt", lambda words: _without_command(name), words)
    if argv is None:
        sys.argv[1:] = words  # as if docnmt-COMMAND had been typed: a job's process then ends as that would
        return COMMANDS[name]()
    return COMMANDS[name](words)


def _without_command(name: str) -> int:
    from docnmt.cli.commands import COMMANDS

    if name == "--version":
        print(f"docnmt {__version__}")
        return 0
    if name not in ("", "-h", "--help"):
        meant = nearest(name, COMMANDS).rstrip() or f"there are {', '.join(COMMANDS)}"
        raise UsageError(f"no command '{name}'; {meant}")
    commands = "\n".join(f"  {name:<10}  {command.summary}" for name, command in COMMANDS.items())
    print(f"usage: docnmt COMMAND [OPTION ...]\n\n{commands}\n\ndocnmt COMMAND --help shows a command's options.")
    return 0 if name else 2


if __name__ == "__main__":
    sys.exit(main())
