"""docnmt-score: score a translation against references, or a model on a contrastive test set."""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from docnmt.cli.command import Command
from docnmt.cli.given import Given
from docnmt.commands.config import ModelsConfig
from docnmt.config import Section, settings
from docnmt.errors import UsageError
from docnmt.scoring.config import CONTEXT_SEED, ContrastiveConfig, ReportConfig, ScoreConfig

if TYPE_CHECKING:
    from docnmt.scoring.contrastive import ContrastiveReport
    from docnmt.scoring.report import TranslationReport

COMMAND = Command(
    "docnmt-score",
    """Score a translation (--sys) against references (--ref): s-BLEU, chrF and TER by sentence, d-BLEU by
document, with sacreBLEU's signatures; or have a model (--path) choose between right and wrong translations
(--contrastive). Files hold a sentence a line and empty lines between documents; the reference says which empty line of
--sys is a break and which a missing translation.""",
    """
docnmt-score --ref test.de --sys results/hypotheses.txt
docnmt-score --ref test.de0 test.de1 --sys hypotheses.txt --src test.en --paired other.txt
docnmt-score --contrastive contrastive.tsv --path runs/bible
docnmt-score --contrastive contrastive.tsv --path runs/bible --context foreign --json
""",
)
TRANSLATION = (Section("translation", ScoreConfig), Section("report", ReportConfig))
CONTRASTIVE = (Section("contrastive", ContrastiveConfig), Section("models", ModelsConfig))


@COMMAND.main
def main(given: Given) -> None:
    """Parse, score, print."""
    given.choose("contrastive")
    if given.help is not None:
        COMMAND.resolve(given, [*TRANSLATION, *CONTRASTIVE])
    if given.get("contrastive") is not None:
        config = COMMAND.resolve(given, CONTRASTIVE, explain=_belongs(TRANSLATION, "with --contrastive"))
        _show(_contrastive(config["contrastive"], config["models"]), config["contrastive"].json)
    else:
        config = COMMAND.resolve(given, TRANSLATION, explain=_belongs(CONTRASTIVE, "without --contrastive FILE"))
        from docnmt.scoring.report import score_translation

        _show(score_translation(config["translation"], config["report"]), config["translation"].json)


def _show(report: TranslationReport | ContrastiveReport, as_json: bool) -> None:
    print(json.dumps(report.to_dict(), ensure_ascii=False, indent=1) if as_json else report)


def _contrastive(config: ContrastiveConfig, models: ModelsConfig) -> ContrastiveReport:
    if config.context == "none" and models.context_window is not None:
        raise UsageError("--context-window has no effect with --context none")
    from docnmt.commands.contrastive import scorer
    from docnmt.scoring.contrastive import judge, with_contexts
    from docnmt.scoring.contrastive_files import read_contrastive

    documents = None if config.contrapro_documents is None else Path(config.contrapro_documents)
    given = read_contrastive(Path(config.contrastive), documents=documents)
    if hopeless := sum(group.hopeless for group in given):
        print(
            f"note: in {hopeless:,} of {len(given):,} groups a wrong translation is the right one, word for word; they "
            "count as not solved", file=sys.stderr,
        )  # fmt: skip
    seed = CONTEXT_SEED if config.context_seed is None else config.context_seed
    groups = with_contexts(given, config.context, seed=seed)
    if config.context != "true" and (same := sum(map(operator.eq, given, groups))):
        print(f"note: --context {config.context}: {same:,} of {len(given):,} groups stay as they are", file=sys.stderr)
    return judge(groups, scorer(models))


def _belongs(sections: Sequence[Section], when: str) -> Callable[[str], str]:
    """An explanation for options of the other kind of scoring."""
    names = {setting.name for section in sections for setting in settings(section.config)}
    return lambda name: f": has no effect {when}" if name in names else ""


if __name__ == "__main__":
    sys.exit(main())
