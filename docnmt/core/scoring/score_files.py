"""The command `docnmt-score --ref --sys`: read the files, align the sentences, score."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from docnmt.core.data_options import Columns, parse_columns
from docnmt.core.scoring.align_lines import LineLayout, read_layout
from docnmt.core.scoring.config import SAMPLES, SEED, ReportConfig, ScoreConfig
from docnmt.core.scoring.doubts import doubts, records_beside, training_doubt
from docnmt.core.scoring.resegment import resegment
from docnmt.core.scoring.score_report import TranslationReport, check_wanted, problems_of_seeds, report_on
from docnmt.registry.options import same_path
from docnmt.runtime.errors import UsageError
from docnmt.runtime.files import check_new, write_text

#: Number of notes on documents of unusual length that are printed.
MOST_NOTES = 5


def score_translation(config: ScoreConfig, wanted: ReportConfig) -> TranslationReport:
    """Read the files and score.

    Raises:
        UsageError: an option needs another one.
        UserError: a file cannot be read or is not a translation of the others, line by line.
    """
    given = {} if wanted.paired or wanted.foreign else {"--samples": config.samples, "--seed": config.seed}
    problems = [
        f"{name} has no effect without --paired or --foreign" for name, value in given.items() if value is not None
    ]
    problems += problems_of_seeds(len(config.sys), wanted)
    if wanted.comet_model is not None and config.src is None:
        problems.append(f"{'--comet' if wanted.comet else '--metrics COMET'} reads the source too: give --src FILE")
    if wanted.address is not None and config.src is None:
        problems.append("--address counts lines whose source speaks to somebody: give --src FILE")
    if problems:
        raise UsageError(problems)
    if same_path(config.resegmented, wanted.plot):
        raise UsageError(f"--resegmented and --plot are both {wanted.plot}; give one of them another name")
    for name in filter(None, (config.resegmented, wanted.plot)):
        check_new(Path(name), overwrite=config.overwrite)
    check_wanted(wanted)
    columns, _ = parse_columns(config.columns)
    layout = read_layout(Path(config.src or config.ref[0]), columns, "source" if config.src else "target")
    references = [layout.align(Path(path), columns, "target") for path in config.ref]
    for doubt in doubts(references[0], config.sacrebleu_tokenize):
        print(f"warning: {config.ref[0]}: {doubt}", file=sys.stderr)

    def read(path: str) -> list[str]:
        if config.resegment:
            return _resegmented(Path(path), layout, references[0], columns)
        return layout.align(Path(path), columns)

    systems = [read(path) for path in config.sys]
    if config.resegmented is not None:
        write_text(Path(config.resegmented), layout.written(systems[0]))
    return report_on(
        layout,
        systems,
        references,
        [read(path) for path in wanted.paired],
        [read(path) for path in wanted.foreign],
        tokenize=config.sacrebleu_tokenize,
        wanted=wanted,
        consistency=config.src is not None and len(systems) == 1,
        samples=SAMPLES if config.samples is None else config.samples,
        seed=SEED if config.seed is None else config.seed,
        doubt=training_doubt(records_beside(config.sys), records_beside(wanted.paired)),
    )


def _resegmented(path: Path, layout: LineLayout, reference: Sequence[str], columns: Columns) -> list[str]:
    """Divide the file's text into the reference's sentences; notes go to stderr."""
    found = resegment(path, layout, reference, columns)
    for note in found.notes[:MOST_NOTES]:
        print(f"note: {note}; it is scored as it is", file=sys.stderr)
    if (more := len(found.notes) - MOST_NOTES) > 0:
        print(f"note: {path}: {more:,} more documents are empty or of unusual length", file=sys.stderr)
    return found.sentences
