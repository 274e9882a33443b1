"""Everything that can be said of a translation: what `docnmt-score --ref --sys` and `docnmt-generate` print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from docnmt.errors import UsageError, UserError
from docnmt.formats.columns import parse_columns
from docnmt.scoring.aligned import LineLayout, read_layout
from docnmt.scoring.bootstrap import Comparison, format_comparisons, paired_bootstrap, reservations
from docnmt.scoring.comet import comet_score
from docnmt.scoring.config import SAMPLES, SEED, ReportConfig, ScoreConfig
from docnmt.scoring.consistency import Consistency, learn_lexicon, lexical_consistency
from docnmt.scoring.metrics import Scores, evaluate, scored_sentences


@dataclass(frozen=True)
class TranslationReport:
    """What was asked for is filled in.

    Attributes:
        scores: of the whole text. documents: of every document, by metric.
        consistency: of the system and of the (first) reference, whose ratio is what people do.
        comparisons: with the other system, by `samples` bootstrap samples.
        unscored: sentences that a reference lacks, which are left out.
    """

    scores: Scores
    documents: Sequence[dict[str, float]] = ()
    comet: float | None = None
    consistency: dict[str, Consistency] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    samples: int = 0
    unscored: int = 0

    def __str__(self) -> str:
        parts = [str(self.scores)]
        if self.unscored:
            parts.append(f"({self.unscored:,} sentences without a reference are not scored)")
        if self.comet is not None:
            parts.append(f"COMET = {self.comet:.2f}")
        parts += [f"lexical consistency, {who}: {each}" for who, each in self.consistency.items()]
        if self.comparisons:
            parts.append(format_comparisons(self.comparisons, self.scores.documents, self.samples))
        if self.documents:
            parts.append("\t".join(["document", *self.documents[0]]))
        for number, values in enumerate(self.documents, 1):
            parts.append("\t".join([str(number), *(f"{value:.2f}" for value in values.values())]))
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON types; what was not asked for is left out."""
        content = self.scores.to_dict()
        if self.unscored:
            content["unscored"] = self.unscored
        if self.comet is not None:
            content["COMET"] = self.comet
        if self.consistency:
            content["lexical_consistency"] = {who: each.to_dict() for who, each in self.consistency.items()}
        if self.comparisons:
            metrics, said = [asdict(each) for each in self.comparisons], reservations(self.scores.documents)
            content["paired"] = {"samples": self.samples, "metrics": metrics, "warnings": said}
        if self.documents:
            content["of_documents"] = list(self.documents)
        return content


def report_on(
    layout: LineLayout,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    other: Sequence[str] | None = None,
    *,
    tokenize: str,
    per_document: bool = False,
    consistency: bool = False,
    comet: str | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> TranslationReport:
    """Score a translation, and say of it what else is asked for.

    Args:
        layout: which lines are sentences, and the documents; of the source where what is asked for needs one.
        hypotheses, references: the system's sentences, and those of each reference; where one is empty, nothing is
            scored.
        other: the sentences of another system to compare with.
        tokenize: sacreBLEU's tokenizer for BLEU.
        consistency: lexical consistency. comet: name or path of a COMET model. Both need the source.
        samples, seed: of the bootstrap, if there is another system.

    Raises:
        UserError: COMET is not installed, or its model cannot be had; or no sentence has a reference.
    """
    kept = scored_sentences(references)
    unscored = len(hypotheses) - len(kept)
    if not kept:
        raise UserError(f"{layout.path}: no sentence has a reference, expected one a line")
    if unscored:
        layout, hypotheses = layout.only(kept), [hypotheses[i] for i in kept]
        references = [[reference[i] for i in kept] for reference in references]
        other = None if other is None else [other[i] for i in kept]
    offsets, sources = layout.document_offsets, layout.sentences
    system = evaluate(hypotheses, references, offsets, tokenize=tokenize)
    of_documents = system.of_documents() if per_document else []
    compared: list[Comparison] = []
    if other is not None:
        against = evaluate(other, references, offsets, tokenize=tokenize)
        compared = paired_bootstrap(system, against, samples=samples, seed=seed)
    shares = {}
    if consistency:
        lexicon = learn_lexicon(sources, references[0])  # not of the system's text: all are measured alike
        for who, sentences in (("system", hypotheses), ("reference", references[0])):
            shares[who] = lexical_consistency(sources, sentences, offsets, lexicon)
    learned = None if comet is None else comet_score(comet, sources, hypotheses, references[0])
    return TranslationReport(system.scores, of_documents, learned, shares, compared, samples, unscored)


def score_translation(config: ScoreConfig, wanted: ReportConfig) -> TranslationReport:
    """Read the files and score.

    Raises:
        UsageError: an option needs another one.
        UserError: a file cannot be read or is not a translation of the others, line by line.
    """
    given = {"--samples": config.samples, "--seed": config.seed} if wanted.paired is None else {}
    problems = [f"{name} has no effect without --paired" for name, value in given.items() if value is not None]
    if wanted.comet is not None and config.src is None:
        problems.append("--comet reads the source too: give --src FILE")
    if problems:
        raise UsageError(problems)
    columns, _ = parse_columns(config.columns)
    layout = read_layout(Path(config.src or config.ref[0]), columns, "source" if config.src else "target")
    references = [layout.align(Path(path), columns, "target") for path in config.ref]
    hypotheses = layout.align(Path(config.sys), columns)
    other = None if wanted.paired is None else layout.align(Path(wanted.paired), columns)
    return report_on(
        layout,
        hypotheses,
        references,
        other,
        tokenize=config.sacrebleu_tokenize,
        per_document=wanted.per_document,
        consistency=config.src is not None,
        comet=wanted.comet,
        samples=SAMPLES if config.samples is None else config.samples,
        seed=SEED if config.seed is None else config.seed,
    )
