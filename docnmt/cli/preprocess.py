"""The command docnmt-preprocess: turn text into a folder that docnmt-train reads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from docnmt.cli.command import Choice, Command, Given
from docnmt.options import Section, option
from docnmt.registry import Registry
from docnmt.runtime.system import UsageError, printable

COMMAND = Command(
    "docnmt-preprocess",
    """Check a corpus, train its vocabulary and write it to a folder of arrays that docnmt-train reads.
Nothing is written unless everything is in order, and the folder appears whole or not at all.

Parallel documents (the default task) are PREFIX.en and PREFIX.de: UTF-8, a sentence a line, an empty line between
documents. Sections and paragraphs may stand in PREFIX.levels.tsv, a row a line, or be opened by <p> lines; <d> lines
may open documents instead of empty lines; WMT files are PREFIX.en-de.xml; several references PREFIX.de0, PREFIX.de1.
A PREFIX that ends in .tsv, .jsonl or .parquet (also .gz, .zst) is a table of both sides, whose columns --columns names.
Other tasks have other options: docnmt-preprocess --task nli --help.""",
    """
docnmt-preprocess -s en -t de --trainpref text/train --validpref text/dev --testpref text/test --destdir data-bin
docnmt-preprocess -s en -t de --trainpref text/train --validpref text/dev --destdir data-bin --vocab-size 16000
docnmt-preprocess -s en -t de --trainpref corpus.jsonl.zst --validpref dev.tsv --destdir data-bin
docnmt-preprocess -s en -t de --testpref other/test --srcdict data-bin --destdir data-other
docnmt-preprocess --task text_classification --train train.tsv --valid valid.tsv --destdir data-bin
""",
)

#: The preprocessor of each task: a function of its options (a configuration class) and of `say`, which is called with
#: each line of the report.
PREPROCESSORS: Registry[Callable[[Any, Callable[[str], None]], None]] = Registry("task to preprocess for")
PREPROCESSORS.add(
    "document_translation",
    "docnmt.core.preprocess:preprocess_translation",
    config="docnmt.core.data_options:TranslationPreprocessConfig",
)
PREPROCESSORS.add(
    "text_classification",
    "docnmt.other_tasks.classification.data:preprocess_classification",
    config="docnmt.other_tasks.options:ClassificationPreprocessConfig",
)
PREPROCESSORS.add(
    "nli",
    "docnmt.other_tasks.sentence_vectors.use:preprocess_nli",
    config="docnmt.other_tasks.options:NliPreprocessConfig",
)


@dataclass(frozen=True)
class TaskConfig:
    """The option for the task."""

    task: str = option(
        "document_translation", "what the data is for; it is stored with it", choices=PREPROCESSORS.names, basic=True
    )


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options of the task, then preprocess."""
    given.choose("task")
    task = str(given.get("task") or "document_translation")
    if task not in PREPROCESSORS:
        raise UsageError(f"--task {task}: expected one of {', '.join(PREPROCESSORS.names())}")
    sections = [Section("task", TaskConfig), Section(f"options of {task}", PREPROCESSORS.config(task))]
    config = COMMAND.resolve(given, sections, choices=[Choice("task", task, PREPROCESSORS)])
    PREPROCESSORS.get(task)(config[sections[1].name], lambda line: print(printable(line), file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
