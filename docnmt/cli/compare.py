"""The command docnmt-compare: train, translate and score several systems with several seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from docnmt.apps.options import CompareConfig
from docnmt.cli.command import Command, Given
from docnmt.options import Section

COMMAND = Command(
    "docnmt-compare",
    """Compare systems over seeds: train them one after the other, translate and score test sets, answer contrastive
ones, and print one table with intervals and p-values, also as FOLDER/comparison.md and comparison.json. What an
earlier call finished is not done again. Systems with unequal updates, data or starts are refused unless FILE.yaml
says that they may differ.""",
    """
docnmt-compare comparison.yaml
docnmt-compare comparison.yaml --dry-run
docnmt-compare comparison.yaml --json > comparison.json
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse, carry out, print."""
    config: CompareConfig = COMMAND.resolve(given, [Section("compare", CompareConfig)])["compare"]
    from docnmt.apps.compare import Comparison, markdown, read_plan

    plugins = () if given.user_dir is None else (given.user_dir,)
    content = Comparison(read_plan(Path(config.plan)), plugins, config.dry_run).run()
    if content:
        print(json.dumps(content, ensure_ascii=False, indent=1) if config.json else markdown(content), end="")


if __name__ == "__main__":
    sys.exit(main())
