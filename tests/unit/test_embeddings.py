"""Word vectors of every file form, and files that are not what they claim to be."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.cli import preprocess
from docnmt.core.corpus import read_meta
from docnmt.other_tasks.classification import classification_scores
from docnmt.other_tasks.options import NliConfig
from docnmt.other_tasks.sentence_vectors.data import (
    NLI_LABELS,
    UNKNOWN,
    PairDataset,
    SentencePairs,
    build_embeddings,
    read_pairs,
    read_vectors,
    text_lines,
    words,
)
from docnmt.other_tasks.sentence_vectors.use import Nli
from docnmt.runtime.system import UserError, replacing

VECTORS = {"the": [3.0, 4.0, 0.0], "Paris": [0.0, 0.5, 0.0], "paris": [1.0, 0.0, 0.0], "a b": [0.0, 0.0, -2.0]}


def all_words(word: str, number: int) -> bool:
    return True


def text(header: bool) -> bytes:
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items()]
    return "".join(f"{line}\n" for line in ([f"{len(VECTORS)} 3"] if header else []) + lines).encode()


def binary(newline: bytes = b"\n") -> bytes:
    entries = [w.replace(" ", "_").encode() + b" " + np.array(v, "<f4").tobytes() for w, v in VECTORS.items()]
    return f"{len(VECTORS)} 3\n".encode() + newline.join(entries)


FORMS = {
    "glove": ("v.txt", text(False)),
    "word2vec": ("v.w2v", text(True)),
    "fasttext": ("v.vec", text(True)),
    "gz": ("v.txt.gz", gzip.compress(text(False))),
    "a mark": ("v.txt", b"\xef\xbb\xbf" + text(True)),
    "bin": ("v.bin", binary()),
    "bin without newlines": ("v.bin", binary(b"")),
    "bin.gz": ("v.bin.gz", gzip.compress(binary())),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_unit_vectors(tmp_path: Path, form: str) -> None:
    name, data = FORMS[form]
    (tmp_path / name).write_bytes(data)
    vectors = read_vectors(tmp_path / name, all_words)
    assert [word.replace("_", " ") for word in vectors.rows] == list(VECTORS)
    raw = np.array(list(VECTORS.values()))
    np.testing.assert_allclose(vectors.vectors, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)


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
    assert "unheard (3)" in report[1]


WHOLE = b"PK\x03\x04" + bytes(100)
#: What a file holds → its name, its bytes and what the error says besides the name.
DAMAGE: dict[str, tuple[str, bytes, str]] = {
    "empty": ("empty.txt", b"", "line 1"),
    "line cut": ("cut.txt", text(False)[:-9], "line 4"),
    "one number too many": ("wide.txt", b"the 1.5 2.5\n. . . 1.5 2.5\nof 0.5 1.5 2.5\n", "line 1"),
    "not a number": ("nan.txt", b"the 1 2\nof 1 x\n", "line 2"),
    "an endless number": ("long.txt", b"the 1 2\nof 1 " + b"x" * 1_000_000 + b"\n", "line 2"),
    "not finite": ("inf.txt", b"the 1 2\nof 1 inf\n", "'of'"),
    "fewer than promised": ("few.vec", b"9 3\n" + text(False), "9 words"),
    "a zip archive": ("glove.zip", WHOLE, ".zip"),
    "header of 5,000 digits": ("digits.vec", b"9" * 5000 + b" 300\nthe 1\n", "line 1"),
    "header without dimensions": ("zero.vec", b"4 0\nthe\n", "line 1"),
    "endless first line": ("zeros.txt.gz", gzip.compress(bytes(30_000_000)), "line 1"),
    "more than promised": ("more.bin", binary().replace(b"4 ", b"3 ", 1), "3 words"),
    "binary cut": ("cut.bin", binary()[:-5], "word 4"),
    "packed data cut": ("half.txt.gz", gzip.compress(text(False) * 50)[:-20], "half.txt.gz: "),
    "huge promise": ("huge.bin", b"999999999999 300\nthe ", "huge.bin"),
    "huge dimensions": ("wide.bin.gz", gzip.compress(b"1 100000000000\nthe 1234"), "1 to 100,000"),
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


def test_a_last_line_without_an_end_is_reported(tmp_path: Path) -> None:
    counts = Counter({"the": 1})
    for data, suspicious in ((text(False), False), (text(False)[:-1], True), (text(True)[:-2], True)):
        (tmp_path / "v.txt").write_bytes(data)
        report = build_embeddings([tmp_path / "v.txt"], counts, keep_words=9)[1]
        assert any("v.txt" in line for line in report[:-1]) == suspicious


@settings(max_examples=300)
@given(st.text(alphabet="anstdmrel U.,:-'\"`&/19_é()co%’“", max_size=20))
def test_words_of_tokenised_text_stay_as_they_are(line: str) -> None:
    once = words(line)
    assert words(" ".join(once)) == once
    assert "".join(once) == "".join(line.split()).replace("’", "'").replace("“", '"')


# What docnmt-embed reads and writes.


def test_lines_end_at_a_newline_and_begin_without_a_byte_order_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, expected = "\ufeffa\r\n\n\ufeffb\u2028c", ["a", "", "\ufeffb\u2028c"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert list(text_lines(None)) == expected
    (tmp_path / "text.txt").write_bytes(text.encode())
    assert list(text_lines(tmp_path / "text.txt")) == expected


def test_a_device_or_a_folder_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UserError), replacing(path):
            pytest.fail("no work is done")
    assert (tmp_path / "pipe").is_fifo()


# Sentence pairs from their files to the folder that is trained on.


PAIRS = [
    ("entailment", "A man sleeps.", "Someone sleeps."),
    ("-", "Nobody agrees.", "They do."),
    ("contradiction", "A dog runs.", "It\u2028stands."),  # a line separator is no line's end
    ("neutral", "A man sleeps.", "He dreams of a dog."),
]


def tsv(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    path.write_text("\n".join(["\t".join(row) for row in [("label", "text", "text2"), *rows]]) + "\n")
    return path


def jsonl(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    names = ("gold_label", "sentence1", "sentence2", "pairID")
    path.write_text("".join(json.dumps(dict(zip(names, (*row, "1"), strict=True))) + "\n" for row in rows))
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    random, path = np.random.default_rng(0), tmp_path / "vectors.txt"
    vocabulary = sorted({word.lower() for _, *pair in PAIRS for text in pair for word in words(text)} - {"dreams"})
    path.write_text("".join(f"{word} {' '.join(f'{x:.3f}' for x in random.normal(size=4))}\n" for word in vocabulary))
    return path


def test_both_forms_give_the_same_pairs(tmp_path: Path) -> None:
    pairs = read_pairs(tsv(tmp_path / "a.tsv", PAIRS))
    assert pairs == read_pairs(jsonl(tmp_path / "a.jsonl", PAIRS))
    gold = [row for row in PAIRS if row[0] != "-"]
    labels, first, second = zip(*gold, strict=True)
    sentences = [text for pair in zip(first, second, strict=True) for text in pair]
    assert pairs == SentencePairs([NLI_LABELS.index(label) for label in labels], sentences, 1)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.tsv", "text\tlabel\n", r"a\.tsv:1.*'text2'"),
    ("a.tsv", "label\ttext\ttext2\nneutral\tone\n", r"a\.tsv:2"),
    ("a.tsv", "label\ttext\ttext2\nperhaps\tone\ttwo\n", r"a\.tsv:2.*'perhaps'"),
    ("a.tsv", "label\ttext\ttext2\n-\tone\ttwo\n", "a.tsv"),
    ("a.tsv", "label\ttext\ttext2\nneutral\tcaf\udce9\ty\n", r"a\.tsv:2"),
    ("a.jsonl", "{}\n", r"a\.jsonl:1.*'gold_label'"),
    ("a.jsonl", "[1]\n", r"a\.jsonl:1"),
    ("a.jsonl", '{"gold_label": "neutral", "sentence1": 1, "sentence2": "a"}\n', "a.jsonl:1: 'sentence1'"),
    ("a.jsonl", '{"gold_label": "neutral", "sentence1": "\\ud800", "sentence2": "a"}\n', "a.jsonl:1"),
])  # fmt: skip
def test_faults_are_named_by_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=message):
        read_pairs(tmp_path / name)


def test_the_folder_holds_every_pair(tmp_path: Path, vectors: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train, valid = tsv(tmp_path / "train.tsv", PAIRS), jsonl(tmp_path / "valid.jsonl", PAIRS[2:])
    files = ["--train", str(train), "--valid", str(valid), "--vectors", str(vectors), "--destdir", f"{tmp_path}/data"]
    assert preprocess.main(["--task", "nli", *files]) == 0
    report = capfd.readouterr().err
    assert "dreams (2)" in report  # in the training and in the validation pairs
    task = Nli.load(NliConfig(), tmp_path / "data")
    stored = PairDataset.open(tmp_path / "data", "train", read_meta(tmp_path / "data")["files"])
    gold = [row for row in PAIRS if row[0] != "-"]
    assert [NLI_LABELS[label] for label in stored.labels] == [row[0] for row in gold]
    for number, text in enumerate(text for _, *pair in gold for text in pair):
        expected = ["dreams" if word == "dreams" else word.lower() for word in words(text)]
        kept = [task.embeddings.words[row] for row in stored.sentences[number]]
        assert [word for word in kept if word in expected] == [word for word in expected if word != "dreams"]
        assert len(kept) == len(expected)
    assert [len(vector) for vector in task.embeddings.vectors] == [len(task.embeddings.words)]


# Accuracy, macro-F1 and the confusion matrix against scikit-learn and by hand.


LABELS = ("a", "b", "c", "d")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_against_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, predicted = np.array(pairs).T
    scores = classification_scores(truth, predicted, LABELS)
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert scores.macro_f1 == pytest.approx(metrics.f1_score(truth, predicted, average="macro", zero_division=0))
    np.testing.assert_array_equal(scores.confusion, metrics.confusion_matrix(truth, predicted, labels=range(4)))
