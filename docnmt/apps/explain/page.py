"""The explanation as one HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.apps.explain.attention import Attention, Explanation
from docnmt.apps.pages import self_contained, template
from docnmt.core.search.translate import Translation
from docnmt.core.tokenizer import Tokenizer
from docnmt.runtime.progress import how_many
from docnmt.runtime.system import UsageError, write_text

#: Smaller weights are left out of the page; JSON has all.
LEAST = 0.005
#: A word of more subwords is shown as its subwords: it is of a script without spaces.
_PIECES = 8
SUFFIXES = (".html", ".jsonl")


@dataclass(frozen=True)
class ExplainedSentence:
    """A sentence of a document and its translation with its explanation, which is None if it was given or is empty."""

    source: str
    translation: Translation


def check_suffix(path: Path) -> None:
    """Check before long work that files with this ending can be written."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--explain {path}: expected a name that ends in {' or '.join(SUFFIXES)}")


def write_explanation(
    path: Path, documents: Sequence[Sequence[ExplainedSentence]], *, tokenizer: Tokenizer, languages: tuple[str, str],
    models: Sequence[str],
) -> None:  # fmt: skip
    """Write the explanations of documents: `.html` for a page, `.jsonl` for a line per sentence.

    Args:
        tokenizer: of the source. languages: source and target. models: the models' names.
    """
    check_suffix(path)
    if path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _json_rows(documents)))
        return
    data: dict[str, Any] = {
        "languages": languages,
        "models": list(models),
        "heads": _heads(documents),
        "documents": [
            {"sentences": [_shown(number, each, tokenizer) for number, each in enumerate(document)]}
            for document in documents
        ],
    }
    sentences = sum(map(len, documents))
    summary = f"{how_many(sentences, 'sentence')} in {how_many(len(documents), 'document')}, {' to '.join(languages)}"
    summary += f", by {', '.join(models)}"
    content: dict[str, Any] = {"title": "What the translation read", "summary": summary, "least": LEAST}
    style, script = template("shared/page.css") + template("explain/explain.css"), template("explain/explain.js")
    write_text(path, self_contained("explain", "docnmt explanation", style, script, content, data))


def _json_rows(documents: Sequence[Sequence[ExplainedSentence]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each sentence: texts, pieces, and what each head read at each piece."""
    for place, document in enumerate(documents):
        for number, each in enumerate(document):
            best, explanation = each.translation, each.translation.explanation
            row: dict[str, Any] = {"document": place, "sentence": number, "source": each.source}
            row |= {"translation": best.text, "score": round(best.score, 6), "pieces": list(best.pieces)}
            yield row | ({} if explanation is None else _explanation_dict(explanation))


def _explanation_dict(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain JSON types; weights have five decimals."""
    probabilities = explanation.log_probs
    return {
        "source_pieces": list(explanation.source),
        "log_probs": [] if probabilities is None else _rounded(probabilities),
        "decoder": [_attention(each, 0.0) for each in explanation.decoder],
        "encoder": [_attention(each, 0.0) for each in explanation.encoder],
        "others": {str(sentence): round(weight, 5) for sentence, weight in explanation.others.items()},
        "paths": {str(leaf): explanation.path(leaf) for leaf in explanation.leaves},
        "without": [{"sentence": each.sentence, "log_probs": _rounded(each.log_probs)} for each in explanation.without],
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


def _rounded(values: np.ndarray) -> list[float]:
    return [round(value, 5) for value in values.tolist()]


def _shown(number: int, each: ExplainedSentence, tokenizer: Tokenizer) -> dict[str, Any]:
    explanation = each.translation.explanation
    shown: dict[str, Any] = {"number": number, "source": each.source, "target": each.translation.text}
    if explanation is None or not explanation.decoder:
        given = bool(each.translation.pieces)
        words = {"source_words": [], "target_words": _words(each.translation.pieces, None)}
        return shown | words | {"given": given, "encoder": [], "decoder": [], "leaves": [], "without": []}
    spans = tokenizer.spans(each.source)
    texts = [each.source[a:b] for a, b in spans] if len(spans) == len(explanation.source) else None
    attentions = {
        side: [_attention(each, LEAST) for each in getattr(explanation, side)] for side in ("decoder", "encoder")
    }
    probabilities = explanation.log_probs
    return {
        **shown, **attentions, "given": False, "source_words": _words(explanation.source, texts),
        "target_words": _words(explanation.target, None), "leaves": list(explanation.leaves),
        "log_probs": [] if probabilities is None else _rounded(probabilities),
        "without": [[other.sentence, _rounded(other.log_probs)] for other in explanation.without],
    }  # fmt: skip


def _words(pieces: Sequence[str], texts: Sequence[str] | None) -> list[tuple[str, int, int, bool]]:
    """Join pieces to words: text, first piece, the one after the last, and True if a space precedes."""
    bounds = [n for n, piece in enumerate(pieces) if piece.startswith("▁") or not n] + [len(pieces)]
    words = []
    for begin, end in pairwise(bounds):
        parts = [(begin, end)] if end - begin <= _PIECES else [(n, n + 1) for n in range(begin, end)]
        for first, last in parts:
            spelt = (
                "".join(pieces[first:last]).replace("▁", " ").strip() if texts is None else "".join(texts[first:last])
            )
            if spelt:
                words.append((spelt.replace("<unk>", "⁇"), first, last, pieces[first].startswith("▁")))
    return words


def _heads(documents: Sequence[Sequence[ExplainedSentence]]) -> list[tuple[str, str]]:
    """Return every head's name in the script, with its label."""
    labels: dict[str, str] = {}
    for each in (sentence for document in documents for sentence in document):
        explanation = each.translation.explanation
        for side in () if explanation is None else (explanation.decoder, explanation.encoder):
            for one in side:
                for head in range(one.weights.shape[1]):
                    label = f"{one.block}, layer {one.layer + 1}, head {head + 1}"
                    label += f", model {one.model + 1}" if one.model else ""
                    labels.setdefault(f"{one.model}.{one.block}.{one.layer}.{head}", label)
    return list(labels.items())
