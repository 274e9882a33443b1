"""`--memory`: similar training sentences and their translations are read before each document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import small_system
import torch
from commands import SHORT

from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig
from docnmt.core.search.scheduler import source_lengths
from docnmt.core.search.translate import TranslationMemory, translate_corpus, with_memory
from docnmt.core.translation_task import DocumentTranslation

Run = Callable[..., tuple[int, str, str]]


def save_copying(folder: Path) -> None:
    """A copying model of the folder's vocabulary."""
    of = DocumentTranslation.load(DocumentTranslationConfig(), folder / "data")
    small_system.save(folder / "copy.safetensors", "copy_transformer_tiny", of=of)


def rows(out: str) -> list[str]:
    """The lines of sentences, without those of scores."""
    return [line for line in out.splitlines() if re.match(r"[STHDP]-\d+\t", line)]


def test_generate_reads_a_memory_and_keeps_the_numbers(run: Run, folder: Path) -> None:
    save_copying(folder)
    command = ["generate", "data", "--path", "copy.safetensors", *SHORT]
    plain = run(*command)[1]
    status, read, _ = run(*command, "--memory", "data", "--results-path", "recalled")
    assert status == 0
    texts = [[line for line in rows(out) if line[0] in "ST"] for out in (plain, read)]
    assert texts[0] == texts[1]
    assert rows(plain) != rows(read)
    settings = json.loads((folder / "recalled" / "scores.json").read_text(encoding="utf-8"))["settings"]
    assert settings["memory"] == {"memory": "data", "memory_context": "true", "memory_sentences": 2}
    source = (folder / "test.en").read_text(encoding="utf-8").encode()
    status, out, _ = run(
        "translate", "--path", "copy.safetensors", "--memory", "data", "--input-format", "corpus", *SHORT, stdin=source
    )
    assert status == 0
    assert out == (folder / "recalled" / "hypotheses.txt").read_text(encoding="utf-8")


def test_a_memory_is_the_same_as_its_sentences_given(folder: Path) -> None:
    of = DocumentTranslation.load(DocumentTranslationConfig(), folder / "data")
    model = small_system.model("copy_transformer_tiny", of=of)
    memory = TranslationMemory(ParallelCorpus.open(folder / "data", "train"))
    corpus = ParallelCorpus.open(folder / "data", "test")
    options, search = GenerationConfig(), BeamSearchConfig(beam=2, max_len_a=1, max_len_b=2)
    with torch.no_grad():
        read = list(translate_corpus([model], of, corpus, options, search, memory=memory))
        longer, given, numbers = with_memory(corpus, None, memory)
        expected = list(translate_corpus([model], of, longer, options, search, given=given))
    assert [result.number for result in read] == list(range(corpus.num_sentences))
    assert [int(numbers[result.number]) for result in expected] == [result.number for result in read]
    assert [result.nbest for result in expected] == [result.nbest for result in read]


@pytest.mark.parametrize("given", [False, True])
def test_sentences_of_a_memory_are_not_counted_as_done(folder: Path, given: bool) -> None:
    of = DocumentTranslation.load(DocumentTranslationConfig(), folder / "data")
    model = small_system.model("copy_transformer_tiny", of=of)
    memory = TranslationMemory(ParallelCorpus.open(folder / "data", "train"))
    corpus = ParallelCorpus.open(folder / "data", "test")
    texts: list[str | None] = ["a cat." if given or number % 3 == 0 else None for number in range(corpus.num_sentences)]
    done: list[int] = []
    options, search = GenerationConfig(generator="greedy"), GreedyConfig(max_len_a=1, max_len_b=2)
    list(translate_corpus([model], of, corpus, options, search, given=texts, memory=memory, progress=done.append))
    assert sum(done) == source_lengths(corpus).sum()


def test_models_that_read_no_translations_have_no_use_for_a_memory(run: Run, folder: Path) -> None:
    status, _, err = run("generate", "data", "--path", "plain.safetensors", "--memory", "data")
    assert status == 2
    assert "--memory" in err
    status, _, err = run("generate", "data", "--path", "plain.safetensors", "--memory-sentences", "3")
    assert status == 2
    assert "--memory-sentences" in err
