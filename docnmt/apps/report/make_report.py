"""The command `docnmt-report`: read, evaluate, write the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docnmt.apps.options import PageConfig
from docnmt.apps.report import charts
from docnmt.apps.report.discourse_results import read_test_sets
from docnmt.apps.report.measure import Bootstrap
from docnmt.apps.report.page_data import columns, page_data
from docnmt.apps.report.part_scores import divisions
from docnmt.apps.report.report_page import check_replaceable, render
from docnmt.apps.report.report_texts import ReportTexts, read_texts
from docnmt.core.scoring.bootstrap import FEW_DOCUMENTS, reservations
from docnmt.core.scoring.config import DEFAULT
from docnmt.core.scoring.consistency import learn_lexicon, lexical_consistency
from docnmt.core.scoring.evaluation import Evaluation, lower_is_better
from docnmt.core.scoring.metrics import evaluate_systems
from docnmt.runtime.files import check_writable, write_text


def write_report(config: PageConfig) -> None:
    """Write the page.

    Raises:
        UsageError: two systems have one name.
        UserError: a file cannot be read or does not fit the others, or the page cannot be written.
    """
    out = Path(config.out)
    check_replaceable(out)
    texts, test_sets = read_texts(config), read_test_sets(config.discourse)
    check_writable(out)
    systems = _evaluated(texts, config)
    bootstrap = Bootstrap(config.samples, config.seed)
    content = {
        "title": config.title,
        "summary": _summary(texts),
        "systems": list(texts.systems),
        "documents": len(texts.document_offsets) - 1,
        "columns": [name for name, _, _ in columns(texts, config)],
        "first_reference": int(texts.source is not None),
        "consistency": _consistency(texts),
        "test_sets": test_sets,
        **_scores(systems, bootstrap),
        **_parts(systems, bootstrap),
        **_method(config, texts),
    }
    write_text(out, render(content, page_data(texts, systems, config)))


def _summary(texts: ReportTexts) -> str:
    def count(number: int, one: str) -> str:
        return f"{number:,} {one}{'' if number == 1 else 's'}"

    sizes = [len(texts.systems), texts.document_offsets[-1], len(texts.document_offsets) - 1, len(texts.references)]
    systems, sentences, documents, references = map(count, sizes, ["system", "sentence", "document", "reference"])
    left = f"; {count(texts.unscored, 'sentence')} without a partner left out" if texts.unscored else ""
    return f"{systems}, {sentences} in {documents}, {references}{left}"


def _evaluated(texts: ReportTexts, config: PageConfig) -> dict[str, Evaluation]:
    """Evaluate every system, with TER only if requested."""
    found = evaluate_systems(
        list(texts.systems.values()),
        texts.references,
        texts.document_offsets,
        tokenize=config.sacrebleu_tokenize,
        metrics=(*DEFAULT, "TER") if config.ter else DEFAULT,
    )
    return dict(zip(texts.systems, found, strict=True))


def _scores(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the systems' scores on the whole text, and their comparison."""
    every = list(systems.values())
    scores = {
        metric: [bootstrap.interval(system, metric, system.counts[metric]) for system in every]
        for metric in every[0].metrics
    }
    best = {}
    for metric, row in scores.items():
        shown = [round(each.score, 1) for each in row]
        top = min(shown) if lower_is_better(metric) else max(shown)
        best[metric] = {n for n, score in enumerate(shown) if score == top and len(systems) > 1}
    documents = every[0].documents
    one = ["The text is one document, so there are no intervals and no tests: both draw whole documents."]
    return {
        "metrics": list(scores),
        "lower_is_better": list(filter(lower_is_better, scores)),
        "scores": scores,
        "signatures": every[0].scores.signatures,
        "best": best,
        "bars": {metric: charts.bars(row) for metric, row in scores.items()},
        "pairs": bootstrap.pairs(systems),
        "notes": one if documents == 1 else [f"{note[0].upper()}{note[1:]}." for note in reservations(documents)],
    }


def _parts(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the scores by position and length, as tables and charts."""
    divided = list(divisions(systems, bootstrap))
    drawn = [
        [
            charts.chart(
                metric,
                division.unit,
                [part.label for part in division.parts],
                list(systems),
                [part.scores[metric] for part in division.parts],
            )
            for metric in division.parts[0].scores
        ]
        for division in divided
    ]
    smallest = min(part.documents for division in divided for part in division.parts)
    several = next(iter(systems.values())).documents > 1  # else there are no intervals
    few = FEW_DOCUMENTS if several and smallest < FEW_DOCUMENTS else None
    return {"divisions": list(zip(divided, drawn, strict=True)), "few": few}


def _consistency(texts: ReportTexts) -> list[str]:
    """Return the lexical consistency of each system and, last, of the reference; empty without a source."""
    if texts.source is None:
        return []
    lexicon = learn_lexicon(texts.source, texts.references[0])
    measured = [
        lexical_consistency(texts.source, sentences, texts.document_offsets, lexicon)
        for sentences in (*texts.systems.values(), texts.references[0])
    ]
    return [f"{each.ratio:.1f}" if each.pairs else "–" for each in measured]


def _method(config: PageConfig, texts: ReportTexts) -> dict[str, Any]:
    """Describe how the numbers were computed."""
    documents = len(texts.document_offsets) - 1
    method = {}
    if documents > 1:
        method["Intervals, tests"] = (
            f"paired bootstrap over documents, {config.samples:,} samples, seed {config.seed}; parts of the text draw "
            "from the documents that have sentences in them"
        )
    method["By sentence"] = "the marks, and the order of sentences, are by words and by sentence chrF"
    given = {"--ref": config.ref, "--src": [config.src] if config.src else [], "--sys": config.sys}
    return {"method": method, "files": {option: names for option, names in given.items() if names}}
