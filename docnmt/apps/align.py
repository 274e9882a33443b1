"""docnmt-align: two documents in, one TMX or table of sentence pairs out.

files → `AlignedSide`s → beads (1-1, 2-1, 0-1 …) by dynamic programming over lengths, shared words, a model → pairs
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path, PurePath
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from docnmt.apps.documents.kinds import ENDINGS, kind_of, read, reader_of
from docnmt.apps.options import AlignConfig, ModelsConfig
from docnmt.core.read_corpus import Facts, TextLines, read_text
from docnmt.core.split_sentences import splitter
from docnmt.runtime.languages import joined
from docnmt.runtime.system import UsageError, UserError, __version__, check_new, check_readable, replacing, write_text

#: The unit that begins at a sentence.
NOTHING, PARAGRAPH, SECTION = 0, 1, 2


@dataclass(frozen=True)
class AlignedSide:
    """The sentences of a document, as one side of an alignment.

    Attributes:
        texts: the sentences, none empty. units: for each the labels of its section and its paragraph.
    """

    texts: Sequence[str]
    units: Sequence[tuple[str, str]]

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of characters (n,) of each sentence."""
        return np.array([len(text) for text in self.texts], dtype=np.float64)

    @cached_property
    def begins(self) -> np.ndarray:
        """The unit (n,), int8, that begins at each sentence; nothing begins at the first."""
        beginnings = np.zeros(len(self.texts), dtype=np.int8)
        for n, (before, after) in enumerate(zip(self.units, self.units[1:], strict=False), 1):
            beginnings[n] = SECTION if before[0] != after[0] else PARAGRAPH if before != after else NOTHING
        return beginnings


# Gale and Church (1993), "A Program for Aligning Sentences in Bilingual Corpora": a bead of one or two sentences on
# each side, or of one on one side, costs -log of how probable such beads and such differences of length are. Unlike
# there, the length of a sentence without counterpart costs nothing (long ones would enter beads to which they do not
# belong), sections and paragraphs that begin on one side only cost more, and other evidence reduces the cost.

#: The probability of a bead by its sentences of source and target: the paper's numbers, halved between directions.
BEADS = {(1, 1): 0.89, (1, 0): 0.00495, (0, 1): 0.00495, (2, 1): 0.0445, (1, 2): 0.0445, (2, 2): 0.011}
#: Variance of the number of target characters per source character.
VARIANCE = 6.8
#: The cost if nothing, a paragraph or a section begins inside a bead, or with it on one side only.
BOUNDARY = np.array([0.0, 3.0, 6.0])
#: Upper bound of the pairs of sentences, because several tables have a number for each.
MOST_CELLS = 1 << 27


@dataclass(frozen=True)
class Bead:
    """Sentences that translate each other, by their numbers; one side may be empty."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def log_tail(z: np.ndarray) -> np.ndarray:
    """Return log 2(1 - Φ(z)) for z ≥ 0, also where 1 - Φ underflows."""
    z = np.asarray(z, dtype=np.float64)
    t = 1 / (1 + 0.2316419 * z)  # Abramowitz and Stegun, 26.2.17, as in the paper's program
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return np.asarray(np.minimum(np.log(2 * series) - z * z / 2 - 0.5 * np.log(2 * np.pi), 0.0))


def check_size(n: int, m: int) -> None:
    """Refuse documents whose table of n x m pairs would exhaust memory."""
    if (n + 1) * (m + 1) > MOST_CELLS:
        raise UserError(
            f"{n:,} and {m:,} sentences are too many to align at once; expected at most {MOST_CELLS:,} pairs: divide "
            "the documents, into chapters for instance"
        )


def align(source: AlignedSide, target: AlignedSide, evidence: np.ndarray | None = None) -> list[Bead]:
    """Return beads of all sentences of both sides, in order.

    Args:
        evidence: (n, m) additional evidence for each pair of sentences: log of how many times as probable the one is
            beside the other as by itself.
    """
    check_size(n := len(source.texts), m := len(target.texts))
    evidence = np.zeros((n, m), dtype=np.float32) if evidence is None else evidence
    ratio = max(target.lengths.sum(), 1.0) / max(source.lengths.sum(), 1.0)
    windows = np.lib.stride_tricks.sliding_window_view

    def costs(i: int, s: int, t: int) -> np.ndarray:
        """Of beads of `s` source sentences from i, with `t` target sentences from each j: (m + 1 - t,)."""
        if t == 0:
            return np.full(m + 1, -np.log(BEADS[s, t]))
        lengths = windows(target.lengths, t).sum(1)
        length = source.lengths[i : i + s].sum()
        variance = VARIANCE * np.maximum((length + lengths / ratio) / 2, 1e-9)
        cost: np.ndarray = -log_tail(np.abs(lengths - length * ratio) / np.sqrt(variance)) - np.log(BEADS[s, t])
        cost += BOUNDARY[np.abs(target.begins[: m + 1 - t] - source.begins[i])]
        if s == 2:
            cost += BOUNDARY[source.begins[i + 1]]
        if t == 2:
            cost += BOUNDARY[target.begins[1:]]
        cost -= windows(evidence[i : i + s].sum(0), t).sum(1)
        return cost

    shapes = list(BEADS)
    chosen = np.zeros((n + 1, m + 1), dtype=np.uint8)  # the shape of the last bead, by its number
    last_rows = [np.full(m + 1, np.inf), np.full(m + 1, np.inf)]  # costs up to the last two source sentences
    skipped = -np.log(BEADS[0, 1]) * np.arange(m + 1)  # sentences of the target, one by one
    for i in range(n + 1):
        best = np.full(m + 1, np.inf)
        best[0] = 0.0 if i == 0 else np.inf
        for number, (s, t) in enumerate(shapes):
            if s == 0 or s > i or t > m:
                continue
            costs_of_shape = last_rows[-s][: m + 1 - t] + costs(i - s, s, t)
            better = costs_of_shape < best[t:]
            best[t:][better] = costs_of_shape[better]
            chosen[i, t:][better] = number
        running = np.minimum.accumulate(best - skipped) + skipped
        chosen[i][running < best - 1e-9] = shapes.index((0, 1))  # long sums differ in the last digits
        last_rows = [last_rows[-1], np.minimum(running, best)]
    beads, i, j = list[Bead](), n, m
    while i or j:
        s, t = shapes[chosen[i, j]]
        i, j = i - s, j - t
        beads.append(Bead(tuple(range(i, i + s)), tuple(range(j, j + t))))
    return beads[::-1]


# Evidence of words is the log of how many times as probable the target's words are beside the source's as by
# themselves; a word of a translation is one of the source's with a small probability, and any word otherwise.

_WORD = re.compile(r"\w+|[^\w\s]")
#: Number of equal initial letters of similar words (Simard et al. 1992 take four). This and the next number
#: were chosen on documents of docmix's training part.
_ALIKE = 5
#: Probability that a word of a translation begins like one of the source.
_SHARE = 0.05
#: Upper bound of the evidence of one word.
_MOST = 5.0


def word_evidence(source: AlignedSide, target: AlignedSide) -> np.ndarray:
    """Return evidence (n, m), float32, for `align`: of words and signs, by their initial letters and without case."""
    source_words, target_words = (
        [Counter(word[:_ALIKE] for word in _WORD.findall(text.casefold())) for text in side.texts]
        for side in (source, target)
    )
    counts = sum(target_words, Counter[str]())
    total = max(counts.total(), 1)
    sentences_of: dict[str, list[int]] = defaultdict(list)
    for j, words in enumerate(target_words):
        for word in words:
            sentences_of[word].append(j)
    none = np.log(1 - _SHARE)
    evidence = np.tile(
        np.array([none * len(words) for words in target_words], dtype=np.float32), (len(source_words), 1)
    )
    for i, words in enumerate(source_words):
        for word in words.keys() & counts.keys():
            alike = _SHARE * words[word] / words.total()
            gain = np.log(1 - _SHARE + alike * total / counts[word])
            evidence[i, sentences_of[word]] += min(gain, _MOST) - none
    return evidence


# Evidence of a translation model: log p(target | source) of pairs of sentences, each by itself.

#: Number of sentences before and after those of a first alignment that are also compared.
REACH = 3
#: Upper bound of a model's evidence for a pair.
_MOST_OF_MODEL = 10.0


def model_evidence(
    source: AlignedSide,
    target: AlignedSide,
    beads: Sequence[Bead],
    score: Callable[[Sequence[str], Sequence[str]], Sequence[float]],
) -> np.ndarray:
    """Return evidence (n, m), float32, for `align`: for the source that explains a target sentence best of all near
    it in `beads`, a first alignment, its lead over the second best. Other pairs get no evidence:
    unrelated sentences differ by chance, and a path through many of them would accumulate it."""
    n, m = len(source.texts), len(target.texts)
    near: set[tuple[int, int]] = set()  # pairs at most `REACH` away from a place on the path of beads
    i = j = 0
    for bead in beads:
        sources = range(max(i - REACH, 0), min(i + REACH + 1, n))
        near.update(product(sources, range(max(j - REACH, 0), min(j + REACH + 1, m))))
        i, j = i + len(bead.source), j + len(bead.target)
    pairs = sorted(near)
    scores = score([source.texts[i] for i, _ in pairs], [target.texts[j] for _, j in pairs])
    by_target: dict[int, list[tuple[float, int]]] = {}
    for (i, j), value in zip(pairs, scores, strict=True):
        by_target.setdefault(j, []).append((value, i))
    evidence = np.zeros((n, m), dtype=np.float32)
    for j, scored in by_target.items():
        if len(scored) > 1:
            second, best = sorted(scored)[-2:]
            evidence[best[1], j] = min(best[0] - second[0], _MOST_OF_MODEL)
    return evidence


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
    text = " ".join(text for document in side for text in document.texts)[:20_000]
    return str(classify(text)[0])


def sides_of(path: Path, split: Split) -> list[AlignedSide]:
    """Read the documents of a file that have at least one sentence."""
    check_readable(path)
    if not _is_document(path):
        sides = [
            AlignedSide([row[0] for row in document.rows], [("0", unit[-1]) for unit in document.units])
            for document in read_text([TextLines(path)], Facts())
            if document.rows
        ]
    else:
        kind = kind_of(str(path))
        if reader_of(kind, name=str(path)).bilingual:
            raise UserError(f"{path}: a file of both languages is aligned already; docnmt-translate reads it as it is")
        document = read(path.read_bytes(), kind, name=str(path), source_lang="", target_lang="")
        texts, units = list[str](), list[tuple[str, str]]()
        for segment in document.segments:
            sentences = [sentence for line in segment.text.split("\n") for sentence in split(line)]
            texts += sentences
            units += [segment.units] * len(sentences)
        sides = [AlignedSide(texts, units)]
    if not any(side.texts for side in sides):
        raise UserError(f"{path}: has no text; expected sentences to align")
    return sides


#: Characters that XML cannot represent.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _tmx(pairs: Sequence[tuple[str, str]], languages: tuple[str, str]) -> str:
    """Return a translation memory in TMX 1.4."""
    for text in (text for pair in pairs for text in pair):
        if forbidden := _NO_XML.search(text):
            raise UserError(
                f"'{text[:40]}': has the character U+{ord(forbidden[0]):04X}, which no XML file can; remove it"
            )
    variants = "".join(f"      <tuv xml:lang={quoteattr(code)}><seg>{{}}</seg></tuv>\n" for code in languages)
    unit = f"    <tu>\n{variants}    </tu>\n"
    units = "".join(unit.format(*map(escape, pair)) for pair in pairs)
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
        said = config.source_lang, config.target_lang
        unsaid = [flag for flag, name in zip(flags, said, strict=True) if name is None]
        if not unsaid:
            raise UsageError(f"{paths[0]} and {paths[1]} are both called '{source}'; expected two languages")
        raise UsageError(f"{paths[0]} and {paths[1]} both seem to be '{source}'; give {' and '.join(unsaid)}")
    output, languages = Path(config.output), (source, target)
    is_memory = output.suffix.lower() == ".tmx"
    files = [output] if is_memory else [output.parent / f"{output.name}.{language}" for language in languages]
    for file in files:
        check_new(file, overwrite=config.overwrite, reads=paths)
    for one, other in zip(*sides, strict=True):
        check_size(len(one.texts), len(other.texts))
    aligned = [(one, other, aligner(one, other)) for one, other in zip(*sides, strict=True)]
    pairs = [  # of each document
        [
            (joined(one.texts[n] for n in bead.source), joined(other.texts[n] for n in bead.target))
            for bead in beads
            if bead.source and bead.target
        ]
        for one, other, beads in aligned
    ]
    if is_memory:
        write_text(output, _tmx([*chain.from_iterable(pairs)], languages))
    else:  # a pair a line, an empty line between documents
        with ExitStack() as stack:  # both files appear at its end, or none
            for side, file in enumerate(files):
                documents = ("".join(f"{pair[side]}\n" for pair in document) for document in pairs if document)
                stack.enter_context(replacing(file)).write_text("\n".join(documents), encoding="utf-8")
    shapes: Counter[str] = Counter()
    for number, (one, other, beads) in enumerate(aligned, 1):
        document = f"document {number}, " if len(aligned) > 1 else ""
        for bead in beads:
            shapes[f"{len(bead.source)}-{len(bead.target)}"] += 1
            path, texts = (paths[1], other.texts) if bead.target else (paths[0], one.texts)
            for sentence in () if bead.source and bead.target else bead.source or bead.target:
                shown = texts[sentence][:_SHOWN] + (" …" if len(texts[sentence]) > _SHOWN else "")
                say(f"{path}: {document}sentence {sentence + 1} has no counterpart: {shown}")
    say("sentences of source and target: " + ", ".join(f"{shape} {count:,}" for shape, count in shapes.most_common()))
    say(f"{' and '.join(map(str, files))}: {sum(map(len, pairs)):,} pairs, {source} and {target}")


def aligner_of(
    config: AlignConfig, named: tuple[str | None, str | None]
) -> tuple[Aligner, tuple[str | None, str | None]]:
    """Return the aligner, and the languages, which default to those of the model."""

    if config.path is None:
        return lambda source, target: align(source, target, word_evidence(source, target)), named
    from docnmt.apps.commands.translating import load_models
    from docnmt.core.corpus import ParallelCorpus, TokenArray
    from docnmt.core.search.translate import token_log_probs

    loaded = load_models(ModelsConfig(path=config.path, device=config.device))
    chosen = (named[0] or loaded.task.languages[0], named[1] or loaded.task.languages[1])
    loaded = loaded.between(*chosen)

    def score(sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """log p of each target, each pair as a document of its own."""
        task = loaded.task
        corpus = ParallelCorpus.from_lines([[text] for text in sources], task.source_tokenizer)
        tokens = task.target_tokenizer.encode(list(targets))
        corpus = replace(corpus, target=TokenArray.from_lists(tokens, task.target_tokenizer.vocab_size))
        return [float(probs.sum()) for probs in token_log_probs(loaded.models, task, corpus, max_tokens=_TOKENS)]

    def by_model(source: AlignedSide, target: AlignedSide) -> list[Bead]:
        words = word_evidence(source, target)
        return align(source, target, words + model_evidence(source, target, align(source, target, words), score))

    return by_model, chosen
