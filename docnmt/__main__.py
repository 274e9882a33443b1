"""`docnmt COMMAND …` and `python -m docnmt COMMAND …`: the command docnmt-COMMAND with the words behind its name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from docnmt.options import nearest
from docnmt.runtime.system import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    from docnmt.cli.commands import COMMANDS

    name, *words = (sys.argv[1:] if argv is None else list(argv)) or [""]
    if name in ("", "-h", "--help"):
        commands = "\n".join(f"  {name:<10}  {command.summary}" for name, command in COMMANDS.items())
        print(f"usage: docnmt COMMAND [OPTION ...]\n\n{commands}\n\ndocnmt COMMAND --help shows a command's options.")
        return 0 if name else 2
    if name == "--version":
        print(f"docnmt {__version__}")
        return 0
    if name not in COMMANDS:
        meant = nearest(name, COMMANDS).rstrip() or f"there are {', '.join(COMMANDS)}"
        print(f"docnmt: error: no command '{name}'; {meant}", file=sys.stderr)
        return 2
    if argv is None:
        sys.argv[1:] = words  # as if docnmt-COMMAND had been typed: a job's process then ends as that would
        return COMMANDS[name]()
    return COMMANDS[name](words)


if __name__ == "__main__":
    sys.exit(main())
