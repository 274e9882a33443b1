"""Turn the runs of one study or several into tables (Markdown on stdout) and figures (PNG, with --figures).

    report.py recipes/studies/fusion_matters/novels33.yaml --runs runs/fusion --figures docs/figures > novels33.md
    report.py recipes/studies/fusion_matters/{ag_news,imdb,novels33}.yaml --runs runs/fusion > all.md

Every number comes from the cells' own result.json (and svm.json, and what latency.py wrote); no checkpoint is read. The
paper's numbers stand beside ours where it has any. Several studies begin with a table over all of them (Table 1).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from choice import choice_table, settled
from cost_tables import (
    cost_table,
    curve_table,
    gate_table,
    latency_table,
    length_table,
    shuffled_table,
    text_length_table,
)
from family_tables import across_table, family_table, inside_table, overview_table
from power import detectable_effect, t_test_power
from results import Results
from study import Study, read_json, read_study
from tables import comparison_table, contrast_table

from docnmt.cli import command as cli
from docnmt.runtime.system import UsageError, UserError

NOTES = """\
How to read the tables. Accuracy is in percent, mean ± sd over seeds. Minus SVM: points below or above the SVM; ± is the
uncertainty from the choice of the test texts alone (95 %; from the choice of labels, where all texts of a label are of
one novel or the like). Δ: difference from the reference under the same seed. Its two 95 % intervals answer two
questions. The one over seeds (Student's t): what would another training give on the same texts? The one over seeds and
texts (or labels): what would it give on other texts of the same kind? Both suppose normal differences: if differences
are skewed (exponential), an interval by t holds the true mean in 88 % of cases for 3 or 5 seeds and in 90 % for 10. p
is two-sided: of the paired t-test, of the exact permutation of signs, and of the interval over seeds and texts. Holm: p
adjusted for all differences of the same table. No interval includes the uncertainty from choosing the settings.
Detectable: the true difference that a t-test with this sd and this many seeds (at least five) finds with 80 % power.
A dash: too few seeds to know."""


def report(results: Results, latency: dict[str, Any] | None = None, choices: str = "") -> str:
    """All tables of a study; `choices` is the table of what was chosen on the validation part."""
    parts = [
        f"## {results.study.name}",
        *planned(results.study),
        comparison_table(results),
        *filter(None, [results.published_otherwise]),
        *remarks(results),
        *_titled(f"Contrasts, named {results.study.contrasts_named}", contrast_table(results)),
        *_titled(f"Chosen on the validation part: its {results.study.metric} by setting", choices),
        *_titled("Families and operators (Table 3)", family_table(results)),
        *_titled(
            "Operators against `add` of the same family: mean Δ, 95 % over seeds (seeds above 0; Holm)",
            inside_table(results),
        ),
        *_titled("Families against the reference's under the same operator", across_table(results)),
        *_titled("Accuracy when texts are cut", length_table(results)),
        *_titled("Accuracy when words are shuffled in windows", shuffled_table(results)),
        *_titled("Accuracy by the length of the texts", text_length_table(results)),
        *_titled("Validation accuracy in the course of training", curve_table(results)),
        *_titled("What the gates do", gate_table(results)),
        *_titled("Accuracy and latency (Table 2)", latency_table(results, latency) if latency is not None else ""),
        *_titled("Cost", cost_table(results)),
    ]
    return "\n\n".join(parts) + "\n"


def missing(results: Results) -> Iterator[str]:
    """Variants with the seeds that have not run."""
    for variant in results.study.variants:
        if seeds := sorted(set(range(results.study.seeds)) - set(results.cells.get(variant, {}))):
            yield f"{variant} {seeds}"


def planned(study: Study) -> list[str]:
    """What the study's own numbers of seeds can find, by its plan; said before it is run."""
    if study.plan is None:
        return []
    effect, sd = study.plan
    power = 100 * t_test_power(study.seeds, effect / sd)
    return [
        f"Planned: {study.seeds} seeds, of which a t-test finds a difference of {effect:g} points with a deviation of "
        f"{sd:g} in {power:.0f} % of cases, and one of {detectable_effect(study.seeds, sd):.2f} in 80 %."
    ]


def remarks(results: Results) -> list[str]:
    """What the table does not say: what the exact test can reach, what pairing is worth, where cells were made."""
    compared = {v: c for v in results.variants if (c := results.comparison(v)) is not None and c.n > 1}
    lines = []
    if compared:
        pairs = max(c.n for c in compared.values())
        lines.append(f"The smallest p that the exact test has for {pairs} pairs is {2.0 ** (1 - pairs):.2g}.")
        complete = [v for v, c in compared.items() if c.n == pairs == len(results.cells[v])]
        reference = results.accuracy(results.study.reference).std(ddof=1)
        unpaired = [np.hypot(reference, results.accuracy(v).std(ddof=1)) for v in complete]
        if complete:
            lines.append(
                f"What pairing is worth: the sd of a difference is {np.mean([compared[v].sd for v in complete]):.2f} "
                f"points under one seed, and would be {np.mean(unpaired):.2f} between unrelated runs (means over "
                f"variants with {pairs} seeds)."
            )
    cells = [cell for seeds in results.cells.values() for cell in seeds.values()]
    made = {f"{c['made_on']}, {c['threads']} thread(s), commit {c['commit'][:10]}" for c in cells}
    lines.append(f"Made on: {'; '.join(sorted(made))}.")
    return [" ".join(lines)]


def _titled(title: str, table: str) -> list[str]:
    return [f"### {title}", table] if table else []


def body(argv: list[str]) -> None:
    """Parse, print, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("study", type=Path, nargs="+", metavar="STUDY.yaml")
    parser.add_argument(
        "--runs", type=Path, metavar="DIR", help="the folder given to run.py, or what tools/measured.py kept of it"
    )
    parser.add_argument("--plan", action="store_true", help="say what the studies can find, before they are run")
    parser.add_argument("--figures", type=Path, default=None, metavar="DIR", help="draw the figures there")
    parser.add_argument("--latency", type=Path, default=None, metavar="FILE.json", help="from latency.py --output")
    options = parser.parse_args(argv)
    studies = [read_study(path) for path in options.study]
    if options.plan:
        print("\n".join(f"{study.name}: {line}" for study in studies for line in planned(study)))
        return
    if options.runs is None:
        raise UsageError("--runs is required: the folder given to run.py")
    several = [Results.read(settled(study, options.runs), options.runs) for study in studies]
    latency = None
    if options.latency is not None:
        try:
            latency = read_json(options.latency)
            if absent := {"tokens", "alone", "whole"} - set(latency):
                raise ValueError(f"lacks {', '.join(sorted(absent))}")
        except (ValueError, TypeError) as error:
            raise UserError(f"{options.latency}: not what latency.py --output writes: {error}") from error
    print(f"{NOTES}\n")
    if len(several) > 1:
        print(f"## All data sets (Table 1)\n\n{overview_table(several)}\n")
    for study, results in zip(studies, several, strict=True):
        print(report(results, latency, choice_table(study, options.runs)))
        if left := "; ".join(missing(results)):
            print(f"{study.name}: not run yet (variant, seeds): {left}", file=sys.stderr)
        if options.figures is not None:
            from figures import draw_figures  # imports matplotlib, which the tables do not need

            for path in draw_figures(results, options.figures, latency):
                print(path, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(cli.run("report.py", body))
