"""docnmt-preprocess for translation, from files to a corpus in memory maps."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_system
from parallel_text import ParallelText, read_all

from docnmt.cli import preprocess
from docnmt.core.corpus import Document, ParallelCorpus, structure_of
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.preprocess import describe_folder, fitting_workers
from docnmt.core.read_corpus import Reading, TextLines, find_split
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.translation_task import DocumentTranslation
from docnmt.runtime.system import UserError

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    return ParallelText(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder; of meta.json only the data's fingerprint."""
    return {
        file.name: json.loads(file.read_text())["fingerprint"].encode()
        if file.name == "meta.json"
        else file.read_bytes()
        for file in folder.iterdir()
    }


def test_a_corpus_comes_back_as_it_was(text: ParallelText) -> None:
    assert text.preprocess() == 0
    tokenizer = Tokenizer.from_bytes((text.data / "tokenizer.model").read_bytes())
    for split, name in {"train": "train", "valid": "dev", "test": "test"}.items():
        corpus = text.corpus(split)
        lines = {side: text.lines(f"{name}.{side}") for side in ("en", "de")}
        sentences = {side: [line for line in lines[side] if line] for side in lines}
        assert list(corpus.source_text) == sentences["en"]
        assert [list(reference) for reference in corpus.references] == [sentences["de"]]
        assert [row.tolist() for row in corpus.source] == tokenizer.encode(sentences["en"])
        assert corpus.target is not None
        assert [row.tolist() for row in corpus.target] == tokenizer.encode(sentences["de"])
        assert corpus.source.lengths().tolist() == [len(row) for row in corpus.source]
        restored: list[str] = []
        for document, blank in enumerate(corpus.blank_lines):
            restored += [""] * blank
            if document < corpus.num_documents:
                first, last = corpus.document_offsets[document : document + 2]
                restored += corpus.source_text[first:last]
        assert restored == lines["en"]


def test_the_number_of_workers_changes_no_byte(text: ParallelText, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docnmt.core.preprocess.CHUNK", 7)
    monkeypatch.setattr("docnmt.core.preprocess._WORTH", 4)
    monkeypatch.setattr("docnmt.core.preprocess.processors", lambda: 3)
    assert [fitting_workers(lines) for lines in (5, 55, 56, 1000)] == [1, 1, 2, 3]
    assert text.preprocess() == 0  # by itself as many as fit
    for number in ("1", "2"):
        assert text.preprocess("--workers", number, destdir=text.folder / number) == 0
        assert contents(text.data) == contents(text.folder / number)


def test_memory_and_disk_give_the_same_corpus(text: ParallelText) -> None:
    text.preprocess()
    tokenizer = Tokenizer.from_bytes((text.data / "tokenizer.model").read_bytes())
    stored = text.corpus("test")
    read = small_system.corpus_of_text(TextLines(text.path("test.en")), tokenizer)
    bounds = stored.document_offsets.tolist()
    documents = [stored.source_text[a:b] for a, b in itertools.pairwise(bounds)]
    for corpus in (read, ParallelCorpus.from_lines(documents, tokenizer)):
        for name in ("document_offsets", "blank_lines", "levels"):
            np.testing.assert_array_equal(getattr(corpus, name), getattr(stored, name))
        np.testing.assert_array_equal(corpus.source.tokens, stored.source.tokens)
        np.testing.assert_array_equal(corpus.source.offsets, stored.source.offsets)
        assert list(corpus.source_text) == list(stored.source_text)


def test_levels_reach_the_corpus(text: ParallelText) -> None:
    rows = ["" if not line else f"{i // 4}\t{i // 2}\tkind{i % 3}" for i, line in enumerate(text.lines("test.en"))]
    text.path("test.levels.tsv").write_text("".join(f"{row}\n" for row in rows))
    assert text.preprocess() == 0
    corpus = text.corpus("test")
    assert corpus.levels.shape == (corpus.num_sentences, 2)
    assert text.corpus("train").levels.shape[1] == 0


def test_separate_vocabularies_and_their_reuse(text: ParallelText) -> None:
    assert text.preprocess("--no-joined-dictionary", "--vocab-size", "60") == 0
    english, german = (
        Tokenizer.from_bytes((text.data / f"tokenizer.{side}.model").read_bytes()) for side in ("en", "de")
    )
    assert english.vocabulary() != german.vocabulary()
    again = text.folder / "again"
    dictionaries = ["--srcdict", str(text.data), "--tgtdict", str(text.data / "tokenizer.de.model")]
    test = ["-s", "en", "-t", "de", f"--testpref={text.path('dev')}", f"--destdir={again}", "--no-joined-dictionary"]
    assert preprocess.main([*test, *dictionaries]) == 0
    corpus, expected = ParallelCorpus.open(again, "test"), text.corpus("valid")
    assert corpus.target is not None
    assert expected.target is not None
    np.testing.assert_array_equal(corpus.source.tokens, expected.source.tokens)
    np.testing.assert_array_equal(corpus.target.tokens, expected.target.tokens)


@pytest.mark.parametrize("dictionary", ["--joined-dictionary", "--no-joined-dictionary"])
@pytest.mark.parametrize("kind", ["folder", "run", "checkpoint"])
def test_both_vocabularies_of_something_that_exists(text: ParallelText, dictionary: str, kind: str) -> None:
    """Of a data folder, of a run and of a checkpoint, each language its own; also when the languages change sides."""
    assert text.preprocess(dictionary, "--vocab-size", "60") == 0
    (text.folder / "run").mkdir()
    task = DocumentTranslation.load(DocumentTranslationConfig(), text.data)
    checkpoint = text.folder / "run" / "checkpoint_best.safetensors"
    small_system.random_checkpoint(checkpoint, of=task, share_embeddings=task.joined)
    made = {"folder": text.data, "run": checkpoint.parent, "checkpoint": checkpoint}[kind]
    for source, target in (("en", "de"), ("de", "en")):
        again = text.folder / source
        files = [f"--testpref={text.path('test')}", f"--destdir={again}", f"--srcdict={made}"]
        assert preprocess.main(["-s", source, "-t", target, *files]) == 0
        other = DocumentTranslation.load(DocumentTranslationConfig(), again)
        found = {source: other.source_tokenizer, target: other.target_tokenizer}
        assert found["en"].to_bytes() == task.source_tokenizer.to_bytes()
        assert found["de"].to_bytes() == task.target_tokenizer.to_bytes()
        assert (found["en"] is found["de"]) == (dictionary == "--joined-dictionary")


def test_test_sets_may_be_several_with_several_references_or_none(text: ParallelText) -> None:
    text.path("test.de").rename(text.path("test.de0"))
    text.path("test.de1").write_text("".join(f"{line.lower()}\n" for line in text.lines("test.de0")))
    text.path("other.en").write_text("a river\n\na lamp\n")
    assert text.preprocess(f"--testpref={text.path('test')},{text.path('other')}") == 0
    several, alone = text.corpus("test"), text.corpus("test1")
    assert [reference[0] for reference in several.references] == [text.lines(f"test.de{i}")[0] for i in (0, 1)]
    assert several.target is not None
    assert (alone.target, alone.references) == (None, [])
    assert list(alone.source_text) == ["a river", "a lamp"]


@pytest.mark.parametrize("languages", [("pt-BR", "en"), ("en", "pt-BR"), ("zh-Hans-CN", "pt-BR")], ids="-".join)
def test_languages_of_xml_may_have_hyphens(tmp_path: Path, languages: tuple[str, str]) -> None:
    source, target = languages
    segment = '<{} lang="{}"><p><seg id="1">{}</seg></p></{}>'
    document = segment.format("src", source, "a river", "src") + segment.format("ref", target, "um rio", "ref")
    path = tmp_path / f"test.{source}-{target}.xml"
    path.write_text(f'<set><doc id="x">{document}</doc></set>')
    texts, _, facts, names = read_all(find_split(str(tmp_path / "test"), Reading(languages)))
    assert (texts, facts.notes, names) == ([("a river", "um rio")], [], ["x"])


def test_a_folder_made_for_another_task_is_named(tmp_path: Path, text: ParallelText, capsys: Capture) -> None:
    rows = "".join(f"{number % 2}\ta text of number {number}\n" for number in range(20))
    (tmp_path / "a.tsv").write_text(rows)
    folder = tmp_path / "labels"
    files = ("--train", str(tmp_path / "a.tsv"), "--valid", str(tmp_path / "a.tsv"))
    assert preprocess.main(["--task", "text_classification", *files, "--destdir", str(folder)]) == 0
    for work in (
        lambda: ParallelCorpus.open(folder, "train"),
        lambda: DocumentTranslation.load(DocumentTranslationConfig(), folder),
    ):
        with pytest.raises(UserError, match=f"^{folder}: .*text_classification"):
            work()


def test_text_and_tables_are_one_split(text: ParallelText) -> None:
    rows = [{"document": "x", "source": "a river", "target": "ein fluss"}] * 2
    text.path("t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = ("--columns", "document=document", "source=source", "target=target")
    for number, names in enumerate((("dev", "t.jsonl"), ("t.jsonl", "dev"))):
        assert text.preprocess("--trainpref", *(str(text.path(name)) for name in names), *columns, "--overwrite") == 0
        corpus = text.corpus("train")
        assert corpus.levels.shape[1] == 0
        assert list(corpus.source_text)[-2:].count("a river") == (2 if number == 0 else 0)


@pytest.mark.parametrize("known_first", [True, False])
@pytest.mark.parametrize("option", [(), ("--max-sentence-tokens", "24", "--long-policy", "skip")], ids=["all", "skip"])
@pytest.mark.parametrize("kind", ["text", "table"])
def test_paragraphs_of_one_corpus_are_not_known_of_another(
    text: ParallelText, known_first: bool, option: tuple[str, ...], kind: str
) -> None:
    """Two routes: the corpora together, and each as documents with and without units."""
    known = [["a river", "a house and a river", "a dog"], ["a cat"]]
    unknown = [["the cat", "the dog and the old house and the old cat and a dog and a tree", "the tree"], ["the river"]]
    paragraphs = "a river\n<p>\na house and a river\na dog\n\na cat\n"
    for side in ("en", "de"):
        text.path(f"known.{side}").write_text(paragraphs)
        text.path(f"unknown.{side}").write_text("".join("\n".join(lines) + "\n\n" for lines in unknown))
    rows = [{"d": str(n), "s": line, "t": line} for n, lines in enumerate(unknown) for line in lines]
    text.path("unknown.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    other = "unknown.jsonl" if kind == "table" else "unknown"
    names = ["known", other] if known_first else [other, "known"]
    columns = ("--columns", "document=d", "source=s", "target=t") if kind == "table" else ()
    words = ("--trainpref", *(str(text.path(name)) for name in names), *columns, *option, "--vocab-size", "24")
    assert text.preprocess(*words) == 0
    if option:
        unknown[0].pop(1)
    documents = [Document(tuple(known[0]), (("0",), ("1",), ("1",))), Document(tuple(known[1]), (("0",),))]
    bare = [Document(tuple(lines)) for lines in unknown]
    expected = structure_of([*documents, *bare] if known_first else [*bare, *documents])
    corpus = text.corpus("train")
    assert corpus.document_offsets.tolist() == expected.document_offsets.tolist()
    assert corpus.levels.tolist() == expected.levels.tolist()


def test_the_report_and_the_description_name_what_was_found(text: ParallelText, capsys: Capture) -> None:
    for side in ("en", "de"):
        text.path(f"test.{side}").write_bytes(text.path(f"dev.{side}").read_bytes().replace(b"\n", b"\r\n"))
        text.path(f"dev.{side}").write_bytes(text.path(f"train.{side}").read_bytes())
    assert text.preprocess() == 0
    report = capsys.readouterr().err
    assert "CRLF" in report
    assert re.search(r"warning: valid: 60 of 60 .*60 whole, 0 ", report)
    assert "warning: test" not in report
    description = describe_folder(text.data)
    assert "valid: 60 of 60" in description
    assert "documents: 60" in description


def test_overlap_is_of_documents_and_not_of_sentences_that_recur(text: ParallelText, capsys: Capture) -> None:
    for side in ("en", "de"):
        lines = [f"{side} {word}" for word in ("one", "two", "three", "four", "five", "six")]
        text.path(f"train.{side}").write_text("\n".join(lines[:3]) + "\n\n" + "\n".join(lines[3:]) + "\n")
        recurring = "\n".join(lines[i] for i in (5, 3, 1, 0, 2, 4))  # every sentence, none beside its neighbour
        text.path(f"dev.{side}").write_text(recurring + "\n")
        half = f"{lines[0]}\n{lines[1]}\n{side} new\n\n{recurring}\n\n{lines[2]}\n"
        text.path(f"test.{side}").write_text(half)
    assert text.preprocess() == 0
    report = capsys.readouterr().err
    assert "warning: valid" not in report
    assert re.search(r"warning: test: 2 of 3 .*1 whole, 1 ", report)


def test_only_our_own_folders_are_replaced_and_only_on_request(text: ParallelText, capsys: Capture) -> None:
    assert text.preprocess() == 0
    before = contents(text.data)
    assert text.preprocess("--vocab-size", "60") == 1
    assert "--overwrite" in capsys.readouterr().err
    assert contents(text.data) == before
    assert text.preprocess("--vocab-size", "60", "--overwrite") == 0
    assert contents(text.data) != before
    (text.data / "meta.json").unlink()
    assert text.preprocess("--overwrite") == 1
    assert str(text.data) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "line", "content", "problem"),
    [
        ("train.de", 3, "", "train.de:3"),
        ("dev.en", 2, "a\rb", "dev.en:2"),
        ("test.de", 1, "a\0", "test.de:1"),
        ("test.en", 1, "a\nb", "test.en"),
    ],
)
def test_faults_in_any_split_stop_before_anything_appears(
    text: ParallelText, capsys: Capture, file: str, line: int, content: str, problem: str
) -> None:
    text.set_line(file, line, content)
    assert text.preprocess() == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("docnmt-preprocess: error: ")
    assert problem in error
    assert [path for path in text.folder.iterdir() if path.is_dir()] == []


def test_validation_data_needs_a_target_side(text: ParallelText, capsys: Capture) -> None:
    text.path("dev.de").unlink()
    assert text.preprocess() == 1
    assert "dev.en: " in capsys.readouterr().err
    text.path("train.de").rename(text.path("train.de0"))
    text.path("train.de1").write_text(text.path("train.de0").read_text())
    assert text.preprocess() == 1
    assert "train.en: " in capsys.readouterr().err
    assert preprocess.main(["-s", "en", "-t", "de", "--destdir", "x"]) == 2
    assert "--trainpref" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        ("--columns source=src", 2, ["--columns"]),
        ("--vocab-size 5000", 1, ["--vocab-size"]),
        ("--tgtdict x --workers 0 --sroucedict y", 2, ["--srcdict"]),
        ("--tgtdict x --workers 0 --vocab-size -3", 2, ["3 problems", "--tgtdict", "--workers: ", "--vocab-size"]),
        ("-s de", 2, ["--source-lang and --target-lang"]),
        ("--task speech", 2, ["document_translation, text_classification, nli"]),
    ],
)  # fmt: skip
def test_contradictions_are_usage_errors_all_at_once(
    text: ParallelText, capsys: Capture, words: str, status: int, named: list[str]
) -> None:
    assert text.preprocess(*words.split()) == status
    error = capsys.readouterr().err
    assert all(part in error for part in named)


def test_a_folder_of_another_vocabulary_is_no_srcdict(text: ParallelText, capsys: Capture) -> None:
    text.preprocess()
    again = ["-s", "fr", "-t", "de", f"--testpref={text.path('test')}", f"--destdir={text.folder / 'x'}"]
    text.path("test.en").rename(text.path("test.fr"))
    assert preprocess.main([*again, f"--srcdict={text.data}"]) == 1
    assert "'fr'" in capsys.readouterr().err
    assert preprocess.main([*again, f"--srcdict={text.path('test.fr')}"]) == 1
    assert "test.fr" in capsys.readouterr().err
    assert preprocess.main([*again, f"--srcdict={text.folder}"]) == 1
    assert str(text.folder) in capsys.readouterr().err
    (text.folder / "x.safetensors").write_bytes(b"nothing")
    assert preprocess.main([*again, f"--srcdict={text.folder / 'x.safetensors'}"]) == 1
    assert "x.safetensors" in capsys.readouterr().err


def test_help_needs_no_torch_and_no_sentencepiece() -> None:
    code = (
        "import sys; from docnmt.cli import preprocess\n"
        "try: preprocess.main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(any(m in sys.modules for m in ('torch', 'sentencepiece', 'numpy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--max-sentence-tokens" in done.stdout


@pytest.mark.parametrize("more", [["--vocab-size", "60"], ["--normalization", "nfkc", "--byte-fallback"]])
def test_options_of_a_vocabulary_that_is_not_trained_are_named(
    text: ParallelText, capsys: Capture, more: list[str]
) -> None:
    text.preprocess()
    names = ", ".join(word for word in more if word.startswith("--"))
    words = ["--srcdict", str(text.data), "--testpref", str(text.path("test"))]
    capsys.readouterr()
    assert preprocess.main(["-s", "en", "-t", "de", *words, "--destdir", str(text.folder / "made"), *more]) == 0
    said = capsys.readouterr().err.splitlines()[0]
    assert sorted(said.removeprefix("note: ").split(":")[0].split(", ")) == sorted(names.split(", "))
