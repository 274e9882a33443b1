"""Filters that leave out training documents: duplicates, and texts of held-out data."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from docnmt.core.corpus import DROPPED, file_entry
from docnmt.core.data.first_pass import SplitTexts
from docnmt.core.data.overlap import HALF, shares_seen
from docnmt.core.data.rewrite_split import rewrite
from docnmt.core.data_options import TranslationPreprocessConfig
from docnmt.core.formats.corpus_files import places_of
from docnmt.runtime.errors import UserError
from docnmt.runtime.progress import Progress


class Reason(NamedTuple):
    """The reason for leaving out a document: its kind, for counts, and the details."""

    kind: str
    case: str


def drop_documents(
    train: SplitTexts, held_out: Sequence[SplitTexts], config: TranslationPreprocessConfig, say: Callable[[str], None]
) -> list[str]:
    """Leave out the training documents that the filters match, and list them in `dropped.tsv`.

    Returns the notes that were also printed.

    Raises:
        UserError: nothing would be left.
    """
    if not config.filters():
        return []
    offsets, names = train.files.structure().document_offsets, train.files.text_if_known("names")
    reasons = _reasons(train, held_out, config)
    if len(reasons) == len(offsets) - 1:
        raise UserError(f"{train.input.paths[0]}: every document would be left out ({' '.join(config.filters())})")
    numbers = sorted(reasons)
    places = places_of(train.input, [int(offsets[number]) for number in numbers])
    rows = ["document\tplace\tname\tsentences\treason"]
    for number, place in zip(numbers, places, strict=True):
        name = "" if names is None else " ".join(names[number].split())  # a cell of a TSV file
        rows.append(f"{number + 1}\t{place}\t{name}\t{offsets[number + 1] - offsets[number]}\t{reasons[number].case}")
    content = "".join(f"{row}\n" for row in rows).encode()
    (train.files.folder / DROPPED).write_bytes(content)
    train.files.files[DROPPED] = file_entry(content)
    left = np.repeat([number not in reasons for number in range(len(offsets) - 1)], np.diff(offsets))
    train.left = np.flatnonzero(left)
    rewrite(train.files, {sentence: [] for sentence in np.flatnonzero(~left).tolist()}, None)
    counts = Counter(reason.kind for reason in reasons.values())
    why = ", ".join(f"{counts[kind]:,} {what}" for kind, what in _asked(config).items())
    note = f"train: {len(reasons):,} of {len(offsets) - 1:,} documents are left out (listed in {DROPPED}): {why}"
    say(note)
    return [note]


def _asked(config: TranslationPreprocessConfig) -> dict[str, str]:
    """Return a description of each requested filter by kind, in the order in which they are applied."""
    return {
        kind: what
        for option, kind, what in (
            (config.drop_overlap, "overlap", "stand in the validation or test data"),
            (config.drop_duplicates, "duplicate", "duplicates"),
        )
        if option
    }


def _reasons(
    train: SplitTexts, held_out: Sequence[SplitTexts], config: TranslationPreprocessConfig
) -> dict[int, Reason]:
    """Return the documents to leave out, each with the first reason found."""
    source, target = train.sides[:2]
    texts, offsets = (train.files.text(source), train.files.text(target)), train.files.structure().document_offsets
    found: dict[int, Reason] = {}
    if config.drop_overlap:
        shares = shares_seen(texts[0], offsets, [split.files.text(source) for split in held_out])
        for number in np.flatnonzero(shares >= HALF).tolist():
            found[number] = Reason("overlap", f"{shares[number]:.0%} of it in validation or test data")
    seen: dict[bytes, int] = {}
    with Progress(len(offsets) - 1, "filtering train", unit="documents") as bar:
        for number, (begin, end) in enumerate(pairwise(offsets.tolist())):
            document = texts[0][begin:end], texts[1][begin:end]
            reason = _duplicate(document, number, seen) if config.drop_duplicates and number not in found else None
            if reason is not None:
                found.setdefault(number, reason)
            bar.update(1)
    return found


ParallelDocument = tuple[list[str], list[str]]


def _duplicate(document: ParallelDocument, number: int, seen: dict[bytes, int]) -> Reason | None:
    """Return a reason if all words of a document, on both sides, are those of an earlier one."""
    words = "\0".join("\n".join(" ".join(line.split()) for line in side) for side in document)
    first = seen.setdefault(hashlib.blake2b(words.encode(), digest_size=16).digest(), number)
    return None if first == number else Reason("duplicate", f"duplicate of document {first + 1}")
