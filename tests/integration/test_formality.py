"""`--formality`: what training tells, and that every way of asking is the same search of the same tokens."""

from __future__ import annotations

import io
import json
import random
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_system

import docnmt
from docnmt.apps.commands.translating import Translating, load_models
from docnmt.apps.options import ModelsConfig
from docnmt.cli.generate import main as generate
from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.translate import main as translate
from docnmt.core.corpus import ParallelCorpus, TextArray, TokenArray
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.formality import TAGS, ToldForms, in_form, in_given_form, tag_numbers, target_forms
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.translation_task import DocumentTranslation
from docnmt.runtime.system import UserError

TEXT = ["you see the old dog.", "the cat sleeps.", "do you find it?"]


def tokenizer() -> Tokenizer:
    lines = [line for document in small_system.text(40, 8, seed=9) for line in document]
    return Tokenizer.train(lines, 47, user_defined_symbols=list(TAGS.values()))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, untrained, whose configuration says that it was told forms."""
    sides = (tokenizer(), tokenizer())
    config = DocumentTranslationConfig(formality_share=0.5)
    task = DocumentTranslation(config, languages=("en", "fr"), tokenizers=sides)
    path = tmp_path_factory.mktemp("told") / "m.safetensors"
    options = {"target_context": "conditional"}
    return small_system.save(path, "hier_cond_transformer_tiny", of=task, **options)


def forms_of_documents(seed: int) -> tuple[ParallelCorpus, list[list[str]]]:
    """A corpus whose targets have every kind of line, and these."""
    rng = random.Random(seed)
    texts = ["tu viens", "vous venez", "il vient", "il part", "tu ou vous"]
    documents = [[rng.choice(texts) for _ in range(rng.randint(1, 9))] for _ in range(40)]
    corpus = ParallelCorpus.from_lines([["the dog"] * len(document) for document in documents], tokenizer())
    lines = TextArray.from_lines([line for document in documents for line in document])
    return replace(corpus, references=[lines]), documents


def nearest(document: list[str], index: int) -> str | None:
    """The form that a sentence should be told: its own, else its nearest neighbour's, the earlier one of two."""
    forms = {"tu viens": "informal", "vous venez": "formal"}
    if document[index] == "tu ou vous":
        return None
    known = [(abs(n - index), n, forms[line]) for n, line in enumerate(document) if line in forms]
    return min(known)[2] if known else None


@pytest.mark.parametrize("seed", range(3))
def test_training_tells_the_nearest_form_to_whole_documents(seed: int) -> None:
    corpus, documents = forms_of_documents(seed)
    expected = [nearest(document, index) for document in documents for index in range(len(document))]
    assert [None if n < 0 else list(TAGS)[n] for n in target_forms(corpus, "fr").tolist()] == expected
    numbers = tag_numbers(tokenizer())
    told = ToldForms(0.5, "fr", (1, seed)).tell(corpus, tokenizer())
    heads = [told.source[n][0] for n in range(len(told.source))]
    begins = corpus.document_offsets
    tagged = [form if heads[n] == numbers.get(form, -1) else None for n, form in enumerate(expected)]
    of_documents = [(tagged[a:b], expected[a:b]) for a, b in pairwise(begins.tolist())]
    assert all(given == wanted or not any(given) for given, wanted in of_documents)
    shares = [bool(any(given)) for given, wanted in of_documents if any(wanted)]
    assert 0.2 < np.mean(shares) < 0.8
    for n, form in enumerate(tagged):  # nothing else has changed
        assert told.source[n][form is not None :].tolist() == corpus.source[n].tolist()
    same, other = (ToldForms(0.5, "fr", (1, s)).tell(corpus, tokenizer()).source.tokens for s in (seed, seed + 9))
    assert same.tolist() == told.source.tokens.tolist()
    assert other.tolist() != same.tolist()
    assert ToldForms(0.0, "fr", (1, seed)).tell(corpus, tokenizer()) is corpus


def by_hand(path: Path, documents: list[list[str]], tag: str) -> list[str]:
    """Translations of the sentences with a tag before the words of each, put there one by one."""
    models = docnmt.load(path).models
    sides = models.task.source_tokenizer
    corpus = ParallelCorpus.from_lines(documents, sides)
    number = sides.vocabulary().index(tag)
    rows = [[number, *corpus.source[n].tolist()] for n in range(corpus.num_sentences)]
    corpus = replace(corpus, source=TokenArray.from_lists(rows, sides.vocab_size))
    return [result.text for result in translate_corpus(models.models, models.task, corpus, GenerationConfig())]


def test_every_way_of_asking_writes_what_the_tag_before_each_sentence_gives(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    form: Any = "formal"
    expected = by_hand(told, [TEXT], TAGS[form])
    model = docnmt.load(told)
    assert [translation.text for translation in model.translate(TEXT, formality=form)] == expected
    assert [translation.text for translation in model.translate(TEXT)] != expected
    explained = model.translate(TEXT, formality=form, explain=True)
    assert all(
        translation.explanation is not None and translation.explanation.source[0] == TAGS[form]
        for translation in explained
    )

    common = ["--path", str(told), "--device", "cpu", "--formality", form]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXT).encode()), encoding="utf-8"))
    page = tmp_path / "page.jsonl"
    assert translate([*common, "--input-format", "corpus", "--explain", str(page)]) == 0
    assert capsys.readouterr().out.splitlines() == expected
    assert [json.loads(row)["translation"] for row in page.read_text().splitlines()] == expected

    file = tmp_path / "text.txt"
    file.write_text("\n".join(TEXT) + "\n")
    assert translate([*common, str(file), "-o", str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == expected

    file.rename(tmp_path / "test.en")
    words = ["-s", "en", "-t", "fr", "--testpref", str(tmp_path / "test"), "--srcdict", str(told)]
    assert preprocess([*words, "--destdir", str(tmp_path / "data")]) == 0
    capsys.readouterr()
    assert generate([str(tmp_path / "data"), *common]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines() if line.startswith("D-")]
    assert [row[2] for row in rows] == expected


def test_the_given_translations_tell_the_form_of_what_follows(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one before a sentence, else the first one behind it; documents without one are as without the option."""
    documents = [["you"] * 7, ["who", "you"], ["you", "who"]]
    given = [[None, "il vient", "tu viens", None, "vous venez", "il part", None], [None, None], ["vous venez", None]]
    forms = ["informal"] * 4 + ["formal"] * 3 + [None, None] + ["formal"] * 2
    corpus, numbers = ParallelCorpus.from_lines(documents, tokenizer()), tag_numbers(tokenizer())
    tagged = in_given_form(corpus, [line for document in given for line in document], tokenizer(), "fr")
    heads = [[] if form is None else [numbers[form]] for form in forms]
    assert [tokens.tolist() for tokens in tagged.source] == [
        [*head, *words.tolist()] for head, words in zip(heads, corpus.source, strict=True)
    ]

    known = ["vous venez", None, None]
    expected = [translation.text for translation in docnmt.load(told).translate(TEXT, given=known, formality="formal")]
    assert [
        translation.text for translation in docnmt.load(told).translate(TEXT, given=known, formality="given")
    ] == expected
    (tmp_path / "given.fr").write_text("vous venez\n\n\n")
    common = ["--path", str(told), "--device", "cpu", "--formality", "given"]
    for more in (["--given", str(tmp_path / "given.fr")], []):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXT).encode()), encoding="utf-8"))
        assert translate([*common, "--input-format", "corpus", *more]) == (0 if more else 2)
        said = capsys.readouterr()
        assert said.out.splitlines() == (expected if more else []), said.err
    assert "--formality" in said.err
    with pytest.raises(UserError, match="given"):
        docnmt.load(told).translate(TEXT, formality="given")


def test_sentences_without_words_are_told_no_form(told: Path) -> None:
    corpus = ParallelCorpus.from_lines([["the dog", "a", "a", "the cat"]], tokenizer())
    words = [corpus.source[0].tolist(), [], [], corpus.source[3].tolist()]
    corpus = replace(corpus, source=TokenArray.from_lists(words, tokenizer().vocab_size))
    tag = tag_numbers(tokenizer())["formal"]
    tagged = in_form(corpus, "formal", tokenizer()).source
    assert [tagged[n].tolist() for n in range(4)] == [[tag, *words[0]], [], [], [tag, *words[3]]]
    model = docnmt.load(told)
    texts = [
        translation.text for translation in model.translate(["\u200b", "you see the old dog."], formality="formal")
    ]
    assert texts[0] == model.translate(["\u200b"])[0].text == ""
    assert texts[1]


def test_the_service_takes_a_form_a_request(told: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
    from served import started

    loaded, asked = load_models(ModelsConfig(str(told), device="cpu")), {"documents": [TEXT]}
    client = started(Translating(loaded, GenerationConfig(formality="informal"), BeamSearchConfig()))
    answers = [client.post("/translate", json={**asked, **more}).json()["documents"][0]
               for more in ({}, {"formality": "informal"}, {"formality": "formal"})]  # fmt: skip
    assert answers == [by_hand(told, [TEXT], TAGS[form]) for form in ("informal", "informal", "formal")]
    assert client.post("/translate", json={**asked, "formality": "polite"}).status_code == 400
    wanted = {"text": TEXT, "target_lang": "FR", "formality": "more"}
    answer = client.post("/v2/translate", json=wanted, headers={"authorization": "DeepL-Auth-Key any"}).json()
    assert [translation["text"] for translation in answer["translations"]] == by_hand(told, [TEXT], TAGS["formal"])
    client.service.worker.stop()
