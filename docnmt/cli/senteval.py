"""The command docnmt-senteval: evaluate sentence vectors on SentEval's transfer tasks."""

from __future__ import annotations

import sys

from docnmt.cli.command import Command, Given
from docnmt.options import Section
from docnmt.other_tasks.options import SentEvalConfig

COMMAND = Command(
    "docnmt-senteval",
    """Evaluate sentence vectors on SentEval's transfer tasks by its protocol, on CPU: a trained sentence
encoder (--path of task nli), a translation model's sentence summaries (--path of a hier_ or cond_transformer whose
decoder reads context), or a baseline from word vectors alone. --results-path is written when all tasks are evaluated.
Accuracies and F1 in percent, correlations times 100.""",
    """
docnmt-senteval --data senteval --path runs/inferlite --results-path results/inferlite.json
docnmt-senteval --data senteval --path runs/hash --representation codes --results-path results/codes.json
docnmt-senteval --data senteval --baseline bow --vectors glove.txt --results-path results/bow.json
docnmt-senteval --data senteval --baseline sif --vectors glove.txt --frequencies enwiki.txt --tasks STS12 SICK-R
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse, evaluate, print the table."""
    config = COMMAND.resolve(given, [Section("senteval", SentEvalConfig)])
    from docnmt.other_tasks.sentence_vectors.senteval_tasks import run_transfer
    from docnmt.runtime.device import tune

    print(tune(), file=sys.stderr)
    print(run_transfer(config["senteval"]))


if __name__ == "__main__":
    sys.exit(main())
