"""The report that docnmt-score prints, by parts of the text, and as JSON.

files → aligned lines (`text_files`) → `Evaluation`s of all systems (`metrics`) → `TranslationReport`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from docnmt.core.data_options import parse_columns
from docnmt.core.formality import language_pair
from docnmt.core.scoring.config import SAMPLES, SEED, ReportConfig, ScoreConfig
from docnmt.core.scoring.consistency import (
    Address,
    Consistency,
    address_doubt,
    learn_lexicon,
    lexical_consistency,
    score_address,
)
from docnmt.core.scoring.metrics import (
    Comet,
    Comparison,
    Evaluation,
    Scores,
    evaluate_systems,
    format_comparisons,
    of_seeds,
    paired_bootstrap,
    require_comet,
    reservations,
)
from docnmt.core.scoring.text_files import (
    LineLayout,
    doubts,
    read_layout,
    records_beside,
    resegment,
    training_doubt,
    with_partners,
)
from docnmt.options import flag, same_path
from docnmt.runtime.system import UsageError, check_new, picture_form, write_picture, write_text

# Parts of a text, by place or length of sentences or by length of documents, and the scores of each.


#: The first values of parts: 1, 2, 3-4, 5-8 … sentences; 1-5, 6-10 … tokens.
_DOUBLING = (1, 2, *(2**n + 1 for n in range(1, 40)))
_TOKENS = (1, 6, 11, 16, 21, 31, 41, 61)
_COLUMN_OF_LENGTH = 1  # in the counts of s-BLEU: tokens of the reference


@dataclass(frozen=True, eq=False)
class TextPart:
    """A part of a text: sentences (n,) with a property that `label` names, and the documents that have some of them."""

    label: str
    sentences: np.ndarray
    documents: np.ndarray


def parts(by: str, evaluation: Evaluation) -> list[TextPart]:
    """Divide the text into parts that are not empty, in ascending order, by `position` in the document, from 1, by
    `document-length` in sentences, or by `sentence-length` in the tokens that BLEU sees in the (nearest) reference."""
    offsets = evaluation.document_offsets
    lengths = np.diff(offsets)  # (D,)
    document = np.repeat(np.arange(len(lengths)), lengths)  # (S,)
    begins = _TOKENS if by == "sentence-length" else _DOUBLING
    if by == "position":
        values = np.arange(offsets[-1]) - offsets[document] + 1
    elif by == "document-length":
        values = lengths[document]
    else:
        values = evaluation.sentence_counts["s-BLEU"][:, _COLUMN_OF_LENGTH]
    part_of = np.maximum(np.searchsorted(begins, values, side="right") - 1, 0)  # a line without a token: the first
    chosen = [(part, np.flatnonzero(part_of == part)) for part in np.unique(part_of).tolist()]
    labels = [f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in pairwise(begins)] + [f"{begins[-1]}-"]
    return [TextPart(labels[part], sentences, np.unique(document[sentences])) for part, sentences in chosen]


@dataclass(frozen=True, eq=False)
class PartScores:
    """The scores of every part: `scores[system][part]` by metric; the systems' names are for display."""

    by: str
    parts: Sequence[TextPart]
    scores: dict[str, list[dict[str, float]]]

    @classmethod
    def of(cls, by: str, systems: dict[str, Evaluation]) -> PartScores:
        """Score the parts for systems that were evaluated on the same sentences."""
        divided, whole = parts(by, next(iter(systems.values()))), by == "document-length"
        scores = {
            name: [system.of_part(part.sentences, part.documents if whole else None) for part in divided]
            for name, system in systems.items()
        }
        return cls(by, divided, scores)

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics."""
        return list(next(iter(self.scores.values()))[0])

    def __str__(self) -> str:
        suffixes = ["", *(f" ({name})" for name in list(self.scores)[1:])]
        names = [f"{metric}{suffix}" for metric in self.metrics for suffix in suffixes]
        lines = ["\t".join([self.by, "sentences", "documents", *names])]
        for number, part in enumerate(self.parts):
            values = (scores[number][metric] for metric in self.metrics for scores in self.scores.values())
            counts = (str(len(part.sentences)), str(len(part.documents)))
            lines.append("\t".join([part.label, *counts, *(f"{value:.2f}" for value in values)]))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        parts = []
        for number, part in enumerate(self.parts):
            counts = {"part": part.label, "sentences": len(part.sentences), "documents": len(part.documents)}
            parts.append(counts | {name: scores[number] for name, scores in self.scores.items()})
        return {"by": self.by, "parts": parts}

    def draw(self, path: Path) -> None:
        """Draw a picture with a panel per metric and a line per system."""
        form = picture_form("--plot", path)
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.2 * len(self.metrics), 3.4), layout="constrained")
        for axis, metric in zip(figure.subplots(1, len(self.metrics), squeeze=False)[0], self.metrics, strict=True):
            for name, scores in self.scores.items():
                heights = [of_part[metric] for of_part in scores]
                axis.plot([part.label for part in self.parts], heights, marker="o", label=name)
            axis.set(title=metric, xlabel=self.by.replace("-", " "))
            axis.tick_params(axis="x", rotation=40)
            axis.grid(alpha=0.3)
        figure.axes[0].legend()
        write_picture(figure, path, form)


# The report on a translation that `docnmt-score --ref --sys` and `docnmt-generate` print.


@dataclass
class TranslationReport:
    """A report on a translation; parts that were not requested are empty."""

    scores: Scores  # of the whole text, means of the seeds
    documents: list[dict[str, float]] = field(default_factory=list)  # of every document; {} if nothing of it is scored
    sentences: list[dict[str, float]] = field(default_factory=list)  # likewise
    consistency: dict[str, Consistency] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()  # with the other system
    samples: int = 0  # of the bootstrap
    parts: PartScores | None = None  # for both systems
    address: Address | None = None
    unscored: int = 0  # sentences left out because a reference or the source lacks them
    doubt: str | None = None  # what makes the comparison doubtful, besides its size
    foreign: Sequence[Comparison] = ()  # with the system's own in foreign context
    seeds: Sequence[Scores] = ()  # if there are several

    def __str__(self) -> str:
        pieces = [str(self.scores)]
        if self.seeds:
            pieces.append(f"(means of {len(self.seeds)} seeds)")
            for name in self.scores.values:
                scores = [seed[name] for seed in self.seeds]
                shown = ", ".join(f"{score:.2f}" for score in scores)
                pieces.append(f"({name}: {min(scores):.2f} to {max(scores):.2f}: {shown})")
        if self.unscored:
            pieces.append(f"({self.unscored:,} sentences without a partner are not scored)")
        pieces += [f"lexical consistency, {who}: {share}" for who, share in self.consistency.items()]
        if self.address is not None:
            pieces.append(str(self.address))
        if self.comparisons:
            pieces.append(format_comparisons(self.comparisons, self.scores.documents, self.samples))
            pieces += [f"note: {self.doubt}"] if self.doubt else []
        if self.foreign:
            table = format_comparisons(self.foreign, self.scores.documents, self.samples, ("true", "foreign"))
            pieces.append(f"true context - foreign context:\n{table}")
        if self.parts is not None:
            pieces.append(str(self.parts))
        return "\n".join([*pieces, *_table("document", self.documents), *_table("sentence", self.sentences)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; parts that were not requested are left out."""

        def compared(comparisons: Sequence[Comparison], doubt: str | None) -> dict[str, Any]:
            warnings = [*reservations(self.scores.documents), *([doubt] if doubt else [])]
            metrics = [comparison.to_dict() for comparison in comparisons]
            return {"samples": self.samples, "metrics": metrics, "warnings": warnings} if metrics else {}

        parts = {
            "unscored": self.unscored,
            "lexical_consistency": {who: share.to_dict() for who, share in self.consistency.items()},
            "address": self.address and self.address.to_dict(),
            "paired": compared(self.comparisons, self.doubt),
            "foreign": compared(self.foreign, None),
            "seeds": {name: of_seeds([seed[name] for seed in self.seeds]) for name in self.scores.values if self.seeds},
            "of_parts": self.parts and self.parts.to_dict(),
            "of_documents": self.documents,
            "of_sentences": self.sentences,
        }
        return self.scores.to_dict() | {name: part for name, part in parts.items() if part}


def _table(unit: str, scores: Sequence[dict[str, float]]) -> list[str]:
    """Return the lines of a table, its units numbered from 1."""
    names = next(filter(None, scores), {})
    lines = ["\t".join([unit, *names])] if scores else []
    for number, values in enumerate(scores, 1):
        lines.append("\t".join([str(number), *(f"{values[name]:.2f}" if values else "-" for name in names)]))
    return lines


def check_wanted(wanted: ReportConfig, systems: int = 1, problems: Sequence[str] = ()) -> None:
    """Refuse, before long work, a report that cannot be had, of so many seeds of a system; `problems` are others."""
    problems = list(problems)
    if wanted.foreign and len(wanted.foreign) != systems:
        problems.append(f"--foreign: expected {systems}, one for each --sys, in its order; got {len(wanted.foreign)}")
    if systems > 1:
        names = [name for name in ("by", "per_document", "per_sentence", "address") if getattr(wanted, name)]
        problems += [f"{flag(name)}: is of one translation; give one --sys" for name in names]
    elif len(wanted.paired) > 1 and (wanted.by or wanted.address):
        problems.append("--by and --address compare with one translation; give one --paired")
    if problems:
        raise UsageError(problems)
    if wanted.comet_model is not None:
        require_comet()
    if wanted.plot is not None:
        picture_form("--plot", Path(wanted.plot))


def report_on(
    layout: LineLayout,
    seeds: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    others: Sequence[Sequence[str]] = (),
    foreign: Sequence[Sequence[str]] = (),
    *,
    tokenize: str,
    wanted: ReportConfig,
    consistency: bool = False,
    samples: int = SAMPLES,
    seed: int = SEED,
    doubt: str | None = None,
) -> TranslationReport:
    """Score a translation, and add the other requested parts of the report.

    `layout` is of the source if a part needs one, as COMET and lexical consistency do. `seeds` are the system's
    sentences, of each of its seeds, `others` those of another system, `foreign` the system's own in foreign context.
    Nothing is scored where the layout's own sentence or one of the `references` is empty."""
    numbers, scored, references, texts = with_partners(layout, references, [*seeds, *others, *foreign])
    offsets, sources = scored.document_offsets, scored.sentences
    systems = evaluate_systems(texts, references, offsets, tokenize=tokenize, metrics=wanted.asked_metrics)
    if wanted.comet_model is not None:
        comet = Comet(wanted.comet_model, wanted.comet_window or 1, wanted.comet_stride or 1, wanted.comet_qe)
        counts = comet.counts(texts, sources, references[0], offsets)
        systems = [system.including("COMET", comet, shares) for system, shares in zip(systems, counts, strict=True)]
    of_seeds = [system.scores for system in systems[: len(seeds)]]
    means = {name: fmean(scores[name] for scores in of_seeds) for name in of_seeds[0].values}
    report = TranslationReport(replace(of_seeds[0], values=means), samples=samples, doubt=doubt)
    report.unscored = len(seeds[0]) - len(numbers)
    report.seeds = of_seeds if len(seeds) > 1 else ()
    if consistency:
        lexicon = learn_lexicon(sources, references[0])  # not from the system's text: all are measured alike
        for who, sentences in (("system", texts[0]), ("reference", references[0])):
            report.consistency[who] = lexical_consistency(sources, sentences, offsets, lexicon)
    evaluations = [systems]
    if wanted.address is not None:
        source, target = language_pair(wanted.address)
        if of_language := address_doubt(sources, references[0], target, source):
            print(f"warning: --address {wanted.address}: {of_language}", file=sys.stderr)
        languages = {"language": target, "source_language": source}
        addresses = [score_address(sources, lines, references[0], offsets, **languages) for lines in texts]
        evaluations.append([address.evaluation for address in addresses])
        report.address = addresses[0]

    def compared(begin: int, end: int) -> list[Comparison]:
        pairs = [(every[: len(seeds)], every[begin:end]) for every in evaluations if every[begin:end]]
        return [row for pair in pairs for row in paired_bootstrap(*pair, samples=samples, seed=seed)]

    report.comparisons = compared(len(seeds), len(seeds) + len(others))
    report.foreign = compared(len(seeds) + len(others), len(systems))
    first = systems[0]
    if wanted.per_document:  # those without a scored sentence are empty
        report.documents = [{} for _ in layout.document_offsets[1:]]
        numbered = layout.documents_with(numbers) if scored is not layout else range(first.documents)
        for document, scores in zip(numbered, first.of_documents(), strict=True):
            report.documents[document] = scores
    if wanted.per_sentence:  # by metrics suited to sentences, which BLEU is not
        report.sentences = [{} for _ in seeds[0]]
        for name in (name for name in first.sentence_counts if not name.startswith("s-BLEU")):
            for number, score in zip(numbers, first.of_sentences(name), strict=True):
                report.sentences[number][name] = score
    if wanted.by is not None:
        shown = [first, *systems[len(seeds) : len(seeds) + len(others)]]
        report.parts = PartScores.of(wanted.by, dict(zip(("system", "other"), shown, strict=False)))
        if wanted.plot is not None:
            report.parts.draw(Path(wanted.plot))
    return report


# The command `docnmt-score --ref --sys`: read the files, align the sentences, score.


#: Number of notes on documents of unusual length that are printed.
_MOST_NOTES = 5


def score_translation(config: ScoreConfig, wanted: ReportConfig) -> TranslationReport:
    """Read the files and score."""
    bootstrap = {} if wanted.paired or wanted.foreign else {"--samples": config.samples, "--seed": config.seed}
    useless = [name for name, value in bootstrap.items() if value is not None]
    problems = [f"{name} has no effect without --paired or --foreign" for name in useless]
    if wanted.comet_model is not None and config.src is None:
        problems.append(f"{'--comet' if wanted.comet else '--metrics COMET'} reads the source too: give --src FILE")
    if wanted.address is not None and config.src is None:
        problems.append("--address counts lines whose source speaks to somebody: give --src FILE")
    check_wanted(wanted, len(config.sys), problems)
    if same_path(config.resegmented, wanted.plot):
        raise UsageError(f"--resegmented and --plot are both {wanted.plot}; give one of them another name")
    reads = (*config.ref, *config.sys, *filter(None, (config.src,)), *wanted.paired, *wanted.foreign)
    for name in filter(None, (config.resegmented, wanted.plot)):
        check_new(Path(name), overwrite=config.overwrite, reads=reads)
    columns, _ = parse_columns(config.columns)
    layout = read_layout(Path(config.src or config.ref[0]), columns, "source" if config.src else "target")
    references = [layout.align(Path(path), columns, "target") for path in config.ref]
    for doubt in doubts(references[0], config.sacrebleu_tokenize):
        print(f"warning: {config.ref[0]}: {doubt}", file=sys.stderr)

    def read(path: str) -> list[str]:
        if not config.resegment:
            return layout.align(Path(path), columns)
        sentences, notes = resegment(Path(path), layout, references[0], columns)
        for note in notes[:_MOST_NOTES]:
            print(f"note: {note}; it is scored as it is", file=sys.stderr)
        if (more := len(notes) - _MOST_NOTES) > 0:
            print(f"note: {path}: {more:,} more documents are empty or of unusual length", file=sys.stderr)
        return sentences

    systems = [read(path) for path in config.sys]
    if config.resegmented is not None:
        write_text(Path(config.resegmented), layout.written(systems[0]))
    return report_on(
        layout,
        systems,
        references,
        [read(path) for path in wanted.paired],
        [read(path) for path in wanted.foreign],
        tokenize=config.sacrebleu_tokenize,
        wanted=wanted,
        consistency=config.src is not None and len(systems) == 1,
        samples=SAMPLES if config.samples is None else config.samples,
        seed=SEED if config.seed is None else config.seed,
        doubt=training_doubt(records_beside(config.sys), records_beside(wanted.paired)),
    )
