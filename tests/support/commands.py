"""Commands in a folder with data and untrained checkpoints."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import small_system

from docnmt.cli import generate, preprocess, score, train, translate
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.translation_task import DocumentTranslation

COMMANDS = {m.__name__.rpartition(".")[2]: m for m in (generate, preprocess, score, train, translate)}
SHORT = ["--max-len-a", "1", "--max-len-b", "2"]
Run = Callable[..., tuple[int, str, str]]


def translated(path: Path, text: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """What docnmt-translate writes for stdin, with a beam of 2."""
    out = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        patch.setattr(sys, "stdout", out)
        assert translate.main(["--path", str(path), "--beam", "2", "--device", "cpu", *more]) == 0
    return out.getvalue()


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait; what takes so long has failed."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def write_system(path: Path) -> None:
    """A data folder `data`, checkpoints of its vocabulary in `run` and one of another vocabulary."""
    for split, documents, seed in (("train", 40, 9), ("test", 3, 2)):
        for language, more in (("en", 0), ("de", 50)):
            lines = small_system.text(documents, 4, seed=seed)
            lines = [[" ".join([*line.split(), "so"] if more else [line]) for line in document] for document in lines]
            text = "\n\n\n".join("\n".join(document) for document in lines)
            (path / f"{split}.{language}").write_text(f"\n{text}\n\n", encoding="utf-8")
    sides = ["--source-lang", "en", "--target-lang", "de"]
    files = [
        f"--{name}pref={path / split}" for name, split in (("train", "train"), ("valid", "test"), ("test", "test"))
    ]
    assert preprocess.main([*sides, *files, "--destdir", str(path / "data"), "--vocab-size", "45"]) == 0
    task = DocumentTranslation.load(DocumentTranslationConfig(), path / "data")
    (path / "run").mkdir()
    small_system.save(path / "run" / "checkpoint_best.safetensors", "cond_transformer_tiny", of=task)
    small_system.save(path / "run" / "second.safetensors", seed=1, of=task)
    small_system.save(path / "other.safetensors")
    cut = DocumentTranslation.load(DocumentTranslationConfig(max_doc_tokens=30), path / "data")
    small_system.save(path / "cut.safetensors", "cond_transformer_tiny", of=cut)
    small_system.save(path / "plain.safetensors", of=task)
    sides_of = (task.source_tokenizer, task.target_tokenizer)
    back = DocumentTranslation(DocumentTranslationConfig(), languages=("de", "en"), tokenizers=sides_of)
    small_system.save(path / "back.safetensors", of=back)
