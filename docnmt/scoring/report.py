"""Everything that can be said of a translation file: what `docnmt-score --ref --sys` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docnmt.scoring.aligned import read_layout
from docnmt.scoring.bootstrap import Comparison, format_comparisons, paired_bootstrap, warnings
from docnmt.scoring.comet import comet_score
from docnmt.scoring.config import SAMPLES, SEED, ScoreConfig
from docnmt.scoring.consistency import Consistency, learn_lexicon, lexical_consistency
from docnmt.scoring.metrics import Evaluation, Scores, evaluate


@dataclass(frozen=True)
class TranslationReport:
    """What was asked for is filled in.

    Attributes:
        scores: of the whole text. documents: of every document, by metric.
        consistency: of the system and of the (first) reference, whose ratio is what people do.
        comparisons: with the other system, by `samples` bootstrap samples.
    """

    scores: Scores
    documents: Sequence[dict[str, float]] = ()
    comet: float | None = None
    consistency: dict[str, Consistency] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    samples: int = 0

    def __str__(self) -> str:
        parts = [str(self.scores)]
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
        if self.comet is not None:
            content["COMET"] = self.comet
        if self.consistency:
            content["lexical_consistency"] = {who: each.to_dict() for who, each in self.consistency.items()}
        if self.comparisons:
            metrics, said = [each.to_dict() for each in self.comparisons], warnings(self.scores.documents)
            content["paired"] = {"samples": self.samples, "metrics": metrics, "warnings": said}
        if self.documents:
            content["of_documents"] = list(self.documents)
        return content


def score_translation(config: ScoreConfig) -> TranslationReport:
    """Read the files and score.

    Raises:
        UserError: a file cannot be read or is not a translation of the others, line by line.
    """
    layout = read_layout(Path(config.src or config.ref[0]))
    references = [layout.align(Path(path)) for path in config.ref]
    hypotheses = layout.align(Path(config.sys))

    def evaluation(sentences: list[str]) -> Evaluation:
        return evaluate(sentences, references, layout.document_offsets, tokenize=config.sacrebleu_tokenize)

    system = evaluation(hypotheses)
    comparisons: list[Comparison] = []
    samples = SAMPLES if config.samples is None else config.samples
    if config.paired is not None:
        other = evaluation(layout.align(Path(config.paired)))
        seed = SEED if config.seed is None else config.seed
        comparisons = paired_bootstrap(system, other, samples=samples, seed=seed)
    consistency = {}
    comet = None
    if config.src is not None:
        sources = layout.sentences
        lexicon = learn_lexicon(sources, references[0])  # not of the system's text: all are measured alike
        for who, sentences in (("system", hypotheses), ("reference", references[0])):
            consistency[who] = lexical_consistency(sources, sentences, layout.document_offsets, lexicon)
        if config.comet is not None:
            comet = comet_score(config.comet, sources, hypotheses, references[0])
    documents = system.of_documents() if config.per_document else []
    return TranslationReport(system.scores, documents, comet, consistency, comparisons, samples)
