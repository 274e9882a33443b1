"""The command docnmt-generate: translate a split of preprocessed data and score it."""

from __future__ import annotations

import sys

from docnmt.apps.options import GenerateConfig
from docnmt.cli.command import Command, Given
from docnmt.cli.generation import parse
from docnmt.core.scoring.config import ReportConfig
from docnmt.options import Section

COMMAND = Command(
    "docnmt-generate",
    """Translate a split of a folder that docnmt-preprocess wrote, and score it. On stdout, for each sentence
i in input order: S-i source, T-i reference, H-i score and subwords, D-i score and text, P-i the score of each subword
(natural logs), with --print-alignment A-i; then the scores with their sacreBLEU signatures. In float32
the size and order of batches change at most the last digits of scores.""",
    """
docnmt-generate data-bin/bible --path runs/bible --results-path results/bible
docnmt-generate data-bin/bible --path runs/a/checkpoint_best.safetensors:runs/b --beam 8 --nbest 3 --lenpen 0.6
docnmt-generate data-bin/bible --path runs/bible --gen-subset valid --quiet
docnmt-generate data-bin/bible --path runs/bible --paired results/sentence/hypotheses.txt --per-document
docnmt-generate data-bin/bible --path runs/bible --explain read.html
docnmt-generate data-bin/bible --path runs/bible --generator sampling --temperature 0.8 --top-p 0.9 --seed 7
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options and translate."""
    config = parse(COMMAND, given, GenerateConfig, Section("report", ReportConfig))
    from docnmt.apps.commands.generate import generate
    from docnmt.runtime.jobs import joined

    with joined():
        generate(*(config[name] for name in ("command", "models", "memory", "generation", "search", "report")))


if __name__ == "__main__":
    sys.exit(main())
