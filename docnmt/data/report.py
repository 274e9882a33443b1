"""Counts and lengths of a split, for `meta.json` and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from docnmt.data.scan import Split
from docnmt.data.tokenizer import UNK


def statistics(split: Split, sides: Sequence[str]) -> dict[str, Any]:
    """A split's entry in `meta.json`: counts, lengths in subwords, inputs and notes."""
    structure = split.files.structure()
    lengths: dict[str, Any] = {}
    for side in sides:
        tokens = split.files.tokens(side)
        documents = np.diff(tokens.offsets[structure.document_offsets])
        sentences = tokens.lengths()
        lengths[side] = {
            "tokens": len(tokens.tokens),
            "unknown": _count(tokens.tokens, UNK),
            "longest_sentence": int(sentences.max()),
            "longest_document": int(documents.max()),
            "sentence_percentiles": [int(p) for p in np.percentile(sentences, (50, 90, 99))],
            "document_percentiles": [int(p) for p in np.percentile(documents, (50, 90, 99))],
        }
    return {
        "documents": structure.num_documents,
        "sentences": structure.num_sentences,
        "levels": structure.levels.shape[1],
        "references": len(split.references),
        "lengths": lengths,
        "inputs": split.facts.inputs,
        "notes": split.facts.notes,
    }


def _count(tokens: np.ndarray, token: int) -> int:
    """How often `token` occurs, without a mask as long as the whole corpus."""
    blocks = (tokens[first : first + (1 << 22)] for first in range(0, len(tokens), 1 << 22))
    return sum(int(np.count_nonzero(block == token)) for block in blocks)


def describe_split(name: str, counts: Mapping[str, Any]) -> str:
    """One line on a split."""
    known = {0: "no sections or paragraphs", 1: "1 level above the sentence"}
    parts = [
        f"{name}: {counts['documents']:,} documents, {counts['sentences']:,} sentences",
        known.get(counts["levels"], f"{counts['levels']} levels above the sentence"),
    ]
    if counts["references"] != 1:
        parts.append(f"{counts['references'] or 'no'} references")
    for side, lengths in counts["lengths"].items():
        unknown = f", {100 * lengths['unknown'] / lengths['tokens']:.2g}% unknown" if lengths["unknown"] else ""
        parts.append(
            f"{side} {lengths['tokens']:,} subwords{unknown} (longest sentence {lengths['longest_sentence']:,}, "
            f"longest document {lengths['longest_document']:,})"
        )
    return "; ".join(parts)
