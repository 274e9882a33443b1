"""Explanations of translations: what was read, what changes when a sentence is left out, and the page that shows it.

pieces of translations → `_Excerpt`s of documents → `attention` of each, scores without sentences → HTML or JSON
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from docnmt.apps.explain.attention import Attention, Explanation, UnitNotes, Without
from docnmt.apps.pages import self_contained, template
from docnmt.core.corpus import ParallelCorpus, TextArray, TokenArray, offsets_of, renumber
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.search.translate import (
    Translation,
    TranslationMemory,
    forced_batches,
    given_tokens,
    token_log_probs,
    with_memory,
)
from docnmt.core.tokenizer import Tokenizer
from docnmt.modules.layers import recording
from docnmt.runtime.progress import how_many
from docnmt.runtime.system import UsageError, check_new, write_text

if TYPE_CHECKING:
    from docnmt.apps.commands.translating import LoadedModels


@dataclass(frozen=True)
class _Excerpt:
    """A document of selected sentences of a corpus."""

    sentences: tuple[int, ...]  # their numbers in the corpus, in order
    scored: frozenset[int]  # those whose translations are scored

    def without(self, sentence: int, scored: Collection[int]) -> _Excerpt:
        """Return the excerpt without one sentence; only sentences in `scored` are scored."""
        return _Excerpt(tuple(n for n in self.sentences if n != sentence), self.scored & frozenset(scored))


def _excerpts(
    corpus: ParallelCorpus, given: Collection[int], wanted: Collection[int], *, given_text: bool, window: int | None
) -> list[_Excerpt]:
    """Return the documents that contain `wanted` sentences, as search reads them."""
    documents = [range(*pair) for pair in pairwise(corpus.document_offsets.tolist())]
    if not given_text:
        whole = [_Excerpt(tuple(document), frozenset(document) & frozenset(wanted)) for document in documents]
        return [excerpt for excerpt in whole if excerpt.scored]
    # with `given_text` each comes behind the given ones near it in a document of its own: positions stay in a sentence
    reach = corpus.num_sentences if window is None else window
    return [
        _Excerpt((*(m for m in document if m in given and 0 < abs(m - n) <= reach), n), frozenset([n]))
        for document in documents
        for n in document
        if n in wanted
    ]


def taken(corpus: ParallelCorpus, chosen: Sequence[_Excerpt]) -> tuple[ParallelCorpus, np.ndarray]:
    """Return a corpus of these documents, and for each of its sentences its number in `corpus`, without raw text."""
    assert corpus.target is not None
    numbers = np.array([n for part in chosen for n in part.sentences], dtype=np.int64)
    offsets = offsets_of(np.array([len(part.sentences) for part in chosen], dtype=np.int64))
    excerpt = replace(
        corpus, document_offsets=offsets, levels=renumber(corpus.levels[numbers], offsets),
        source=corpus.source.take(numbers), target=corpus.target.take(numbers), source_text=TextArray.from_lines([]),
        references=[],
    )  # fmt: skip
    return excerpt, numbers


#: Number of sentences, the most read ones, without which a translation is scored again.
WITHOUT = 3
#: Number of sentences of a document without which it is scored: those that most others read.
LEFT_OUT = 64
#: Number of subwords that are scored at once.
_MAX_TOKENS = 8000


@torch.inference_mode()
def explain_translations(
    models: Sequence[AnyTranslationModel], task: TranslationTask, corpus: ParallelCorpus,
    pieces: Sequence[Sequence[str]], *, numbers: np.ndarray, given: Sequence[str | None] | None = None,
    memory: TranslationMemory | None = None, context_window: int | None = None,
) -> list[Explanation | None]:  # fmt: skip
    """Return, for each sentence of a corpus, the explanation of its translation, or None if that was given.

    A document without a sentence is scored as a text of its own; positions are counted anew.

    Args:
        pieces: of the searched translations; those of given ones are ignored.
        numbers: (S,) the number of each sentence in its document.
        given, memory, context_window: the arguments of `translate_corpus`.
    """
    entries = {piece: number for number, piece in enumerate(task.target_tokenizer.vocabulary())}
    tokens = [[entries[piece] for piece in sentence] for sentence in pieces]
    rows = np.arange(corpus.num_sentences)
    known: Sequence[str | None] = [None] * len(tokens) if given is None else given
    if memory is not None:
        corpus, known, rows = with_memory(corpus, known, memory)
    encoded = given_tokens(known, corpus.num_sentences, task.target_tokenizer)
    written = [encoded[n] if n in encoded else tokens[row] for n, row in enumerate(rows.tolist())]
    corpus = replace(corpus, target=TokenArray.from_lists(written, task.target_tokenizer.vocab_size))
    wanted = [n for n, row in enumerate(rows.tolist()) if row >= 0 and n not in encoded]
    numbers = _numbers(corpus, rows, numbers)
    passes = []
    for model in models:
        given_text = model.reading.given_text
        excerpts = _excerpts(corpus, encoded, wanted, given_text=given_text, window=context_window)
        # an excerpt of given translations holds what is within the window, and is read whole
        passes.append((model, excerpts, None if given_text else context_window))
    explanations: dict[int, Explanation] = {}
    for number, (model, excerpts, window) in enumerate(passes):
        for sentence, explanation in _read(model, number, task, corpus, excerpts, window):
            if (first := explanations.get(sentence)) is not None:  # that of the models before
                attentions = first.decoder + explanation.decoder, first.encoder + explanation.encoder
                explanation = replace(first, decoder=attentions[0], encoder=attentions[1])
            explanations[sentence] = explanation
    most_read = {sentence: list(explanation.others)[:WITHOUT] for sentence, explanation in explanations.items()}
    for document in (range(*pair) for pair in pairwise(corpus.document_offsets.tolist())):
        reads = Counter(other for sentence in document for other in most_read.get(sentence, ()))
        kept = {other for other, _ in reads.most_common(LEFT_OUT)}
        most_read |= {n: [other for other in most_read[n] if other in kept] for n in document if n in most_read}
    scores = [_scores(model, task, corpus, excerpts, most_read, window) for model, excerpts, window in passes]
    log_probs = {  # of the models' mean probabilities
        key: np.logaddexp.reduce([of_model[key] for of_model in scores]) - math.log(len(scores)) for key in scores[0]
    }
    by_row: dict[int, Explanation] = {}
    for sentence, explanation in explanations.items():
        without = tuple(Without(other, log_probs[sentence, other]) for other in most_read[sentence])
        complete = replace(explanation, log_probs=log_probs[sentence, None], without=without)
        by_row[int(rows[sentence])] = _renamed(complete, numbers)
    return [by_row.get(row) for row in range(len(tokens))]


def _numbers(corpus: ParallelCorpus, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the numbers of sentences; those of a memory, whose row is -1, count backwards from -1."""
    if not len(rows):
        return numbers
    first = np.repeat(corpus.document_offsets[:-1], np.diff(corpus.document_offsets))
    before = np.cumsum(np.append(0, rows < 0))[np.append(first, 0)[:-1]]  # the memory's, in earlier documents
    after = np.cumsum(rows < 0) - before  # the memory's, in this document up to here
    whole = np.zeros(len(rows), dtype=np.int64)
    np.maximum.at(whole, first, after)
    return np.asarray(np.where(rows < 0, after - 1 - whole[first], numbers[rows]))


def _read(
    model: AnyTranslationModel, number: int, task: TranslationTask, corpus: ParallelCorpus,
    documents: Sequence[_Excerpt], context_window: int | None,
) -> Iterator[tuple[int, Explanation]]:  # fmt: skip
    """Yield the explanations of one model, document by document, with the corpus's sentence numbers."""
    for document in documents:
        excerpt, names = taken(corpus, [document])
        for units, batch in forced_batches(model, task, excerpt, max_tokens=1, context_window=context_window):
            with recording() as notes:
                model(batch)
            unit = UnitNotes.of(model, excerpt, units, batch)
            attentions = [*filter(None, (unit.attention(note, number) for note in notes))]
            for index in range(int(units.kept[0]), int(units.last[0])):
                if (sentence := int(names[index])) in document.scored:
                    yield sentence, _renamed(unit.explanation(index, attentions, task), names)


def _scores(
    model: AnyTranslationModel, task: TranslationTask, corpus: ParallelCorpus, documents: Sequence[_Excerpt],
    most_read: Mapping[int, Sequence[int]], context_window: int | None,
) -> dict[tuple[int, int | None], np.ndarray]:  # fmt: skip
    """Return log p of the pieces of each sentence in its document, and without each sentence in `most_read`."""
    variants: list[tuple[_Excerpt, int | None]] = [(document, None) for document in documents]
    for document in documents:
        missing = defaultdict(set)
        for sentence in document.scored:
            for other in most_read[sentence]:
                missing[other].add(sentence)
        variants += [(document.without(other, scored), other) for other, scored in sorted(missing.items())]
    excerpt, names = taken(corpus, [document for document, _ in variants])
    scored = token_log_probs([model], task, excerpt, max_tokens=_MAX_TOKENS, context_window=context_window)
    owners = np.repeat(np.arange(len(variants)), np.diff(excerpt.document_offsets))
    scores: dict[tuple[int, int | None], np.ndarray] = {}
    for sentence, owner, log_probs in zip(names.tolist(), owners.tolist(), scored, strict=True):
        document, left_out = variants[owner]
        if sentence in document.scored:
            scores[sentence, left_out] = log_probs
    return scores


def _renamed(explanation: Explanation, names: np.ndarray) -> Explanation:
    """Replace every sentence number `n` by `names[n]`."""

    def _of(attentions: tuple[Attention, ...]) -> tuple[Attention, ...]:
        return tuple(replace(attention, sentences=names[attention.sentences]) for attention in attentions)

    return replace(
        explanation, number=int(names[explanation.number]), decoder=_of(explanation.decoder),
        encoder=_of(explanation.encoder), leaves=tuple(names[list(explanation.leaves)].tolist()),
        without=tuple(replace(left_out, sentence=int(names[left_out.sentence])) for left_out in explanation.without),
    )  # fmt: skip


# The page, and the lines of JSON.

#: Smaller weights are left out of the page; JSON has all.
LEAST = 0.005
#: A word of more subwords is shown as its subwords: it is of a script without spaces.
_PIECES = 8
#: A piece that is a byte of a character.
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
SUFFIXES = (".html", ".jsonl")


@dataclass(frozen=True)
class ExplainedSentence:
    """A sentence of a document and its translation with its explanation, which is None if it was given or is empty."""

    source: str
    translation: Translation


def check_explain(name: str | None, *, overwrite: bool) -> None:
    """Check before long work that the file of `--explain` can be written."""
    if name is not None:
        if Path(name).suffix not in SUFFIXES:
            raise UsageError(f"--explain {name}: expected a name that ends in {' or '.join(SUFFIXES)}")
        check_new(Path(name), overwrite=overwrite)


def write_explanation(path: Path, documents: Sequence[Sequence[ExplainedSentence]], loaded: LoadedModels) -> None:
    """Write the explanations of documents: `.html` for a page, `.jsonl` for a line per sentence."""
    if path.suffix == ".jsonl":
        lines: list[str] = []
        for document_number, document in enumerate(documents):
            for number, sentence in enumerate(document):
                best, explanation = sentence.translation, sentence.translation.explanation
                row: dict[str, Any] = {"document": document_number, "sentence": number, "source": sentence.source}
                row |= {"translation": best.text, "score": round(best.score, 6), "pieces": list(best.pieces)}
                row |= {} if explanation is None else _explanation_dict(explanation)
                lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        write_text(path, "".join(lines))
        return
    task, languages = loaded.task, loaded.task.languages
    models = [str(path) for path in loaded.paths]
    data: dict[str, Any] = {
        "languages": languages,
        "models": models,
        "heads": _heads(documents),
        "documents": [
            {"sentences": [_shown(number, sentence, task) for number, sentence in enumerate(document)]}
            for document in documents
        ],
    }
    sentences = sum(map(len, documents))
    summary = f"{how_many(sentences, 'sentence')} in {how_many(len(documents), 'document')}, {' to '.join(languages)}"
    summary += f", by {', '.join(models)}"
    content: dict[str, Any] = {"title": "What the translation read", "summary": summary, "least": LEAST}
    style, script = template("shared/page.css") + template("explain/explain.css"), template("explain/explain.js")
    write_text(path, self_contained("explain", "docnmt explanation", style, script, content, data))


def _explanation_dict(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain JSON types; weights have five decimals."""
    return {
        "source_pieces": list(explanation.source),
        "log_probs": _rounded(explanation.log_probs),
        "decoder": [_attention(attention, 0.0) for attention in explanation.decoder],
        "encoder": [_attention(attention, 0.0) for attention in explanation.encoder],
        "others": {str(sentence): round(weight, 5) for sentence, weight in explanation.others.items()},
        "paths": {str(leaf): explanation.path(leaf) for leaf in explanation.leaves},
        "without": [{"sentence": case.sentence, "log_probs": _rounded(case.log_probs)} for case in explanation.without],
    }


def _attention(attention: Attention, least: float) -> dict[str, Any]:
    """Return, for each piece and head, the entries [sentence, weight(, piece)] whose weight is above `least`."""
    fields: dict[str, Any] = {name: getattr(attention, name) for name in ("block", "layer", "model", "tree")}
    columns = [attention.sentences, np.round(attention.weights, 5), attention.places]
    lists = [column.tolist() for column in columns if column is not None]  # (n, h, k) each
    fields["rows"] = [
        [[list(entry) for entry in zip(*head, strict=True) if entry[1] > least] for head in zip(*piece, strict=True)]
        for piece in zip(*lists, strict=True)
    ]
    if attention.share is not None:
        fields["share"] = _rounded(attention.share)
    return fields


def _rounded(values: np.ndarray | None) -> list[float]:
    return [] if values is None else [round(value, 5) for value in values.tolist()]


def _shown(number: int, sentence: ExplainedSentence, task: TranslationTask) -> dict[str, Any]:
    translation, explanation = sentence.translation, sentence.translation.explanation
    shown: dict[str, Any] = {"number": number, "source": sentence.source, "target": translation.text}
    target_words = _words(translation.pieces, _cut(task.target_tokenizer, translation.text, translation.pieces))
    if explanation is None or not explanation.decoder:
        is_given = bool(translation.pieces)
        words = {"source_words": [], "target_words": target_words}
        return shown | words | {"given": is_given, "encoder": [], "decoder": [], "leaves": [], "without": []}
    texts = _cut(task.source_tokenizer, sentence.source, explanation.source)
    attentions = {
        side: [_attention(one, LEAST) for one in getattr(explanation, side)] for side in ("decoder", "encoder")
    }
    return {
        **shown, **attentions, "given": False, "source_words": _words(explanation.source, texts),
        "target_words": target_words, "leaves": list(explanation.leaves),
        "log_probs": _rounded(explanation.log_probs),
        "without": [[other.sentence, _rounded(other.log_probs)] for other in explanation.without],
    }  # fmt: skip


def _cut(tokenizer: Tokenizer, text: str, pieces: Sequence[str]) -> list[str] | None:
    """Return the text of each piece; None if this text is not cut into these."""
    if tokenizer.pieces(tokenizer.encode([text])[0]) != list(pieces):
        return None
    return [text[begin:end] for begin, end in tokenizer.spans(text)]


def _words(pieces: Sequence[str], texts: Sequence[str] | None) -> list[tuple[str, int, int, bool]]:
    """Join pieces to words: text, first piece, the one after the last, and True if a space precedes. `texts` are those
    of the pieces, if they are known better than by their names."""
    texts = [*_spelt(pieces)] if texts is None else texts
    bounds = [n for n, piece in enumerate(pieces) if piece.startswith("▁") or not n] + [len(pieces)]
    words = []
    for begin, end in pairwise(bounds):
        cuts = [] if end - begin <= _PIECES else [n for n in range(begin + 1, end) if texts[n - 1]]
        for first, last in pairwise([begin, *cuts, end]):
            if spelt := "".join(texts[first:last]).strip():
                words.append((spelt, first, last, pieces[first].startswith("▁")))
    return words


def _spelt(pieces: Sequence[str]) -> Iterator[str]:
    """Yield the text of each piece; that of a character in bytes (`--byte-fallback`) stands at its last one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece, after in pairwise([*pieces, ""]):
        if byte := _BYTE.fullmatch(piece):
            yield decoder.decode(bytes.fromhex(byte[1]), final=_BYTE.fullmatch(after) is None)
        else:
            yield piece.replace("▁", " ").replace("<unk>", "⁇")


def _heads(documents: Sequence[Sequence[ExplainedSentence]]) -> list[tuple[str, str]]:
    """Return every head's name in the script, with its label."""
    labels: dict[str, str] = {}
    for sentence in (sentence for document in documents for sentence in document):
        explanation = sentence.translation.explanation
        for side in () if explanation is None else (explanation.decoder, explanation.encoder):
            for one in side:
                for head in range(one.weights.shape[1]):
                    label = f"{one.block}, layer {one.layer + 1}, head {head + 1}"
                    label += f", model {one.model + 1}" if one.model else ""
                    labels.setdefault(f"{one.model}.{one.block}.{one.layer}.{head}", label)
    return list(labels.items())
