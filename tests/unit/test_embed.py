"""What docnmt-embed reads and writes."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from docnmt.other_tasks.sentence_vectors.data import text_lines
from docnmt.other_tasks.sentence_vectors.use import NpyWriter
from docnmt.runtime.system import UserError, replacing


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


def test_a_folder_has_no_lines(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        next(text_lines(tmp_path))


def test_a_device_or_a_folder_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UserError), replacing(path):
            pytest.fail("no work is done")
    assert (tmp_path / "pipe").is_fifo()
