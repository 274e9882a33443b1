"""`docnmt-translate FILE…` with a real, untrained model: documents in, documents of the same kind out."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import sample_documents
import small_system
import torch

from docnmt.apps.commands import translating
from docnmt.apps.commands.translate import DocumentModel
from docnmt.apps.commands.translating import LoadedModels
from docnmt.apps.documents.kinds import read
from docnmt.apps.documents.segments import DocumentFile
from docnmt.apps.documents.sentences import SegmentSentence
from docnmt.cli.translate import main
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.translation_task import DocumentTranslation

KINDS = sample_documents.KINDS


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(small_system.save(tmp_path_factory.mktemp("model") / "m.safetensors"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in KINDS:
        (tmp_path / f"x.{kind}").write_bytes(sample_documents.content(kind))
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    return tmp_path


def test_every_kind_at_once(folder: Path, model: str) -> None:
    names = [f"x.{kind}" for kind in KINDS]
    brief = ["--beam", "1", "--max-len-a", "0.5", "--max-len-b", "4"]  # untrained models write as long as they may
    assert main([*names, "-o", "out", "--path", model, *brief]) == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted(names)
    for kind in KINDS:
        old, new = (
            read(path.read_bytes(), kind, name=str(path), source_lang="en", target_lang="de")
            for path in (folder / f"x.{kind}", folder / "out" / f"x.{kind}")
        )
        assert old.content != new.content
        if old.bilingual:
            assert [segment.text for segment in old.segments] == [segment.text for segment in new.segments]
            kept = [
                (n.translation, o.translation) for o, n in zip(old.segments, new.segments, strict=True) if o.translation
            ]
            assert kept
            assert all(now == before for now, before in kept)


def test_one_file_goes_to_stdout_or_to_a_name(
    folder: Path, model: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for more in ([], ["-o", "y.docx"]):
        assert main(["x.docx", *more, "--path", model, "--beam", "1"]) == 0
    one, other = (zipfile.ZipFile(file) for file in (io.BytesIO(capsysbinary.readouterr().out), folder / "y.docx"))
    assert "word/document.xml" in one.namelist()
    assert {name: one.read(name) for name in one.namelist()} == {name: other.read(name) for name in other.namelist()}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["x.md", "-o", "x.txt"], 2, "x.md"),
        (["x.md", "x.txt"], 2, "-o DIR"),
        (["x.md", "-o", "there.md"], 1, "--overwrite"),
        (["there.md", "-o", "there.md", "--overwrite"], 2, "there.md"),
        (["there.md", "x.po", "-o", ".", "--overwrite"], 2, "there.md"),
        (["x.md", "x.po", "-o", "there.md"], 1, "there.md"),
        (["x.pdf"], 1, "x.pdf: "),
        (["none.md"], 1, "none.md"),
        (["x.txt", "bad.docx", "-o", "out"], 1, "bad.docx"),
        (["x.html", "-o", "o.html", "--explain", "o.html"], 2, "--explain o.html"),
        (["x.html", "x.txt", "-o", "out", "--explain", "out/x.html"], 2, "--explain out/x.html"),
        (["x.md", "--input-format", "tsv"], 2, "--input-format"),
        (["x.md", "--given", "x.txt"], 2, "--given"),
        (["-o", "new.md"], 2, "--output"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(
    folder: Path, model: str, words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "there.md").write_text("mine", encoding="utf-8")
    (folder / "bad.docx").write_bytes(b"PK\x03\x04 and no more")
    before = [path for path in folder.rglob("*") if path.is_file()]
    assert main([*words, "--path", model]) == status
    assert message in capsys.readouterr().err
    assert [path for path in folder.rglob("*") if path.is_file()] == before
    assert (folder / "there.md").read_text(encoding="utf-8") == "mine"


def test_a_file_of_both_languages_is_translated_in_its_place(folder: Path, model: str) -> None:
    before = read((folder / "x.po").read_bytes(), "po", name="x.po", source_lang="en", target_lang="de").segments
    assert main(["x.po", "-o", "x.po", "--overwrite", "--path", model, "--beam", "1"]) == 0
    after = read((folder / "x.po").read_bytes(), "po", name="x.po", source_lang="en", target_lang="de").segments
    assert [segment.text for segment in after] == [segment.text for segment in before]
    assert after != before


def test_what_stands_there_stays_if_writing_fails(folder: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "there.md").write_text("mine", encoding="utf-8")
    monkeypatch.setattr(DocumentFile, "write", lambda self, texts: (_ for _ in ()).throw(OSError(28, "No space left")))
    before = sorted(folder.iterdir())
    assert main(["x.md", "-o", "there.md", "--overwrite", "--path", model, "--beam", "1"]) == 1
    assert (folder / "there.md").read_text(encoding="utf-8") == "mine"
    assert sorted(folder.iterdir()) == before


def test_parts_that_stay_and_unknown_text_are_named(
    folder: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(folder / "x.docx", "a") as package:
        package.writestr("word/charts/chart1.xml", "<c><v>Sales</v></c>")
    (folder / "snow.txt").write_text("a 漢 cat.\n", encoding="utf-8")
    assert main(["snow.txt", "x.docx", "-o", "out", "--path", model, "--beam", "1"]) == 0
    told = capsys.readouterr().err
    assert "out/snow.txt" in told
    assert "word/charts/chart1.xml" in told
    assert "(漢)" in told


@pytest.mark.parametrize("known", [0, 1, 2])
def test_models_that_know_levels_get_them(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections and paragraphs of a document, as many levels as the training text had; the checkpoint says how many."""
    task = small_system.task()
    task.known_levels = known
    restored = DocumentTranslation.restore(task.config, task.state())
    assert restored.known_levels == known
    seen: list[ParallelCorpus] = []
    monkeypatch.setattr(
        translating, "translate_corpus", lambda models, task, corpus, *rest, **more: seen.append(corpus) or ()
    )
    loaded = LoadedModels((), (small_system.model(),), restored)
    model = DocumentModel(translating.Translating(loaded, GenerationConfig(), BeamSearchConfig()))
    document = sample_documents.document("md", "# A\n\none. Two.\n\n- x\n- y\n\n## B\n\nthree\n")
    sentences = [SegmentSentence(segment.text, None, segment.units) for segment in document.segments]
    assert list(model(sentences)) == []
    expected = {0: [[]] * 6, 1: [[0], [1], [2], [2], [3], [4]], 2: [[0, 0], [0, 1], [0, 2], [0, 2], [1, 0], [1, 1]]}
    assert seen[0].levels.tolist() == expected[known]
