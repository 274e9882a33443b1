"""docnmt-generate: a split of a data folder, translated and scored; and the models behind docnmt-score.
Prints S-, T-, H-, D-, P-lines in input order, then the metrics; --results-path gets hypotheses.txt and scores.json.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, TextIO

import msgspec
import numpy as np

from docnmt.apps.commands.output import (
    Aligned,
    Limited,
    Speed,
    beginning,
    lines,
    pharaoh,
    progress_of,
    sentences_of_lines,
    with_alignments,
    write_lines,
)
from docnmt.apps.commands.translating import Given, LoadedModels, Translating, check_vocabulary, load_models
from docnmt.apps.explain.explain import check_explain, write_explanation
from docnmt.apps.options import GenerateConfig, MemoryConfig, ModelsConfig
from docnmt.core.corpus import ParallelCorpus, TextArray
from docnmt.core.read_corpus import TextLines
from docnmt.core.scoring.config import ReportConfig
from docnmt.core.scoring.discourse import ForcedExample, Question
from docnmt.core.scoring.metrics import bleu_tokenizer, evaluate, scored_sentences
from docnmt.core.scoring.report import TranslationReport, check_wanted, report_on
from docnmt.core.scoring.text_files import HYPOTHESES, SCORES, LineLayout, records_beside, training_doubt
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.translate import Translation, first_of_documents, forced_scores
from docnmt.options import to_dict
from docnmt.runtime import jobs as ranks
from docnmt.runtime.progress import Progress, how_many
from docnmt.runtime.system import UsageError, UserError, check_folder, check_new, replacing_folder, write_json


@dataclass(frozen=True, eq=False)
class Rest:
    """The sentences of a corpus without given translations; `numbers` (R,) are theirs in the corpus, in order."""

    corpus: ParallelCorpus
    numbers: np.ndarray

    @classmethod
    def of(cls, corpus: ParallelCorpus, given: Sequence[str | None] | None) -> Rest:
        """Select the sentences for which `given` has no translation; None selects all."""
        if given is None:
            return cls(corpus, np.arange(corpus.num_sentences))
        return cls(corpus, np.array([n for n, text in enumerate(given) if text is None], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def document_offsets(self) -> np.ndarray:
        """The place (D+1,) where each document begins in the rest; one that is given whole has no sentence there."""
        return np.searchsorted(self.numbers, self.corpus.document_offsets)

    def texts(self, side: TextArray) -> list[str]:
        """Return these sentences of one side."""
        return [side[int(number)] for number in self.numbers]

    def lines(self) -> list[int]:
        """Return the lines of the source file without given sentences: 1, or 0 for an empty one."""
        left = np.zeros(self.corpus.num_sentences, dtype=bool)
        left[self.numbers] = True
        sentences = iter(left.tolist())
        return [count for count in sentences_of_lines(self.corpus) if not count or next(sentences)]

    def layout(self, path: Path) -> LineLayout:
        """Return the layout of these lines, and so of all translations; messages call it `path`."""
        lines = [count > 0 for count in self.lines()]
        sentences = iter(self.texts(self.corpus.source_text))
        rows = tuple(next(sentences) if line else "" for line in lines)
        return LineLayout(path, rows, tuple(self.document_offsets.tolist()), tuple(lines))


@dataclass(frozen=True)
class Generated:
    """Of each document the best translation of each sentence that was not given, and the content of `scores.json`."""

    translations: list[list[Translation]]
    scores: dict[str, Any]


# The command `docnmt-generate`: translate a split, print it, score it, write the results.


def generate(
    config: GenerateConfig, models: ModelsConfig, memory: MemoryConfig, options: GenerationConfig, search: SearchConfig,
    wanted: ReportConfig, *, out: TextIO | None = None,
) -> Generated:  # fmt: skip
    """Translate a split and print the lines of `docnmt.apps.commands.output`, then the scores."""
    out = sys.stdout if out is None else out
    if config.results_path is not None:
        check_folder(Path(config.results_path), marker=SCORES, overwrite=config.overwrite)
    check_explain(config.explain, overwrite=config.overwrite)
    for name, file in (("--explain", config.explain), ("--plot", wanted.plot)):
        if config.results_path and file and Path(file).resolve().is_relative_to(Path(config.results_path).resolve()):
            raise UsageError(f"{name} {file}: is in --results-path, which is written as a whole; give another place")
    corpus = ParallelCorpus.open(Path(config.data), config.gen_subset)  # before models, which take longer
    translating = Translating.open(models, memory, options, search)
    loaded = translating.loaded
    check_vocabulary(loaded, Path(config.data))
    prefixes = None if config.prefix is None else _prefixes(corpus, Path(config.prefix))
    if config.gen_first is not None:
        corpus = corpus.first_documents(config.gen_first)
        prefixes = prefixes and prefixes[: corpus.num_sentences]
    given = _given(corpus, config)
    if options.formality == "given" and given is None:
        raise UsageError("--formality given: no translations are given; give --prefix-references SHARE, too")
    corpus = translating.tagged(corpus, given)
    rest = Rest.of(corpus, given)
    references = [rest.texts(reference) for reference in corpus.references]
    scored = config.scoring == "sacrebleu" and len(references) > 0 and len(scored_sentences(references)) > 0
    score = _scoring(loaded, rest, config, wanted, references if scored else [])
    aligned, speed = _translate(translating, corpus, given, prefixes, config, None if config.quiet else out)
    results = [result for result, _ in aligned]
    bounds = pairwise(rest.document_offsets.tolist())
    documents = [[result.nbest[0] for result in results[begin:end]] for begin, end in bounds]
    if ranks.rank():
        return Generated(documents, {})
    texts = [result.text for result in results]
    report = score(texts)
    if report is not None:
        print(report, file=out, flush=True)
        if config.gen_first is not None:
            print(f"(of the first {how_many(corpus.num_documents, 'document')})", file=out)
        if config.prefix_references:
            print(f"(without the first {config.prefix_references:g} of each document, which was given)", file=out)
    print(speed, file=sys.stderr)
    parts = {"context_window": models.context_window, "memory": to_dict(memory)}
    parts |= {"generation": to_dict(options), "search": to_dict(search)}
    content = _content(loaded, config, report, speed, parts)
    if config.results_path is not None:
        words = [pharaoh(pairs[0]) for _, pairs in aligned if pairs]
        _write(config, Path(config.results_path), rest, texts, words, content)
    if config.explain is not None:  # last: it takes long, and earlier results are kept if it fails
        write_explanation(Path(config.explain), translating.explained(corpus, results, given), loaded)
    return Generated(documents, content)


def _content(
    loaded: LoadedModels, config: GenerateConfig, report: TranslationReport | None, speed: Speed, parts: dict[str, Any]
) -> dict[str, Any]:
    """Return scores.json: scores, the part of the split, speed, and the settings, including `parts`."""
    of = {"prefix_references": config.prefix_references, "prefix": config.prefix, "gen_first": config.gen_first}
    settings = {"models": [str(path) for path in loaded.paths], "data": config.data, "split": config.gen_subset}
    return {
        **({} if report is None else report.to_dict()), **{name: value for name, value in of.items() if value},
        "speed": speed.to_dict(), "models": msgspec.to_builtins(loaded.records), "settings": {**settings, **parts},
    }  # fmt: skip


def _given(corpus: ParallelCorpus, config: GenerateConfig) -> list[str | None] | None:
    """Return the references given by `--prefix-references`, with a note on documents that are given entirely."""
    if not config.prefix_references:
        return None
    if not corpus.references:
        raise UsageError(f"--prefix-references: split {config.gen_subset} has no reference to give")
    given = first_of_documents(corpus.references[0], corpus.document_offsets.tolist(), config.prefix_references)
    if whole := int((np.diff(Rest.of(corpus, given).document_offsets) == 0).sum()):
        print(f"note: {whole:,} of {corpus.num_documents:,} documents are given whole, not translated", file=sys.stderr)
    return given


def _prefixes(corpus: ParallelCorpus, path: Path) -> list[str | None]:
    """Read `--prefix`: a line a sentence, or the split's lines, an empty one between documents."""
    texts: list[str | None] = [line.strip() or None for line in TextLines(path)]
    breaks = {int(end) + number for number, end in enumerate(corpus.document_offsets[1:-1])}
    if len(texts) == corpus.num_sentences + len(breaks) and not any(texts[number] for number in breaks):
        texts = [text for number, text in enumerate(texts) if number not in breaks]
    if len(texts) != corpus.num_sentences:
        raise UserError(
            f"--prefix {path}: {len(texts):,} lines; expected one for each of the {corpus.num_sentences:,} sentences, "
            "empty where a translation may begin as it likes"
        )
    return texts


def _scoring(
    loaded: LoadedModels, rest: Rest, config: GenerateConfig, wanted: ReportConfig, references: Sequence[Sequence[str]]
) -> Callable[[Sequence[str]], TranslationReport | None]:
    """Return a function that scores translations of the rest; check now, before the work, that it will be possible."""
    if not references:
        if config.quiet and config.results_path is None and config.explain is None:
            raise UsageError(
                f"--quiet: nothing would be left of the translation of {config.gen_subset}, which is not scored; give "
                "--results-path"
            )
        names = ("paired", "foreign", "by", "per_document", "per_sentence", "comet", "metrics", "address")
        options = {f"--{name.replace('_', '-')}": getattr(wanted, name) for name in names}
        options["--lexical-consistency"] = config.lexical_consistency
        split = f"split {config.gen_subset}, which has no reference"
        if rest.corpus.references:
            split = f"--prefix-references {config.prefix_references:g}, which leaves nothing to score"
        why = "--scoring none" if config.scoring == "none" else split
        if problems := [f"{name} has no effect with {why}" for name, value in options.items() if value]:
            raise UsageError(problems)
        return lambda texts: None
    tokenize = config.sacrebleu_tokenize or bleu_tokenizer(loaded.task.target_lang)
    evaluate(["."], [["."]], [0, 1], tokenize=tokenize, metrics=wanted.asked_metrics)
    check_wanted(wanted)
    if wanted.plot is not None:
        check_new(Path(wanted.plot), overwrite=config.overwrite)
    layout = rest.layout(Path(config.data) / config.gen_subset)
    others, foreign = ([layout.align(Path(path)) for path in paths] for paths in (wanted.paired, wanted.foreign))
    doubt = training_doubt(loaded.records, records_beside(wanted.paired))
    more: dict[str, Any] = {"tokenize": tokenize, "wanted": wanted, "doubt": doubt}
    more["consistency"] = config.lexical_consistency
    return lambda texts: report_on(layout, [texts], references, others, foreign, **more)


def _translate(
    translating: Translating, corpus: ParallelCorpus, given: Given, prefixes: Given, config: GenerateConfig,
    out: TextIO | None,
) -> tuple[list[Aligned], Speed]:  # fmt: skip
    """Translate and print; return all translations, and the speed."""
    aligned: list[Aligned] = []
    limited = Limited()
    start = time.perf_counter()
    with progress_of(corpus, out) as progress:
        searched = translating.results(corpus, given, prefixes=prefixes, progress=progress)
        results = limited.counted(searched, lambda number: f"H-{number}")
        wanted = config.print_alignment and not ranks.rank()  # the others print nothing
        for result, pairs in with_alignments(translating.aligned, corpus, results, wanted=wanted):
            aligned.append((result, pairs))
            if out is not None:
                reference = corpus.references[0][result.number] if corpus.references else ""
                words = [pharaoh(pair) for pair in pairs]
                print(*lines(result, corpus.source_text[result.number], reference or None, words), sep="\n", file=out)
    if not ranks.rank():
        limited.note()
    tokens = sum(len(result.nbest[0].pieces) + 1 for result, _ in aligned)
    return aligned, Speed(time.perf_counter() - start, len(aligned), tokens)


def _write(
    config: GenerateConfig, folder: Path, rest: Rest, texts: Sequence[str], aligned: Sequence[str],
    content: dict[str, Any],
) -> None:  # fmt: skip
    """Write hypotheses.txt (of a part of the split also its texts), alignment.txt, scores.json; all or none."""
    files = {HYPOTHESES: texts} | ({"alignment.txt": aligned} if config.print_alignment else {})
    if config.gen_first is not None or len(rest) < rest.corpus.num_sentences:
        files["source.txt"] = rest.texts(rest.corpus.source_text)
        files |= {
            f"reference{n or ''}.txt": rest.texts(reference) for n, reference in enumerate(rest.corpus.references)
        }
    with replacing_folder(folder, marker=SCORES, overwrite=config.overwrite) as temporary:
        for name, sentences in files.items():
            with (temporary / name).open("w", encoding="utf-8") as file:
                write_lines(rest.lines(), iter(sentences), file)
        write_json(temporary / SCORES, content)


# What docnmt-score asks of a model: contrastive scores, and generated answers.


def scorer(config: ModelsConfig) -> Callable[[list[ForcedExample]], list[float]]:
    """Return a function that sums log-probabilities under the models of `--path`."""
    loaded = load_models(config)

    def score(examples: list[ForcedExample]) -> list[float]:
        with Progress(len(examples), "scoring", unit="translations") as bar:
            window = config.context_window
            return forced_scores(loaded.models, loaded.task, examples, context_window=window, progress=bar.update)

    return score


def answers(
    questions: Sequence[Question], models: ModelsConfig, options: GenerationConfig, search: SearchConfig, *,
    given: bool = False,
) -> list[str]:  # fmt: skip
    """Translate each question as a document of its own, context first; return the translations of last sentences.

    With `given`, models that read translations read those of the question's context where it has any.
    """
    examples = [question.example for question in questions]
    if missing := [number for number, example in enumerate(examples, 1) if not example.source.strip()]:
        raise UserError(f"--generative: question {missing[0]:,} has no source (column src), which --path translates")
    if options.formality == "given" and not given:
        raise UsageError("--formality given: expected --given-context, too, which gives translations of the contexts")
    pairs: list[list[tuple[str, str | None]]] = []  # the sentences of each context and its question, and translations
    for example in examples:
        context = zip(*example.contexts(), strict=True)
        before = [(source, target.strip() or None) for source, target in context if source.strip()]
        pairs.append([*before, (example.source, None)])
    known = [translation if given else None for _, translation in chain.from_iterable(pairs)]
    if given and not any(known):
        raise UserError("--given-context: no context has a translation; expected some in the column tgt_context")
    translating = Translating.open(models, MemoryConfig(), options, search)
    loaded = translating.loaded
    if given:
        loaded.note_unread("--given-context", options.formality)
    documents = [[source for source, _ in document] for document in pairs]
    corpus = ParallelCorpus.from_lines(documents, loaded.task.source_tokenizer)
    corpus = translating.tagged(corpus, known)
    lasts = {end - 1 for end in accumulate(map(len, documents))}
    with progress_of(corpus, None) as progress:
        limited = Limited()
        results = limited.counted(
            translating.results(corpus, known, progress=progress), lambda number: beginning(corpus.source_text[number])
        )
        texts = [result.text for result in results if result.number in lasts]
    limited.note()
    return texts
