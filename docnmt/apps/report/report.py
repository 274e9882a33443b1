"""docnmt-report: systems compared on one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docnmt.apps.options import PageConfig
from docnmt.apps.pages import SHARED, beginning, self_contained, template
from docnmt.apps.report import scores as charts
from docnmt.apps.report.scores import Bootstrap, divisions, names_of, read_test_sets
from docnmt.core.data_options import parse_columns
from docnmt.core.scoring.config import DEFAULT
from docnmt.core.scoring.consistency import learn_lexicon, lexical_consistency
from docnmt.core.scoring.metrics import FEW_DOCUMENTS, Evaluation, evaluate_systems, lower_is_better, reservations
from docnmt.core.scoring.text_files import read_layout, with_partners
from docnmt.registry import METRICS
from docnmt.runtime.system import UserError, check_writable, write_text


@dataclass(frozen=True)
class _ReportTexts:
    """The S sentences of each text; an empty sentence of a system is a missing translation.

    Attributes:
        document_offsets: (D+1) the sentence where each document begins, and S.
        source: None if not given. systems: by name, in the order of `--sys`.
        unscored: number of sentences left out because the source or a reference lacks them.
    """

    document_offsets: Sequence[int]
    source: Sequence[str] | None
    references: Sequence[Sequence[str]]
    systems: Mapping[str, Sequence[str]]
    unscored: int


def read_texts(config: PageConfig) -> _ReportTexts:
    """Read the files."""
    names = names_of(config.sys, "--sys", config.names)
    columns, _ = parse_columns(config.columns)
    layout = read_layout(Path(config.src or config.ref[0]), columns, "source" if config.src else "target")
    numbers, scored, references, systems = with_partners(
        layout,
        [layout.align(Path(path), columns, "target") for path in config.ref],
        [layout.align(Path(path), columns) for path in config.sys],
    )
    unscored = len(layout.sentences) - len(numbers)
    source = scored.sentences if config.src else None
    return _ReportTexts(scored.document_offsets, source, references, dict(zip(names, systems, strict=True)), unscored)


def _columns(texts: _ReportTexts, config: PageConfig) -> Iterator[tuple[str, str | None, Sequence[str]]]:
    """Yield the name, the language and the S sentences of every column: the source, the references, the systems."""
    if texts.source is not None:
        yield "Source", config.source_lang, texts.source
    for number, reference in enumerate(texts.references, 1):
        yield f"Reference {number}" if len(texts.references) > 1 else "Reference", config.target_lang, reference
    for name, sentences in texts.systems.items():
        yield name, config.target_lang, sentences


def _page_data(texts: _ReportTexts, systems: Mapping[str, Evaluation], config: PageConfig) -> dict[str, Any]:
    """Return the data as plain JSON types."""
    of_documents = [system.of_documents() for system in systems.values()]
    shown = _columns(texts, config)
    return {
        "columns": [{"name": name, "lang": language, "text": list(sentences)} for name, language, sentences in shown],
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
    return [round(score, 2) for score in scores]


#: Number of colours in page.css; further systems reuse them with other shapes.
STYLES = 6
#: Number of tests between systems that are shown unfolded.
PAIRS = 15
_NAME = "docnmt-report"
#: The beginning of every page, by which earlier reports are recognised.
HEAD = beginning(_NAME)
_SCRIPTS = ("diff.js", "documents.js", "text.js")


def _check_replaceable(path: Path) -> None:
    """Check before long work that no file of this name exists, or only an earlier report."""
    if not path.is_file():
        return  # no file, or an invalid name: writing reports it
    try:
        with path.open("rb") as file:
            begins = file.read(len(HEAD))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    if begins != HEAD.encode():
        raise UserError(f"{path}: exists and is not a report of docnmt-report; choose another name")


def render(content: dict[str, object], data: dict[str, object]) -> str:
    """Render the page from `content`, the variables of page.html, and `data` for the scripts."""
    constants: dict[str, object] = {"styles": STYLES, "most_pairs": PAIRS}
    constants |= {"width": charts.WIDTH, "height": charts.HEIGHT}
    package = "docnmt.apps.report"
    scripts = "\n".join(template(package, name) for name in _SCRIPTS)
    return self_contained(package, _NAME, template(SHARED, "page.css"), scripts, {**constants, **content}, data)


# The command `docnmt-report`: read, evaluate, write the page.


def write_report(config: PageConfig) -> None:
    """Write the page."""
    out = Path(config.out)
    _check_replaceable(out)
    texts, test_sets = read_texts(config), read_test_sets(config.discourse)
    check_writable(out)
    metrics, translations = (*DEFAULT, "TER") if config.ter else DEFAULT, list(texts.systems.values())
    tokenize, offsets = config.sacrebleu_tokenize, texts.document_offsets
    evaluations = evaluate_systems(translations, texts.references, offsets, tokenize=tokenize, metrics=metrics)
    systems = dict(zip(texts.systems, evaluations, strict=True))
    bootstrap = Bootstrap(config.samples, config.seed)
    content = {
        "title": config.title, "summary": _summary(texts), "systems": list(texts.systems),
        "documents": len(texts.document_offsets) - 1, "columns": [name for name, _, _ in _columns(texts, config)],
        "first_reference": int(texts.source is not None), "consistency": _consistency(texts), "test_sets": test_sets,
        **_scores(systems, bootstrap), **_parts(systems, bootstrap), **_method(config, texts),
    }  # fmt: skip
    write_text(out, render(content, _page_data(texts, systems, config)))


def _summary(texts: _ReportTexts) -> str:
    def count(number: int, one: str) -> str:
        return f"{number:,} {one}{'' if number == 1 else 's'}"

    sizes = [len(texts.systems), texts.document_offsets[-1], len(texts.document_offsets) - 1, len(texts.references)]
    systems, sentences, documents, references = map(count, sizes, ["system", "sentence", "document", "reference"])
    left = f"; {count(texts.unscored, 'sentence')} without a partner left out" if texts.unscored else ""
    return f"{systems}, {sentences} in {documents}, {references}{left}"


def _scores(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the systems' scores on the whole text, and their comparison."""
    every = list(systems.values())
    metrics = every[0].metrics
    scores = {m: [bootstrap.interval(system, m, system.counts[m]) for system in every] for m in metrics}
    best = {}
    for metric, row in scores.items():
        shown = [round(each.score, 1) for each in row]
        top = min(shown) if lower_is_better(metric) else max(shown)
        best[metric] = {n for n, score in enumerate(shown) if score == top and len(systems) > 1}
    documents = every[0].documents
    one = ["The text is one document, so there are no intervals and no tests: both draw whole documents."]
    return {
        "metrics": list(scores), "lower_is_better": list(filter(lower_is_better, scores)), "scores": scores,
        "signatures": every[0].scores.signatures, "best": best,
        "bars": {metric: charts.bars(row) for metric, row in scores.items()}, "pairs": bootstrap.pairs(systems),
        "notes": one if documents == 1 else [f"{note[0].upper()}{note[1:]}." for note in reservations(documents)],
    }  # fmt: skip


def _parts(systems: Mapping[str, Evaluation], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the scores by position and length, as tables and charts."""
    divided = list(divisions(systems, bootstrap))
    drawn: list[list[charts.Chart]] = []
    for division in divided:
        labels = [part.label for part in division.parts]
        scores = {metric: [part.scores[metric] for part in division.parts] for metric in division.parts[0].scores}
        drawn.append([charts.chart(m, division.unit, labels, list(systems), rows) for m, rows in scores.items()])
    smallest = min(part.documents for division in divided for part in division.parts)
    several = next(iter(systems.values())).documents > 1  # else there are no intervals
    few = FEW_DOCUMENTS if several and smallest < FEW_DOCUMENTS else None
    return {"divisions": list(zip(divided, drawn, strict=True)), "few": few}


def _consistency(texts: _ReportTexts) -> list[str]:
    """Return the lexical consistency of each system and, last, of the reference; empty without a source."""
    if texts.source is None:
        return []
    lexicon = learn_lexicon(texts.source, texts.references[0])
    every, offsets = (*texts.systems.values(), texts.references[0]), texts.document_offsets
    measured = [lexical_consistency(texts.source, sentences, offsets, lexicon) for sentences in every]
    return [f"{each.ratio:.1f}" if each.pairs else "–" for each in measured]


def _method(config: PageConfig, texts: _ReportTexts) -> dict[str, Any]:
    method = {}
    if len(texts.document_offsets) > 2:
        method["Intervals, tests"] = (
            f"paired bootstrap over documents, {config.samples:,} samples, seed {config.seed}; parts of the text draw "
            "from the documents that have sentences in them"
        )
    method["By sentence"] = "the marks, and the order of sentences, are by words and by sentence chrF"
    given = {"--ref": config.ref, "--src": [config.src] if config.src else [], "--sys": config.sys}
    return {"method": method, "files": {option: names for option, names in given.items() if names}}
