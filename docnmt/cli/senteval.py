"""docnmt-senteval: what sentence vectors are worth on SentEval's transfer tasks."""

from __future__ import annotations

import sys
from functools import partial

from docnmt.cli import command as cli
from docnmt.config import Section
from docnmt.sentence_vectors.senteval.config import SentEvalConfig

DESCRIPTION = """Evaluate sentence vectors on SentEval's transfer tasks by its protocol, on CPU: a trained sentence
encoder (--path of task nli), a translation model's sentence summaries (--path of a hier_ or cond_transformer), or a
baseline from word vectors alone. Results are written after every task; the same command continues where it stopped, as
long as settings and files are the same.
Accuracies and F1 in percent, correlations times 100."""

EXAMPLES = (
    "docnmt-senteval --data senteval --path runs/inferlite --results-path results/inferlite.json",
    "docnmt-senteval --data senteval --path runs/hash --representation codes --results-path results/codes.json",
    "docnmt-senteval --data senteval --baseline bow --vectors glove.txt --results-path results/bow.json",
    "docnmt-senteval --data senteval --baseline sif --vectors glove.txt --frequencies enwiki.txt --tasks STS12 SICK-R",
)


def body(argv: list[str]) -> int:
    """Parse, evaluate, print the table."""
    config = cli.Command("docnmt-senteval", DESCRIPTION, EXAMPLES).parse(argv, [Section("senteval", SentEvalConfig)])
    from docnmt.runtime import tune
    from docnmt.sentence_vectors.senteval.transfer import run_transfer

    print(tune(), file=sys.stderr)
    print(run_transfer(config["senteval"]))
    return 0


#: Entry point: `main(argv=None)` returns the exit status.
main = partial(cli.run, "docnmt-senteval", body)

if __name__ == "__main__":
    sys.exit(main())
