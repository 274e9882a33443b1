"""Lines of text files: what is ordinary, what is counted, what is refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.core import read_corpus as text
from docnmt.core.read_corpus import TextLines, is_blank
from docnmt.runtime.system import UserError


def read(data: bytes) -> tuple[list[str], TextLines]:
    lines = TextLines(io.BytesIO(data), name="corpus.en")
    return list(lines), lines


def test_lines_end_at_newline_only() -> None:
    lines, found = read("a\u2028b\u0085c\x0cd\x1ee\nf\n".encode())
    assert lines == ["a\u2028b\u0085c\x0cd\x1ee", "f"]
    assert found.lines == 2


def test_the_last_line_needs_no_newline() -> None:
    assert read(b"a\nb")[0] == read(b"a\nb\n")[0] == ["a", "b"]
    assert read(b"a\nb\n\n")[0] == ["a", "b", ""]
    assert read(b"")[0] == []


def test_crlf_is_taken_off_and_counted() -> None:
    lines, found = read(b"a\r\nb\nc\r\n")
    assert lines == ["a", "b", "c"]
    assert found.crlf == 2


def test_a_byte_order_mark_is_taken_off_the_beginning_only() -> None:
    lines, found = read(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert lines == ["a", "\ufeffb"]
    assert found.bom


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b"a\nbc\rd\n", "corpus.en:2: ", "carriage return"),
        (b"a\r\r\n", "corpus.en:1: ", "carriage return"),
        (b"a\nb\r", "corpus.en:2: ", "carriage return"),
        (b"PK\x03\x04\x14\0\0\xff", "corpus.en:1: 0xFF: ", "not valid UTF-8"),
        (b"\x1f\x8b\x08\0", "corpus.en:1: 0x8B: ", "not valid UTF-8"),
        (b"a\n\n\0b\n", "corpus.en:3: ", "NUL"),
        ("a\nMüller\n".encode("latin-1"), "corpus.en:2: 0xFC: ", "not valid UTF-8"),
        (b"\xef\xbb\xbf\xff\n", "corpus.en:1: 0xFF: ", "not valid UTF-8"),
        ("a\n".encode("utf-16"), "corpus.en:1: 0xFF: ", "not valid UTF-8"),
    ],
)
def test_unclean_bytes_are_refused_with_their_place(data: bytes, where: str, what: str) -> None:
    with pytest.raises(UserError) as error:
        read(data)
    assert where in str(error.value)
    assert what in str(error.value)


def test_places_are_right_beyond_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 7)
    with pytest.raises(UserError, match=r"corpus\.en:5"):
        read(b"abc\ndefg\nhijklmnopqrs\n\nx\xff\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.en"):
        list(TextLines(tmp_path / "nothing.en"))


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"))), st.integers(1, 9))
def test_any_lines_come_back_whatever_the_block_size(expected: list[str], block: int) -> None:
    expected = [line.removeprefix("\ufeff") if number == 0 else line for number, line in enumerate(expected)]
    data = "".join(line + "\n" for line in expected).encode()
    old, text.BLOCK = text.BLOCK, block
    try:
        lines, found = read(data)
    finally:
        text.BLOCK = old
    assert lines == expected
    assert (found.bytes, found.lines) == (len(data), len(expected))


def test_blank_lines() -> None:
    assert all(map(is_blank, ["", " ", "\t ", "\u00a0", "\u2028"]))
    assert not is_blank(" a ")
    assert not is_blank("\u200b")  # a zero-width space is no white space
