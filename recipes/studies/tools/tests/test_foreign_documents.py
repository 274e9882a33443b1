"""A test set whose sentences stand in foreign documents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import foreign_documents as tool

from docnmt.core.scoring.text_files import read_layout


def test_the_same_sentences_in_pairs_in_documents_of_the_same_lengths(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_text("<d>\na1\na2\n<d>\na3\n<d>\na4\na5\na6\n")
    (tmp_path / "t.de").write_text("b1\nb2\n\nb3\n\nb4\nb5\nb6\n")
    tool.main([str(tmp_path / "t"), str(tmp_path / "f"), "--languages", "en", "de"])
    source, target = read_layout(tmp_path / "f.en"), read_layout(tmp_path / "f.de")
    assert source.document_offsets == target.document_offsets == (0, 2, 3, 6)
    assert sorted(source.sentences) == [f"a{n}" for n in range(1, 7)] != source.sentences
    assert [sentence.replace("a", "b") for sentence in source.sentences] == target.sentences


def test_within_documents_sentences_stay_and_units_keep_their_places(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_text("".join(f"a{n}\n" for n in range(9)) + "\n" + "".join(f"b{n}\n" for n in range(5)))
    (tmp_path / "t.levels.tsv").write_text("1\n" * 4 + "2\n" * 5 + "\n" + "1\n" * 5)
    for options in ([], ["--within"]):
        tool.main([str(tmp_path / "t"), str(tmp_path / "f"), "--languages", "en", *options])
        assert (tmp_path / "f.levels.tsv").read_text() == (tmp_path / "t.levels.tsv").read_text()
    changed = read_layout(tmp_path / "f.en").sentences
    assert "".join(sentence[0] for sentence in changed) == 9 * "a" + 5 * "b"
    assert sorted(changed) == read_layout(tmp_path / "t.en").sentences != changed


def test_translations_are_put_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.en").write_text("a1\na2\n\na3\n\na4\na5\na6\n")
    prefix, out = str(tmp_path / "t"), tmp_path / "back.txt"
    tool.main([prefix, str(tmp_path / "f"), "--languages", "en"])
    translations = (tmp_path / "f.en").read_text().replace("a", "b").replace("b3", "")  # one is empty
    (tmp_path / "hypotheses.txt").write_text(translations)
    tool.main([prefix, str(out), "--languages", "en", "--restore", str(tmp_path / "hypotheses.txt")])
    assert out.read_text() == "b1\nb2\n\n\n\nb4\nb5\nb6\n"
    (tmp_path / "hypotheses.txt").write_text("b\n")
    with pytest.raises(SystemExit):
        tool.main([prefix, str(tmp_path / "no"), "--languages", "en", "--restore", str(tmp_path / "hypotheses.txt")])
    assert "there must be one line for each" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_sides_with_other_documents_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.en").write_text("a1\na2\n\na3\n")
    (tmp_path / "t.de").write_text("b1\n\nb2\nb3\n")
    with pytest.raises(SystemExit):
        tool.main([str(tmp_path / "t"), str(tmp_path / "f"), "--languages", "en", "de"])
    assert "its documents are not those of" in capsys.readouterr().err
    assert not (tmp_path / "f.en").exists()
