"""Training documents that are left out on request, and what is said and written about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docnmt.cli import preprocess
from docnmt.core.corpus import ParallelCorpus, read_meta

Capture = pytest.CaptureFixture[str]
ENGLISH = [
    "The weather was very nice yesterday and we went for a long walk through the old town.",
    "In the evening my sister cooked a meal that nobody of us will ever forget.",
    "They have been living in this house for more than twenty years, and they like it.",
    "Nobody knows why the train was late again, but everybody complained about it.",
]
GERMAN = [
    "Das Wetter war gestern sehr schön, und wir machten einen langen Spaziergang durch die Altstadt.",
    "Am Abend kochte meine Schwester ein Essen, das keiner von uns je vergessen wird.",
    "Sie wohnen seit mehr als zwanzig Jahren in diesem Haus, und es gefällt ihnen.",
    "Niemand weiß, warum der Zug schon wieder Verspätung hatte, aber alle beschwerten sich.",
]
GOOD = [(f"{e} Number {n}.", f"{g} Nummer {n}.") for n, (e, g) in enumerate(zip(ENGLISH * 3, GERMAN * 3, strict=True))]
#: Name, sentences: which documents the filters should find.
TRAIN = [
    ("good 1", GOOD[:3]),
    ("test", [("A fine day.", "Ein Tag."), ("So it was.", "So war es."), ("New.", "Neu.")]),
    ("twice", [(f"  {e}", f"{g} ") for e, g in GOOD[:3]]),
    ("unequal", [(ENGLISH[0] * 3, GERMAN[0]), (ENGLISH[1] * 3, GERMAN[1])]),
    ("english", [(ENGLISH[2], ENGLISH[2]), (ENGLISH[3], ENGLISH[3])]),
    ("mixed", [(ENGLISH[2] * 2, GERMAN[2] * 2), (ENGLISH[3] * 2, ENGLISH[3] * 2)]),
    ("good 2", GOOD[3:9]),
    ("alone", [(GERMAN[0] * 2, ""), *GOOD[9:12]]),
]
TEST = [("t", [("A fine day.", "Ein Tag."), ("So it was.", "So war es.")])]
ALL = ["--drop-duplicates", "--drop-overlap"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """TRAIN and TEST as tables."""
    for split, documents in (("train", TRAIN), ("test", TEST)):
        rows = [{"doc": name, "src": e, "tgt": g} for name, document in documents for e, g in document]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(folder: Path, *options: str, out: str = "data") -> int:
    files = [f"--trainpref={folder / 'train.jsonl'}", f"--testpref={folder / 'test.jsonl'}"]
    return preprocess.main(["-s", "en", "-t", "de", *files, f"--destdir={folder / out}", "--overwrite", *options])


def names(folder: Path) -> list[str]:
    """Of the documents that are left, by their first sentences."""
    corpus = ParallelCorpus.open(folder / "data", "train")
    texts = [corpus.source_text[begin] for begin in corpus.document_offsets[:-1].tolist()]
    known = {document[0][0]: name for name, document in TRAIN}
    return [known[text] for text in texts]


@pytest.mark.parametrize(
    ("options", "lost"),
    [([], []), (["--drop-duplicates"], ["twice"]), (["--drop-overlap"], ["test"]), (ALL, ["test", "twice"])],
)
def test_each_filter_finds_its_own(folder: Path, capsys: Capture, options: list[str], lost: list[str]) -> None:
    assert run(folder, *options) == 0
    assert names(folder) == [name for name, _ in TRAIN if name not in lost]
    corpus = ParallelCorpus.open(folder / "data", "train")
    assert list(corpus.source_text) == [e for name, document in TRAIN for e, _ in document if name not in lost]
    report, listed = capsys.readouterr().err, folder / "data" / "dropped.tsv"
    assert listed.exists() == bool(options)
    if options:
        rows = [line.split("\t") for line in listed.read_text().splitlines()]
        assert rows[0] == ["document", "place", "name", "sentences", "reason"]
        numbers = [number for number, (name, _) in enumerate(TRAIN, 1) if name in lost]
        assert [(int(row[0]), row[2], int(row[3])) for row in rows[1:]] == [
            (number, TRAIN[number - 1][0], len(TRAIN[number - 1][1])) for number in numbers
        ]
        line = 1 + sum(len(document) for _, document in TRAIN[: numbers[0] - 1])
        assert rows[1][1] == f"{folder / 'train.jsonl'}:{line}"
        assert f"train: {len(lost)} of 8 documents" in report
        reasons = {"twice": "document 1", "test": "test data"}
        assert all(row[4].endswith(reasons[name]) for row, name in zip(rows[1:], lost, strict=True))
        assert ("1 duplicates" in report) == ("twice" in lost)
        assert any("of 8 documents" in note for note in read_meta(folder / "data")["splits"]["train"]["notes"])


def test_names_keep_to_their_cell(folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    named = [{**row, "doc": f"{row['doc']}\tx\ny"} for row in rows]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in named))
    assert run(folder, "--drop-duplicates") == 0
    header, row = (folder / "data" / "dropped.tsv").read_text().splitlines()
    assert len(row.split("\t")) == len(header.split("\t"))
    assert row.split("\t")[2] == "twice x y"


def test_what_is_left_is_the_same_data_as_without_the_others(folder: Path) -> None:
    assert run(folder, "--drop-duplicates", "--vocab-size", "90") == 0
    rows = (folder / "train.jsonl").read_text().splitlines(keepends=True)
    (folder / "train.jsonl").write_text("".join(row for row in rows if '"twice"' not in row))
    assert run(folder, "--vocab-size", "90", out="again") == 0
    first, second = (read_meta(folder / name) for name in ("data", "again"))
    assert first["splits"]["train"]["lengths"] == second["splits"]["train"]["lengths"]
    for name in second["files"]:
        if name != "train.structure.bin":  # has the empty lines that stood around the document
            assert first["files"][name] == second["files"][name], name


def test_messages_name_the_line_of_the_input(folder: Path, capsys: Capture) -> None:
    rows = (folder / "train.jsonl").read_text().splitlines(keepends=True)
    rows[-1] = json.dumps({"doc": "alone", "src": "x " * 900, "tgt": "y"}) + "\n"
    (folder / "train.jsonl").write_text("".join(rows))
    assert run(folder, "--drop-duplicates", "--max-sentence-tokens", "800") == 1
    assert f"train.jsonl:{len(rows)}: " in capsys.readouterr().err


def test_something_must_be_left(folder: Path, capsys: Capture) -> None:
    (folder / "test.jsonl").write_text((folder / "train.jsonl").read_text())
    assert run(folder, "--drop-overlap") == 1
    assert "train.jsonl" in capsys.readouterr().err
    assert not (folder / "data").exists()


def test_what_needs_other_options(folder: Path, capsys: Capture) -> None:
    command = ["-s", "en", "-t", "de", f"--destdir={folder / 'data'}", "--drop-overlap"]
    assert preprocess.main([*command, f"--trainpref={folder / 'train.jsonl'}"]) == 2
    assert "--drop-overlap" in capsys.readouterr().err
    assert preprocess.main([*command, f"--testpref={folder / 'test.jsonl'}", "--srcdict", "x"]) == 2
    assert "--drop-overlap" in capsys.readouterr().err
