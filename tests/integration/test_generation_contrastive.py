"""Forced scores are the scores that search gives, and do not depend on the batch."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import small_system
from small_models import Numbers, build

from docnmt.apps.commands.generate import answers
from docnmt.apps.commands.models import load_models
from docnmt.apps.options import ModelsConfig
from docnmt.cli import score
from docnmt.core.batch import last_sentence_units
from docnmt.core.scoring.discourse import ForcedExample, Question
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import forced_scores, translate_corpus

DOCUMENTS = small_system.text(3, 4)


def examples() -> list[ForcedExample]:
    """Two translations of the last sentence of each document."""
    targets = small_system.text(3, 4, seed=1)
    return [
        ForcedExample(tuple(source[:-1]), source[-1], ("the cat.",) * (len(source) - 1), last)
        for source, target in zip(DOCUMENTS, targets, strict=True)
        for last in (target[-1], target[0])
    ]


def test_an_ensemble_averages_each_tokens_probability() -> None:
    models, task = [small_system.model(seed=seed) for seed in (0, 1)], small_system.task()
    task.target_tokenizer = Numbers()  # type: ignore[assignment]
    corpus = small_system.corpus([[DOCUMENTS[0][0]]])
    search = BeamSearchConfig(beam=2, nbest=2, lenpen=0.0)
    for found in next(translate_corpus(models, task, corpus, GenerationConfig(), search)).nbest:
        example = ForcedExample((), DOCUMENTS[0][0], (), found.text)
        assert forced_scores(models, task, [example]) == pytest.approx([found.score], rel=1e-5, abs=1e-4)
        apart = [forced_scores([model], task, [example])[0] for model in models]
        assert not math.isclose(found.score, sum(apart) / 2, abs_tol=1e-4)  # which averages logarithms


def test_target_context_gets_a_sentence_for_each_of_the_sources() -> None:
    assert ForcedExample(("a", "b"), "c", ("x", "y"), "z").contexts()[1] == ("x", "y")
    assert ForcedExample(("a", "b"), "c", (), "z").contexts()[1] == ("", "")
    assert ForcedExample(("a", "b"), "c", ("y",), "z").contexts()[1] == ("", "y")
    assert ForcedExample(("a", "b"), "c", ("v", "w", "x"), "z").contexts()[1] == ("v w", "x")
    assert ForcedExample((), "c", ("x", "y"), "z").contexts() == (("",), ("x y",))
    assert ForcedExample((), "c", (), "z").contexts() == ((), ())


@pytest.mark.parametrize(("name", "settings"), [
    ("concat_transformer", {"source_context": 2, "target_window": 3}),
    ("concat_transformer", {"source_context": 3, "target_window": 2}),
    ("cond_transformer", {}),
])  # fmt: skip
@pytest.mark.parametrize("length", range(2, 8))
def test_what_is_asked_is_read_with_what_stands_before_it(name: str, settings: dict[str, int], length: int) -> None:
    """However many sentences come before: the nearest one matters, and what a unit cannot hold does not."""
    context, reach = small_system.text(1, 40, seed=2)[0][:length], settings.get("source_context", 2)
    held = [*context[-reach:], "it."]
    limit = sum(len(tokens) + 1 for tokens in small_system.tokenizer().encode(held))
    model, task = build(name, **settings), small_system.task(max_doc_tokens=limit)

    def score(place: int) -> float:
        changed = ["old cat." if number == place else line for number, line in enumerate(context)]
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
    for place in range(length - reach):
        assert score(place) == pytest.approx(plain, abs=1e-6)


def test_many_questions_are_scored_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    model, task = build("cond_transformer"), small_system.task()
    texts = small_system.text(9, 5, seed=3)
    examples = [ForcedExample(tuple(d[:-1]), d[-1], (), target) for d in texts for target in (d[0], "it.")]
    done: list[int] = []
    whole = forced_scores([model], task, examples)
    monkeypatch.setattr("docnmt.core.search.translate._SENTENCES", 4)
    assert forced_scores([model], task, examples, progress=done.append) == pytest.approx(whole, rel=1e-6)
    assert sum(done) == len(examples) < 4 * len(done)
    assert forced_scores([model], task, []) == []


@pytest.mark.parametrize("arch", ["transformer_tiny", "cond_transformer_tiny"])
def test_generative_questions_are_answered_as_docnmt_translate_does(
    arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last sentence of each document's translation is what is searched."""
    questions = [Question(ForcedExample(tuple(d[:-1]), d[-1], (), ""), "dog", {}) for d in DOCUMENTS]
    models = ModelsConfig(str(small_system.save(tmp_path / "model.safetensors", arch)))
    search = BeamSearchConfig(beam=2, max_len_a=0.5)
    found = answers(questions, models, GenerationConfig(), search)
    corpus = small_system.corpus(DOCUMENTS)
    loaded = load_models(models)
    results = list(translate_corpus(loaded.models, loaded.task, corpus, GenerationConfig(), search))
    assert found == [results[end - 1].text for end in corpus.document_offsets[1:]]
    rows = [f"{found[n].split()[0]}\t{'<SEP>'.join(d[:-1])}\t{d[-1]}\n" for n, d in enumerate(DOCUMENTS)]
    (tmp_path / "questions.tsv").write_text("expected\tsrc_context\tsrc\n" + "".join(rows), encoding="utf-8")
    arguments = ["--generative", f"{tmp_path}/questions.tsv", "--path", models.path, "--beam", "2"]
    assert score.main([*arguments, "--max-len-a", "0.5"]) == 0
    assert "all                        100.0%         -         3" in capsys.readouterr().out
    (tmp_path / "questions.tsv").write_text("expected\tsrc\na\tb\nc\t\n", encoding="utf-8")
    assert score.main(arguments) == 1
    said = capsys.readouterr().err
    assert "question 2 " in said


def test_questions_with_given_contexts_are_answered_as_docnmt_translate_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only some sentences of a context may have translations; empty sentences are left out with theirs."""
    options = {"target_context": "conditional"}
    models = ModelsConfig(str(small_system.save(tmp_path / "model.safetensors", "cond_transformer_tiny", **options)))
    search, said = BeamSearchConfig(beam=2, max_len_a=0.5), small_system.text(3, 9, seed=8)
    known = [[said[n][k] if k % 2 == 0 else "" for k in range(len(d) - 1)] for n, d in enumerate(DOCUMENTS)]
    questions = [
        Question(ForcedExample(("", *d[:-1]), d[-1], ("left out", *known[n]), ""), "dog", {})
        for n, d in enumerate(DOCUMENTS)
    ]
    found = answers(questions, models, GenerationConfig(), search, given=True)
    loaded, corpus = load_models(models), small_system.corpus(DOCUMENTS)
    given = [translation or None for lines in known for translation in [*lines, ""]]
    results = translate_corpus(loaded.models, loaded.task, corpus, GenerationConfig(), search, given=given)
    lasts = {int(end) - 1 for end in corpus.document_offsets[1:]}
    assert found == [result.text for result in results if result.number in lasts]
    assert found != answers(questions, models, GenerationConfig(), search)

    rows = [f"dog\t{'<SEP>'.join(d[:-1])}\t{d[-1]}\t{'<SEP>'.join(known[n])}\n" for n, d in enumerate(DOCUMENTS)]
    path = tmp_path / "questions.tsv"
    path.write_text("expected\tsrc_context\tsrc\ttgt_context\n" + "".join(rows), encoding="utf-8")
    arguments = ["--generative", str(path), "--path", models.path, "--beam", "2", "--max-len-a", "0.5"]
    assert score.main([*arguments, "--given-context"]) == 0
    assert "        3\n" in capsys.readouterr().out
    sentence_model = small_system.save(tmp_path / "alone.safetensors", "transformer_tiny")
    capsys.readouterr()
    assert score.main([*arguments[:2], "--path", str(sentence_model), "--max-len-a", "0.5", "--given-context"]) == 0
    assert "note: --given-context: " in capsys.readouterr().err
    path.write_text("expected\tsrc_context\tsrc\na\tb\tc\n", encoding="utf-8")
    assert score.main([*arguments, "--given-context"]) == 1
    assert "--given-context" in (capsys.readouterr().err)
