"""Task nli from raw pairs to vectors and codes, as a user goes."""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from docnmt.cli import embed, preprocess, senteval, train
from docnmt.other_tasks.options import EmbedConfig, NliConfig
from docnmt.other_tasks.sentence_vectors import use as embed_command
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.use import Nli, SentenceEncoder
from docnmt.runtime.system import UserError

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


def test_checkpoint_needs_no_folder_and_counts_unknown_words(plain: Path) -> None:
    encoder = SentenceEncoder.load(plain)
    encoder.features([words("the unheard cat"), []])
    assert (encoder.tokens, encoder.unknown) == (3, 1)  # a sentence without words has none to count


def test_embed_writes_and_reports(folder: Path, hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = folder / "lines.txt"
    text.write_text("\n".join(LINES) + "\n")
    for name, extra in (("vectors", []), ("codes", ["--codes"])):
        output = folder / f"{name}.npy"
        command = ["--path", str(hashed), "--input", str(text)]
        assert embed.main([*command, "--output", str(output), *extra]) == 0
        rows = np.load(output, mmap_mode="r")
        assert rows.shape == (len(LINES), 3 if extra else 64)
        assert "have no vector" in capsys.readouterr().err
        sentences = [words(line) for line in LINES]
        encoder = SentenceEncoder.load(hashed)
        np.testing.assert_array_equal(rows, encoder.codes(sentences) if extra else encoder.features(sentences))
        assert embed.main([*command, "--output", str(output), *extra]) == 1  # not over an existing file


def test_memory_does_not_grow_with_the_number_of_lines(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed_command, "CHUNK", 270)
    encoder = SentenceEncoder.load(plain)
    monkeypatch.setattr(SentenceEncoder, "load", lambda *arguments, **options: encoder)

    def peak(chunks: int) -> int:
        monkeypatch.setattr(embed_command, "text_lines", lambda _: (line for _ in range(10 * chunks) for line in LINES))
        tracemalloc.start()
        embed_command.embed(EmbedConfig(path="", output=str(tmp_path / "v.npy"), overwrite=True))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(np.load(tmp_path / "v.npy", mmap_mode="r")) == 270 * chunks
        return most

    peak(1)  # what is allocated once
    assert peak(8) < 1.2 * peak(2)


@pytest.mark.parametrize(("options", "message"), [
    ([], "--output"),
    (["--output", "NEW", "--codes"], "learned none"),
    (["--output", "NEW", "--input", "absent.txt"], "absent.txt"),
    (["--output", "NEW", "--input", "latin.txt"], "latin.txt:2"),
])  # fmt: skip
def test_wrong_use_is_one_clear_line(
    folder: Path, plain: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "latin.txt").write_bytes(b"one\nca\xe9\n")
    paths = [o if o.startswith("--") else str(folder / ("new.npy" if o == "NEW" else o)) for o in options]
    if "--input" not in options:
        paths += ["--input", f"{folder}/train.tsv"]
    assert embed.main(["--path", str(plain), *paths]) in (1, 2)
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert not (folder / "new.npy").exists()


def sts13(path: Path) -> list[str]:
    """Writes the task's files; the options that evaluate it."""
    (path / "STS13").mkdir()
    rows = [f"{i % 5}\t{a}\t{b}" for i, (a, b) in enumerate(itertools.pairwise(LINES[:21]))]
    for name in ("FNWN", "headlines", "OnWN"):
        (path / f"STS13/{name}.tsv").write_text("\n".join(["score\ttext\ttext2", *rows]) + "\n")
    return ["--data", str(path), "--tasks", "STS13", "--results-path", f"{path}/r.json"]


def test_senteval_writes_its_results_once(
    folder: Path, plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common, results = sts13(tmp_path), tmp_path / "r.json"
    assert senteval.main([*common, "--path", str(plain)]) == 0
    printed = capsys.readouterr().out
    assert "pearson" in printed
    first = json.loads(results.read_text())
    assert list(first["tasks"]) == ["STS13"]
    assert first["settings"]["path"] == str(plain)
    assert senteval.main([*common, "--path", str(plain)]) == 1
    assert "--overwrite" in capsys.readouterr().err
    for baseline, more in (("bow", []), ("borep-max", ["--width=16"])):
        options = ["--baseline", baseline, "--vectors", f"{folder}/one.txt", *more]
        assert senteval.main([*common, *options, "--overwrite"]) == 0
        assert json.loads(results.read_text())["settings"]["baseline"] == baseline
    assert senteval.main([*common[:3], "STS99", "--path", str(plain)]) == 2


def test_several_processes_do_not_share_a_pipe(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("docnmt.runtime.jobs.world", lambda: 2)
    config = EmbedConfig(path=str(plain), input=str(tmp_path / "pipe"), output=str(tmp_path / "new.npy"))
    with pytest.raises(UserError):
        embed_command.embed(config)
