"""Task nli from raw pairs to vectors, codes and the nearest of them, as a user goes."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_inferlite_tools import tool

from docnmt.cli import embed, preprocess, senteval, train
from docnmt.core.training.checkpoint import load_checkpoint, save_checkpoint
from docnmt.other_tasks.options import EmbedConfig, NliConfig
from docnmt.other_tasks.sentence_vectors import embed as embed_command
from docnmt.other_tasks.sentence_vectors import senteval_tasks as transfer
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.embed import nearest_cosine
from docnmt.other_tasks.sentence_vectors.use import Nli, SentenceEncoder, gate_means
from docnmt.registry import MODELS
from docnmt.runtime.system import UserError, find_checkpoint

NOUNS = ["dog", "cat", "man", "child", "bird", "train"]
VERBS = ["runs", "sleeps", "sings", "waits"]
LINES = [f"the {n} {v} ." for n in NOUNS for v in VERBS] + ["", "unheard of words", "the the the cat"]


def make_pairs(count: int, seed: int) -> list[tuple[str, str, str]]:
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        noun, verb = NOUNS[random.integers(6)], VERBS[random.integers(4)]
        kind = int(random.integers(3))
        other = [f"the {noun} {verb}", f"a {NOUNS[random.integers(6)]} {verb} there", f"the {noun} never {verb}"][kind]
        rows.append((["entailment", "neutral", "contradiction"][kind], f"The {noun} {verb} .", other))
    return rows


def write_tsv(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    path.write_text("\n".join(["label\ttext\ttext2", *("\t".join(row) for row in rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A preprocessed folder with two embedding types."""
    path = tmp_path_factory.mktemp("nli")
    random = np.random.default_rng(0)
    vocabulary = [*NOUNS, *VERBS, "the", "a", "never", "there", "."]
    for name, width in (("one", 8), ("two", 5)):
        rows = [f"{word} {' '.join(f'{x:.4f}' for x in random.normal(size=width))}" for word in vocabulary]
        (path / f"{name}.txt").write_text("\n".join(rows) + "\n")
    write_tsv(path / "train.tsv", make_pairs(300, 1))
    write_tsv(path / "valid.tsv", make_pairs(60, 2))
    arguments = ["--task", "nli", "--train", f"{path}/train.tsv", "--valid", f"{path}/valid.tsv", "--vectors",
                 f"{path}/one.txt", f"{path}/two.txt", "--destdir", f"{path}/data"]  # fmt: skip
    assert preprocess.main(arguments) == 0
    return path


def run_training(folder: Path, name: str, *options: str, updates: int = 4) -> Path:
    arguments = [
        f"{folder}/data", "--save-dir", f"{folder}/{name}", "--max-update", str(updates), "--max-tokens", "300",
        "--lr", "0.003", "--warmup-updates", "1", "--device", "cpu", "--best-checkpoint-metric", "accuracy",
    ]  # fmt: skip
    assert train.main([*arguments, *options]) == 0
    return folder / name


@pytest.fixture(scope="module")
def hashed(folder: Path) -> Path:
    options = ["--arch", "inferlite", "--hidden-dim", "16", "--output-dim", "64", "--conv-width", "3"]
    return run_training(folder, "hashed", *options, "--hash-bits", "24", "--hash-steps", "5", updates=8)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Path:
    return run_training(folder, "plain", "--arch", "inferlite", "--hidden-dim", "16", "--output-dim", "64")


@pytest.mark.parametrize("arch", [
    ["bag_of_words", "--bag-pooling", "sif"], ["bilstm_max", "--output-dim", "8"],
    ["source2token_encoder", "--embed-dim", "8", "--heads", "2", "--ffn-dim", "16"],
])  # fmt: skip
def test_every_encoder_trains_and_encodes(folder: Path, arch: list[str]) -> None:
    encoder = SentenceEncoder.load(run_training(folder, arch[0], "--arch", *arch, updates=2))
    together = encoder.features([words(line) for line in LINES])
    alone = np.concatenate([encoder.features([words(line)]) for line in LINES])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_inferlite_learns_the_pairs(folder: Path) -> None:
    options = ["--arch", "inferlite", "--hidden-dim", "32", "--output-dim", "64", "--classifier-dropout", "0"]
    run_training(folder, "learnt", *options, updates=150)
    logged = [json.loads(line) for line in (folder / "learnt/train.jsonl").read_text().splitlines()]
    assert max(row["accuracy"] for row in logged if row["event"] == "valid") > 0.8


def test_training_continues_exactly_with_its_temperature(folder: Path) -> None:
    options = [
        "--arch",
        "inferlite",
        "--hidden-dim",
        "8",
        "--output-dim",
        "16",
        "--hash-bits",
        "8",
        "--hash-steps",
        "9",
    ]
    run_training(folder, "whole", *options, updates=6)
    run_training(folder, "parts", *options, updates=3)
    run_training(folder, "parts", *options, updates=6)
    one, two = (SentenceEncoder.load(folder / n / "checkpoint_last.safetensors").model for n in ("whole", "parts"))
    assert one.hash is not None
    assert int(one.hash.seen) == 6
    for (name, first), second in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.equal(first, second), name


def test_soft_accuracy_is_the_codes_before_the_threshold(folder: Path, hashed: Path) -> None:
    task = Nli.load(NliConfig(), folder / "data")
    model = SentenceEncoder.load(hashed).model
    data = task.dataset("valid", model)
    batch = data.batch(np.arange(len(data.sizes)))
    assert model.hash is not None
    with torch.no_grad():
        soft = model.classify(model.hash.soft(model.encode(batch.text))).argmax(1)
        assert task.evaluate(model, "valid", {"max_tokens": 100})["soft_accuracy"] == pytest.approx(
            float((soft == batch.labels).double().mean())
        )
        seen_in_training = model.hash.train()(model.encode(batch.text))
        model.hash.seen -= 1
        assert torch.equal(model.hash.soft(model.encode(batch.text)), seen_in_training)


@pytest.mark.parametrize("name", ["hashed", "plain"])
def test_vectors_and_codes_are_the_same_in_every_batch(name: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(name)
    sentences = [words(line) for line in LINES] * 3
    reference = None
    for max_tokens in (1, 10, 10_000):
        encoder = SentenceEncoder.load(path, max_tokens=max_tokens)
        got = [encoder.features(sentences), encoder.codes(sentences) if encoder.bits else None]
        np.testing.assert_array_equal(encoder.features(sentences[::-1])[::-1], got[0])
        if reference is not None:
            np.testing.assert_array_equal(got[0], reference[0])
            np.testing.assert_array_equal(got[1], reference[1])
        reference = got


def test_soft_codes_lie_on_their_bits_side_of_a_half(hashed: Path) -> None:
    encoder = SentenceEncoder.load(hashed)
    sentences = [words(line) for line in LINES]
    soft, codes = encoder.features(sentences, "soft"), encoder.features(sentences, "codes")
    assert soft.shape == codes.shape == (len(LINES), 24)
    assert ((soft > 0) & (soft < 1)).any()
    np.testing.assert_array_equal(soft > 0.5, codes == 1)


@pytest.mark.parametrize("cache_words", [0, 1, 5, 1000])
def test_kept_word_rows_change_nothing(plain: Path, cache_words: int) -> None:
    loaded = SentenceEncoder.load(plain)
    encoder = SentenceEncoder(loaded.model, loaded.embeddings, max_tokens=12, cache_words=cache_words)
    sentences = [words(line) for line in LINES] + [["the", "cat", *NOUNS, *VERBS, "never"] * 4]
    for _ in range(2):
        got = encoder.features(sentences)
    np.testing.assert_array_equal(got, loaded.features(sentences))


def test_checkpoint_needs_no_folder_and_counts_unknown_words(plain: Path) -> None:
    encoder = SentenceEncoder.load(plain)
    encoder.features([words("the unheard cat"), []])
    assert (encoder.tokens, encoder.unknown) == (3, 1)  # a sentence without words has none to count


def test_gates_have_a_mean_for_each_type_and_word(plain: Path, folder: Path) -> None:
    means = gate_means(SentenceEncoder.load(plain), ["the", "cat", "sings"])
    assert means.shape == (2, 3)
    assert ((means > 0) & (means < 1)).all()
    (folder / "few.txt").write_text("the cat sings\na dog waits there\n")
    picture = folder / "gates.png"
    assert embed.main(["--path", str(plain), "--input", f"{folder}/few.txt", "--gates", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert embed.main(["--path", str(plain), "--input", f"{folder}/few.txt", "--gates", f"{folder}/gates.xyz"]) == 1
    assert not (folder / "gates.xyz").exists()


def test_embed_writes_searches_and_reports(folder: Path, hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = folder / "lines.txt"
    text.write_text("\n".join(LINES) + "\n")
    for name, extra in (("vectors", []), ("codes", ["--codes"])):
        output = folder / f"{name}.npy"
        command = ["--path", str(hashed), "--input", str(text)]
        assert embed.main([*command, "--output", str(output), *extra]) == 0
        rows = np.load(output, mmap_mode="r")
        assert rows.shape == (len(LINES), 3 if extra else 64)
        assert "have no vector" in (report := capsys.readouterr().err)
        assert ("dead" in report) == bool(extra)
        assert embed.main([*command, "--output", str(output), *extra]) == 1  # not over an existing file
        assert embed.main([*command, "--search", str(output), "--texts", str(text), "--top", "2"]) == 0
        found = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
        assert [(int(q), int(r)) for q, r, *_ in found] == [(q, r) for q in range(len(LINES)) for r in (0, 1)]
        for query, rank, merit, row, line in found:
            assert line == LINES[int(row)]
            if rank == "0":  # itself, or an earlier line with the same code
                assert float(merit) == pytest.approx(0 if extra else 1, abs=1e-3)
                np.testing.assert_array_equal(rows[int(row)], rows[int(query)])


def test_memory_does_not_grow_with_the_number_of_lines(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed_command, "CHUNK", 270)
    encoder = SentenceEncoder.load(plain)

    def peak(chunks: int) -> int:
        tracemalloc.start()
        embed_command.write(
            encoder, (line for _ in range(10 * chunks) for line in LINES), tmp_path / "v.npy", codes=False
        )
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(np.load(tmp_path / "v.npy", mmap_mode="r")) == 270 * chunks
        return most

    peak(1)  # what is allocated once
    assert peak(8) < 1.2 * peak(2)


class Input:
    """Standard input that notes what was printed before each of its lines is read."""

    def __init__(self, lines: list[str], terminal: bool, out: Callable[[], str]) -> None:
        self.lines, self.terminal, self.out, self.before = lines, terminal, out, list[str]()

    @property
    def buffer(self) -> Iterator[bytes]:
        for line in self.lines:
            self.before.append(self.out())
            yield f"{line}\n".encode()

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_answered_line_by_line(
    plain: Path, tmp_path: Path, terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = SentenceEncoder.load(plain)
    np.save(tmp_path / "index.npy", encoder.features([words(line) for line in LINES[:5]]))
    stdin = Input(["the dog runs", "a cat"], terminal, lambda: capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", stdin)
    assert embed.main(["--path", str(plain), "--search", f"{tmp_path}/index.npy", "--top", "1"]) == 0
    assert ["0\t0\t" in printed for printed in stdin.before] == [False, terminal]
    assert "1\t0\t" in capsys.readouterr().out


def test_lines_before_a_bad_one_are_answered(plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "index.npy", SentenceEncoder.load(plain).features([["dog"], ["cat"]]))
    (tmp_path / "queries.txt").write_bytes(b"the dog\na cat\nbad \xe9\nlater\n")
    index, queries = f"{tmp_path}/index.npy", f"{tmp_path}/queries.txt"

    def broken() -> Iterator[str]:
        yield from ("the dog", "a cat")
        raise UserError("line 3")

    out = io.StringIO()
    with pytest.raises(UserError, match="line 3"):
        embed_command.search(SentenceEncoder.load(plain), broken(), np.load(index), 1, "numpy", out)
    assert [line.split("\t")[0] for line in out.getvalue().splitlines()] == ["0", "1"]
    assert embed.main(["--path", str(plain), "--search", index, "--input", queries]) == 1
    assert "queries.txt:3: byte 5" in capsys.readouterr().err


def test_faiss_copies_the_index_once(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    class Index:
        def __init__(self, rows: np.ndarray) -> None:
            self.rows = rows
            built.append(len(rows))

        def nearest(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
            return nearest_cosine(queries, self.rows, top)

    monkeypatch.setattr(embed_command, "FaissIndex", Index)
    encoder = SentenceEncoder.load(plain)
    np.save(tmp_path / "index.npy", encoder.features([words(line) for line in LINES]))
    printed = {}
    for backend in ("numpy", "faiss"):
        out = io.StringIO()
        index = embed_command.read_index(tmp_path / "index.npy", encoder)
        embed_command.search(encoder, iter(LINES), index, 2, backend, out, at_once=5)
        printed[backend] = out.getvalue()
    assert printed["faiss"] == printed["numpy"]
    assert built == [len(LINES)]


@pytest.mark.parametrize(("options", "message"), [
    ([], "give one of --output, --search and --gates"),
    (["--output", "x.npy", "--search", "y.npy"], "give one of"),
    (["--output", "NEW", "--codes"], "learned none"),
    (["--search", "train.tsv"], "cannot be read as an .npy file"),
    (["--search", "archive.npz"], "cannot be read as an .npy file: it is an archive"),
    (["--search", "narrow.npy"], "is it of another model"),
    (["--search", "empty.npy"], "empty.npy: holds no rows"),
    (["--search", "right.npy", "--texts", "text.gz"], "text.gz:1: byte 2 of the line (0x8B): not plain text but comp"),
    (["--search", "right.npy", "--texts", "return.txt"], "return.txt:2: byte 4 of the line (0x0D): carriage return"),
    (["--gates", "NEW", "--input", "blank.txt"], "--gates: line 2 has 0 words, expected 1 to 60"),
    (["--output", "NEW", "--input", "absent.txt"], "absent.txt: cannot be read"),
    (["--output", "NEW", "--input", "latin.txt"], "latin.txt:2: byte 3 of the line (0xE9): not valid UTF-8"),
    (["--output", "NEW", "--input", "return.txt"], "return.txt:2: byte 4 of the line (0x0D): carriage return"),
    (["--output", "NEW", "--input", "nul.txt"], "nul.txt:1: byte 2 of the line (0x00): NUL byte"),
])  # fmt: skip
def test_wrong_use_is_one_clear_line(
    folder: Path, plain: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(folder / "narrow.npy", np.zeros((2, 3), np.float32))
    np.savez(folder / "archive.npz", np.zeros(2))
    width = SentenceEncoder.load(plain).width
    for name, rows in (("empty", 0), ("right", 2)):
        np.save(folder / f"{name}.npy", np.ones((rows, width), np.float32))
    (folder / "text.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    (folder / "blank.txt").write_bytes(b"one\n \n")
    (folder / "latin.txt").write_bytes(b"one\nca\xe9\n")
    (folder / "return.txt").write_bytes(b"one\r\ntwo\rthree\n")
    (folder / "nul.txt").write_bytes(b"o\0ne\n")
    paths = [o if o.startswith("--") else str(folder / ("new.npy" if o == "NEW" else o)) for o in options]
    if "--input" not in options:
        paths += ["--input", f"{folder}/train.tsv"]
    assert embed.main(["--path", str(plain), *paths]) in (1, 2)
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert not (folder / "new.npy").exists()


def test_a_damaged_folder_is_named(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(folder / "data", copy)
    (copy / "vectors.0.bin").write_bytes((copy / "vectors.0.bin").read_bytes()[:-3])
    with pytest.raises(UserError, match=r"vectors\.0\.bin"):
        Nli.load(NliConfig(), copy)
    task = Nli.load(NliConfig(), folder / "data")
    model = MODELS.get("bag_of_words").build(MODELS.config("bag_of_words")(), task)
    with pytest.raises(UserError, match="no split 'test'"):
        task.dataset("test", model)


def sts13(path: Path) -> list[str]:
    """Writes the task's files; the options that evaluate it."""
    (path / "STS13").mkdir()
    rows = [f"{i % 5}\t{a}\t{b}" for i, (a, b) in enumerate(itertools.pairwise(LINES[:21]))]
    for name in ("FNWN", "headlines", "OnWN"):
        (path / f"STS13/{name}.tsv").write_text("\n".join(["score\ttext\ttext2", *rows]) + "\n")
    return ["--data", str(path), "--tasks", "STS13", "--results-path", f"{path}/r.json"]


def test_senteval_command_continues_and_refuses_other_settings(
    folder: Path, plain: Path, hashed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = sts13(tmp_path)
    assert senteval.main([*common, "--path", str(plain)]) == 0
    first = (tmp_path / "r.json").read_text()
    assert "pearson" in capsys.readouterr().out
    assert senteval.main([*common, "--path", str(plain)]) == 0
    assert (tmp_path / "r.json").read_text() == first
    again = shutil.copytree(hashed, tmp_path / "again")
    stored = json.loads(first)
    stored["settings"]["path"] = str(again)
    (tmp_path / "r.json").write_text(json.dumps(stored))
    assert senteval.main([*common, "--path", str(again)]) == 1
    assert "another checkpoint at --path;" in capsys.readouterr().err
    assert senteval.main([*common, "--baseline", "bow", "--vectors", f"{folder}/one.txt"]) == 1
    assert "--baseline" in capsys.readouterr().err
    for baseline in ("bow", "borep-max"):
        arguments = [
            "--baseline",
            baseline,
            "--vectors",
            f"{folder}/one.txt",
            *(["--width=16"] if "-" in baseline else []),
        ]
        assert senteval.main([*common, *arguments, "--overwrite"]) == 0
    assert senteval.main([*common[:3], "STS99", "--path", str(plain)]) == 2


def test_checkpoints_with_one_header_and_other_weights_are_told_apart(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As means of checkpoints have that bear the same names."""
    common = sts13(tmp_path)
    checkpoint = load_checkpoint(find_checkpoint(plain), optimizer=False)
    for name, factor in (("one", 1.0), ("two", 0.5)):
        tensors = {n: factor * t if n.startswith("model.") else t for n, t in checkpoint.tensors.items()}
        save_checkpoint(tmp_path / f"{name}.safetensors", checkpoint.header, tensors)
    one, two = (str(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    assert senteval.main([*common, "--path", one]) == 0
    stored = json.loads((tmp_path / "r.json").read_text())
    stored["settings"]["path"] = two
    (tmp_path / "r.json").write_text(json.dumps(stored))
    assert senteval.main([*common, "--path", two]) == 1
    assert "another checkpoint at --path;" in capsys.readouterr().err


def test_results_that_another_process_adds_are_kept(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common, results = [*sts13(tmp_path), "--path", str(plain)], tmp_path / "r.json"
    evaluate = transfer.evaluate

    def beside(*arguments: Any) -> Any:
        stored = {"settings": json.loads(before), "tasks": {"STS14": {"encoding s": 1.0, "classifier s": 1.0}}}
        results.write_text(json.dumps(stored))
        return evaluate(*arguments)

    assert senteval.main(common) == 0
    before = json.dumps(json.loads(results.read_text())["settings"])
    results.unlink()
    monkeypatch.setattr(transfer, "evaluate", beside)
    assert senteval.main(common) == 0
    assert sorted(json.loads(results.read_text())["tasks"]) == ["STS13", "STS14"]


def test_several_processes_do_not_share_a_pipe(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("docnmt.runtime.jobs.world", lambda: 2)
    config = EmbedConfig(path=str(plain), input=str(tmp_path / "pipe"), output=str(tmp_path / "new.npy"))
    with pytest.raises(UserError, match="expected a file, of which every process reads its part"):
        embed_command.embed(config, io.StringIO())


def test_senteval_command_refuses_results_of_other_files(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors, counts, results = (tmp_path / name for name in ("v.txt", "counts.txt", "r.json"))
    shutil.copy(folder / "one.txt", vectors)
    counts.write_text("the 9\ncat 1\n")
    command = [*sts13(tmp_path), "--baseline", "sif", "--vectors", str(vectors), "--frequencies", str(counts)]
    assert senteval.main(command) == 0
    stored = json.loads(results.read_text())
    for path, message in (
        (vectors, "another content of --vectors;"),
        (counts, "another content of --frequencies;"),
        (tmp_path / "STS13/OnWN.tsv", f"holds STS13 of other files than --data {tmp_path} has now; give --overwrite"),
    ):
        before = path.read_text()
        path.write_text(before.replace("cat", "cats"))
        assert senteval.main(command) == 1
        assert message in capsys.readouterr().err
        path.write_text(before)
    assert senteval.main(command) == 0  # the first contents again
    del stored["tasks"]["STS13"]["files_sha256"], stored["settings"]["vectors_sha256"]  # as older versions wrote it
    results.write_text(json.dumps(stored))
    (tmp_path / "STS13/OnWN.tsv").unlink()
    assert senteval.main(command) == 0


def test_tools_measure_recall_and_test_accuracy(
    folder: Path, hashed: Path, plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n")
    retrieval, nli_test = tool("retrieval"), tool("nli_test")
    retrieval.main(["--text", f"{folder}/lines.txt", "--truth", str(plain), "--queries", "5", str(hashed), str(plain)])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith(("| hashed", "| pl"))]
    assert [row[1] for row in rows] == ["cosine", "Hamming, 24 bits", "cosine"]
    assert [row[2] for row in rows] == ["256", "3", "256"]
    assert [rows[0][5], rows[2][5], rows[2][6]] == ["1.000"] * 3
    assert 0 <= float(rows[1][5]) <= 1
    nli_test.main([str(hashed), str(plain), "--split", "valid"])
    printed = capsys.readouterr().out.splitlines()[2:]
    logged = [json.loads(line) for line in (plain / "train.jsonl").read_text().splitlines()]
    best = max(row["accuracy"] for row in logged if row["event"] == "valid")
    assert printed[1] == f"| plain | {100 * best:.2f} |  |"
    assert printed[0].startswith("| hashed | ")
