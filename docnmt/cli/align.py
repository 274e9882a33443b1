"""The command docnmt-align: pair the sentences of two documents."""

from __future__ import annotations

import sys

from docnmt.apps.options import AlignConfig
from docnmt.cli.command import Command, Given
from docnmt.options import Section

COMMAND = Command(
    "docnmt-align",
    """Find which sentences of a document and its translation belong together, and write the pairs as a
translation memory (OUT.tmx) or as a corpus to train on (OUT.en, OUT.de). Lengths decide, after Gale and Church, with
headings and paragraphs, with words that are alike on both sides, and with --path a translation model. Up to two
sentences of a side become one pair. Every sentence without a counterpart is named on stderr; no pair has it.""",
    """
docnmt-align contract.en.docx contract.de.docx -o contract.tmx
docnmt-align guide.md leitfaden.md -o guide -s en -t de
docnmt-align raw.en raw.de -o aligned
docnmt-align page.html seite.html -o page.tmx --path runs/bible
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options and align."""
    config: AlignConfig = COMMAND.resolve(given, [Section("align", AlignConfig)])["align"]
    from docnmt.apps.align.command import align_files

    align_files(config, lambda line: print(line, file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
