"""Codes, the nearest of them, and the files they are kept in."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.other_tasks.sentence_vectors import embed as search
from docnmt.other_tasks.sentence_vectors.embed import BitReport, FaissIndex, NpyWriter, StoredLines, text_lines
from docnmt.runtime.system import UserError, replacing


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 12), st.integers(0, 10_000), st.sampled_from([1, 3, 9]))
def test_nearest_equals_sorting_everything(rows: int, queries: int, top: int, seed: int, byte_count: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, 4, (rows, byte_count)).astype(np.uint8)  # many ties
    wanted = random.integers(0, 4, (queries, byte_count)).astype(np.uint8)
    distances = (np.unpackbits(wanted, axis=1)[:, None] != np.unpackbits(codes, axis=1)[None]).sum(-1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :top]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK_BYTES", 8 * queries * 7)
        found, places = search.nearest_hamming(wanted, codes, top)
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(found, np.take_along_axis(distances, order, 1))
        cosines, cosine_places = search.nearest_cosine(wanted.astype(np.float32), codes.astype(np.float32), top)
    u, v = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9) for x in (wanted, codes))
    best = np.sort(u @ v.T, axis=1)[:, ::-1][:, :top]
    np.testing.assert_allclose(cosines, best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(u @ v.T, cosine_places, 1), best, atol=1e-5)


def test_faiss_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(search, "BLOCK_BYTES", 7 * 64)  # seven vectors
    random = np.random.default_rng(0)
    vectors, codes = random.normal(size=(50, 16)).astype(np.float32), random.integers(0, 256, (50, 8)).astype(np.uint8)
    cosines, places = search.nearest_cosine(vectors[:5], vectors, 3)
    index = FaissIndex(vectors)
    for rows in (slice(0, 5), slice(2, 4)):  # the same index answers again
        found = index.nearest(vectors[rows], 3)
        np.testing.assert_allclose(found[0], cosines[rows], atol=1e-5)
        np.testing.assert_array_equal(found[1], places[rows])
    distances = search.nearest_hamming(codes[:5], codes, 60)[0]
    np.testing.assert_array_equal(FaissIndex(codes).nearest(codes[:5], 60)[0], distances)
    vectors[37, 3] = np.nan
    with pytest.raises(UserError, match=r"row 37 \(from 0\) of the index"):
        FaissIndex(vectors)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_named(broken: float, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 16)).astype(np.float32)
    monkeypatch.setattr(search, "BLOCK_BYTES", 8 * 16 * 4)
    index = vectors.copy()
    index[37, 3] = broken
    with pytest.raises(UserError, match=r"row 37 \(from 0\) of the index"):
        search.nearest_cosine(vectors[:2], index, 3)
    with pytest.raises(UserError, match=r"row 1 \(from 0\) of the queries"):
        search.nearest_cosine(index[36:38], vectors, 3)


def test_popcount_without_numpy_2(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([0, 1, 2**64 - 1, 0x0F0F], np.uint64)
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert search._ones(values[:, None]).sum(1).tolist() == [0, 1, 64, 8]


def test_bit_report_counts_dead_bits_and_balance() -> None:
    bits = np.array([[0, 1, 0, 1, 1, 0, 0, 0], [0, 1, 1, 0, 1, 0, 0, 0]], bool)
    report = BitReport(8)
    for row in bits:
        report.add(np.packbits(row[None], axis=1))
    assert report.dead.tolist() == [0, 1, 4, 5, 6, 7]
    assert report.balance.tolist() == [0, 1, 0.5, 0.5, 1, 0, 0, 0]
    assert report.entropy == pytest.approx(2)
    assert "6 dead (75.0 %)" in str(report)


def test_npy_writer_and_lines() -> None:
    file = io.BytesIO()
    writer = NpyWriter(file, 3, np.float32)
    for size in (2, 0, 5):
        writer.append(np.full((size, 3), size))
    writer.finish()
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), np.repeat([2.0, 5.0], [2, 5])[:, None] * np.ones((7, 3)))


def test_lines_end_at_a_newline_and_begin_without_a_byte_order_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, expected = "\ufeffa\r\n\n\ufeffb\u2028c", ["a", "", "\ufeffb\u2028c"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert list(text_lines(None)) == expected
    (tmp_path / "text.txt").write_bytes(text.encode())
    assert list(text_lines(tmp_path / "text.txt")) == expected
    lines = StoredLines(tmp_path / "text.txt", "x")
    assert [lines[place] for place in (2, 0, 1)] == [expected[place] for place in (2, 0, 1)]
    assert len(lines) == 3


def test_a_folder_has_no_lines(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        next(text_lines(tmp_path))


def test_stored_lines_are_not_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{i} {'x' * 200}\n" for i in range(20_000)))
    tracemalloc.start()
    lines = StoredLines(tmp_path / "text.txt", "x")
    assert lines[19_999].startswith("19999 x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20  # of four megabytes of text


def test_stored_lines_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"a\nca\xe9\n")
    with pytest.raises(UserError, match=r"--texts:2: byte 3 of the line \(0xE9\): not valid UTF-8"):
        StoredLines(tmp_path / "bad.txt", "--texts")
    with pytest.raises(UserError, match="--texts: cannot be read"):
        StoredLines(tmp_path / "absent.txt", "--texts")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UserError, match="--texts: is a folder or a pipe"):
            StoredLines(path, "--texts")


def test_a_device_or_a_folder_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UserError, match="a folder or a device"), replacing(path):
            pytest.fail("no work is done")
    assert (tmp_path / "pipe").is_fifo()
