"""What the scripts of the page read: every column of text, and the scores by which rows are ordered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from docnmt.report.config import PageConfig
from docnmt.report.measured import System
from docnmt.report.texts import Texts

#: Metrics whose smaller values are the better ones.
LOWER_IS_BETTER = ("TER",)


def columns(texts: Texts, config: PageConfig) -> Iterator[tuple[str, str | None, Sequence[str]]]:
    """Of every column its name, its language and its S sentences: the source, the references, the systems."""
    if texts.source is not None:
        yield "Source", config.source_lang, texts.source
    for number, reference in enumerate(texts.references, 1):
        yield f"Reference {number}" if len(texts.references) > 1 else "Reference", config.target_lang, reference
    for name, sentences in texts.systems.items():
        yield name, config.target_lang, sentences


def page_data(texts: Texts, systems: Sequence[System], config: PageConfig) -> dict[str, Any]:
    """Plain JSON types; scores have two digits after the point, as nobody reads more."""
    of_documents = [system.evaluation.of_documents() for system in systems]
    return {
        "columns": [
            {"name": name, "lang": language, "text": list(sentences)}
            for name, language, sentences in columns(texts, config)
        ],
        "systems": list(texts.systems),
        "offsets": list(texts.document_offsets),
        "lower_is_better": LOWER_IS_BETTER,
        "sentences": {"chrF": [system.of_sentences("chrF").round(2).tolist() for system in systems]},
        "documents": {
            metric: [[round(scores[metric], 2) for scores in documents] for documents in of_documents]
            for metric in systems[0].evaluation.metrics
        },
    }
