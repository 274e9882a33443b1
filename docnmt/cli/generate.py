"""docnmt-generate: translate a split of preprocessed data and score it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from docnmt import builtin  # noqa: F401  (registers every component)
from docnmt.cli import command as cli
from docnmt.cli.command import Command
from docnmt.cli.generation import parse
from docnmt.cli.given import Given
from docnmt.commands.config import GenerateConfig
from docnmt.config import Section
from docnmt.scoring.config import ReportConfig

DESCRIPTION = """Translate a split of a folder that docnmt-preprocess wrote, and score it. On stdout, for each sentence
i in input order: S-i source, T-i reference, H-i score and subwords, D-i score and text, P-i the score of each subword
(natural logs); then the scores with their sacreBLEU signatures. Batch size and order change no translation."""

EXAMPLES = (
    "docnmt-generate data-bin/bible --path runs/bible --results-path results/bible",
    "docnmt-generate data-bin/bible --path runs/a/checkpoint_best.safetensors:runs/b --beam 8 --nbest 3 --lenpen 0.6",
    "docnmt-generate data-bin/bible --path runs/bible --gen-subset valid --quiet",
    "docnmt-generate data-bin/bible --path runs/bible --paired results/sentence/hypotheses.txt --per-document",
    "docnmt-generate data-bin/bible --path runs/bible --generator sampling --temperature 0.8 --top-p 0.9 --seed 7",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    return cli.run("docnmt-generate", body, argv)


def body(given: Given) -> int:
    """Parse and translate."""
    command = Command("docnmt-generate", DESCRIPTION, EXAMPLES)
    config = parse(command, given, GenerateConfig, Section("report", ReportConfig))
    from docnmt.commands.generate import generate

    generate(config["command"], config["models"], config["generation"], config["search"], config["report"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
