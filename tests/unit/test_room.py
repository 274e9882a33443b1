"""A document whose translation cannot fit into memory is refused before the work, in a line."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import small_system

from docnmt.core.search import translate as room
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, SamplingConfig
from docnmt.core.search.translate import SentenceResult, least_memory, translate_corpus
from docnmt.runtime.launch import obtainable_memory
from docnmt.runtime.system import UserError

MEMINFO = "MemTotal:  3000 kB\nMemAvailable:    2000 kB\nSwapFree:  1000 kB\nHugePages_Total:       0\n"


def translated(arch: str, text: list[list[str]], **options: object) -> list[SentenceResult]:
    model, search = small_system.model(arch), BeamSearchConfig(beam=3, max_len_a=1, max_len_b=2)
    corpus = small_system.corpus(text)
    return list(translate_corpus([model], small_system.task(), corpus, GenerationConfig(), search, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arch", ["doc_transformer_tiny", "cond_transformer_tiny", "transformer_tiny", "scaleformer_tiny"]
)
def test_what_cannot_fit_is_refused_by_name(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = [["the dog.", "a cat sees."], ["he walks in the old house.", *["the tree."] * 30]]
    monkeypatch.setattr(room, "obtainable_memory", lambda: 1000)
    with pytest.raises(UserError, match=r"'he walks in.* GB ") as caught:
        translated(arch, text)
    assert ("--context-window" in str(caught.value)) == (arch != "transformer_tiny")
    monkeypatch.setattr(room, "obtainable_memory", lambda: None)
    assert len(translated(arch, text)) == 33


def test_every_sample_of_a_text_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    text, model = [["the tree."] * 40], small_system.model("doc_transformer_tiny")
    words = int((small_system.corpus(text).source.lengths() + 1).sum())
    monkeypatch.setattr(room, "obtainable_memory", lambda: least_memory(model, words, words, 10))
    sizes = {"max_len_a": 0, "max_len_b": 2}
    for search, fits in [
        (SamplingConfig(nbest=9, **sizes), True),
        (SamplingConfig(nbest=11, **sizes), False),
        (SamplingConfig(mbr="chrf", mbr_samples=9, **sizes), True),
        (SamplingConfig(mbr="chrf", mbr_samples=11, **sizes), False),
    ]:
        options = GenerationConfig(generator="sampling")
        with contextlib.nullcontext() if fits else pytest.raises(UserError):
            found = list(translate_corpus([model], small_system.task(), small_system.corpus(text), options, search))
            assert len(found) == 40


def test_a_window_makes_it_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = [["the tree."] * 40]
    for arch in ("doc_transformer_tiny", "cond_transformer_tiny"):
        model = small_system.model(arch)
        whole = least_memory(model, 200, 200 * model.reading.joined, 3)
        monkeypatch.setattr(room, "obtainable_memory", lambda least=whole // 2: least)
        with pytest.raises(UserError):
            translated(arch, text)
        assert len(translated(arch, text, context_window=2)) == 40


def test_memory_is_counted_by_what_grows() -> None:
    """Hypotheses of one text each keep all of its words; linear attention keeps none, and sentences are short."""
    model = small_system.model("doc_transformer_tiny")
    heads = 2 * 2 * 32 * 4  # keys and values of two layers, in bytes
    assert least_memory(model, 1000, 1000, 5) == 1000 * heads * 6
    assert least_memory(model.half(), 1000, 1000, 5) == 1000 * heads * 3
    assert least_memory(small_system.model("scaleformer_tiny"), 1000, 1000, 5) == 1000 * 2 * 48 * 4
    assert least_memory(small_system.model("transformer_tiny"), 1000, 0, 5) == 1000 * heads
    assert least_memory(small_system.model("cond_transformer_tiny"), 1000, 0, 5) == 1000 * 2 * heads
    assert least_memory(small_system.model("hier_transformer_tiny"), 1000, 0, 5) == 1000 * heads


def test_quadratic_time_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(room, "LONG_TEXT", 20)
    text = [["a cat."], ["the tree sees the house."] * 4]
    for arch in ("scaleformer_tiny", "hier_transformer_tiny"):
        translated(arch, text)
    assert not capsys.readouterr().err
    long = [["a cat.", "he walks in the old house. " * 5]]
    for arch, given, begins, advice in (
        ("doc_transformer_tiny", text, "the tree sees the house.", True),
        ("hier_transformer_tiny", long, "he walks in the old house.", False),  # one sentence cannot be taken in parts
    ):
        translated(arch, given)
        [said] = capsys.readouterr().err.splitlines()
        assert begins in said
        assert ("--context-window" in said) == advice


def test_memory_of_the_machine_and_of_the_group(tmp_path: Path) -> None:
    """What this process holds already is its own, too."""
    assert obtainable_memory(tmp_path) is None
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(MEMINFO)
    assert obtainable_memory(tmp_path) is None
    (tmp_path / "proc" / "self" / "statm").write_text("900 0 10 1 0 2 0\n")
    assert obtainable_memory(tmp_path) == 3000 * 1024
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    for name, value in (("memory.max", "max"), ("memory.current", "50000"), ("memory.stat", "anon 7\nfile 20000")):
        (group / name).write_text(f"{value}\n")
    assert obtainable_memory(tmp_path) == 3000 * 1024
    (group / "memory.max").write_text("60000\n")
    assert obtainable_memory(tmp_path) == 30_000
    assert (obtainable_memory() or 1 << 40) > 1 << 26
