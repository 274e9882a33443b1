"""Data for the scripts of the page: every column of text, and the scores by which rows are sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from docnmt.apps.options import PageConfig
from docnmt.apps.report.report_texts import ReportTexts
from docnmt.core.scoring.evaluation import Evaluation, lower_is_better
from docnmt.registry.registry import METRICS


def columns(texts: ReportTexts, config: PageConfig) -> Iterator[tuple[str, str | None, Sequence[str]]]:
    """Yield the name, the language and the S sentences of every column: the source, the references, the systems."""
    if texts.source is not None:
        yield "Source", config.source_lang, texts.source
    for number, reference in enumerate(texts.references, 1):
        yield f"Reference {number}" if len(texts.references) > 1 else "Reference", config.target_lang, reference
    for name, sentences in texts.systems.items():
        yield name, config.target_lang, sentences


def page_data(texts: ReportTexts, systems: Mapping[str, Evaluation], config: PageConfig) -> dict[str, Any]:
    """Return the data as plain JSON types."""
    of_documents = [system.of_documents() for system in systems.values()]
    return {
        "columns": [
            {"name": name, "lang": language, "text": list(sentences)}
            for name, language, sentences in columns(texts, config)
        ],
        "systems": list(texts.systems),
        "offsets": list(texts.document_offsets),
        "lower_is_better": list(filter(lower_is_better, METRICS.names())),
        "sentences": {"chrF": [_rounded(system.of_sentences("chrF")) for system in systems.values()]},
        "documents": {
            metric: [_rounded(scores[metric] for scores in documents) for documents in of_documents]
            for metric in next(iter(systems.values())).metrics
        },
    }


def _rounded(scores: Iterable[float]) -> list[float]:
    """Round scores to two decimals."""
    return [round(score, 2) for score in scores]
