"""Several corpora in one training split: the bytes of one run on all of the text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from parallel_text import documents, translate

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


def test_a_config_file_may_name_one_corpus(tmp_path: Path, pieces: list[Path]) -> None:
    """As files of earlier versions do, whose --trainpref was one."""
    file = tmp_path / "options.yaml"
    file.write_text(f"source-lang: en\ntarget-lang: de\ntrainpref: {pieces[0]}\nvocab-size: 60\n")
    assert preprocess.main(["--config", str(file), "--destdir", str(tmp_path / "data")]) == 0
