"""A report on a data folder: counts and lengths, for `meta.json` and for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.core.corpus import length_blocks, read_meta, release_pages
from docnmt.core.data.first_pass import SplitTexts
from docnmt.core.data.tokenizer import UNK
from docnmt.runtime.progress import how_many


def statistics(split: SplitTexts) -> dict[str, Any]:
    """Return a split's entry in `meta.json`: counts, lengths in subwords, inputs and notes."""
    structure = split.files.structure()
    lengths: dict[str, Any] = {}
    for side in split.sides[:2]:
        tokens = split.files.tokens(side)
        documents = np.diff(tokens.offsets[structure.document_offsets])
        counts = counted(tokens.length_blocks())
        lengths[side] = {
            "tokens": len(tokens.tokens),
            "unknown": _count(tokens.tokens, UNK),
            "longest_sentence": len(counts) - 1,
            "longest_document": int(documents.max()),
            "sentence_percentiles": percentiles(counts, (50, 90, 99)).astype(int).tolist(),
            "document_percentiles": np.percentile(documents, (50, 90, 99)).astype(int).tolist(),
        }
    return {
        "documents": structure.num_documents,
        "sentences": structure.num_sentences,
        "levels": structure.levels.shape[1],
        "references": len(split.sides) - 1,
        "without_partner": _without_partner(split),
        "lengths": lengths,
        "inputs": split.facts.inputs,
        "notes": split.facts.notes,
    }


def _without_partner(split: SplitTexts) -> int:
    """Return the number of sentences that are only read because the (first) reference lacks them."""
    blocks = (block for side in split.sides[1:2] for block in length_blocks(split.files.text(side).offsets))
    return sum(int(np.count_nonzero(block == 0)) for block in blocks)


def counted(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """Count how often 0, 1, 2, … occur among whole numbers; int64, (largest + 1,)."""
    counts = np.zeros(1, dtype=np.int64)
    for block in blocks:
        more = np.bincount(block, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    return counts


def percentiles(counts: np.ndarray, wanted: Sequence[float]) -> np.ndarray:
    """Return `np.percentile` of numbers that are given only as `counts` of 0, 1, 2, …."""
    place = (counts.sum() - 1) * (np.asarray(wanted) / 100)
    below = np.floor(place)
    low, high = (np.searchsorted(np.cumsum(counts), each, side="right") for each in (below, np.ceil(place)))
    share = place - below  # interpolated from the nearer neighbour, as np.percentile does
    result: np.ndarray = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return result


def _count(tokens: np.ndarray, token: int) -> int:
    """Count the occurrences of `token` without a mask as long as the whole corpus."""
    found = 0
    for first in range(0, len(tokens), 1 << 22):
        found += int(np.count_nonzero(tokens[first : first + (1 << 22)] == token))
        release_pages(tokens)
    return found


def describe_split(name: str, counts: Mapping[str, Any]) -> str:
    """Describe a split in one line."""
    known = {0: "no sections or paragraphs", 1: "1 level above the sentence"}
    parts = [
        f"{name}: {how_many(counts['documents'], 'document')}, {how_many(counts['sentences'], 'sentence')}",
        known.get(counts["levels"], f"{counts['levels']} levels above the sentence"),
    ]
    if counts["without_partner"]:
        parts.append(f"{counts['without_partner']:,} of them without a translation, only read")
    if counts["references"] != 1:
        parts.append(f"{counts['references'] or 'no'} references")
    for side, lengths in counts["lengths"].items():
        unknown = f", {100 * lengths['unknown'] / lengths['tokens']:.2g}% unknown" if lengths["unknown"] else ""
        parts.append(
            f"{side} {lengths['tokens']:,} subwords{unknown} (longest sentence {lengths['longest_sentence']:,}, "
            f"longest document {lengths['longest_document']:,})"
        )
    return "; ".join(parts)


def describe_folder(folder: Path) -> str:
    """Describe a data folder of any task on a page.

    Raises:
        UserError: the folder is not a data folder or is damaged.
    """
    meta = read_meta(Path(folder))
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    lines = [
        f"{folder}: data for {meta['task']}, {size / 1e6:,.1f} MB, made by docnmt {meta.get('docnmt', '?')}",
        f"fingerprint: {meta.get('fingerprint', 'none')}",
    ]
    if "source_lang" in meta:
        vocabulary = meta["vocabulary"]
        sizes = f"{vocabulary['source']:,} subwords, joined"
        if not vocabulary["joined"]:
            sizes = f"{vocabulary['source']:,} and {vocabulary['target']:,} subwords"
        lines += [f"languages: {meta['source_lang']} to {meta['target_lang']}", f"vocabulary: {sizes}"]
    for name, counts in meta.get("splits", {}).items():
        shown = _split(counts) if "lengths" in counts else counts
        lines += ["", f"split {name}", *_indented(shown if isinstance(shown, Mapping) else {"rows": shown})]
    if meta.get("options"):
        lines += ["", "options", *_indented({k: v for k, v in meta["options"].items() if v not in (None, [], "")})]
    return "\n".join(lines)


def _split(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the counts of a translation split in words."""
    shown: dict[str, Any] = {name: counts[name] for name in ("documents", "sentences", "levels", "references")}
    if counts.get("without_partner"):
        shown["sentences only read"] = counts["without_partner"]
    for side, lengths in counts["lengths"].items():
        shown[f"{side} subwords"] = f"{lengths['tokens']:,}, {lengths['unknown']:,} of them unknown"
        for what in ("sentence", "document"):
            median, ninety, most = lengths[f"{what}_percentiles"]
            shown[f"{side} {what} length"] = (
                f"median {median:,}, 90 % {ninety:,}, 99 % {most:,}, longest {lengths[f'longest_{what}']:,}"
            )
    for file, entry in counts["inputs"].items():
        shown[f"input {file}"] = f"{entry['bytes']:,} bytes, sha256 {entry['sha256'][:12]}…"
    return shown | {f"note {i}": note for i, note in enumerate(counts["notes"], 1)}


def _indented(values: Mapping[str, Any]) -> list[str]:
    return [f"  {key}: {f'{value:,}' if type(value) is int else value}" for key, value in values.items()]
