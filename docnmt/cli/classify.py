"""The command docnmt-classify: label texts with a trained classifier."""

from __future__ import annotations

import sys
from pathlib import Path

from docnmt.cli.command import Command, Given
from docnmt.options import Section
from docnmt.other_tasks.options import ClassifyConfig
from docnmt.runtime.system import check_new

COMMAND = Command(
    "docnmt-classify",
    """Label texts with a trained text classifier. Texts come from a file or stdin, one a line; for each a
line with its label and the label's probability goes to stdout, in the same order. With --labelled the file is a table
of texts and labels: accuracy, macro-F1 and confusion matrix go to stderr.""",
    """
docnmt-classify --path runs/news < texts.txt > labels.tsv
docnmt-classify --path runs/news texts.txt --all-probabilities
docnmt-classify --path runs/news --labelled test.tsv --results scores.json > labels.tsv
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options and label."""
    config: ClassifyConfig = COMMAND.resolve(given, [Section("options", ClassifyConfig)])["options"]
    if config.results is not None:
        check_new(Path(config.results), overwrite=config.overwrite)
    from docnmt.other_tasks.classification.model import classify
    from docnmt.runtime.device import tune

    print(tune(), file=sys.stderr)
    classify(config, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
