"""Translations that are given: models read them as if they had written them, and only the rest is searched."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_models
import small_system
import torch
from commands import SHORT, Run
from small_models import OWN_TEXT, Numbers, build

from docnmt.apps.commands.translating import LoadedModels
from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import TokenArray
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.config import BeamSearchConfig, GreedyConfig, SamplingConfig
from docnmt.core.search.translate import SentenceResult, first_of_documents
from docnmt.core.translation_task import DocumentTranslation

DOCUMENTS = [small_system.text(1, 6, seed=seed)[0] for seed in (3, 5, 8)]
SENTENCES = sum(map(len, DOCUMENTS))
#: Models that write a sentence by itself and read no translation.
APART: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("concat_transformer", {"source_context": 2}),
    ("cond_transformer", {}),
]
#: Models that write several sentences as one text.
JOINED: list[tuple[str, dict[str, Any]]] = [
    ("concat_transformer", {"source_context": 2, "target_window": 3}),
    ("doc_transformer", {"position_count": "document"}),
    ("scaleformer", {}),
    ("han", {}),
]
CASES = [*APART, *OWN_TEXT[2:4], *JOINED]
SEARCH = BeamSearchConfig(beam=3, nbest=2, lenpen=0.7, max_len_a=0.3, max_len_b=3)
GREEDY = GreedyConfig(max_len_a=0.3, max_len_b=3)
SAMPLING = SamplingConfig(nbest=2, max_len_a=0.3, max_len_b=3)


def translate(
    model: Any, given: Sequence[str | None] | None = None, search: Any = SEARCH, documents: Any = DOCUMENTS
) -> list[SentenceResult]:
    generator = {GreedyConfig: "greedy", SamplingConfig: "sampling"}.get(type(search), "beam_search")
    task = small_system.task()
    task.target_tokenizer = Numbers()  # type: ignore[assignment]
    return small_models.translate(model, documents, search, generator, task=task, given=given)


def foreign(seed: int, share: float = 0.5) -> list[str | None]:
    """Translations that no model would write, for some of the sentences; one of them is empty."""
    draw = random.Random(seed)
    given: list[str | None] = [None] * SENTENCES
    for number in range(SENTENCES):
        if draw.random() < share:
            given[number] = " ".join(str(draw.randint(5, 44)) for _ in range(draw.randint(1, 9)))
    given[SENTENCES - 3] = ""
    return given


def teacher_forced(model: Any, texts: list[str]) -> Iterator[float]:
    """log p(text </s>) of each sentence after the true texts before it, of one pass over all units."""
    corpus = small_system.corpus(DOCUMENTS)
    target = TokenArray.from_lists(Numbers().encode(texts), Numbers.vocab_size)
    units = planned_units(model.reading, corpus)
    for unit in range(len(units)):
        data = collate(replace(corpus, target=target), units, np.array([unit]), model.reading)
        with torch.no_grad():
            log_probs = model.output(model(data)).log_softmax(-1).gather(1, data.labels[:, None])[:, 0]
        lengths = (target.lengths() + 1)[units.first[unit] : units.last[unit]]
        yield from (float(part.sum()) for part in log_probs.split(lengths.tolist()))


@pytest.mark.parametrize(("name", "options", "beam"), [(*case, (4, 1)[n % 2]) for n, case in enumerate(CASES)])
def test_the_rest_scores_as_one_pass_over_given_and_found_scores_it(
    name: str, options: dict[str, Any], beam: int
) -> None:
    model, given = build(name, **options), foreign(2)
    results = translate(model, given, BeamSearchConfig(beam=beam, lenpen=0.0, max_len_a=0.3, max_len_b=3))
    texts = [text or "" for text in given]
    for result in results:
        texts[result.number] = result.text
    forced = list(teacher_forced(model, texts))
    assert LoadedModels((), (model,), small_system.task()).reads_translations == ((name, options) not in APART)
    assert [result.nbest[0].score for result in results] == pytest.approx(
        [forced[result.number] for result in results], abs=1e-3
    )


@pytest.mark.parametrize(
    ("name", "options", "search"), [(*case, (GREEDY, SEARCH, SAMPLING)[n % 3]) for n, case in enumerate(CASES[1::2])]
)
def test_of_sentences_without_a_subword_nothing_is_written(name: str, options: dict[str, Any], search: Any) -> None:
    """The first of a document, one inside, the last, and a whole document; the rest as if they were given as empty."""
    nothing, model = "\u200b \ufeff", build(name, **options)
    documents = [[nothing, *DOCUMENTS[1], nothing, *DOCUMENTS[2], nothing], [nothing, nothing], DOCUMENTS[0]]
    texts = list(itertools.chain.from_iterable(documents))
    assert not any(small_system.tokenizer().encode([nothing])[0])
    results = translate(model, search=search, documents=documents)
    assert [result.number for result in results] == list(range(len(texts)))
    for result in results:
        assert all((hypothesis.text == "") == (texts[result.number] == nothing) for hypothesis in result.nbest)
    if search is GREEDY:
        given = ["" if text == nothing else None for text in texts]
        expected = translate(model, given, search, documents=documents)
        assert [result.text for result in results if result.text] == [result.text for result in expected]


@pytest.mark.parametrize(("share", "firsts"), [(0, [0, 0, 0]), (0.5, [0, 1, 5]), (0.29, [0, 0, 2]), (1, [1, 3, 10])])
def test_the_share_of_a_document_is_rounded_down(share: float, firsts: list[int]) -> None:
    texts, offsets = [str(n) for n in range(14)], [0, 1, 4, 14]
    given = first_of_documents(texts, offsets, share)
    for (begin, end), first in zip(itertools.pairwise(offsets), firsts, strict=True):
        assert given[begin:end] == [*texts[begin : begin + first], *[None] * (end - begin - first)]
    assert first_of_documents(texts * 8, [0, 100], 0.29).count(None) == 83  # 0.29 * 100 is less than 29 in floats


def rounded(lines: list[str]) -> list[str]:
    """Scores to four digits: on some machines the batch size can change the last ones."""
    return [re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.4f}", line) for line in lines]


def test_generate_prints_and_scores_what_is_not_given(run: Run, folder: Path) -> None:
    """By a model that reads no translation, so that the rest is what it is without `--prefix-references`."""
    command = ["generate", "data", "--path", "run", *SHORT]
    whole, half = (run(*command, *more)[1] for more in ([], ["--prefix-references", "0.5", "--results-path", "half"]))
    assert run(*command, "--prefix-references", "0")[1] == whole
    lengths = [
        len(part.split("\n")) for part in (folder / "test.en").read_text(encoding="utf-8").strip().split("\n\n\n")
    ]
    given = first_of_documents(["x"] * sum(lengths), [0, *itertools.accumulate(lengths)], 0.5)
    left = {n for n, text in enumerate(given) if text is None}
    assert 0 < len(left) < len(given)
    rows = [line for line in whole.splitlines() if re.match(r"[STHDP]-\d+\t", line)]
    expected = [line for line in rows if int(re.split(r"[-\t]", line)[1]) in left]
    assert rounded(half.splitlines()[: len(expected)]) == rounded(expected)
    assert half.splitlines()[len(expected)].startswith("s-BLEU")
    assert "0.5 of each document" in half.splitlines()[-1]
    content = json.loads((folder / "half" / "scores.json").read_text(encoding="utf-8"))
    assert content["prefix_references"] == 0.5
    assert (content["sentences"], content["documents"]) == (len(left), len(lengths))
    files = ["--ref", "half/reference.txt", "--sys", "half/hypotheses.txt", "--src", "half/source.txt"]
    more = ["--paired", "half/hypotheses.txt", "--per-document"]
    scored = run("score", *files, *more)[1]
    again = run(*command, "--prefix-references", "0.5", "--quiet", "--lexical-consistency", *more)[1]
    assert again.splitlines()[:-1] == scored.splitlines()
    status, _, err = run(*command, "--prefix-references", "0.5", "--paired", "test.de")
    assert status == 1
    assert "test.de: " in err.splitlines()[-1]


TEXT = "A dog.  The cat sees it!\n\n \nOld river. Then he\nThe tree\nin. it. he\n"


def test_translate_writes_what_is_given_as_it_is_and_the_rest_for_each_line(run: Run, folder: Path) -> None:
    command = ["translate", "--path", "run", *SHORT]
    plain = run(*command, stdin=TEXT.encode())[1].split("\n")
    # as many sentences, none, more than there are
    given = ["Ein  Hund. Die Katze!", "", "\t", "", "Der Baum. Und mehr. ", ""]
    (folder / "some.de").write_text("\r\n".join(given) + "\r\n", encoding="utf-8")
    status, out, _ = run(*command, "--given", "some.de", stdin=TEXT.encode())
    assert status == 0
    lines = out.split("\n")
    assert [lines[0], lines[4]] == [given[0], given[4]]
    assert lines[1:3] == ["", ""]
    assert lines[3] == plain[3]  # this model reads no translation
    assert lines[5:] == [plain[5], ""]


@pytest.fixture
def reader(folder: Path) -> str:
    """A model that reads its translations."""
    path, task = folder / "reader.safetensors", DocumentTranslation.load(DocumentTranslationConfig(), folder / "data")
    return small_system.save(path, "cond_transformer_tiny", of=task, target_context="conditional").name


def test_translate_gives_what_generate_gives(run: Run, folder: Path, reader: str) -> None:
    """`--given` has the references that `--prefix-references` gives."""
    run("generate", "data", "--path", reader, *SHORT, "--prefix-references", "0.7", "--results-path", "rest")
    rest = iter((folder / "rest" / "hypotheses.txt").read_text(encoding="utf-8").split("\n"))
    source, target = ((folder / f"test.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("en", "de"))
    numbers = [n for n, line in enumerate(source) if line]
    ends = [0, *(n for n in range(1, len(numbers)) if numbers[n] > numbers[n - 1] + 1), len(numbers)]
    first = first_of_documents([target[n] for n in numbers], ends, 0.7)
    given = [""] * len(source)
    for number, text in zip(numbers, first, strict=True):
        given[number] = text or ""
    (folder / "first.de").write_text("\n".join(given) + "\n", encoding="utf-8")
    command = ["translate", "--path", reader, "--input-format", "corpus", *SHORT]
    stdin = ("\n".join(source) + "\n").encode()
    status, out, _ = run(*command, "--given", "first.de", stdin=stdin)
    assert status == 0
    assert out.split("\n")[:-1] == [text or next(rest) for text in given]
    assert out != run(*command, stdin=stdin)[1]


MARKED = "<d>\na dog.\n<d>\nthe cat.\n"


@pytest.mark.parametrize(
    ("content", "form", "stdin", "message"),
    [
        ("a\n", "text", TEXT, "bad.de"),
        ("\nb\n\n\n\n\n", "text", TEXT, "bad.de:2"),
        ("\nb\n\n\n\n\n", "corpus", TEXT, "bad.de:2"),
        ("<d>\n\nb\n\n", "corpus", MARKED, "bad.de:3"),
        ("\n\n<p>\n\n", "corpus", MARKED, "bad.de:3"),
        ("\n<p>\n\n\n", "corpus", MARKED, "bad.de:2"),
    ],
)
def test_given_lines_and_marks_that_do_not_fit_are_refused(
    content: str, form: str, stdin: str, message: str, run: Run, folder: Path
) -> None:
    (folder / "bad.de").write_text(content, encoding="utf-8")
    options = ["--path", "run", "--input-format", form, "--given", "bad.de"]
    status, out, err = run("translate", *options, stdin=stdin.encode())
    assert (status, out) == (1, "")
    assert message in err.splitlines()[-1]
