"""Passes over arrays on disk in blocks give what one pass over arrays in memory gives, and hold little."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.core import corpus as store
from docnmt.core import preprocess as overlap
from docnmt.core.corpus import RaggedWriter, TextArray, map_array, release_pages
from docnmt.core.preprocess import counted, percentiles, shares_seen

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=200)


@settings(deadline=None, max_examples=200)  # a busy machine is no fault
@given(LENGTHS, st.integers(1, 50))
def test_percentiles_of_counts_are_those_of_the_numbers(lengths: list[int], block: int) -> None:
    numbers = np.array(lengths)
    counts = counted(numbers[first : first + block] for first in range(0, len(numbers), block))
    assert len(counts) - 1 == numbers.max()
    assert percentiles(counts, (0, 50, 90, 99, 100)).tolist() == np.percentile(numbers, (0, 50, 90, 99, 100)).tolist()


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_rows_are_copied_and_measured_block_by_block(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_BLOCK", block)
    text = TextArray.from_lines(["one", "", "three words here", "ä", "five"])
    writer = RaggedWriter(tmp_path, "text", "u1")
    writer.append_rows(text.data, text.offsets[2:])
    writer.append_rows(text.data, text.offsets[:3])
    writer.close()
    offsets = map_array(tmp_path / "text.offsets.bin", "<i8", 6)
    copied = TextArray(map_array(tmp_path / "text.bin", "u1", int(offsets[-1])), offsets)
    assert list(copied) == ["three words here", "ä", "five", "one", ""]
    lengths = list(store.length_blocks(offsets))
    assert np.concatenate(lengths).tolist() == np.diff(offsets).tolist()
    assert max(map(len, lengths)) <= block


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_overlap_does_not_depend_on_what_is_compared_together(data: st.DataObject) -> None:
    lines = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40)
    text, others = TextArray.from_lines(data.draw(lines)), [TextArray.from_lines(data.draw(lines)) for _ in range(2)]
    cuts = data.draw(st.sets(st.integers(1, len(text))))
    offsets = np.array(sorted({0, len(text)} | cuts))
    whole = shares_seen(text, offsets, others)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_TOGETHER", data.draw(st.integers(1, 10)))
        assert shares_seen(text, offsets, others).tolist() == whole.tolist()
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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_pages_that_were_read_leave_the_process(tmp_path: Path) -> None:
    size = 1 << 25
    (tmp_path / "file").write_bytes(bytes(size))
    array = map_array(tmp_path / "file", "u1", size)
    before = mapped()
    assert array.sum() == 0
    assert mapped() > before + 0.9 * size
    release_pages(array[5:9])  # a part stands for the whole
    assert mapped() < before + 0.1 * size
    assert array[-1] == 0  # and it can be read again
    release_pages(np.zeros(3))


def mapped() -> int:
    """Bytes of files in this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssFile"))
