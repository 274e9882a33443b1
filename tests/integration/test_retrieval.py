"""Task nli from raw pairs to vectors and codes, as a user goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from docnmt.cli import embed, preprocess, train
from docnmt.other_tasks.sentence_vectors.data import words
from docnmt.other_tasks.sentence_vectors.use import SentenceEncoder

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


def test_training_continues_exactly_with_its_temperature(folder: Path) -> None:
    options = ["--arch", "inferlite", "--hidden-dim", "8", "--output-dim", "16"]
    options += ["--hash-bits", "8", "--hash-steps", "9"]
    run_training(folder, "whole", *options, updates=6)
    run_training(folder, "parts", *options, updates=3)
    run_training(folder, "parts", *options, updates=6)
    one, two = (SentenceEncoder.load(folder / n / "checkpoint_last.safetensors").model for n in ("whole", "parts"))
    assert one.hash is not None
    assert int(one.hash.seen) == 6
    for (name, first), second in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.equal(first, second), name


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


def test_embed_writes_and_reports(folder: Path, hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = folder / "lines.txt"
    text.write_text("\n".join(LINES) + "\n")
    for name, extra in (("vectors", []), ("codes", ["--codes"])):
        output = folder / f"{name}.npy"
        command = ["--path", str(hashed), "--input", str(text)]
        assert embed.main([*command, "--output", str(output), *extra]) == 0
        rows = np.load(output, mmap_mode="r")
        assert rows.shape == (len(LINES), 3 if extra else 64)
        sentences = [words(line) for line in LINES]
        encoder = SentenceEncoder.load(hashed)
        assert f" {sum(map(len, sentences))} " in capsys.readouterr().err  # of how many words some have no vector
        np.testing.assert_array_equal(rows, encoder.codes(sentences) if extra else encoder.features(sentences))
        assert embed.main([*command, "--output", str(output), *extra]) == 1  # not over an existing file
