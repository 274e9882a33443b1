"""The command docnmt-align: read two documents or corpora, align them, write the pairs, report unpaired sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from docnmt.apps.align.align import AlignedSide, Bead, align, word_evidence
from docnmt.apps.align.config import AlignConfig
from docnmt.apps.align.read_sides import detected, is_document, language_of, sides_of
from docnmt.apps.align.write_pairs import files_of, write_pairs
from docnmt.apps.commands.config import ModelsConfig
from docnmt.core.formats.split_sentences import splitter
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import check_new
from docnmt.runtime.languages import joined

#: A function that aligns two sides.
Aligner = Callable[[AlignedSide, AlignedSide], list[Bead]]
#: Characters of a sentence without a counterpart that are shown.
_SHOWN = 100


def align_files(config: AlignConfig, say: Callable[[str], None]) -> None:
    """Align two files and write the pairs; `say` is called for every sentence without a counterpart.

    Raises:
        UserError: a file is damaged, a language is unknown, both sides have different numbers of documents, the
            model cannot be loaded, or the result cannot be written.
    """
    paths = (Path(config.source), Path(config.target))
    if is_document(paths[0]) != is_document(paths[1]):
        raise UsageError(f"{paths[0]} and {paths[1]}: expected two documents, by their endings, or two corpora")
    named = (config.source_lang or language_of(paths[0]), config.target_lang or language_of(paths[1]))
    aligner, named = aligner_of(config, named)
    sides = [sides_of(path, splitter(config.splitter, name or "")) for path, name in zip(paths, named, strict=True)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{paths[0]} has {len(sides[0]):,} documents and {paths[1]} {len(sides[1]):,}; expected an empty line at "
            "the same places, between documents"
        )
    flags = ("--source-lang", "--target-lang")
    source, target = (
        name or detected(side, path, flag) for name, side, path, flag in zip(named, sides, paths, flags, strict=True)
    )
    if source == target:
        given = config.source_lang, config.target_lang
        unsaid = [flag for flag, name in zip(flags, given, strict=True) if name is None]
        if not unsaid:
            raise UsageError(f"{paths[0]} and {paths[1]} are both called '{source}'; expected two languages")
        raise UsageError(f"{paths[0]} and {paths[1]} both seem to be '{source}'; give {' and '.join(unsaid)}")
    output = Path(config.output)
    for file in files_of(output, (source, target)):
        check_new(file, overwrite=config.overwrite)
    found = [(one, other, aligner(one, other)) for one, other in zip(*sides, strict=True)]
    pairs = [_pairs(*each) for each in found]
    write_pairs(output, pairs, (source, target), overwrite=config.overwrite)
    _report(paths, found, say)
    written = " and ".join(map(str, files_of(output, (source, target))))
    say(f"{written}: {sum(map(len, pairs)):,} pairs, {source} and {target}")


def aligner_of(
    config: AlignConfig, named: tuple[str | None, str | None]
) -> tuple[Aligner, tuple[str | None, str | None]]:
    """Return the aligner, and the languages, which default to those of the model."""

    def by_words(source: AlignedSide, target: AlignedSide) -> list[Bead]:
        return align(source, target, word_evidence(source, target))

    if config.path is None:
        return by_words, named
    from docnmt.apps.align.model_evidence import model_evidence, scorer
    from docnmt.apps.commands.models import load_models

    loaded = load_models(ModelsConfig(path=config.path, device=config.device))
    known = loaded.task.languages
    chosen = (named[0] or known[0], named[1] or known[1])
    loaded = loaded.between(*chosen)
    score = scorer(loaded)

    def by_model(source: AlignedSide, target: AlignedSide) -> list[Bead]:
        beads = by_words(source, target)
        words = word_evidence(source, target)
        return align(source, target, words + model_evidence(source, target, beads, score))

    return by_model, chosen


def _pairs(source: AlignedSide, target: AlignedSide, beads: Sequence[Bead]) -> list[tuple[str, str]]:
    """Return the texts of beads that have both sides; several sentences are joined."""
    return [
        (joined(source.texts[n] for n in bead.source), joined(target.texts[n] for n in bead.target))
        for bead in beads
        if bead.source and bead.target
    ]


def _report(
    paths: tuple[Path, Path], found: Sequence[tuple[AlignedSide, AlignedSide, list[Bead]]], say: Callable[[str], None]
) -> None:
    """Report every sentence without a counterpart, and the number of beads of each kind."""
    kinds: Counter[str] = Counter()
    for number, (source, target, beads) in enumerate(found, 1):
        document = f"document {number}, " if len(found) > 1 else ""
        for bead in beads:
            kinds[f"{len(bead.source)}-{len(bead.target)}"] += 1
            for path, side, own, other in (
                (paths[0], source, bead.source, bead.target), (paths[1], target, bead.target, bead.source),
            ):  # fmt: skip
                for sentence in own if not other else ():
                    text = side.texts[sentence]
                    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
                    say(f"{path}: {document}sentence {sentence + 1} has no counterpart: {text}")
    say("sentences of source and target: " + ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common()))
