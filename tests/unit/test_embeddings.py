"""Word vectors of every file form, and files that are not what they claim to be."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.word_vectors import UNKNOWN, build_embeddings, read_vectors
from docnmt.runtime.system import UserError

VECTORS = {"the": [3.0, 4.0, 0.0], "Paris": [0.0, 0.5, 0.0], "paris": [1.0, 0.0, 0.0], "a b": [0.0, 0.0, -2.0]}


def all_words(word: str, place: int) -> bool:
    return True


def text(header: bool) -> bytes:
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items()]
    return "".join(f"{line}\n" for line in ([f"{len(VECTORS)} 3"] if header else []) + lines).encode()


def binary(newline: bytes = b"\n") -> bytes:
    entries = [w.replace(" ", "_").encode() + b" " + np.array(v, "<f4").tobytes() for w, v in VECTORS.items()]
    return f"{len(VECTORS)} 3\n".encode() + newline.join(entries)


def write(path: Path, form: str) -> Path:
    name, data = {
        "glove": ("v.txt", text(False)),
        "word2vec": ("v.w2v", text(True)),
        "fasttext": ("v.vec", text(True)),
        "gz": ("v.txt.gz", gzip.compress(text(False))),
        "bin": ("v.bin", binary()),
        "bin without newlines": ("v.bin", binary(b"")),
        "bin.gz": ("v.bin.gz", gzip.compress(binary())),
    }[form]
    (path / name).write_bytes(data)
    return path / name


FORMS = ["glove", "word2vec", "fasttext", "gz", "bin", "bin without newlines", "bin.gz"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_unit_vectors(tmp_path: Path, form: str) -> None:
    vectors = read_vectors(write(tmp_path, form), all_words)
    assert [word.replace("_", " ") for word in vectors.rows] == list(VECTORS)
    raw = np.array(list(VECTORS.values()))
    np.testing.assert_allclose(vectors.vectors, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)


def test_a_name_says_the_form_by_its_end(tmp_path: Path) -> None:
    (tmp_path / "v.bin.txt").write_text("a 1 0\nb 0 1\n")
    assert list(read_vectors(tmp_path / "v.bin.txt", all_words).rows) == ["a", "b"]


def test_only_wanted_words_are_kept(tmp_path: Path) -> None:
    vectors = read_vectors(write(tmp_path, "glove"), lambda word, place: place == 0 or word == "paris")
    assert list(vectors.rows) == ["the", "paris"]
    assert vectors.total == 4


def test_types_share_a_vocabulary_and_fall_back_to_lower_case(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("the 1 0\nParis 0 1\nrare 1 1\n")
    (tmp_path / "two.txt").write_text("paris 0 0 2\nthe 0 2 0\nthe 9 9 9\n")
    counts = Counter({"The": 5, "Paris": 2, "unheard": 3})
    embeddings, report = build_embeddings([tmp_path / "one.txt", tmp_path / "two.txt"], counts, keep_words=0)
    assert embeddings.words[0] == UNKNOWN
    assert set(embeddings.words[1:]) == {"the", "Paris", "paris"}  # rare is not needed
    assert embeddings.dims == [2, 3]
    assert embeddings.index("THE") == embeddings.index("the") != 0
    assert embeddings.index("unheard") == embeddings.index(UNKNOWN) == 0
    one, two = (table[embeddings.index("Paris")] for table in embeddings.vectors)
    assert one.tolist() == [0, 1]
    assert two.tolist() == [0, 0, 1]  # has "paris" only
    assert embeddings.vectors[0][embeddings.index("paris")].tolist() == [0, 0]  # one.txt has "Paris" only
    assert all(not table[0].any() for table in embeddings.vectors)
    for table in embeddings.vectors:
        assert set(np.round(np.linalg.norm(table.astype(np.float32), axis=1), 2)) <= {0.0, 1.0}
    assert "1 of 3 words, 3 of 10 tokens (30.00 %)" in report[0]
    assert "unheard (3)" in report[1]
    assert "1 words dropped" in report[-1]


def test_vectors_that_are_left_as_they_are_keep_their_size(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("the 100000 1e-9\n")
    [table] = build_embeddings([tmp_path / "v.txt"], Counter({"the": 1}), keep_words=0, unit=False)[0].vectors
    np.testing.assert_array_equal(table, np.array([[0, 0], [100000, 1e-9]], np.float32))
    [table] = build_embeddings([tmp_path / "v.txt"], Counter({"the": 1}), keep_words=0)[0].vectors
    assert table.dtype == np.float16


WHOLE = b"PK\x03\x04" + bytes(100)
#: What a file holds → its name, its bytes and what the error says besides the name.
DAMAGE: dict[str, tuple[str, bytes, str]] = {
    "empty": ("empty.txt", b"", "line 1"),
    "one word a line": ("words.txt", b"the\nof\n", "line 1"),
    "line cut": ("cut.txt", text(False)[:-9], "line 4"),
    "one number too many": ("wide.txt", b"the 1.5 2.5\n. . . 1.5 2.5\nof 0.5 1.5 2.5\n", "line 1"),
    "not a number": ("nan.txt", b"the 1 2\nof 1 x\n", "line 2"),
    "an endless number": ("long.txt", b"the 1 2\nof 1 " + b"x" * 1_000_000 + b"\n", "line 2"),
    "not finite": ("inf.txt", b"the 1 2\nof 1 inf\n", "'of'"),
    "fewer than promised": ("few.vec", b"9 3\n" + text(False), "9 words"),
    "tabs": ("tabs.txt", text(False).replace(b" ", b"\t"), "line 1"),
    "a zip archive": ("glove.zip", WHOLE, ".zip"),
    "a zip archive of .bin": ("news.bin.zip", WHOLE, ".zip"),
    "header of 5,000 digits": ("digits.vec", b"9" * 5000 + b" 300\nthe 1\n", "line 1"),
    "header without dimensions": ("zero.vec", b"4 0\nthe\n", "line 1"),
    "endless first line": ("zeros.txt.gz", gzip.compress(bytes(30_000_000)), "line 1"),
    "endless line": ("later.txt.gz", gzip.compress(text(False) + bytes(30_000_000)), "line 5"),
    "binary cut": ("cut.bin", binary()[:-5], "word 4"),
    "binary cut, packed": ("cut.bin.gz", gzip.compress(binary()[:-5]), "word 4"),
    "packed data cut": ("half.txt.gz", gzip.compress(text(False) * 50)[:-20], "half.txt.gz: "),
    "huge promise": ("huge.bin", b"999999999999 300\nthe ", "huge.bin"),
    "huge dimensions": ("wide.bin.gz", gzip.compress(b"1 100000000000\nthe 1234"), "1 to 100,000"),
    "dimensions beyond an integer": ("wider.bin.gz", gzip.compress(b"1 %d\nthe 1234" % 10**20), "1 to 100,000"),
    "no header": ("no.bin", b"the" + bytes(100), "line 1"),
    "endless word": ("endless.bin", b"1 1\n" + b"x" * 100_000, "endless.bin"),
    "fastText model": ("model.bin", b"\x9a\x0bO/\x0c\x00\x00\x00" + bytes(100), ".vec"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, case: str) -> None:
    name, data, message = DAMAGE[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=name) as error:
        read_vectors(tmp_path / name, all_words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("name", ["absent.txt", ""])
def test_no_file_or_a_folder_is_one_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        read_vectors(tmp_path / name, all_words)


@pytest.mark.parametrize("header", [False, True])
def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path, header: bool) -> None:
    (tmp_path / "v.txt").write_bytes(b"\xef\xbb\xbf" + text(header))
    assert list(read_vectors(tmp_path / "v.txt", all_words).rows) == list(VECTORS)


def test_a_last_line_without_an_end_is_reported(tmp_path: Path) -> None:
    counts = Counter({"the": 1})
    for data, suspicious in ((text(False), False), (text(False)[:-1], True), (text(True)[:-2], True)):
        (tmp_path / "v.txt").write_bytes(data)
        report = build_embeddings([tmp_path / "v.txt"], counts, keep_words=9)[1]
        assert any("v.txt" in line for line in report[:-1]) == suspicious


def test_vectors_of_another_language_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        build_embeddings([write(tmp_path, "glove")], Counter({"Häuser": 3}), keep_words=0)


@settings(max_examples=300)
@given(st.text(alphabet="anstdmrel U.,:-'\"`&/19_é()co%’“", max_size=20))
def test_words_of_tokenised_text_stay_as_they_are(line: str) -> None:
    once = words(line)
    assert words(" ".join(once)) == once
    assert "".join(once) == "".join(line.split()).replace("’", "'").replace("“", '"')


def test_words_follow_the_treebank() -> None:
    line = "He didn't say Mr. Smith's U.S. visit cost $1,650.50 (a two-thirds rise)... O'clock, don’t!"
    treebank = "He did n't say Mr. Smith 's U.S. visit cost $ 1,650.50 ( a two-thirds rise ) ... O'clock , do n't !"
    assert " ".join(words(line)) == treebank
