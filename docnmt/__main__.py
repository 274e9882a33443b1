"""`docnmt COMMAND …` and `python -m docnmt COMMAND …`: the command docnmt-COMMAND with the words behind its name."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

#: Every command, with what it does.
COMMANDS = {
    "preprocess": "turn text into a folder of arrays",
    "train": "train a model",
    "generate": "translate a split of a data folder and score it",
    "translate": "translate files, or standard input",
    "score": "score translations, or a model on contrastive test sets",
    "compare": "train and score systems with several seeds",
    "report": "compare systems on one HTML page",
    "average": "average checkpoints",
    "inspect": "describe or verify a checkpoint or a data folder",
    "align": "pair the sentences of a document and its translation",
    "convert": "convert models from and to other toolkits",
    "classify": "label texts",
    "embed": "encode sentences as vectors",
    "senteval": "evaluate sentence vectors",
    "serve": "translate over HTTP",
    "completion": "print completions for a shell",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        commands = "\n".join(f"  {name:<10}  {what}" for name, what in COMMANDS.items())
        print(f"usage: docnmt COMMAND [OPTION ...]\n\n{commands}\n\ndocnmt COMMAND --help shows a command's options.")
        return 0 if words else 2
    if words[0] == "--version":
        words = ["inspect", "--version"]
    name, *rest = words
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}"
        print(f"docnmt: error: no command '{name}'; {meant}", file=sys.stderr)
        return 2
    status: int = importlib.import_module(f"docnmt.cli.{name}").main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main())
