"""recipes/data: public corpora become files that docnmt reads."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docnmt.core.scoring.discourse import read_contrastive
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


def test_groups_are_contrastive_questions(tmp_path: Path) -> None:
    texts = {"en": "A lamp.<SEP>It.\n" * 3 + "It.\n" * 2, "de": "L.<SEP>Sie.\nL.<SEP>Er.\nL.<SEP>Es.\nSie.\nEr.\n"}
    files = {f"data/adversarial_ContraPro/{name}.txt": text for name, text in texts.items()}
    files["data/adversarial_ContraPro/sentence_groups.txt"] = "0\n3\n"
    groups = read_contrastive(prepared("contrapro", files, tmp_path) / "contrapro.tsv")
    assert [[variant.target for variant in group.variants] for group in groups] == [
        ["Sie.", "Er.", "Es."],
        ["Sie.", "Er."],
    ]
    assert groups[0].variants[0].source_context == ("A lamp.",)
    assert groups[1].variants[0].source_context == ()


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


def test_chats_are_documents_in_both_directions(tmp_path: Path) -> None:
    header = "source_language,target_language,source,reference,doc_id\n"
    rows = header + "de,en,Hallo,Hello,a\nen,de,Yes.,Ja.,b\nen,de,No.,Nein.,a\n"
    out = prepared("wmt24chat", {f"{split}/en-de.csv": rows for split in ("train", "valid")}, tmp_path)
    assert (out / "dev.en").read_text(encoding="utf-8") == "Hello\nNo.\n\nYes.\n"
    assert (out / "train.de").read_text(encoding="utf-8") == "Hallo\nNein.\n\nJa.\n"


MANUAL = """<!-- x --><chapter xmlns="http://docbook.org/ns/docbook"><title>{}</title>&reftitle.x;
<para>{} Is &true;. <literal>a</literal> {}
<programlisting><![CDATA[code]]></programlisting><simplelist><member>{}</member></simplelist>{}</para>{}</chapter>"""


def test_a_manual_has_sentence_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "recipes/data"))
    from php_manual import documents

    texts = {
        "en": ("Title", "It.", "one.", "item", "After.", ""),
        "fr": ("Titre", "Il.", "un.", "point", "Suite.", "<note><simpara>Une note.</simpara></note>"),
    }
    for language, words in texts.items():
        (tmp_path / language).mkdir()
        (tmp_path / language / "a.xml").write_text(MANUAL.format(*words), encoding="utf-8")
    pairs = [("Title", "Titre"), ("It.", "Il."), ("Is true. a one.", "Is true. a un."), ("item", "point")]
    assert list(documents(tmp_path / "en", tmp_path / "fr", "fr")) == [("a.xml", [*pairs, ("After.", "Suite.")])]
