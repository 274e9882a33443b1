"""docnmt-translate: translate a document from stdin to stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from docnmt import builtin  # noqa: F401  (registers every component)
from docnmt.cli import command as cli
from docnmt.cli.command import Command
from docnmt.cli.generation import parse
from docnmt.cli.given import Given
from docnmt.commands.config import TranslateConfig
from docnmt.errors import UserError

DESCRIPTION = """Translate stdin to stdout. stdin is one document of raw text in UTF-8: each line is split into
sentences, the translation of a line is a line, and blank lines stay. With --input-format corpus a line is a sentence
and an empty line separates documents."""

EXAMPLES = (
    "docnmt-translate --path runs/bible < document.txt > translation.txt",
    "docnmt-translate --path runs/bible --input-format corpus < test.en > test.de",
    "docnmt-translate --path runs/a:runs/b --beam 8 --device cuda < document.txt",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    return cli.run("docnmt-translate", body, argv)


def body(given: Given) -> int:
    """Parse and translate."""
    config = parse(Command("docnmt-translate", DESCRIPTION, EXAMPLES), given, TranslateConfig)
    from docnmt.commands.translate import translate_stream

    if sys.stdin is None or sys.stdout is None:
        raise UserError("stdin or stdout is closed; expected: docnmt-translate ... < document.txt > translation.txt")
    form = config["command"].input_format
    translate_stream(sys.stdin.buffer, sys.stdout, form, config["models"], config["generation"], config["search"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
