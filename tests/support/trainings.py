"""Trainings on a corpus whose translation is every word spelt backwards."""

from __future__ import annotations

import random
from pathlib import Path

from docnmt.cli.preprocess import main as preprocess

LAST = "checkpoint_last.safetensors"
SMALL = "--encoder-layers 1 --decoder-layers 1 --embed-dim 16 --heads 2 --ffn-dim 32 --warmup-updates 3 --device cpu"


def write_backwards(folder: Path) -> None:
    """Twelve documents, their translation, and the folder `data` made of them."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(60)]
    for split, documents in (("train", 12), ("valid", 2)):
        lines = [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(documents * 6)]
        pieces = ["\n".join(lines[i : i + 6]) for i in range(0, len(lines), 6)]
        (folder / f"{split}.en").write_text("\n\n".join(pieces) + "\n")
        (folder / f"{split}.de").write_text("\n\n".join("\n".join(backwards(p)) for p in pieces) + "\n")
    pair = ["--source-lang", "en", "--target-lang", "de", "--vocab-size", "60"]
    files = ["--trainpref", str(folder / "train"), "--validpref", str(folder / "valid")]
    assert preprocess([*pair, *files, "--destdir", str(folder / "data")]) == 0


def write_sentences(folder: Path, data: Path) -> None:
    """The validation lines of that corpus as documents of one sentence, of the same vocabulary."""
    for language in ("en", "de"):
        lines = [line for line in (data.parent / f"valid.{language}").read_text().splitlines() if line]
        (folder / f"train.{language}").write_text("\n\n".join(lines) + "\n")
    files = ["--trainpref", str(folder / "train"), "--srcdict", str(data), "--destdir", str(folder / "data")]
    assert preprocess(["--source-lang", "en", "--target-lang", "de", *files]) == 0


def backwards(piece: str) -> list[str]:
    return [" ".join(word[::-1] for word in line.split()) for line in piece.split("\n")]
