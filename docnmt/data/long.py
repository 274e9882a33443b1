"""What happens to sentences and documents above the declared limits (`--long-policy`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np

from docnmt.data.config import TranslationPreprocessConfig
from docnmt.data.rewrite import Edits, rewrite
from docnmt.data.scan import Split
from docnmt.data.store import TextArray, TokenArray
from docnmt.data.tokenizer import Tokenizer
from docnmt.errors import UserError
from docnmt.formats.forms import locate
from docnmt.units import document_units


def apply_long_policy(
    split: Split, tokenizers: Mapping[str, Tokenizer], config: TranslationPreprocessConfig, say: Callable[[str], None]
) -> list[str]:
    """Find what is too long in a split and do what the policy says; returns the notes that were also said.

    Raises:
        UserError: something is too long under the policy `error`, or cannot be split.
    """
    sides = [config.source_lang, *([config.target_lang] if split.references else [])]
    tokens = {side: split.files.tokens(side) for side in sides}
    costs = np.maximum.reduce([side.lengths() for side in tokens.values()])
    sentences = np.flatnonzero(costs > config.max_sentence_tokens)
    edits = Edits({side: {} for side in sides})
    if len(sentences):
        _refuse(split, config.long_policy, "sentence", config.max_sentence_tokens, sentences, costs[sentences])
        if not split.is_test:
            edits = _edit_sentences(split, sentences, tokens, tokenizers, config)
            costs = _edited_costs(costs, edits)
    offsets = split.files.structure().document_offsets
    limit = config.max_document_tokens
    lengths = np.add.reduceat(costs, offsets[:-1])
    documents = np.flatnonzero(lengths > limit) if limit is not None else np.zeros(0, dtype=np.int64)
    if len(documents) and limit is not None:
        _refuse(split, config.long_policy, "document", limit, offsets[documents], lengths[documents])
        if not split.is_test:
            _edit_documents(edits, offsets, documents, costs, limit, config.long_policy)
    if not len(sentences) and not len(documents):
        return []
    if not split.is_test:
        rewrite(split.files, split.references, edits)
    note = _note(split, config, sentences, offsets[documents])
    say(note)
    return [note]


def _refuse(split: Split, policy: str, what: str, limit: int, found: np.ndarray, costs: np.ndarray) -> None:
    """
    Args:
        found, costs: the first sentence, and the length, of each `what` that is too long.

    Raises:
        UserError: the policy is `error`.
    """
    if policy == "error":
        raise UserError(
            f"{locate(split.input, int(found[0]))}: a {what} of {costs[0]:,} subwords, the limit is {limit:,} "
            f"(--max-{what}-tokens); {len(found):,} of {split.name} in all; raise the limit or choose "
            "--long-policy split, truncate or skip"
        )


def _edit_sentences(
    split: Split,
    sentences: np.ndarray,
    tokens: Mapping[str, TokenArray],
    tokenizers: Mapping[str, Tokenizer],
    config: TranslationPreprocessConfig,
) -> Edits:
    edits = Edits({side: {} for side in tokens})
    limit = config.max_sentence_tokens
    texts = {side: split.files.text(side) for side in (config.source_lang, *split.references)}
    if config.long_policy == "split":
        edits.texts = {side: {} for side in texts}
    for sentence in map(int, sentences):
        if config.long_policy == "skip":
            edits.leave_out(sentence)
        elif config.long_policy == "truncate":
            for side, array in tokens.items():
                edits.tokens[side][sentence] = [array[sentence][:limit].tolist()]
        else:
            _split_sentence(split, sentence, texts, tokenizers, limit, edits)
    return edits


def _split_sentence(
    split: Split,
    sentence: int,
    texts: Mapping[str, TextArray],
    tokenizers: Mapping[str, Tokenizer],
    limit: int,
    edits: Edits,
) -> None:
    """Into as few pieces as keep every side's within the limit."""
    lines = {side: text[sentence] for side, text in texts.items()}
    most = min(len(line.split()) for line in lines.values())
    for count in range(2, most + 1):
        pieces = {side: split_text(line, count) for side, line in lines.items()}
        rows = {side: tokenizers[side].encode(pieces[side]) for side in edits.tokens}
        if max(len(row) for side in rows.values() for row in side) <= limit:
            for side, new in rows.items():
                edits.tokens[side][sentence] = new
            for side, parts in pieces.items():
                edits.texts[side][sentence] = parts
            return
    raise UserError(
        f"{locate(split.input, sentence)}: cannot be split at spaces into pieces of {limit:,} subwords on all sides; "
        "choose --long-policy truncate or skip"
    )


def split_text(text: str, count: int) -> list[str]:
    """`count` pieces of nearly equally many words; there are at least `count` words."""
    words = text.split()
    cuts = [len(words) * k // count for k in range(count + 1)]
    return [" ".join(words[a:b]) for a, b in itertools.pairwise(cuts)]


def _edited_costs(costs: np.ndarray, edits: Edits) -> np.ndarray:
    """(S,) subwords of each sentence after the edits, all its pieces together."""
    costs = costs.copy()
    for sentence in next(iter(edits.tokens.values())):
        costs[sentence] = max(sum(map(len, rows[sentence])) for rows in edits.tokens.values())
    return costs


def _edit_documents(
    edits: Edits, offsets: np.ndarray, documents: np.ndarray, costs: np.ndarray, limit: int, policy: str
) -> None:
    if policy == "split":
        edits.max_document_tokens = limit
        return
    for first, last in zip(offsets[documents], offsets[documents + 1], strict=True):
        kept = first
        if policy == "truncate":
            kept = first + document_units(np.array([0, last - first]), costs[first:last], limit).last[0]
        for sentence in range(int(kept), int(last)):
            edits.leave_out(sentence)


def _note(split: Split, config: TranslationPreprocessConfig, sentences: np.ndarray, documents: np.ndarray) -> str:
    done = {"split": "split", "truncate": "cut off", "skip": "left out"}[config.long_policy]
    found = []
    if len(sentences):
        first = locate(split.input, int(sentences[0]))
        found.append(
            f"{len(sentences):,} sentences of more than {config.max_sentence_tokens:,} subwords (the first: {first})"
        )
    if len(documents):
        first = locate(split.input, int(documents[0]))
        found.append(
            f"{len(documents):,} documents of more than {config.max_document_tokens:,} subwords (the first: {first})"
        )
    done = "kept whole, because test sets are never changed" if split.is_test else done
    return f"warning: {split.name}: {' and '.join(found)} are {done}"
