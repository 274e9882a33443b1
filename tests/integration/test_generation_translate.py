"""From a corpus to its translation with real models: order, number, independence of the batch, ensembles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import small_system
import torch
from sacrebleu.metrics.chrf import CHRF
from small_models import assert_same, build

from docnmt.apps.commands.generate import answers
from docnmt.apps.commands.translating import in_half_precision, load_models
from docnmt.apps.options import ModelsConfig
from docnmt.cli import score
from docnmt.core.batch import collate_source, last_sentence_units, planned_units
from docnmt.core.scoring.discourse import ForcedExample, Question
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, GreedyConfig, SamplingConfig
from docnmt.core.search.scheduler import Encoding
from docnmt.core.search.translate import SentenceResult, forced_scores, translate_corpus
from docnmt.core.tokenizer import EOS
from docnmt.modules.linear_layers import BFloat16Linear, EightBitLinear, multiplies_eight_bits, replace_linear

DOCUMENTS = small_system.text(3, 4)
#: Untrained models write as long as they may.
SHORT: dict[str, Any] = {"max_len_a": 0.5, "max_len_b": 4}


def translate(
    model: Any, documents: Any = DOCUMENTS, search: Any = None, generator: str = "beam_search",
    **options: int,
) -> list[SentenceResult]:  # fmt: skip
    return small_models.translate(model, documents, search or BeamSearchConfig(**SHORT), generator, **options)


def undecided(arch: str, **options: Any) -> Any:
    """A model whose translations of a sentence are many."""
    model = small_system.model(arch, **options)
    with torch.no_grad():
        model.output.weight.mul_(0.25)
    return model


def consensus(samples: SentenceResult) -> str:
    """Of a sentence's samples the text with the highest mean chrF against the others."""
    texts, metric = [sample.text for sample in samples.nbest], CHRF()
    others = [texts[:n] + texts[n + 1 :] for n in range(len(texts))]
    utilities = [
        sum(metric.sentence_score(text, [other]).score for other in rest)
        for text, rest in zip(texts, others, strict=True)
    ]
    return texts[utilities.index(max(utilities))]


@pytest.mark.parametrize("arch", ["hier_cond_transformer_tiny", "doc_transformer_tiny"])
def test_minimum_bayes_risk_gives_what_a_double_loop_over_the_samples_finds(arch: str) -> None:
    """Sentence by sentence, also where a whole document is one sample; whatever the batch."""
    model, settings = undecided(arch), {"temperature": 0.7, "seed": 5, "max_len_a": 1, "max_len_b": 4}
    samples = translate(model, search=SamplingConfig(nbest=8, **settings), generator="sampling")
    search = SamplingConfig(mbr="chrf", mbr_samples=8, **settings)
    results = translate(model, search=search, generator="sampling")
    assert [len(result.nbest) for result in results] == [1] * len(samples)
    assert [result.text for result in results] == [consensus(result) for result in samples]
    assert [result.text for result in results] != [result.text for result in samples]
    assert_same(results, translate(model, search=search, generator="sampling", batch_size=1, max_tokens=1))
    search = replace(search, nbest=3)
    three = translate(model, search=search, generator="sampling")
    assert [result.nbest[0] for result in three] == [result.nbest[0] for result in results]
    assert all(len(result.nbest) == 3 for result in three)
    assert all(set(three[n].nbest) <= set(samples[n].nbest) for n in range(len(samples)))  # with the model's scores


def test_later_sentences_read_the_sample_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    task, model = small_system.task(), undecided("cond_transformer_tiny", target_context="conditional")
    read: dict[int, list[str]] = {}
    remember = Encoding._remember

    def noting(self: Any, number: int, tokens: Any, *, given: bool) -> Any:
        read[number] = task.target_tokenizer.pieces(list(tokens))
        return remember(self, number, tokens, given=given)

    monkeypatch.setattr(Encoding, "_remember", noting)
    for search in (SamplingConfig(mbr="chrf", mbr_samples=6, **SHORT), SamplingConfig(nbest=6, **SHORT)):
        for document in DOCUMENTS:
            read.clear()
            results = translate(model, [document], search=search, generator="sampling")
            assert {r.number: list(r.nbest[0].pieces) for r in results} == read


def test_an_ensemble_averages_probabilities() -> None:
    models = [small_system.model(seed=seed) for seed in (0, 1)]
    sentence = [["the old dog sees a river."]]
    hypothesis = translate(models, sentence, GreedyConfig(lenpen=0.0), "greedy")[0].nbest[0]
    task = small_system.task()
    tokens = [task.target_tokenizer.vocabulary().index(piece) for piece in hypothesis.pieces]
    probabilities = []
    corpus = small_system.corpus(sentence)
    for model in models:
        units = planned_units(model.reading, corpus)
        with torch.inference_mode():
            memory = model.encode(collate_source(corpus, units, np.arange(1), model.reading))
            state = model.begin(memory, torch.tensor([0]), 1)
            steps = [model.step(torch.tensor([token]), state).softmax(-1)[0] for token in [1, *tokens]]
        probabilities.append(torch.stack(steps))
    average = (probabilities[0] + probabilities[1]) / 2
    expected = average[torch.arange(len(tokens) + 1), torch.tensor([*tokens, EOS])].log()
    assert list(hypothesis.piece_scores) == pytest.approx(expected[:-1].tolist(), rel=1e-5, abs=1e-5)
    assert hypothesis.score == pytest.approx(float(expected.sum()), rel=1e-5, abs=1e-4)


def in_half(kind: torch.dtype) -> Callable[[Any], None]:
    return lambda model: in_half_precision(Path("m"), model, kind)


eight_bits = pytest.mark.skipif(not multiplies_eight_bits(), reason="no products of whole numbers here")


@pytest.mark.parametrize("arch", ["hier_cond_transformer_tiny", "copy_transformer_tiny"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("rounded", "near"),
    [
        (in_half(torch.float16), 0.02),
        (in_half(torch.bfloat16), 0.1),
        (lambda model: replace_linear(model, BFloat16Linear), 0.05),
        pytest.param(lambda model: replace_linear(model, EightBitLinear), 0.05, marks=eight_bits),
    ],
    ids=["float16", "bfloat16", "bfloat16 products", "8 bits"],
)
def test_rounded_numbers_give_nearly_the_same_scores_in_any_batch(
    arch: str, device: str, rounded: Callable[[Any], None], near: float
) -> None:
    """Half types also on a CPU, where the command does not offer them."""
    model = small_system.model(arch, position_fusion="add").to(device)  # with concat a search has a near tie
    search = BeamSearchConfig(beam=2, max_len_a=0.5, max_len_b=2)
    whole = translate(model, search=search)
    rounded(model)
    results = translate(model, search=search)
    pairs = [(one.nbest[0], other.nbest[0]) for one, other in zip(results, whole, strict=True)]
    same = [(one.score, other.score) for one, other in pairs if one.pieces == other.pieces]
    assert len(same) >= 0.8 * len(pairs)  # of random weights, two hypotheses may be nearly equal
    for one, other in same:
        assert one == pytest.approx(other, abs=near)
    if device == "cpu" and next(model.parameters()).dtype == torch.float32:
        assert_same(translate(model, search=search, batch_size=1), results)


# `--prefix`: a translation begins with these words, in every architecture, and its score is that of what follows.


DOCUMENTS_OF_PREFIXES = small_system.text(3, 4, seed=5)
LINES = [line for document in DOCUMENTS_OF_PREFIXES for line in document]
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
    corpus, generation = small_system.corpus(DOCUMENTS_OF_PREFIXES), GenerationConfig(generator=generator, **options)
    return list(translate_corpus([model], small_system.task(), corpus, generation, search, prefixes=prefixes))


def begins(text: str, prefix: str | None) -> bool:
    """Whether a text begins with whole words."""
    return prefix is None or (text.startswith(prefix) and not text[len(prefix) : len(prefix) + 1].isalnum())


@pytest.mark.parametrize("prefix", ["Ω the cat", "the Ω", "Ω"])
def test_a_prefix_stands_as_it_was_given_where_no_subword_writes_it(prefix: str) -> None:
    for result in translated("transformer", [prefix] * len(LINES)):
        assert all(begins(one.text, prefix) and one.text == one.text.strip() for one in result.nbest)


@pytest.mark.parametrize(
    ("arch", "generator", "search"),
    [
        *((arch, "beam_search", SEARCH) for arch in ARCHITECTURES),
        ("cond_transformer", "greedy", GreedyConfig(max_len_a=0.0, max_len_b=5)),
        ("cond_transformer", "sampling", SamplingConfig(nbest=2, max_len_a=0.0, max_len_b=5)),
    ],
)
def test_translations_begin_with_these_words_in_every_architecture(arch: str, generator: str, search: Any) -> None:
    results = translated(arch, search=search, generator=generator)
    assert [result.number for result in results] == list(range(len(LINES)))
    for result, prefix in zip(results, PREFIXES, strict=True):
        for one in result.nbest:
            assert begins(one.text, prefix), (one.text, prefix)
            certain = len(small_system.tokenizer().encode([prefix])[0]) if prefix else 0
            assert one.piece_scores[:certain] == (0.0,) * certain  # and what follows is the mean
            assert all(score < 0 for score in one.piece_scores[certain:])
            assert len(one.pieces) <= certain + 5


# Forced scores are the scores that search gives, and do not depend on the batch.


@pytest.mark.parametrize(("name", "settings"), [
    ("concat_transformer", {"source_context": 2, "target_window": 3}),
    ("concat_transformer", {"source_context": 3, "target_window": 2}),
    ("cond_transformer", {}),
])  # fmt: skip
@pytest.mark.parametrize("length", range(2, 6))
def test_what_is_asked_is_read_with_what_stands_before_it(name: str, settings: dict[str, int], length: int) -> None:
    """However many sentences come before: the nearest one matters, and what a unit cannot hold does not."""
    context, reach = small_system.text(1, 40, seed=2)[0][:length], settings.get("source_context", 2)
    held = [*context[-reach:], "it."]
    limit = sum(len(tokens) + 1 for tokens in small_system.tokenizer().encode(held))
    model, task = build(name, **settings), small_system.task(max_doc_tokens=limit)

    def score(position: int) -> float:
        changed = ["old cat." if number == position else line for number, line in enumerate(context)]
        return forced_scores([model], task, [ForcedExample(tuple(changed), "it.", (), "it.")])[0]

    if name == "cond_transformer":  # the context is the same for a long variant as for a short one
        read = partial(last_sentence_units, model.reading, limit=limit)
        corpora = [
            small_system.corpus([[*context, "it."]]),
            replace(
                small_system.corpus([[*context, "it."]]), target=small_system.corpus([[*context, "it. " * 9]]).source
            ),
        ]
        assert len({int(read(corpus).first[0]) for corpus in corpora}) == 1
    plain = score(-1)
    assert score(length - 1) != pytest.approx(plain, abs=1e-6)
    for position in range(length - reach):
        assert score(position) == pytest.approx(plain, abs=1e-6)


def test_questions_are_answered_as_docnmt_translate_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last sentence of each document's translation, without and with translations of some sentences before it;
    empty sentences are left out with theirs."""
    options = {"target_context": "conditional"}
    models = ModelsConfig(str(small_system.save(tmp_path / "model.safetensors", "cond_transformer_tiny", **options)))
    search, said = BeamSearchConfig(beam=2, max_len_a=0.5), small_system.text(3, 9, seed=8)
    known = [[said[n][k] if k % 2 == 0 else "" for k in range(len(d) - 1)] for n, d in enumerate(DOCUMENTS)]
    questions = [
        Question(ForcedExample(("", *d[:-1]), d[-1], ("left out", *known[n]), ""), "dog", {})
        for n, d in enumerate(DOCUMENTS)
    ]
    loaded, corpus, answered = load_models(models), small_system.corpus(DOCUMENTS), []
    for texts in (None, [translation or None for lines in known for translation in [*lines, ""]]):
        answered.append(answers(questions, models, GenerationConfig(), search, given=texts is not None))
        results = translate_corpus(loaded.models, loaded.task, corpus, GenerationConfig(), search, given=texts)
        lasts = {int(end) - 1 for end in corpus.document_offsets[1:]}
        assert answered[-1] == [result.text for result in results if result.number in lasts]
    assert answered[0] != answered[1]

    path, columns = tmp_path / "questions.tsv", ["expected", "src_context", "src", "tgt_context"]
    arguments = ["--generative", str(path), "--path", models.path, "--beam", "2", "--max-len-a", "0.5"]
    for more, written in zip(([], ["--given-context"]), answered, strict=True):
        rows = [
            [written[n].split()[0], "<SEP>".join(d[:-1]), d[-1], "<SEP>".join(known[n])]
            for n, d in enumerate(DOCUMENTS)
        ]
        path.write_text("".join("\t".join(row) + "\n" for row in [columns, *rows]), encoding="utf-8")
        assert score.main([*arguments, *more]) == 0
        assert "all                        100.0%         -         3" in capsys.readouterr().out
    sentence_model = small_system.save(tmp_path / "alone.safetensors", "transformer_tiny")
    assert score.main([*arguments[:2], "--path", str(sentence_model), *arguments[6:], "--given-context"]) == 0
    assert "note: --given-context: " in capsys.readouterr().err
    for rows, more, named in (
        ([["a", "", "b", ""], ["c", "", "", ""]], [], "question 2 "),
        ([["a", "b", "c"]], ["--given-context"], "--given"),
    ):
        lines = [columns[: len(rows[0])], *rows]
        path.write_text("".join("\t".join(row) + "\n" for row in lines), encoding="utf-8")
        assert score.main([*arguments, *more]) == 1
        assert named in capsys.readouterr().err
