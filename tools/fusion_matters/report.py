"""Turn a study's runs into tables (Markdown on stdout) and figures (PNG, with --figures).

Usage: report.py recipes/fusion_matters/novels33.yaml --runs runs/fusion --figures docs/figures > novels33.md

Every number comes from the cells' own result.json; the paper's stand beside ours where it has any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from figures import draw_figures
from results import Results
from study import read_study
from tables import comparison_table, cost_table, family_table, length_table, text_length_table

from docnmt.errors import UserError

NOTES = """Accuracy in percent, mean ± sd over seeds. Δ: difference from the reference under the same seed, with a 95 %
bootstrap interval over seeds; p: two-sided, of the paired t-test and of the exact permutation of signs, the latter also
adjusted for all comparisons of the table (Holm). Detectable: the true difference that the t-test finds four times of
five with these seeds and this sd; smaller ones cannot be told from none."""


def report(results: Results) -> str:
    """All tables of a study."""
    parts = [
        f"## {results.study.name}",
        NOTES,
        comparison_table(results),
        *_titled("Families and operators (Table 3)", family_table(results)),
        *_titled("Accuracy when texts are cut", length_table(results)),
        *_titled("Accuracy by the length of the texts", text_length_table(results)),
        *_titled("Cost", cost_table(results)),
    ]
    missing = [
        f"{variant} {sorted(set(range(results.study.seeds)) - set(results.cells.get(variant, {})))}"
        for variant in results.study.variants
        if len(results.cells.get(variant, {})) < results.study.seeds
    ]
    if missing:
        parts.append(f"Not run yet (variant, seeds): {'; '.join(missing)}.")
    return "\n\n".join(parts) + "\n"


def _titled(title: str, table: str) -> list[str]:
    return [f"### {title}", table] if table else []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("study", type=Path, metavar="STUDY.yaml")
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="the folder given to run.py")
    parser.add_argument("--figures", type=Path, default=None, metavar="DIR", help="draw the figures there")
    options = parser.parse_args()
    try:
        results = Results.read(read_study(options.study), options.runs)
        print(report(results), end="")
        if options.figures is not None:
            for path in draw_figures(results, options.figures):
                print(path, file=sys.stderr)
    except UserError as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
