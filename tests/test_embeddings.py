"""Word vectors of every file form, and files that are not what they claim to be."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.data.embeddings import UNKNOWN, build_embeddings
from docnmt.data.vector_files import read_vectors
from docnmt.data.words import words
from docnmt.errors import UserError

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
    if form == "npz":
        np.savez(path / "v.npz", words="\n".join(VECTORS), vectors=np.array(list(VECTORS.values()), np.float16))
        return path / "v.npz"
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


FORMS = ["npz", "glove", "word2vec", "fasttext", "gz", "bin", "bin without newlines", "bin.gz"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_unit_vectors(tmp_path: Path, form: str) -> None:
    vectors = read_vectors(write(tmp_path, form), all_words)
    assert [word.replace("_", " ") for word in vectors.rows] == list(VECTORS)
    raw = np.array(list(VECTORS.values()))
    np.testing.assert_allclose(vectors.vectors, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)


def test_npz_with_shared_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", words=np.array(["x", "y", "z"]), row=[1, 0, 1], vectors=np.eye(2))
    vectors = read_vectors(tmp_path / "v.npz", all_words)
    np.testing.assert_array_equal(vectors.vectors, [[0, 1], [1, 0], [0, 1]])


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
    assert "no vector for 1 of 3 words, 3 of 10 tokens (30.00 %)" in report[0]
    assert "unheard (3)" in report[1]
    assert "1 words dropped" in report[-1]


def damage(tmp_path: Path) -> dict[str, Path]:
    def file(name: str, data: bytes) -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    whole = write(tmp_path, "npz").read_bytes()
    np.savez(tmp_path / "object.npz", words=np.array([{}], dtype=object), vectors=np.eye(1))
    np.savez(tmp_path / "rows.npz", words="a\nb", vectors=np.eye(1))
    return {
        "no such file": tmp_path / "absent.txt",
        "empty": file("empty.txt", b""),
        "one word a line": file("words.txt", b"the\nof\n"),
        "line cut": file("cut.txt", text(False)[:-8]),
        "one number too many": file("wide.txt", b"the 1.5 2.5\n. . . 1.5 2.5\nof 0.5 1.5 2.5\n"),
        "not a number": file("nan.txt", b"the 1 2\nof 1 x\n"),
        "not finite": file("inf.txt", b"the 1 2\nof 1 inf\n"),
        "fewer than promised": file("few.vec", b"9 3\n" + text(False)),
        "binary cut": file("cut.bin", binary()[:-5]),
        "binary cut, packed": file("cut.bin.gz", gzip.compress(binary()[:-5])),
        "packed data cut": file("half.txt.gz", gzip.compress(text(False) * 50)[:-20]),
        "huge promise": file("huge.bin", b"999999999999 300\nthe "),
        "no header": file("no.bin", b"the" + bytes(100)),
        "endless word": file("endless.bin", b"1 1\n" + b"x" * 100_000),
        "fastText model": file("model.bin", b"\x9a\x0bO/\x0c\x00\x00\x00" + bytes(100)),
        "npz cut": file("cut.npz", whole[: len(whole) // 2]),
        "npz of objects": tmp_path / "object.npz",
        "npz that does not fit": tmp_path / "rows.npz",
        "npz that is text": file("text.npz", text(False)),
        "a folder": tmp_path,
    }


@pytest.mark.parametrize("case", [
    "no such file", "empty", "one word a line", "line cut", "one number too many", "not a number", "not finite",
    "fewer than promised", "binary cut", "binary cut, packed", "packed data cut", "huge promise", "no header",
    "endless word", "fastText model", "npz cut", "npz of objects", "npz that does not fit", "npz that is text",
    "a folder",
])  # fmt: skip
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, case: str) -> None:
    path = damage(tmp_path)[case]
    with pytest.raises(UserError, match=path.name) as error:
        read_vectors(path, all_words)
    assert "\n" not in str(error.value)


def test_vectors_of_another_language_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none of the words"):
        build_embeddings([write(tmp_path, "glove")], Counter({"Häuser": 3}), keep_words=0)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="anstdmrel U.,:-'\"`&/19_é()co%’“", max_size=20))
def test_words_of_tokenised_text_stay_as_they_are(line: str) -> None:
    once = words(line)
    assert words(" ".join(once)) == once
    assert "".join(once) == "".join(line.split()).replace("’", "'").replace("“", '"')


def test_words_follow_the_treebank() -> None:
    line = "He didn't say Mr. Smith's U.S. visit cost $1,650.50 (a two-thirds rise)... O'clock, don’t!"
    treebank = "He did n't say Mr. Smith 's U.S. visit cost $ 1,650.50 ( a two-thirds rise ) ... O'clock , do n't !"
    assert " ".join(words(line)) == treebank
