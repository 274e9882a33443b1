"""recipes/data: public corpora become files that docnmt reads."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docnmt.core.scoring.text_files import read_layout

PREPARE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "recipes/data/prepare.py"))


def prepared(corpus: str, files: dict[str, str], folder: Path) -> Path:
    """What a corpus makes of files of its repository."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")

    def write(name: str, content: str) -> None:
        (folder / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "out" / name).write_text(content, encoding="utf-8")

    PREPARE["CORPORA"][corpus].prepare([folder], write)
    return folder / "out"


def test_scenes_are_documents(tmp_path: Path) -> None:
    names = {
        "english": "One.\nTwo.\n\nFour.\n",
        "german": "Eins.\nZwei.\nDrei.\nVier.\n",
        "image_index": "[0, 1]\n[2, 3]\n",
    }
    files = {f"MSCTD_data/ende/{name}_{s}.txt": text for name, text in names.items() for s in ("train", "dev", "test")}
    out = prepared("msctd", files, tmp_path)
    layouts = [read_layout(out / f"dev.{language}") for language in ("en", "de")]
    assert [list(layout.sentences) for layout in layouts] == [["One.", "Two.", "Four."], ["Eins.", "Zwei.", "Vier."]]
    assert [layout.document_offsets for layout in layouts] == [(0, 2, 3)] * 2  # an empty line has no partner


def test_each_speaker_writes_one_side(tmp_path: Path) -> None:
    turns = [("english", "Hi  there", "Hi there.", "Salut."), ("french", "Oui", "", "Yes.")]
    keys = ("language", "original_text", "normalised_version", "reference_translation")
    dialogue = {"utterances": {str(n): dict(zip(keys, turn, strict=True)) for n, turn in enumerate(turns)}}
    out = prepared("diabla", {"DiaBLa-corpus/dialogues/1.json": json.dumps(dialogue)}, tmp_path)
    assert (out / "test.en").read_text(encoding="utf-8") == "Hi there.\nYes.\n"
    assert (out / "test.fr").read_text(encoding="utf-8") == "Salut.\nOui\n"


def test_a_mirror_serves_and_its_revision_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = tmp_path / "mirror/owner+name"
    mirror.mkdir(parents=True)

    def git(*words: str) -> str:
        call = ["git", "-C", str(mirror), "-c", "user.name=x", "-c", "user.email=x@y", *words]
        return subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    for text in ("first", "second"):
        (mirror / "file").write_text(text, encoding="utf-8")
        git("add", "file")
        git("commit", "--quiet", "-m", text)
    monkeypatch.setenv("DOCNMT_REPOSITORIES", str(tmp_path / "mirror"))
    repository = PREPARE["Repository"]("owner/name", git("rev-parse", "HEAD~1"), ("file",))
    assert (repository.checked_out(tmp_path / "work", []) / "file").read_text(encoding="utf-8") == "first"
    with pytest.raises(SystemExit, match="owner/other"):
        PREPARE["Repository"]("owner/other", "x").checked_out(tmp_path / "work", [])
