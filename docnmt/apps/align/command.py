"""docnmt-align: two documents in, one TMX or table of sentence pairs out.
Reads both sides, pairs their sentences (`align`, by words or by a model, too) and writes the pairs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from xml.sax.saxutils import escape, quoteattr

from docnmt.apps.align.align import AlignedSide, Bead, align, model_evidence, word_evidence
from docnmt.apps.documents.kinds import ENDINGS, kind_of, read, reader_of
from docnmt.apps.options import AlignConfig, ModelsConfig
from docnmt.core.lines import Facts, TextLines
from docnmt.core.read_corpus import read_text
from docnmt.core.split_sentences import splitter
from docnmt.runtime.languages import joined
from docnmt.runtime.system import UsageError, UserError, __version__, check_new, check_readable, write_text

Split = Callable[[str], list[str]]
_LANGUAGE = re.compile(r"[a-z]{2}([-_][A-Za-z]{2,4})?|[a-z]{3}_[A-Z][a-z]{3}")


def _is_document(path: Path) -> bool:
    """Return True if a file is a document, by its ending; else it is a corpus."""
    return PurePath(path.name).suffix.lower() in ENDINGS


def _language_of(path: Path) -> str | None:
    """Return the language in a file's name: `de` for letter.de.docx and dev.de, deu_Latn for dev.deu_Latn."""
    parts = path.name.split(".")[1:]
    if _is_document(path):
        parts = parts[:-1]
    return parts[-1] if parts and _LANGUAGE.fullmatch(parts[-1]) else None


def _detected(side: list[AlignedSide], path: Path, name: str) -> str:
    """Identify the language of a text."""
    try:
        from py3langid import classify
    except ImportError as error:
        raise UsageError(
            f"{name} is required: {path} does not name its language, and py3langid, which would find it, is not "
            "installed; pip install 'docnmt[documents]'"
        ) from error
    text = " ".join(text for each in side for text in each.texts)[:20_000]
    return str(classify(text)[0])


def sides_of(path: Path, split: Split) -> list[AlignedSide]:
    """Read the documents of a file that have at least one sentence."""
    check_readable(path)
    if _is_document(path):
        sides = [_document(path, split)]
    else:
        documents = [document for document in read_text([TextLines(path)], Facts()) if document.rows]
        sides = [AlignedSide([row[0] for row in one.rows], [("0", own[-1]) for own in one.units]) for one in documents]
    if not any(side.texts for side in sides):
        raise UserError(f"{path}: has no text; expected sentences to align")
    return sides


def _document(path: Path, split: Split) -> AlignedSide:
    kind = kind_of(path.name)
    if reader_of(kind, name=str(path)).bilingual:
        raise UserError(f"{path}: a file of both languages is aligned already; docnmt-translate reads it as it is")
    document = read(path.read_bytes(), kind, name=str(path), source_lang="", target_lang="")
    texts, units = list[str](), list[tuple[str, str]]()
    for segment in document.segments:
        own = [sentence for line in segment.text.split("\n") for sentence in split(line)]
        texts += own
        units += [segment.units] * len(own)
    return AlignedSide(texts, units)


#: Characters that XML cannot represent.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

#: The pairs of texts of each document.
Pairs = Sequence[Sequence[tuple[str, str]]]


def _files_of(output: Path, languages: tuple[str, str]) -> list[Path]:
    """Return the paths of the files to write."""
    if output.suffix.lower() == ".tmx":
        return [output]
    return [output.parent / f"{output.name}.{language}" for language in languages]


def _write_pairs(output: Path, pairs: Pairs, languages: tuple[str, str], *, overwrite: bool) -> None:
    """Write OUT.tmx, or OUT.SRC and OUT.TGT: one pair per line, an empty line between documents."""
    files = _files_of(output, languages)
    for file in files:
        check_new(file, overwrite=overwrite)
    if len(files) == 1:
        write_text(files[0], _tmx(pairs, languages))
        return
    for side, file in enumerate(files):
        write_text(file, "\n".join("".join(f"{pair[side]}\n" for pair in own) for own in pairs if own))


def _tmx(pairs: Pairs, languages: tuple[str, str]) -> str:
    """Return a translation memory in TMX 1.4."""
    for text in (text for own in pairs for pair in own for text in pair):
        if forbidden := _NO_XML.search(text):
            raise UserError(
                f"'{text[:40]}': has the character U+{ord(forbidden[0]):04X}, which no XML file can; remove it"
            )
    variants = "".join(f"      <tuv xml:lang={quoteattr(each)}><seg>{{}}</seg></tuv>\n" for each in languages)
    unit = f"    <tu>\n{variants}    </tu>\n"
    units = "".join(unit.format(*map(escape, pair)) for own in pairs for pair in own)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4">
  <header creationtool="docnmt-align" creationtoolversion={quoteattr(__version__)} segtype="sentence" o-tmf="docnmt" \
adminlang="en" srclang={quoteattr(languages[0])} datatype="plaintext"/>
  <body>
{units}  </body>
</tmx>
"""


# The command docnmt-align: read two documents or corpora, align them, write the pairs, report unpaired sentences.

#: A function that aligns two sides.
Aligner = Callable[[AlignedSide, AlignedSide], list[Bead]]
#: Tokens of a batch of pairs that a model scores.
_TOKENS = 8000
#: Characters of a sentence without a counterpart that are shown.
_SHOWN = 100


def align_files(config: AlignConfig, say: Callable[[str], None]) -> None:
    """Align two files and write the pairs; `say` is called for every sentence without a counterpart."""
    paths = (Path(config.source), Path(config.target))
    if _is_document(paths[0]) != _is_document(paths[1]):
        raise UsageError(f"{paths[0]} and {paths[1]}: expected two documents, by their endings, or two corpora")
    named = (config.source_lang or _language_of(paths[0]), config.target_lang or _language_of(paths[1]))
    aligner, named = aligner_of(config, named)
    sides = [sides_of(path, splitter(config.splitter, name or "")) for path, name in zip(paths, named, strict=True)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{paths[0]} has {len(sides[0]):,} documents and {paths[1]} {len(sides[1]):,}; expected an empty line at "
            "the same places, between documents"
        )
    flags = ("--source-lang", "--target-lang")
    source, target = (
        name or _detected(side, path, flag) for name, side, path, flag in zip(named, sides, paths, flags, strict=True)
    )
    if source == target:
        given = config.source_lang, config.target_lang
        unsaid = [flag for flag, name in zip(flags, given, strict=True) if name is None]
        if not unsaid:
            raise UsageError(f"{paths[0]} and {paths[1]} are both called '{source}'; expected two languages")
        raise UsageError(f"{paths[0]} and {paths[1]} both seem to be '{source}'; give {' and '.join(unsaid)}")
    output = Path(config.output)
    for file in _files_of(output, (source, target)):
        check_new(file, overwrite=config.overwrite)
    aligned = [(one, other, aligner(one, other)) for one, other in zip(*sides, strict=True)]
    pairs = [
        [
            (joined(one.texts[n] for n in bead.source), joined(other.texts[n] for n in bead.target))
            for bead in beads
            if bead.source and bead.target
        ]
        for one, other, beads in aligned
    ]
    _write_pairs(output, pairs, (source, target), overwrite=config.overwrite)
    _report(paths, aligned, say)
    written = " and ".join(map(str, _files_of(output, (source, target))))
    say(f"{written}: {sum(map(len, pairs)):,} pairs, {source} and {target}")


def aligner_of(
    config: AlignConfig, named: tuple[str | None, str | None]
) -> tuple[Aligner, tuple[str | None, str | None]]:
    """Return the aligner, and the languages, which default to those of the model."""

    def by_words(source: AlignedSide, target: AlignedSide) -> list[Bead]:
        return align(source, target, word_evidence(source, target))

    if config.path is None:
        return by_words, named
    from docnmt.apps.commands.models import load_models
    from docnmt.core.corpus import ParallelCorpus, TokenArray
    from docnmt.core.search.forced import token_log_probs

    loaded = load_models(ModelsConfig(path=config.path, device=config.device))
    chosen = (named[0] or loaded.task.languages[0], named[1] or loaded.task.languages[1])
    loaded = loaded.between(*chosen)

    def score(sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """log p of each target, each pair as a document of its own."""
        task = loaded.task
        corpus = ParallelCorpus.from_lines([[text] for text in sources], task.source_tokenizer)
        tokens = task.target_tokenizer.encode(list(targets))
        corpus = replace(corpus, target=TokenArray.from_lists(tokens, task.target_tokenizer.vocab_size))
        return [float(each.sum()) for each in token_log_probs(loaded.models, task, corpus, max_tokens=_TOKENS)]

    def by_model(source: AlignedSide, target: AlignedSide) -> list[Bead]:
        words = word_evidence(source, target)
        return align(source, target, words + model_evidence(source, target, align(source, target, words), score))

    return by_model, chosen


def _report(
    paths: tuple[Path, Path], sides: Sequence[tuple[AlignedSide, AlignedSide, list[Bead]]], say: Callable[[str], None]
) -> None:
    """Report every sentence without a counterpart, and the number of beads of each kind."""
    kinds: Counter[str] = Counter()
    for number, (source, target, beads) in enumerate(sides, 1):
        document = f"document {number}, " if len(sides) > 1 else ""
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
