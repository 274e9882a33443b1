"""`--prefix`: a translation begins with these words, in every architecture, and its score is that of what follows."""

from __future__ import annotations

import io
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import small_system

import docnmt
from docnmt.__main__ import main
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig, SamplingConfig
from docnmt.core.search.translate import SentenceResult, translate_corpus

DOCUMENTS = small_system.text(3, 4, seed=5)
LINES = [line for document in DOCUMENTS for line in document]
PREFIXES = [None if number % 3 == 2 else "the cat" if number % 3 else "a dog sees" for number in range(len(LINES))]
ARCHITECTURES = [
    "transformer", "concat_transformer", "doc_transformer", "hier_transformer", "cond_transformer",
    "hier_cond_transformer", "scaleformer", "copy_transformer",
]  # fmt: skip
SEARCH = BeamSearchConfig(beam=3, nbest=3, max_len_a=0.0, max_len_b=5)


def translated(
    arch: str, prefixes: Any = PREFIXES, search: Any = SEARCH, generator: str = "beam_search", **options: Any
) -> list[SentenceResult]:
    window = {"source_context": 2, "target_window": 3} if arch == "concat_transformer" else {}
    model = small_system.model(f"{arch}_tiny", **window)
    corpus, generation = small_system.corpus(DOCUMENTS), GenerationConfig(generator=generator, **options)
    return list(translate_corpus([model], small_system.task(), corpus, generation, search, prefixes=prefixes))


def begins(text: str, prefix: str | None) -> bool:
    """Whether a text begins with whole words."""
    return prefix is None or (text.startswith(prefix) and not text[len(prefix) : len(prefix) + 1].isalnum())


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_translations_begin_with_these_words_in_every_architecture(arch: str) -> None:
    results = translated(arch)
    assert [result.number for result in results] == list(range(len(LINES)))
    for result, prefix in zip(results, PREFIXES, strict=True):
        for one in result.nbest:
            assert begins(one.text, prefix), (one.text, prefix)
            certain = len(small_system.tokenizer().encode([prefix])[0]) if prefix else 0
            assert one.piece_scores[:certain] == (0.0,) * certain  # and what follows is the mean
            assert all(score < 0 for score in one.piece_scores[certain:])
            assert len(one.pieces) <= certain + 5


@pytest.mark.parametrize("arch", ["transformer", "doc_transformer"])
def test_no_prefix_changes_nothing_and_the_batch_neither(arch: str) -> None:
    plain = translated(arch, None)
    assert translated(arch, [None, " "] * len(LINES)) == plain
    one, other = translated(arch), translated(arch, batch_size=1, max_tokens=1)
    assert [result.text for result in one] == [result.text for result in other]


def test_the_score_is_that_of_the_rest() -> None:
    """Against the whole translation with probabilities of the prefix, as forced scoring has them."""
    from docnmt.core.scoring.discourse import ForcedExample
    from docnmt.core.search.translate import forced_scores

    model, task = small_system.model("transformer_tiny"), small_system.task()
    prefix, line = "a dog", LINES[0]
    corpus = small_system.corpus([[line]])
    (result,) = translate_corpus(
        [model], task, corpus, GenerationConfig(), BeamSearchConfig(beam=2, max_len_a=0, max_len_b=4), prefixes=[prefix]
    )
    best = result.nbest[0]
    rest = sum(best.piece_scores) + 0.0
    whole = forced_scores([model], task, [ForcedExample((), line, (), best.text)])[0]
    start = len(small_system.tokenizer().encode([prefix])[0])
    assert whole < best.score * (len(best.pieces) + 1 - start) + 1e-4  # the prefix itself is less than certain
    assert rest >= best.score * (len(best.pieces) + 1 - start) - 1e-6


@pytest.mark.parametrize(("generator", "search"), [
    ("greedy", GreedyConfig(max_len_a=0.0, max_len_b=5)),
    ("sampling", SamplingConfig(nbest=2, max_len_a=0.0, max_len_b=5)),
])  # fmt: skip
def test_every_generator_obeys(generator: str, search: Any) -> None:
    for result, prefix in zip(
        translated("cond_transformer", search=search, generator=generator), PREFIXES, strict=True
    ):
        assert all(begins(one.text, prefix) for one in result.nbest)


def test_python_and_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_system.save(tmp_path / "model.safetensors", "cond_transformer_tiny")
    limits = {"max_len_a": 0.0, "max_len_b": 5}
    own = docnmt.load(path).translate(DOCUMENTS[0], prefix=["a dog", *[None] * (len(DOCUMENTS[0]) - 1)], **limits)
    assert begins(own[0].text, "a dog")
    with pytest.raises(docnmt.runtime.system.UserError, match="prefix"):
        docnmt.load(path).translate(DOCUMENTS[0], prefix=["a dog"] * (len(DOCUMENTS[0]) + 1))

    words = ["--path", str(path), "--max-len-a", "0", "--max-len-b", "5"]
    (tmp_path / "prefixes").write_text("a dog\n\nthe\n", encoding="utf-8")
    for form in ("text", "corpus"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat sleeps.\n\nthe river.\n")))
        command = ["translate", *words, "--prefix", str(tmp_path / "prefixes"), "--input-format", form]
        assert main(command) == 0
        lines = capsys.readouterr().out.split("\n")
        assert begins(lines[0], "a dog")
        assert lines[1] == ""
        assert begins(lines[2], "the")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat sleeps.\n")))
    assert main(command) == 1
    assert str(tmp_path / "prefixes") in capsys.readouterr().err


def test_generate_reads_a_line_for_each_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join("".join(f"{line}\n" for line in document) for document in DOCUMENTS)
    for language in ("en", "de"):
        (tmp_path / f"test.{language}").write_text(text, encoding="utf-8")
    path = small_system.save(tmp_path / "model.safetensors", "doc_transformer_tiny")
    data, words = str(tmp_path / "data"), ["--path", str(path), "--max-len-a", "0", "--max-len-b", "5", "--beam", "2"]
    command = ["preprocess", "-s", "en", "-t", "de", "--srcdict", str(path), "--testpref", str(tmp_path / "test")]
    assert main([*command, "--destdir", data]) == 0
    sentences = "".join(f"{prefix or ''}\n" for prefix in PREFIXES)
    bounds = [sum(map(len, DOCUMENTS[:n])) for n in range(len(DOCUMENTS) + 1)]
    parts = [PREFIXES[a:b] for a, b in pairwise(bounds)]
    with_breaks = "\n".join("".join(f"{prefix or ''}\n" for prefix in part) for part in parts)
    outputs = []
    for content in (sentences, with_breaks):
        (tmp_path / "prefixes").write_text(content, encoding="utf-8")
        capsys.readouterr()
        assert main(["generate", data, *words, "--prefix", str(tmp_path / "prefixes")]) == 0
        outputs.append([row.split("\t")[2] for row in capsys.readouterr().out.split("\n") if row.startswith("D-")])
    assert outputs[0] == outputs[1]
    assert all(map(begins, outputs[0], PREFIXES))
    (tmp_path / "prefixes").write_text("a\n", encoding="utf-8")
    assert main(["generate", data, *words, "--prefix", str(tmp_path / "prefixes")]) == 1
    assert str(tmp_path / "prefixes") in capsys.readouterr().err.splitlines()[-1]
