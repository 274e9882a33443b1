"""docnmt-classify: label texts with a trained classifier."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from docnmt.classification.label import ClassifyConfig, classify
from docnmt.cli import command as cli
from docnmt.cli.given import Given
from docnmt.config import Section

DESCRIPTION = """Label texts with a trained text classifier. Texts come from a file or stdin, one a line; for each a
line with its label and the label's probability goes to stdout, in the same order. With --labelled the file is a table
of texts and labels: accuracy, macro-F1 and confusion matrix go to stderr."""

EXAMPLES = (
    "docnmt-classify --path runs/news < texts.txt > labels.tsv",
    "docnmt-classify --path runs/news texts.txt --all-probabilities",
    "docnmt-classify --path runs/news --labelled test.tsv --results scores.json > labels.tsv",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    return cli.run("docnmt-classify", body, argv)


def body(given: Given) -> int:
    """Parse and label."""
    config = cli.Command("docnmt-classify", DESCRIPTION, EXAMPLES).resolve(given, [Section("options", ClassifyConfig)])
    classify(config["options"], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
