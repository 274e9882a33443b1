"""The command docnmt-report: write a page on the quality of translations, with their text."""

from __future__ import annotations

import sys

from docnmt.apps.options import PageConfig
from docnmt.cli.command import Command, Given
from docnmt.options import Section

COMMAND = Command(
    "docnmt-report",
    """Write one HTML page about one or several systems' translations: scores with bootstrap intervals and
pairwise tests, by document, by position and by length, and all of the text, side by side, with the differences marked.
The page has everything in it and asks nothing of the network. Files are those of docnmt-score: a sentence a line, empty
lines between documents.""",
    """
docnmt-report --ref test.de --sys ours.txt theirs.txt --src test.en --out report.html
docnmt-report --ref test.de --sys runs/*/test/hypotheses.txt --out report.html
docnmt-report --ref test.de0 test.de1 --sys ours.txt --names "our model" --ter --out report.html
docnmt-report --ref test.de --sys a.txt b.txt --discourse a.json b.json --out report.html
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options, write the page, print its name."""
    config: PageConfig = COMMAND.resolve(given, [Section("report", PageConfig)])["report"]
    from docnmt.apps.report.report import write_report

    write_report(config)
    print(f"{config.out}: open it in a browser", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
