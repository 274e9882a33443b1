"""Treatment of sentences and documents above the declared limits (`--long-policy`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from docnmt.core.corpus import TextArray, TokenArray
from docnmt.core.data.first_pass import SplitTexts
from docnmt.core.data.rewrite_split import SplitArrays, rewrite
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.data_options import TranslationPreprocessConfig
from docnmt.core.units import cut_units, document_units
from docnmt.runtime.errors import UserError


def apply_long_policy(
    split: SplitTexts,
    tokenizers: Mapping[str, Tokenizer],
    config: TranslationPreprocessConfig,
    say: Callable[[str], None],
) -> list[str]:
    """Apply the policy to a split's sentences and documents above the limits; return the notes that were also printed.

    Raises:
        UserError: something is too long under the policy `error`, or cannot be split.
    """
    tokens = {side: split.files.tokens(side) for side in split.sides[:2]}
    costs = _longer(list(tokens.values()))
    sentences = np.flatnonzero(costs > config.max_sentence_tokens)
    _refuse(split, config.long_policy, "sentence", config.max_sentence_tokens, sentences, costs[sentences])
    edits: dict[int, list[SplitArrays]] = {}
    if not split.is_test:
        texts = {side: split.files.text(side) for side in split.sides}
        edits = {i: _new_rows(split, i, texts, tokens, tokenizers, config) for i in sentences.tolist()}
    for sentence, rows in edits.items():
        costs[sentence] = max(sum(len(row[f"{side}.tokens"]) for row in rows) for side in tokens)
    limit = config.max_document_tokens or int(costs.sum())
    offsets = split.files.structure().document_offsets
    lengths = np.add.reduceat(costs, offsets[:-1], dtype=np.int64)
    documents = np.flatnonzero(lengths > limit)
    _refuse(split, config.long_policy, "document", limit, offsets[documents], lengths[documents])
    if not len(sentences) and not len(documents):
        return []
    if not split.is_test:
        cut = config.long_policy == "split" and len(documents) > 0
        for first, last in [] if cut else zip(offsets[documents], offsets[documents + 1], strict=True):
            kept = first
            if config.long_policy == "truncate":
                kept += cut_units(document_units(np.array([0, last - first])), costs[first:last], limit).last[0]
            edits |= {sentence: [] for sentence in range(int(kept), int(last))}
        rewrite(split.files, edits, limit if cut else None)
    note = _note(split, config, sentences, offsets[documents])
    say(note)
    return [note]


def _longer(sides: Sequence[TokenArray]) -> np.ndarray:
    """Return the number of subwords (S,) of each sentence's longer side, int32."""
    blocks = zip(*(side.length_blocks() for side in sides), strict=True)
    return np.concatenate([np.maximum.reduce(block).astype(np.int32) for block in blocks])


def _refuse(split: SplitTexts, policy: str, what: str, limit: int, found: np.ndarray, costs: np.ndarray) -> None:
    """Refuse sentences or documents that are too long, under the policy `error`.

    Args:
      found, costs: the first sentence, and the length, of each `what` that is too long.

    Raises:
      UserError: there are some, and the policy is `error`.
    """
    if policy == "error" and len(found):
        raise UserError(
            f"{split.place(int(found[0]))}: a {what} of {costs[0]:,} subwords, the limit is {limit:,} "
            f"(--max-{what}-tokens); {len(found):,} of {split.name} in all; raise the limit or choose "
            "--long-policy split, truncate or skip"
        )


def _new_rows(
    split: SplitTexts,
    sentence: int,
    texts: Mapping[str, TextArray],
    tokens: Mapping[str, TokenArray],
    tokenizers: Mapping[str, Tokenizer],
    config: TranslationPreprocessConfig,
) -> list[SplitArrays]:
    """Return the rows that replace a sentence that is too long; if split, as few as fit the limit on all sides."""
    limit = config.max_sentence_tokens
    if config.long_policy == "skip":
        return []
    if config.long_policy == "truncate":
        return [{f"{side}.tokens": array[sentence][:limit] for side, array in tokens.items()}]
    lines = {side: text[sentence] for side, text in texts.items()}
    for count in range(2, min(len(line.split()) for line in lines.values() if line) + 1):
        pieces = {side: split_text(line, count) for side, line in lines.items()}
        subwords = {side: tokenizers[side].encode(pieces[side]) for side in tokens}
        if max(len(row) for side in subwords.values() for row in side) <= limit:
            return [
                {f"{side}.text": np.frombuffer(text[k].encode(), dtype=np.uint8) for side, text in pieces.items()}
                | {f"{side}.tokens": np.array(rows[k], dtype=np.int64) for side, rows in subwords.items()}
                for k in range(count)
            ]
    raise UserError(
        f"{split.place(sentence)}: cannot be split at spaces into pieces of {limit:,} subwords on all sides; "
        "choose --long-policy truncate or skip"
    )


def split_text(text: str, count: int) -> list[str]:
    """Split a text of at least `count` words into `count` pieces of nearly equally many words."""
    words = text.split()
    cuts = [len(words) * k // count for k in range(count + 1)]
    return [" ".join(words[a:b]) for a, b in itertools.pairwise(cuts)]


def _note(split: SplitTexts, config: TranslationPreprocessConfig, sentences: np.ndarray, documents: np.ndarray) -> str:
    """Describe what was found and done; `documents` are their first sentences."""
    done = {"split": "split", "truncate": "cut off", "skip": "left out"}[config.long_policy]
    if split.is_test:
        done = "kept whole, because test sets are never changed"
    kinds = (
        ("sentences", config.max_sentence_tokens, sentences),
        ("documents", config.max_document_tokens, documents),
    )
    parts = [
        f"{len(found):,} {what} of more than {limit:,} subwords (the first: {split.place(int(found[0]))})"
        for what, limit, found in kinds
        if len(found)
    ]
    return f"warning: {split.name}: {' and '.join(parts)} are {done}"
