"""docnmt-preprocess for translation, from files to a corpus in memory maps."""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import small_system
from commands import until
from parallel_text import ParallelText, documents, translate

from docnmt.cli import preprocess
from docnmt.core.corpus import Document, ParallelCorpus, structure_of
from docnmt.core.preprocess import fitting_workers
from docnmt.core.tokenizer import Tokenizer, train_in_process
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
    text.path("train.de").rename(text.data / "corpus.de")
    text.path("train.en").rename(text.data / "corpus.en")
    before = contents(text.data)
    srcdict = ["--trainpref", str(text.data / "corpus"), "--srcdict", str(text.data)]
    assert text.preprocess(*srcdict, "--overwrite") == 2
    assert str(text.data / "corpus.en") in capsys.readouterr().err
    assert contents(text.data) == before
    for side in ("de", "en"):
        (text.data / f"corpus.{side}").rename(text.path(f"train.{side}"))
    assert text.preprocess("--srcdict", str(text.data), "--overwrite") == 0
    (text.data / "meta.json").unlink()
    assert text.preprocess("--overwrite") == 1
    assert str(text.data) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "line", "content"), [("train.de", 3, ""), ("dev.en", 2, "a\rb"), ("test.de", 1, "a\0")]
)
def test_faults_in_any_split_stop_before_anything_appears(
    text: ParallelText, capsys: Capture, file: str, line: int, content: str
) -> None:
    text.set_line(file, line, content)
    assert text.preprocess() == 1
    assert f"{file}:{line}" in capsys.readouterr().err.splitlines()[-1]
    assert [path for path in text.folder.iterdir() if path.is_dir()] == []


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


# A full disk, Ctrl-C, SIGTERM and kill -9 leave the earlier folder as it was.


COMMAND = [sys.executable, "-m", "docnmt.cli.preprocess"]


@pytest.fixture
def made(tmp_path: Path) -> ParallelText:
    """A corpus that was preprocessed before."""
    text = ParallelText(tmp_path)
    assert text.preprocess("--vocab-size", "60") == 0
    return text


def leftovers(text: ParallelText) -> list[Path]:
    return [path for path in text.folder.iterdir() if path.is_dir() and path != text.data]


def start(text: ParallelText, *more: str) -> subprocess.Popen[str]:
    """Preprocess again, with so much text that there is time to interrupt it."""
    for side in ("en", "de"):
        train = text.path(f"train.{side}")
        train.write_text((train.read_text() + "\n") * 300)
    command = [*COMMAND, *text.arguments("--overwrite", "--vocab-size", "60", *more)]
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # jobs of scripts may ignore it
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed)


def test_a_full_disk(made: ParallelText) -> None:
    before = contents(made.data)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails with an error instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    command = [*COMMAND, *made.arguments("--overwrite", "--vocab-size", "50")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert str(made.data) in error
    assert contents(made.data) == before
    assert leftovers(made) == []


def test_an_interrupt(made: ParallelText) -> None:
    """What SIGTERM does: `test_sigterm_ends_it_at_once`."""
    before = contents(made.data)
    process = start(made)
    until(lambda: any(file.suffix == ".bin" for folder in leftovers(made) for file in folder.iterdir()))
    process.send_signal(signal.SIGINT)
    assert "interrupted" in process.communicate(timeout=60)[1].splitlines()[-1]
    assert process.returncode == 130
    assert contents(made.data) == before
    assert leftovers(made) == []


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(made: ParallelText) -> None:
    process = start(made, "--workers", "2")
    listing = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: len(listing.read_text().split()) == 3)  # two workers and multiprocessing's resource tracker
    children = [int(child) for child in listing.read_text().split()]
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not any(_alive(child) for child in children))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


# Several corpora in one training split: the bytes of one run on all of the text.


def test_several_corpora_are_their_text_one_after_the_other(tmp_path: Path) -> None:
    """The second has blank ends; a file of options may name one corpus, as files of earlier versions do."""
    whole, pieces = {"en": "", "de": ""}, [str(tmp_path / f"piece{number}") for number in range(3)]
    for number, count in enumerate((30, 7, 15)):
        text = "\n\n".join("\n".join(document) for document in documents(count, seed=number)) + "\n"
        text = f"\n{text}\n\n" if number == 1 else text
        for side, lines in (("en", text), ("de", "".join(translate(line) + "\n" for line in text.splitlines()))):
            Path(f"{pieces[number]}.{side}").write_text(lines, encoding="utf-8")
            whole[side] += ("\n" if number else "") + lines
    for side, text in whole.items():
        (tmp_path / f"all.{side}").write_text(text, encoding="utf-8")
    (tmp_path / "options.yaml").write_text(
        f"source-lang: en\ntarget-lang: de\ntrainpref: {tmp_path}/all\nvocab-size: 90\n"
    )
    words = ["--config", str(tmp_path / "options.yaml"), "--destdir"]
    assert preprocess.main([*words, str(tmp_path / "one")]) == 0
    assert preprocess.main([*words, str(tmp_path / "several"), "--trainpref", *pieces, "--workers", "2"]) == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "several")


# SentencePiece trains in a process that can be ended, and gives the same model as in this one.


LINES = [line for document in small_system.text(40, 8, seed=9) for line in document]


def test_the_model_is_the_same() -> None:
    assert train_in_process(LINES, vocab_size=45).to_bytes() == Tokenizer.train(LINES, 45).to_bytes()
    with pytest.raises(UserError, match="--vocab-size"):
        train_in_process(LINES, vocab_size=9999)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sigterm_ends_it_at_once(tmp_path: Path) -> None:
    """Training that heeds no signal is left in a moment; nothing is left running or on the disk."""
    text = ParallelText(tmp_path)
    for side in ("en", "de"):
        lines = (" ".join(f"{word}{n % 977}{side}" for word in small_system.WORDS) for n in range(40_000))
        text.path(f"train.{side}").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "docnmt.cli.preprocess", *text.arguments("--vocab-size", "8000")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: bool(children.read_text()))
        child = int(children.read_text())
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        status = Path(f"/proc/{child}/status")
        assert not status.exists() or "\nState:\tZ" in status.read_text()
    assert not text.data.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
