"""What `docnmt-generate` does: translate a split, print it, score it, keep it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from docnmt.commands.config import GenerateConfig, ModelsConfig
from docnmt.commands.models import LoadedModels, check_vocabulary, load_models
from docnmt.commands.output import lines, progress_of, sentences_of_lines, write_lines
from docnmt.config import to_dict
from docnmt.data.corpus import ParallelCorpus
from docnmt.errors import UsageError
from docnmt.files import check_folder, replacing_folder, write_json
from docnmt.scoring.aligned import LineLayout
from docnmt.scoring.comet import require_comet
from docnmt.scoring.config import ReportConfig
from docnmt.scoring.metrics import bleu_tokenizer, evaluate
from docnmt.scoring.report import TranslationReport, report_on
from docnmt.search.config import GenerationConfig, SearchConfig
from docnmt.search.translate import SentenceResult, translate_corpus

#: The file that shows a results folder to be ours.
SCORES = "scores.json"


@dataclass(frozen=True)
class Speed:
    """How fast a corpus was translated; tokens are subwords of the best translations, `</s>` included."""

    seconds: float
    sentences: int
    tokens: int

    def to_dict(self) -> dict[str, float]:
        """What `scores.json` holds."""
        return {
            "seconds": round(self.seconds, 3),
            "sentences_per_second": round(self.sentences / self.seconds, 2),
            "tokens_per_second": round(self.tokens / self.seconds, 1),
        }

    def __str__(self) -> str:
        rates = f"{self.sentences / self.seconds:.1f} sentences/s, {self.tokens / self.seconds:.0f} tokens/s"
        return f"{self.sentences:,} sentences in {self.seconds:.1f} s ({rates})"


def generate(
    config: GenerateConfig,
    models: ModelsConfig,
    options: GenerationConfig,
    search: SearchConfig,
    wanted: ReportConfig,
    *,
    out: TextIO | None = None,
) -> None:
    """Translate a split and print what `docnmt.commands.output` describes, then the scores.

    Raises:
        UserError: checkpoint, data and results folder do not fit; found before anything is translated.
    """
    out = sys.stdout if out is None else out
    if config.results_path is not None:
        check_folder(Path(config.results_path), marker=SCORES, overwrite=config.overwrite)
    loaded = load_models(models)
    check_vocabulary(loaded, Path(config.data))
    corpus = ParallelCorpus.open(Path(config.data), config.gen_subset)
    partners = len(corpus.references) > 0 and corpus.has_partner(np.arange(corpus.num_sentences)).any()
    scored = config.scoring == "sacrebleu" and bool(partners)
    if config.quiet and not scored and config.results_path is None:
        raise UsageError(
            f"--quiet: nothing would be left of the translation of {config.gen_subset}, which is not scored; give "
            "--results-path"
        )
    score = _scoring(loaded, corpus, config, wanted, scored)
    window = models.context_window
    results, speed = _translate(loaded, corpus, options, search, window, None if config.quiet else out)
    texts = [result.text for result in results]
    report = score(texts)
    if report is not None:
        print(report, file=out, flush=True)
    print(speed, file=sys.stderr)
    if config.results_path is not None:
        settings: dict[str, Any] = {"models": [str(path) for path in loaded.paths], "data": config.data}
        settings |= {"split": config.gen_subset, "context_window": window}
        settings |= {"generation": to_dict(options), "search": to_dict(search)}
        _write(Path(config.results_path), config.overwrite, corpus, texts, report, speed, settings)


def _scoring(
    loaded: LoadedModels, corpus: ParallelCorpus, config: GenerateConfig, wanted: ReportConfig, scored: bool
) -> Callable[[Sequence[str]], TranslationReport | None]:
    """How the translations will be scored; whatever that needs is looked for now, before the work."""
    if not scored:
        options = {
            "--paired": wanted.paired, "--per-document": wanted.per_document, "--comet": wanted.comet,
            "--lexical-consistency": config.lexical_consistency,
        }  # fmt: skip
        why = "--scoring none" if config.scoring == "none" else f"split {config.gen_subset}, which has no reference"
        if problems := [f"{name} has no effect with {why}" for name, value in options.items() if value]:
            raise UsageError(problems)
        return lambda texts: None
    tokenize = config.sacrebleu_tokenize or bleu_tokenizer(loaded.task.target_lang)
    evaluate(["."], [["."]], [0, 1], tokenize=tokenize)
    if wanted.comet is not None:
        require_comet()
    layout = _layout(corpus, Path(config.data) / config.gen_subset)
    other = None if wanted.paired is None else layout.align(Path(wanted.paired))
    return lambda texts: report_on(
        layout,
        texts,
        corpus.references,
        other,
        tokenize=tokenize,
        per_document=wanted.per_document,
        consistency=config.lexical_consistency,
        comet=wanted.comet,
    )


def _layout(corpus: ParallelCorpus, path: Path) -> LineLayout:
    """Which lines of the source file, and so of all its translations, are sentences."""
    lines = [count > 0 for count in sentences_of_lines(corpus)]
    sentences = iter(corpus.source_text)
    rows = [next(sentences) if line else "" for line in lines]
    return LineLayout(path, tuple(rows), tuple(corpus.document_offsets.tolist()), tuple(lines))


def _translate(
    loaded: LoadedModels,
    corpus: ParallelCorpus,
    options: GenerationConfig,
    search: SearchConfig,
    context_window: int | None,
    out: TextIO | None,
) -> tuple[list[SentenceResult], Speed]:
    """All translations, printed as they come, and how long that took."""
    results: list[SentenceResult] = []
    start = time.perf_counter()
    with progress_of(corpus, out) as progress:
        settings: dict[str, Any] = {"context_window": context_window, "progress": progress}
        for result in translate_corpus(loaded.models, loaded.task, corpus, options, search, **settings):
            results.append(result)
            if out is not None:
                reference = corpus.references[0][result.number] if corpus.references else ""
                print(*lines(result, corpus.source_text[result.number], reference or None), sep="\n", file=out)
    tokens = sum(len(result.nbest[0].pieces) + 1 for result in results)
    return results, Speed(time.perf_counter() - start, len(results), tokens)


def _write(
    folder: Path,
    overwrite: bool,
    corpus: ParallelCorpus,
    texts: Sequence[str],
    report: TranslationReport | None,
    speed: Speed,
    settings: dict[str, Any],
) -> None:
    """hypotheses.txt, line by line the source file, and scores.json; both or neither."""
    content = {**(report.to_dict() if report is not None else {}), "speed": speed.to_dict(), "settings": settings}
    with replacing_folder(folder, marker=SCORES, overwrite=overwrite) as temporary:
        with (temporary / "hypotheses.txt").open("w", encoding="utf-8") as file:
            write_lines(sentences_of_lines(corpus), iter(texts), file)
        write_json(temporary / SCORES, content)
