"""Several corpora in one training split, and folders made piece by piece: the bytes of one run on all of the text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from parallel_text import ParallelText, documents, translate

from docnmt.cli import preprocess

SIDES = ("-s", "en", "-t", "de")


@pytest.fixture
def pieces(tmp_path: Path) -> list[Path]:
    """Three corpora of different sizes, and `all`, an empty line between two of them; the second has blank ends."""
    found, sides = [], {"en": "", "de": ""}
    for number, count in enumerate((30, 7, 15)):
        found.append(tmp_path / f"piece{number}")
        text = "\n\n".join("\n".join(document) for document in documents(count, seed=number)) + "\n"
        text = f"\n{text}\n\n" if number == 1 else text
        for side in sides:
            lines = text if side == "en" else "".join(translate(line) + "\n" for line in text.splitlines())
            Path(f"{found[-1]}.{side}").write_text(lines, encoding="utf-8")
            sides[side] += ("\n" if number else "") + lines
    for side, text in sides.items():
        (tmp_path / f"all.{side}").write_text(text, encoding="utf-8")
    return found


def run(tmp_path: Path, name: str, *words: str) -> Path:
    assert preprocess.main([*SIDES, "--destdir", str(tmp_path / name), *words]) == 0
    return tmp_path / name


def assert_same_data(one: Path, other: Path) -> None:
    for file in {path.name for folder in (one, other) for path in folder.iterdir()} - {"meta.json"}:
        assert (one / file).read_bytes() == (other / file).read_bytes(), file
    first, second = (json.loads((folder / "meta.json").read_text()) for folder in (one, other))
    for name in ("fingerprint", "files", "vocabulary", "tokenizers"):
        assert first[name] == second[name]
    for split in first["splits"]:
        for name in ("documents", "sentences", "levels", "references", "without_partner", "lengths"):
            assert first["splits"][split][name] == second["splits"][split][name]


def test_several_corpora_are_their_text_one_after_the_other(tmp_path: Path, pieces: list[Path]) -> None:
    one = run(tmp_path, "one", "--trainpref", f"{tmp_path}/all", "--vocab-size", "90")
    several = run(tmp_path, "several", "--trainpref", *map(str, pieces), "--vocab-size", "90", "--workers", "2")
    assert_same_data(one, several)


@pytest.mark.parametrize("joined", [True, False])
def test_folders_made_piece_by_piece_merge_into_that_of_one_run(
    tmp_path: Path, pieces: list[Path], joined: bool
) -> None:
    text = ParallelText(tmp_path)
    separate = [] if joined else ["--no-joined-dictionary"]
    held_out = ["--validpref", str(text.path("dev")), "--testpref", str(text.path("test"))]
    one = run(tmp_path, "one", "--trainpref", f"{tmp_path}/all", *held_out, "--vocab-size", "60", *separate)
    words = ["--srcdict", str(one)] if joined else ["--srcdict", str(one), "--tgtdict", str(one), *separate]
    made = [run(tmp_path, f"made{n}", "--trainpref", str(piece), *words) for n, piece in enumerate(pieces)]
    made.append(run(tmp_path, "held", *held_out, *words))
    merged = run(tmp_path, "merged", "--merge", *map(str, made))
    assert_same_data(one, merged)


def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, pieces: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = ParallelText(tmp_path)
    first = run(tmp_path, "first", "--trainpref", str(pieces[0]), "--validpref", str(text.path("dev")))
    other = run(tmp_path, "other", "--trainpref", str(pieces[1]), "--vocab-size", "65")
    again = run(tmp_path, "again", "--validpref", str(text.path("dev")), "--srcdict", str(first))
    for folders, message in (
        ([first, other], f"{other}: has another vocabulary than {first}; make the pieces with one --srcdict"),
        ([first, again], f"{first} and {again} both hold a split valid; only one may"),
        ([first, tmp_path], f"{tmp_path}: not a data folder"),
    ):
        words = [*SIDES, "--destdir", str(tmp_path / "merged"), "--merge", *map(str, folders)]
        assert preprocess.main(words) == 1
        assert message in capsys.readouterr().err
    assert preprocess.main([*SIDES, "--destdir", "x", "--merge", "a", "--trainpref", "b"]) == 2
    assert not (tmp_path / "merged").exists()


def test_a_config_file_may_name_one_corpus(tmp_path: Path, pieces: list[Path]) -> None:
    """As files of earlier versions do, whose --trainpref was one."""
    file = tmp_path / "options.yaml"
    file.write_text(f"source-lang: en\ntarget-lang: de\ntrainpref: {pieces[0]}\nvocab-size: 60\n")
    assert preprocess.main(["--config", str(file), "--destdir", str(tmp_path / "data")]) == 0


def test_names_and_what_was_left_out_come_along(tmp_path: Path, pieces: list[Path]) -> None:
    rows = [{"document_id": name, "source": f"{name} one.", "target": f"{name} eins."} for name in ("a", "a", "b")]
    (tmp_path / "named.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for side in ("en", "de"):  # its second document repeats the first
        (tmp_path / f"twice.{side}").write_text("a cat.\na dog.\n\na cat.\na dog.\n\nit sleeps.\n")
    parts = [str(pieces[1]), str(tmp_path / "named.jsonl"), str(tmp_path / "twice")]
    one = run(tmp_path, "one", "--trainpref", *parts, "--vocab-size", "60")
    made = [run(tmp_path, f"m{n}", "--trainpref", part, "--srcdict", str(one)) for n, part in enumerate(parts)]
    assert_same_data(one, run(tmp_path, "merged", "--merge", *map(str, made)))
    made[2] = run(tmp_path, "less", "--trainpref", parts[2], "--srcdict", str(one), "--drop-duplicates")
    merged = run(tmp_path, "merged-less", "--merge", *map(str, made), *map(str, made[2:]))
    before = sum(json.loads((made[n] / "meta.json").read_text())["splits"]["train"]["documents"] for n in (0, 1))
    head, *dropped = (merged / "dropped.tsv").read_text().splitlines()
    assert head == (made[2] / "dropped.tsv").read_text().splitlines()[0]
    assert [row.split("\t")[0] for row in dropped] == [str(before + 2), str(before + 5)]
