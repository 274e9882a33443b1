"""What a translation memory adds to a system: the yardstick for models that read the translations before a sentence.

    docnmt-generate data-bin --path runs/sentence --prefix-references 0.5 --results-path results/half
    python recipes/studies/manual/translation_memory.py corpora/manual/test results/half --languages en fr \\
        --threshold 0.8 0.9

RESULTS is a folder of docnmt-generate, PREFIX the text of its split. The memory of a document is its first part, if
--prefix-references gave that with its references, and with --train the training text besides. A sentence whose source
is like one of the memory takes that one's translation instead of the system's. The similarity is the share of words
that stay: 1 - (words to insert, delete or replace) / (words of the longer one). Of equally similar sentences the
nearest before it wins, those of its document first. The best of several thresholds is to be chosen on another text than
the one that is reported; --out then writes the translation, for docnmt-generate --paired. Needs rapidfuzz
(docnmt[test]).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

try:
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein
except ImportError:
    sys.exit("translation_memory.py: error: needs rapidfuzz; pip install 'docnmt[test]'")

from docnmt.core.read_corpus import side
from docnmt.core.scoring.metrics import Scores, bleu_tokenizer, evaluate
from docnmt.core.scoring.text_files import LineLayout, read_layout
from docnmt.core.search.translate import first_of_documents
from docnmt.runtime.system import UserError, write_text

METRICS = ("s-BLEU", "d-BLEU", "chrF", "TER")
_WORD = re.compile(r"\w+|[^\w\s]")
#: Where the characters begin that stand for words; beyond the surrogates, which stand for nothing.
_FIRST = 0xE000


class Match(NamedTuple):
    """What a memory has for a sentence."""

    similarity: float
    translation: str


class Words:
    """Sentences with one character a word."""

    def __init__(self) -> None:
        self.characters: dict[str, str] = {}

    def encode(self, sentence: str) -> str:
        """The same word is always the same character."""
        known = self.characters
        return "".join(known.setdefault(word, chr(_FIRST + len(known))) for word in _WORD.findall(sentence))


class Memory:
    """Sources with their translations; of equally similar ones the last is preferred."""

    def __init__(self, words: Words, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.words = words
        self.sources = [words.encode(source) for source in reversed(sources)]
        self.targets = targets[::-1]

    def best(self, source: str, least: float) -> Match | None:
        """The most similar sentence's, if one is so similar at least."""
        score = Levenshtein.normalized_similarity
        nearest = process.extractOne(self.words.encode(source), self.sources, scorer=score, score_cutoff=least)
        return nearest and Match(nearest[1], self.targets[nearest[2]])


@dataclass(frozen=True)
class Desk:
    """A text whose documents are translated in part.

    Attributes:
        documents: of each the sources and targets that are given, and the sources that are not.
        layout: of all sources that are not given; their references and the system's `translations`.
    """

    documents: list[tuple[list[str], list[str], list[str]]]
    layout: LineLayout
    references: list[str]
    translations: list[str]

    @classmethod
    def read(cls, prefix: str, results: Path, languages: Sequence[str]) -> Desk:
        """From the text and a folder of docnmt-generate."""
        source = read_layout(side(prefix, languages[0]))
        target = source.align(side(prefix, languages[1]))
        try:
            share = json.loads((results / "scores.json").read_text(encoding="utf-8")).get("prefix_references", 0)
        except (OSError, AttributeError, json.JSONDecodeError) as error:
            raise UserError(f"{results}: no results of docnmt-generate") from error
        given = first_of_documents(target, source.document_offsets, share)
        documents, sentences = [], source.sentences
        for begin, end in pairwise(source.document_offsets):
            first = begin + sum(text is not None for text in given[begin:end])
            documents.append((sentences[begin:first], target[begin:first], sentences[first:end]))
        if not share:
            return cls(documents, source, target, source.align(results / "hypotheses.txt"))
        layout = read_layout(results / "source.txt")
        if layout.sentences != [sentence for *_, rest in documents for sentence in rest]:
            raise UserError(f"{layout.path}: expected what --prefix-references {share} leaves of {source.path}")
        references = layout.align(results / "reference.txt")
        return cls(documents, layout, references, layout.align(results / "hypotheses.txt"))

    def matches(self, training: Memory, least: float) -> list[Match | None]:
        """For each sentence that is not given the best of its document and of the training text."""
        chosen = []
        for sources, targets, rest in self.documents:
            memories = (Memory(training.words, sources, targets), training)
            for sentence in rest:
                matches = [match for memory in memories if (match := memory.best(sentence, least))]
                chosen.append(max(matches, key=lambda match: match.similarity, default=None))
        return chosen

    def score(self, translations: Sequence[str], tokenize: str) -> Scores:
        """Against the references."""
        offsets = self.layout.document_offsets
        return evaluate(translations, [self.references], offsets, tokenize=tokenize, metrics=METRICS).scores

    def text(self, translations: Sequence[str]) -> str:
        """Line by line the source."""
        rest = iter(translations)
        return "".join(f"{next(rest) if row else ''}\n" for row in self.layout.rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", metavar="PREFIX", help="of the text")
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder that docnmt-generate wrote")
    parser.add_argument("--languages", nargs=2, required=True, metavar="LANGUAGE", help="the files' suffixes")
    parser.add_argument("--threshold", nargs="+", type=float, required=True, metavar="F", help="least similarity")
    parser.add_argument("--train", metavar="PREFIX", help="also remember this text")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the translation with the one threshold")
    options = parser.parse_args(arguments)
    if not all(0 <= threshold <= 1 for threshold in options.threshold):
        parser.error("--threshold: expected shares, 0 to 1")
    if options.out and len(options.threshold) != 1:
        parser.error("--out: expected one --threshold")
    training, tokenize = Memory(Words(), [], []), bleu_tokenizer(options.languages[1])
    try:
        desk = Desk.read(options.prefix, options.results, options.languages)
        if options.train:
            train = read_layout(side(options.train, options.languages[0]))
            targets = train.align(side(options.train, options.languages[1]))
            training = Memory(training.words, train.sentences, targets)
    except UserError as error:
        parser.error(str(error))
    matches = desk.matches(training, min(options.threshold))
    print("\t".join(["threshold", "replaced", *METRICS]))
    _show("none", 0, desk.score(desk.translations, tokenize))
    for threshold in options.threshold:
        replaced = [match if match and match.similarity >= threshold else None for match in matches]
        texts = [match.translation if match else own for match, own in zip(replaced, desk.translations, strict=True)]
        _show(f"{threshold:g}", len(texts) - replaced.count(None), desk.score(texts, tokenize))
        if options.out:
            write_text(options.out, desk.text(texts))


def _show(threshold: str, replaced: int, scores: Scores) -> None:
    print("\t".join([threshold, f"{replaced:,}", *(f"{scores[name]:.2f}" for name in METRICS)]))


if __name__ == "__main__":
    main()
