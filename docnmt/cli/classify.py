"""docnmt-classify: label texts with a trained classifier."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from docnmt.classification.config import ClassifyConfig
from docnmt.cli import command as cli
from docnmt.config import Section
from docnmt.files import check_new

DESCRIPTION = """Label texts with a trained text classifier. Texts come from a file or stdin, one a line; for each a
line with its label and the label's probability goes to stdout, in the same order. With --labelled the file is a table
of texts and labels: accuracy, macro-F1 and confusion matrix go to stderr."""

EXAMPLES = (
    "docnmt-classify --path runs/news < texts.txt > labels.tsv",
    "docnmt-classify --path runs/news texts.txt --all-probabilities",
    "docnmt-classify --path runs/news --labelled test.tsv --results scores.json > labels.tsv",
)


def body(argv: list[str]) -> int:
    """Parse and label."""
    parsed = cli.Command("docnmt-classify", DESCRIPTION, EXAMPLES).parse(argv, [Section("options", ClassifyConfig)])
    config: ClassifyConfig = parsed["options"]
    if config.results is not None:
        check_new(Path(config.results), overwrite=config.overwrite)
    from docnmt.classification.label import classify
    from docnmt.runtime import tune

    print(tune(), file=sys.stderr)
    classify(config, sys.stdout)
    return 0


#: Entry point: `main(argv=None)` returns the exit status.
main = partial(cli.run, "docnmt-classify", body)

if __name__ == "__main__":
    sys.exit(main())
