"""Passes over arrays on disk in blocks give what one pass over arrays in memory gives, and hold little."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.core import preprocess as overlap
from docnmt.core.corpus import SplitFolder, TextArray
from docnmt.core.preprocess import line_hashes, shares_seen
from docnmt.runtime.system import file_checksum


def test_rows_are_written_part_by_part(tmp_path: Path) -> None:
    lines, files = ["one", "", "three words here", "ä", "five"], dict[str, Any]()
    folder = SplitFolder(tmp_path, "test", files)
    with folder.writer("en.text", "u1") as writer:
        writer.append_lines(lines[:2])
        writer.append_lines(lines[2:])
    assert list(folder.text("en")) == lines
    assert all(file_checksum(tmp_path / name) == entry["xxh3"] for name, entry in files.items())


@settings(max_examples=50)
@given(st.data())
def test_overlap_does_not_depend_on_what_is_compared_together(data: st.DataObject) -> None:
    lines = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40)
    text, others = TextArray.from_lines(data.draw(lines)), [TextArray.from_lines(data.draw(lines)) for _ in range(2)]
    cuts = data.draw(st.sets(st.integers(1, len(text))))
    offsets = np.array(sorted({0, len(text)} | cuts))
    whole = shares_seen(text, offsets, line_hashes(*others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_TOGETHER", data.draw(st.integers(1, 10)))
        assert shares_seen(text, offsets, line_hashes(*others)).tolist() == whole.tolist()
    assert whole.tolist() == [share_of(text[a:b], others) for a, b in pairwise(offsets.tolist())]


def share_of(document: list[str], others: list[TextArray]) -> float:
    """The same of one document, by its definition: all its lines have one byte."""
    there = [list(other) for other in others]
    if len(document) == 1:
        return float(any(document[0] in lines for lines in there))
    pairs = {pair for lines in there for pair in pairwise(lines)}
    found = [pair in pairs for pair in pairwise(document)]
    seen = [before or after for before, after in zip([False, *found], [*found, False], strict=True)]
    return sum(seen) / len(seen)
